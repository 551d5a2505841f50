"""Writes `docs/reference/halts.md`: every halt and refusal of a running feed, in words of the program's own messages.

A test compares it with the places in the code that raise them, both ways.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model.errors import RESYNC


class Halt(msgspec.Struct, frozen=True):
    """One line of the page.

    `kinds`: of `engine.model.errors.Alarm`, or the class that is raised.  `words`: each is in a message of those kinds;
    none: all other messages.  `test`: `file::function`, or of a parametrised one `file::function[id]`, of
    tests/adapters.  `followed`: the test does what the advice says, and then no row differs.
    """

    kinds: tuple[str, ...]
    words: tuple[str, ...]
    means: str
    out: str
    test: str = ""
    followed: bool = False


RESYNCED: Final = "`tidelock resync FEED`, then `tidelock run FEED`"
_UNREAD: Final = f"{RESYNCED}; a spoke of an arbiter: `tidelock pair rewound PAIR SITE`"
RUN: Final = "`tidelock run FEED`"
_WORKERS: Final = "test_worker_halts.py::test_the_advice_of_a_halt"
_FOLLOWED: Final = "test_followed_advice.py::test_a"
_POSTGRES: Final = "test_followed_postgres.py::test_a"
_SLOTS: Final = "test_postgres_slot_halts.py::test_a"
_STARTS: Final = "test_postgres_start.py::test"
_CAUSE: Final = "test_resync.py::test_the_advice_of_a_halt"

_ORIGIN: Final = ("origin", "Untraceable", "UnsuitableLog")

SOURCE: Final = (
    Halt(("PurgedPosition",), ("does not hold the position",),
         "the source has removed the log behind the checkpoint", RESYNCED, f"{_CAUSE}[purged]", True),
    Halt(("PurgedPosition",), ("prepared before the log begins",),
         "the log of an XA transaction's PREPARE was removed before its COMMIT", RESYNCED,
         f"{_CAUSE}[a prepare that is purged]", True),
    Halt(("OtherHistory",), (),
         "the log was reset, the source put back from a backup, or another server has its name",
         f"correct `source`, {RUN}; a replica that is behind: {RUN} once it has caught up; a spoke of "
         f"an arbiter: `tidelock pair rewound PAIR SITE`; if the source is the right one: {RESYNCED}",
         f"{_CAUSE}[a log begun anew]", True),
    Halt(("LossUntold",), (),
         "no halt: `tidelock pair rewound` cannot tell where a spoke's log lost its end",
         "`tidelock verify FEED` of the feed to the spoke shows what the arbiter has not; `tidelock pair rewound PAIR "
         "SITE --arbiters-rows --apply` gives that up, then `tidelock resync FEED` of the feed to it"),
    Halt(("UnsuitableLog",), ("as a statement",), "`binlog_format` was not ROW",
         f"`SET GLOBAL binlog_format=ROW`, then {RESYNCED}", f"{_CAUSE}[by statement]", True),
    Halt(("UnsuitableLog",), ("only some columns",), "`binlog_row_image` was not FULL",
         f"`SET GLOBAL binlog_row_image=FULL`, then {RESYNCED}", f"{_CAUSE}[minimal images]", True),
    Halt(("UnsuitableLog",), ("does not name the columns",),
         "`binlog_row_metadata` was not FULL, and how the table was at that row is not known, or is contradicted by it",
         f"`SET GLOBAL binlog_row_metadata=FULL`, then {RESYNCED}",
         "test_followed_advice.py::test_names_of_columns", True),
    Halt(("UnsuitableLog",), ("tells an ALTER TABLE where it begins",),
         "`binlog_row_metadata` is not FULL, and MariaDB has `binlog_alter_two_phase=ON`",
         f"`SET GLOBAL binlog_alter_two_phase=OFF` and `SET GLOBAL binlog_row_metadata=FULL`, then {RESYNCED}",
         f"{_FOLLOWED}n_alter_table_in_two_parts", True),
    Halt(("UnsuitableLog",), ("keeps no tables of its source",),
         "`binlog_row_metadata` is not FULL, and the feed goes to Hive",
         f"`SET GLOBAL binlog_row_metadata=FULL`, then {RUN}"),
    Halt(("UnsuitableLog",), ("is rolled back after it changed",),
         "MariaDB logged rows and that they are undone (a temporary table, or MyISAM, in the transaction)",
         RESYNCED, f"{_CAUSE}[rolled back in the log]", True),
    Halt(("UnsuitableLog",), ("replication needs",), "a setting of the source is wrong now",
         f"the `SET GLOBAL` that it says, then {RUN}; what was logged meanwhile may halt it once more",
         f"{_FOLLOWED}_setting_that_is_wrong_at_the_start[binlog_format=MIXED]", True),
    Halt(("UnsuitableLog",), ("which leaves columns out",),
         "`binlog_row_image=NOBLOB`, and a table of the feed has BLOB or TEXT columns",
         f"`SET GLOBAL binlog_row_image=FULL`, then {RUN}; what was logged meanwhile may halt it once more",
         f"{_FOLLOWED}_setting_that_is_wrong_at_the_start[binlog_row_image=NOBLOB]", True),
    Halt(("filter", "UnsuitableLog"), ("`where` of",),
         "`where` asks for a column that a PostgreSQL source does not log of a changed row",
         f"`ALTER TABLE … REPLICA IDENTITY FULL` at the source, or a `where` of its key's columns; then {RESYNCED}",
         f"{_POSTGRES}_filter_whose_columns_are_not_logged", True),
    Halt(("UnsuitableLog",), ("does not log the database",),
         "`binlog_do_db` or `binlog_ignore_db` keeps a database of the feed's out of the source's log",
         f"take the setting out and restart the source, then {RESYNCED}",
         f"{_FOLLOWED}_database_that_is_logged_again", True),
    Halt(("UnsuitableLog",), ("what it gets from its own source is not in its log",),
         "the source is a replica that does not log what it applies, as MariaDB's are by default",
         "set `log_slave_updates` (MySQL: `log_replica_updates`) and restart it, or name its source in `source`; then "
         f"{RESYNCED}", "test_left_out.py::test_a_replica_that_does_not_log_what_it_applies", True),
    Halt(("UnsuitableLog",), ("is system-versioned",),
         "MariaDB has former versions of a table's rows in its log as rows of the same key",
         "`ALTER TABLE … DROP SYSTEM VERSIONING`, or leave the table out of `tables`; a feed that has run before: "
         f"{RESYNCED}", f"{_FOLLOWED}_system_versioned_table_that_is_none_any_more", True),
    Halt(("UnsuitableLog",), ("writes no binary log",), "the source has no log",
         f"start it with `log_bin`; of a feed that has run before: {RESYNCED}",
         "test_left_out.py::test_a_server_that_wrote_no_log_for_a_while", True),
    Halt(("DamagedLog",), (),
         "an event is not what the server wrote, or of no form that is known",
         f"{RUN} once more; else {RESYNCED}", f"{_CAUSE}[a flipped bit]", True),
    Halt(("DamagedLog",), ("has a column of",), "a column's type is not known",
         f"leave the table out of `tables`, then {RUN}"),
    Halt(("UnknownEvent",), (), "an event that is not understood may hold changes", RESYNCED,
         f"{_CAUSE}[an unknown event]", True),
    Halt(("LogGap",), ("INCIDENT",), "the source itself says that its log lost changes", RESYNCED,
         f"{_CAUSE}[an incident]", True),
    Halt(("LogGap",), ("a transaction begins inside another", "were read before", "the log ends inside"),
         "what was read of a transaction does not go on: the source crashed while it wrote, or it is another log",
         RESYNCED),
    Halt(("LogGap",), ("has no rows of XA transaction",), "the log is not as it was where a PREPARE is",
         f"{RUN} once more; else {RESYNCED}"),
    Halt(("LogGap",), (), "the stream is not contiguous", f"{RUN} once more; else {RESYNCED}"),
    Halt(("LogGap",), ("ends at", "is inside the transaction"), "no transaction ends at that place",
         f"correct `start`; where it is the checkpoint: {RESYNCED}",
         "test_log_identity.py::test_an_event_longer_than_a_packet_hides_no_position"),
    Halt(("SourceError",), ("answered:", "cannot send its log", "sent nothing of its log"),
         "an error of the source that is not known", f"see its error log, then {RUN}; else {RESYNCED}"),
    Halt(("SourceError",), ("the server's version is",), "the source is too old, or no MySQL or MariaDB",
         "MySQL 8.4, MariaDB 10.11 or later"),
    Halt(("DamagedMessage",), (),
         "a message of PostgreSQL's log is not what the server wrote, or of no form that is known",
         f"{RUN} once more; else {RESYNCED}"),
    Halt(("PurgedPosition",), ("has no slot",),
         "the feed's slot at PostgreSQL was dropped, or a standby was promoted that had none",
         _UNREAD,
         f"{_SLOTS}_promoted_standby_without_the_slot_halts", True),
    Halt(("PurgedPosition",), ("is lost: the server has removed",),
         "PostgreSQL kept no more of its log for the slot than `max_slot_wal_keep_size`", _UNREAD,
         f"{_SLOTS}_lost_slot_halts", True),
    Halt(("PurgedPosition",), ("the slot was made anew",),
         "a slot of that name begins behind the checkpoint", _UNREAD,
         f"{_SLOTS}_slot_that_was_made_anew_halts", True),
    Halt(("PurgedPosition",), (), "PostgreSQL has not got the log that the slot was to keep, as after pg_resetwal",
         RESYNCED, f"{_POSTGRES}_log_that_was_reset", True),
    Halt(("SourceError",), ("is not the feed's", "already, which is not ours"),
         "somebody else's slot has the name of the feed's", f"drop it if nobody needs it; then {RESYNCED}",
         f"{_POSTGRES}_slot_of_somebody_else", True),
    Halt(("UnsuitableLog",), ("has no publication",),
         "the feed's publication was dropped, so its tables are not in the log",
         f"`CREATE PUBLICATION` as it says, then {RESYNCED}", f"{_FOLLOWED}_publication[dropped]", True),
    Halt(("UnsuitableLog",), ("had no publication where its log is read on",),
         "the feed's publication was dropped, or had another name, and may be there again",
         f"`CREATE PUBLICATION` as `tidelock check FEED` prints it, if it is missing; then {RESYNCED}",
         f"{_FOLLOWED}_publication[made anew]", True),
    Halt(("UnsuitableLog",), ("leaves changes out, or names partitions",), "the publication does not publish all",
         f"`ALTER PUBLICATION` as it says, then {RESYNCED}", f"{_FOLLOWED}_publication[narrowed]", True),
    Halt(("UnsuitableLog",), ("so the log has nothing of what changes there",),
         "a table that the feed's `tables` name is not in its publication", f"`ALTER PUBLICATION … ADD TABLE` as it "
         f"says, then {RUN}, and `tidelock copy FEED` for what it holds already; of a table that the feed had before "
         "it halts once more (`ddl`, below)",
         f"{_SLOTS}_table_that_the_publication_lacks_halts", True),
    Halt(("UnsuitableLog",), ("so the log has nothing of its rows",),
         "a partition is UNLOGGED, or a foreign table, and the table that it is a partition of is in the feed",
         f"`ALTER TABLE … SET LOGGED`, or `DETACH PARTITION`, as it says, then {RUN}; at a table that the feed had "
         "before it halts once more (`ddl`, below)",
         "test_run_untold_rows.py::test_a_partition_that_is_not_logged", True),
    Halt(("UnsuitableLog",), ("would refuse every UPDATE and DELETE",),
         "PostgreSQL lets nobody change rows of a published table without a replica identity",
         f"`ALTER TABLE … REPLICA IDENTITY FULL`, then {RUN}",
         f"{_FOLLOWED}_table_that_gets_a_replica_identity", True),
    Halt(("UnsuitableLog",), ("is PostgreSQL",), "the source is older than PostgreSQL 14", "a newer server"),
    Halt(("SourceError",), ("so it is read in one view", "cannot be read in one view yet", "up to which it was read",
                            "cannot be read from the tables yet"),
         "a copy could not be read from PostgreSQL; it is tried again", "end the transaction that it names"),
    Halt(("PurgedPosition",), ("keeps its log for the feed alone",),
         "a PostgreSQL source cannot be read from an earlier place", "`tidelock verify FEED` without `--since`"),
    Halt(("LogGap",), ("before this place",), "the slot has gone back", RESYNCED),
    Halt(("UnsuitableLog",), ("by replication, from its origin",), "the source is itself a subscriber to these tables",
         "leave its tables out of `tables`, then out of the publication, or read them where they are written; then "
         f"{RESYNCED}", f"{_POSTGRES}_subscription", True),
    Halt(("UnsuitableLog",), ("without the row before", "replica identities of different columns",
                              "and a partition of it has not"),
         "partitions have another REPLICA IDENTITY than their table, or than each other",
         f"`ALTER TABLE … REPLICA IDENTITY` at each of them, then {RESYNCED}",
         f"{_POSTGRES}_partition_of_another_identity", True),
    Halt(("UnsuitableLog",), ("has other columns now than",),
         "a primary key was changed before the log was read up to there",
         f"the same change of the target's table, as `tidelock check FEED` shows; then {RESYNCED}",
         f"{_POSTGRES}_primary_key_of_other_columns", True),
    Halt(("UnsuitableLog",), ("as they are kept, cannot be read",),
         "a later version has kept the forms of the source's tables", f"run that version again; else {RESYNCED}"),
    Halt(_ORIGIN, ("names no sites",), "a feed without `sites` has written to the source",
         f"give that feed `sites` too and run it; then {RESYNCED}"),
    Halt(_ORIGIN, ("this feed names none",), "a feed with `sites` has written to the source",
         f"give this feed `sites` too, then {RUN}",
         "test_two_way.py::test_a_feed_without_sites_stops_at_what_one_with_sites_has_brought", True),
    Halt(_ORIGIN, ("was here before",), "two sites have one name, or one site has two: a change has come back",
         f"give each site its own name in all feeds, then {RESYNCED}",
         "test_two_way.py::test_a_mark_that_cannot_be[was here before]", True),
    Halt(_ORIGIN, ("more than one receipt",), "somebody else writes into `tidelock_progress`",
         f"take the right away, then {RESYNCED}",
         "test_two_way.py::test_a_mark_that_cannot_be[more than one receipt]", True),
    Halt(("UnsuitableLog",), ("are not in its log",),
         "what feeds bring to the source could not be told in its log, as under `binlog_ignore_db`",
         f"have the server log it and restart it, then {RUN}",
         "test_two_way.py::test_a_source_that_does_not_log_receipts_is_not_read", True),
    Halt(("UnsuitableLog",), ("about a schema change is of version",),
         "the event triggers at the source were made by a later version",
         "run the version of Tidelock that made them, or a later one"),
    Halt(("UnsuitableLog",), ("is not understood: ",),
         "a later version has left a mark in a PostgreSQL source's log", "run that version, or a later one"),
    Halt(("UnsuitableLog",), ("a verdict about a row",), "a table at an arbiter has changed since a row of it was told",
         RESYNCED),
    Halt(("AccessDenied",), (), "the source refuses the user, or a right is missing",
         f"`tidelock init FEED` prints the GRANTs; then {RUN}",
         "test_followed_advice.py::test_rights_that_were_taken_away", True),
    Halt(("SourceError",), ("may not lock it for a moment",),
         "no halt: a table without a key is read for a copy under a lock at MySQL; it is tried again",
         "the GRANT that it says", "test_consistent_view.py::test_whoever_may_not_lock_the_table_is_told_the_grant"),
    Halt(("SourceError",), ("cannot be read for a copy yet",),
         "no halt: a transaction holds a table without a key, which is to be copied; it is tried again",
         "end the transaction if it stays", "test_consistent_view.py::test_an_open_transaction_of_the_table_is_told"),
    Halt(("Busy",), ("is in use",), "no halt: another session reads the feed's slot, and the slot is asked for again",
         "the SELECT that it says, at the source, if that session is to end",
         f"{_STARTS}_who_does_what_each_refusal_says_has_a_feed_in_the_end", True),
    Halt(("Unreachable", "Busy"), (), "no halt: the reader connects again ([errors](errors.md))", "nothing",
         "test_run_crashes.py::test_the_source_restarts_and_its_log_rotates", True),
)  # fmt: skip

TARGET: Final = (
    Halt(("ddl",), (), "a statement that the feed does not apply by itself, or that the target refused",
         "`tidelock ddl show FEED`; make the change at the target, `tidelock ddl done FEED` (or `ddl skip`), then "
         f"{RUN}", "test_run_operator.py::test_another_alter_halts_until_the_operator_says", True),
    Halt(("ddl",), (), "a statement was made at another site than the one that `ddl: {from: …}` names",
         "the same change at the target, or undo it; `tidelock ddl done FEED` (or `ddl skip`), then "
         f"{RUN} ([pairs](../how-to/pair.md#statements-that-change-tables))",
         "test_two_way_ddl.py::test_statements_of_one_site", True),
    Halt(("ddl",), (), "a TRUNCATE of a table whose rows have stamps, as it leaves no tombstones",
         f"`DELETE FROM` on the table at one of the other sites, `tidelock ddl skip FEED`, then {RUN}"),
    Halt(("ddl",), (),
         "a table of a PostgreSQL source was changed, now or while the feed stood still, and what its rows hold since "
         "is not in the log",
         f"change the target's table to match, `tidelock ddl done FEED`, {RUN}, and beside it `tidelock copy FEED "
         "--table SCHEMA.TABLE`",
         "test_postgres_changed.py::test_changes_while_the_feed_stands_still", True),
    Halt(("TargetError",), ("forms of the source's tables cannot be kept",),
         "the target refuses what is kept of a PostgreSQL source's tables",
         f"correct it ([errors](errors.md)), then {RUN}"),
    Halt(("TargetError",), ("exists already", "which is not what this adds", "cannot be carried over", "cuts names at"),
         "why the target refused the statement of a `ddl` halt", "as for `ddl`",
         "test_ddl.py::test_what_cannot_be_carried_over_says_what_to_do"),
    Halt(("schema",), (),
         "a table at the target lacks what the log has, or a key or foreign key that rows need, or the source logs its "
         "rows no longer whole, as `verify` needs them",
         f"`tidelock check FEED` prints the statement; run it, then {RUN}; what the target had lost comes back with "
         "`tidelock copy FEED --table DB.TABLE`",
         "test_halts.py::test_a_column_that_the_target_lost", True),
    Halt(("target",), ("the target refused a batch",), "the target's own fault: a right, a table, its disk's state",
         f"correct it (`tidelock check FEED`, [errors](errors.md)), then {RUN}",
         "test_halts.py::test_a_table_that_the_target_lost_while_the_feed_ran", True),
    Halt(("copy",), ("the target refused rows of chunk",), "rows are refused, and not for the fault of some of them",
         f"correct the target, then {RUN}", f"{_FOLLOWED}_chunk_that_the_target_refused", True),
    Halt(("copy",), ("is being copied in chunks of",),
         "a table that is being copied has lost a column by which its chunks are told apart, or its key",
         f"`tidelock copy FEED --table DB.TABLE`, which begins its copy anew, then {RUN}",
         "test_run_copy_altered.py::test_a_column_that_tells_chunks_apart_gets_another_name", True),
    Halt(("gap",), ("the log has a gap",), "records are missing, and a resend did not bring them",
         f"{RUN} once more; else {RESYNCED}"),
    Halt(("TargetError",), ("lack",), "the bookkeeping is of an older version, and the user may not change it",
         f"the statements that it says, then {RUN}", "test_upgrade.py::test_a_user_who_may_not_is_told_the_statements",
         True),
    Halt(("TargetError",), ("took the feed over",), "two runs began at one moment", "one of them is enough",
         "test_runs.py::test_of_two_that_begin_together_one_has_the_feed", True),
    Halt(("TargetError",), ("holds no checkpoint", "holds no position"), "no place to start from is stored",
         f"`tidelock init --apply FEED`, then {RUN}"),
    Halt(("TargetError",), ("is still rolling back",), "a session of the run before has not ended yet",
         f"wait for it (`SHOW PROCESSLIST`), then {RUN}"),
    Halt(("TargetError",), ("does not keep our session", "offers no TLS"),
         "a proxy changes or shares sessions; or TLS is asked for and not there",
         f"correct `target`, then {RUN}"),
    Halt(("TargetError",), (), "what the server says to a takeover, or to a version that is too old",
         f"[errors](errors.md), then {RUN}", "test_run_refused.py::test_wrong_password_at_the_target"),
)  # fmt: skip

NO_HALT: Final = (
    Halt(("copy",), ("are not read again",), "no halt: from an arbiter rows are copied under `echo: all` alone",
         "set it, `tidelock run FEED`, ask again",
         "test_two_way_down.py::test_a_row_that_the_spoke_refuses_is_read_anew_and_never_written_as_it_was", True),
    Halt(("copy",), ("tables are not copied",), "a copy that was asked for cannot be had; the feed goes on",
         "correct what it says, then `tidelock copy FEED`; the feed of a `start: copy` or of a resync ends, and "
         f"{RUN} tries again", "test_copy_run.py::test_a_first_copy_that_cannot_be_had_is_the_end_of_the_run", True),
    Halt(("repair",), (), "rows are not repaired; the feed goes on",
         "correct what it says, then `tidelock verify` and `tidelock repair` again"),
)  # fmt: skip

KAFKA: Final = (
    Halt(("StrangeTarget",), (),
         "the topics hold the log of a feed of that name, which the target knows nothing of: it is another feed's, or "
         "the target's bookkeeping is lost",
         "give the feed another name; or `tidelock remove FEED --apply`, and begin anew with `start: copy` and `copy: "
         "{existing: replace}`",
         "test_worker_known_target.py::test_bookkeeping_that_is_lost", True),
    Halt(("TooLarge",), (), "a record is larger than the changes topic takes",
         "`max.message.bytes` of the topic as it says, then `tidelock resume FEED`",
         "test_worker_halts.py::test_a_topic_whose_limit_was_lowered_takes_records_again", True),
    Halt(("publisher",), (), "the source's log cannot be read on: see the first table", "as there; see above",
         "test_log_identity.py::test_workers_halt_where_the_log_was_reset", True),
    Halt(("log",), ("is gone",), "the changes topic was deleted, or made anew",
         "`tidelock resume FEED` publishes again from the least checkpoint, if the source still has it; else "
         "`tidelock resync FEED`",
         "test_worker_lost_log.py::test_groups_at_different_places_go_on_from_a_log_that_is_published_again", True),
    Halt(("log",), ("lacks what its groups have not read",),
         "the topic's retention was too short for how long a group stood still",
         "as for a topic that is gone; then raise `retention.ms`",
         "test_worker_lost_log.py::test_retention_that_cuts_unread_records_is_one_halt", True),
    Halt(("log",), ("and its groups have applied more",),
         "the broker was put back to an older state, or has lost records",
         "as for a topic that is gone where all groups stand at one place; else `tidelock resync FEED`, see above",
         "test_worker_older_log.py::test_a_broker_that_is_put_back", True),
    Halt(("log", "Uneven"), (), "the partitions do not end at one place: others wrote there, or a broker lost records",
         "`tidelock resync FEED`, see above", f"{_WORKERS}[uneven partitions]", True),
    Halt(("wire", "WireError"), (), "a record of the changes topic is of a newer version, or not the publisher's",
         "run the newest version everywhere; else `tidelock log skip FEED --partition PARTITION --offset OFFSET`",
         "test_worker_halts.py::test_one_foreign_record_is_passed_over", True),
    Halt(("gap",), ("no longer reaches back",), "no halt of its group: the feed halts, as its log lacks unread records",
         "see there", "test_places.py::test_a_beginning_that_retention_has_taken"),
    Halt(("target",), ("behind a statement could not be read",), "the target's fault, while the tables are read again",
         "correct the target, then `tidelock resume FEED`"),
    Halt(("copy",), ("tables are not copied",), "a group begins with a copy (`start: copy`) that cannot be had",
         "correct what it says, then `tidelock resume FEED`",
         "test_worker_copies.py::test_a_first_copy_that_cannot_be_had_halts_its_group", True),
    Halt(("journal",), (), "the disk does not take a group's journal, and the feed has `journal_fault: stop`",
         "make room, then `tidelock resume FEED`",
         "test_journal.py::test_a_group_of_workers_halts_where_its_journal_is_cut_short", True),
    Halt(("TargetError",), ("has no plan in Kafka",), "the feed's topics are lost, or an embedded run was cut short",
         "`log: embedded` and `tidelock run FEED --until-caught-up`; else `tidelock resync FEED`, see above",
         "test_worker_lost_log.py::test_topics_that_are_both_lost_while_groups_are_apart", True),
    Halt(("TargetError",), ("is run by an embedded",), "no halt: workers began beside an embedded run of their feed; "
         "they go on once it has ended",
         "end that run in order (SIGTERM)",
         "test_worker_beginnings.py::test_workers_wait_for_the_end_of_an_embedded_run", True),
    Halt(("kafka", "LogError"), (), "no halt: Kafka is asked again; its words say what is wrong with host or login",
         "nothing, or correct `log`", "test_kafka_connection.py::test_a_wrong_password_is_said_and_not_shown"),
)  # fmt: skip

REFUSED: Final = (
    Halt(("SiteRefused",), ("to other feeds, and this feed calls it",), "a server is a site of another name",
         f"correct `sites`, or the statements that it says, then {RUN}",
         "test_two_way.py::test_a_site_is_one_server_and_a_server_one_site", True),
    Halt(("SiteRefused",), ("knows the site",), "a site's name is bound to another server",
         f"correct the URL; if the site has moved: the statement that it says, then {RUN}",
         "test_two_way.py::test_a_site_is_one_server_and_a_server_one_site", True),
    Halt(("SiteRefused",), ("another feed",), "the feeds of a pair name different arbiters of conflicts, or one none",
         f"have both say the same; to change it, the statement that it says, then {RUN}",
         "test_arbiter.py::test_both_feeds_of_a_pair_name_one_arbiter", True),
    Halt(("SiteRefused",), ("compares times of commits",),
         "`latest` compares commits, and the arbiter does not keep their times",
         f"set what it says there, or name a version column, then {RUN}",
         "test_arbiter.py::test_an_arbiter_that_keeps_no_times_of_commits_decides_by_other_policies", True),
    Halt(("SiteRefused",), ("are one server",), "source and target are one server, under two names",
         f"correct the feed, then {RUN}"),
    Halt(("RunsAlready",), (), "another run of the feed is alive", "end that one, or `tidelock run FEED --take-over`",
         "test_runs.py::test_take_over_ends_the_first_run_whose_restart_is_refused", True),
    Halt(("feed-scaled-out",), (), "an embedded run of a feed that has run as workers",
         "set `log: kafka://…` again, and run `tidelock worker FEED`"),
    Halt(("checkpoint-gone",), (),
         "somebody has removed the feed's checkpoint at the target, and not its other bookkeeping",
         f"put rows and bookkeeping of one moment back; else {RESYNCED}",
         "test_halts.py::test_a_checkpoint_that_somebody_removed", True),
    Halt(("unlogged",), (),
         "the source did not log all for a while, as the halt said: its settings are right again, and nothing in the "
         "log tells that something is missing", RESYNCED, f"{_FOLLOWED}_database_that_is_logged_again", True),
    Halt(("tables-changed",), (),
         "the file's `tables` were changed by hand, and rows that the feed did not take before are there already",
         "`tidelock edit FEED FEED --apply`, with `--no-copy` for changes alone, or put them back as they were; then "
         f"{RUN}", "test_changed_tables.py::test_a_table_that_came_in_by_hand_is_refused_until_it_is_copied", True),
    Halt(("PurgedPosition",), ("there is no slot",),
         "`start` names a place, and PostgreSQL has kept its log for the feed from none",
         "`start: now` or `start: copy`; or make publication and slot before that place, as the hint says",
         f"{_STARTS}_who_does_what_each_refusal_says_has_a_feed_in_the_end", True),
    Halt(("PurgedPosition",), ("on, and `start` is",), "the slot keeps the log from a later place on than `start`",
         "begin at the slot's place or later",
         f"{_STARTS}_who_does_what_each_refusal_says_has_a_feed_in_the_end", True),
    Halt(("PurgedPosition",), ("does not reach back to", "is in the future"),
         "`start` names a time from which the source's log has not everything, or which is to come",
         "set a later time, `start: earliest` or `start: copy`, then `tidelock run FEED`",
         "test_start_moment.py::test_rows_before_the_time_are_absent_and_later_ones_present"),
    Halt(("PurgedPosition",), ("that it was to keep",), "the slot that `start` needs is lost",
         "drop it; then `start: now` or `start: copy`"),
    Halt(("UnsuitableLog",), ("before `start`",), "the log ends before the place that `start` names",
         "name a place that the log has", f"{_STARTS}_why_a_feed_cannot_begin_there"),
    Halt(("UnsuitableLog",), ("cannot be read by the feed",), "the slot that `start` needs is somebody else's",
         "drop it if nobody needs it, and make it as the hint says",
         f"{_STARTS}_a_slot_of_another_plugin_is_no_slot_of_ours", True),
    Halt(("UnsuitableLog",), ("is not known to be older than the slot",),
         "a table may have come into the publication behind the slot's place; what changed before is in no log",
         "`start: now` or `start: copy`, or make the slot again behind the publication",
         f"{_STARTS}_a_publication_that_is_younger_than_its_slot_is_no_proof", True),
)  # fmt: skip

ALL: Final = (*SOURCE, *TARGET, *NO_HALT, *KAFKA, *REFUSED)

_TEXT: Final = """\
# Halts

Why a feed stops, or does not begin, and the command that lets it go on. Kinds and words are those of the program's
messages: `python -m tidelock.adapters.reference.halts > docs/reference/halts.md` makes this page, and a test compares
it with the code.

A halted feed has applied nothing of what its message names, nor of what comes behind it; what was under way before it
the next run applies. It ends with exit code 4, and `tidelock status FEED` says why (`--json`: `halted`). A feed that is
started again halts again, unless what its message says was done. What passes by itself is no halt: it is [tried
again](errors.md). Rows that the target refuses are no halt either: they become failed rows (`tidelock rows list`).

"Words" are a part of the message; where there are none, the line is about all other messages of its kind. "✓": the
test does what the advice says, and then no row differs at either side; the other tests show the message.

**Workers over Kafka** stay up when they halt: for `tidelock run FEED` read `tidelock resume FEED`, which has them
begin anew. For `tidelock resync FEED` end all of them first, and start them again afterwards.
**Hive** has no `resync`: a feed of a new name with `start: copy` takes over its tables and fills them anew
([how to](../how-to/hive.md)).

`resync` is told in [its how-to](../how-to/resync.md).
"""
_HEAD: Final = "\n| kind | words | what it means | the way out | test |\n|---|---|---|---|---|\n"


def reference() -> str:
    """Returns the page."""
    assert RESYNC.startswith("`tidelock resync FEED`"), "what this page says in its place"
    parts = (
        ("The source's log cannot be read on", SOURCE),
        ("The target", TARGET),
        ("Copies and repairs", NO_HALT),
        ("Workers over Kafka", KAFKA),
        ("Refused at the start", REFUSED),
    )
    after = """
A first run must also pass `tidelock check FEED`, which says with each finding the statement that corrects it.
"""
    return _TEXT + "".join(f"\n## {title}\n{_HEAD}{''.join(map(_line, lines))}" for title, lines in parts) + after


def _line(halt: Halt) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in halt.kinds)
    words = "; ".join(halt.words)
    test = f"{'✓ ' if halt.followed else ''}`{halt.test}`" if halt.test else ""
    return f"| {kinds} | {words} | {halt.means} | {halt.out} | {test} |\n"


if __name__ == "__main__":
    print(reference(), end="")
