"""Bugs of two-way replication that show in the bytes of a log, or at a server, each with the test that notices it."""

from __future__ import annotations

from tidelock.simulations.mutants.by_test import noticed_in as _in

OF_POSTGRES = (
    _in(
        "adapters/test_postgres_messages.py::test_a_keepalive_inside_a_transaction_is_no_place",
        "confirmed-at-the-commit",
        """
        @ Assembly._commit
        - state.boundary = state.last_end = ended.end_lsn
        + state.boundary = state.last_end = ended.commit_lsn
        """,
        "a place is that of the commit in place of its end",
        "two-way B27",
    ),
    _in(
        "adapters/test_postgres_messages.py::test_a_keepalive_inside_a_transaction_is_no_place",
        "keepalive-inside-a-transaction",
        """
        @ Assembly.keepalive
        - if state.is_open: ...
        + pass
        """,
        "a keepalive inside a transaction is a place",
        "two-way B28",
    ),
    _in(
        "adapters/test_postgres_relations.py::test_tables_that_change_names_are_told",
        "tables-by-name",
        """
        @ Relations._compared
        - self._forms.get(form.oid) or self._named(form.name)
        + self._named(form.name)
        """,
        "tables are known by name, not by oid",
        "two-way B29",
        server=True,
    ),
    _in(
        "adapters/test_postgres_messages.py::test_both_forms_make_the_same_of_a_stream",
        "tables-kept-over-a-connection",
        """
        @ Relations.__init__
        - self.tables: dict[int, KnownTable] = {}
        + self.tables: dict[int, KnownTable] = Relations.__dict__.get("kept", {})
        + Relations.kept = self.tables
        """,
        "tables that one connection told are those of the next",
        "two-way B30",
    ),
    _in(
        "adapters/test_postgres_messages.py::test_both_forms_make_the_same_of_a_stream",
        "old-key-is-a-whole-row",
        """
        @ RowReader._before
        - not is_key
        + True
        """,
        "the old key of a row is read as the old row",
        "two-way B32",
    ),
    _in(
        "adapters/test_postgres_histories.py::test_a_history_leaves_what_a_select_finds[tables that are emptied]",
        "truncate-of-the-first-table",
        """
        @ Assembly._truncate
        - told.oids
        + told.oids[:1]
        """,
        "a TRUNCATE of several tables empties one",
        "two-way B33",
        server=True,
    ),
    _in(
        "adapters/test_postgres_messages.py::test_a_message_that_protocol_1_has_not_ends_the_reading",
        "unknown-message-skipped",
        """
        @ Assembly.take_plain
        - raise self._unknown(kind)
        + return
        """,
        "a message that nobody knows is passed over",
        "two-way B34",
    ),
    _in(
        "adapters/test_postgres_messages.py::test_a_transaction_of_another_origin_ends_the_reading_unless_that_was_said",
        "origin-skipped",
        """
        @ Assembly._origin
        - not self._origins
        + False
        """,
        "a transaction that came by PostgreSQL's own replication is the source's own",
        "two-way B34",
    ),
    _in(
        "adapters/test_postgres_relations.py::test_any_other_change_is_told_in_words[a default of each row's own]",
        "default-of-each-row-carried-over",
        """
        @ relation_changes.doubt_of
        - if facts.has_default: ...
        + pass
        """,
        "a column is added whose old rows have values of their own",
        "two-way 33",
        server=True,
    ),
)

OF_SERVERS = (
    _in(
        "adapters/test_postgres_timelines.py::test_a_place_behind_the_fork_is_one_of_another_log",
        "place-behind-the-fork",
        """
        @ history.difference
        - place.offset <= fork
        + True
        """,
        "a place of an older timeline behind the fork is taken for one of this log",
        "two-way 28",
    ),
    _in(
        "adapters/test_postgres_timelines.py::test_a_failover_leaves_the_source_of_transactions_as_it_is",
        "timeline-in-the-identity",
        """
        @ positions.Identity.source
        - f"{self.system}/{self.database}"
        + f"{self.system}/{self.timeline}/{self.database}"
        """,
        "behind a failover receipts name another source, and rows are applied twice",
        "two-way B35",
    ),
    _in(
        "adapters/test_ddl.py",
        "comment-passed-over",
        """
        @ lexer.tokens
        - not lenient
        + False
        """,
        "what stands in a comment that the server carries out is passed over",
        "two-way B39",
    ),
    _in(
        "adapters/test_check_tables.py::test_triggers",
        "triggers-not-told",
        """
        @ check_triggers
        + return []
        """,
        "a trigger writes rows in the transaction of a feed, which then count as replicated",
        "two-way 35",
        server=True,
    ),
    _in(
        "adapters/test_postgres_check.py::test_a_feed_with_a_checkpoint_never_gets_a_new_slot",
        "new-slot-behind-the-checkpoint",
        """
        @ postgres_slot.check_slot
        - stored is None
        + True
        """,
        "a slot that is gone is made anew, behind the checkpoint",
        "two-way B36",
        server=True,
    ),
    _in(
        "adapters/test_pair.py::test_what_is_written_at_the_child_before_the_edge_is_open_goes_back",
        "way-back-placed-behind-the-copy",
        """
        @ Beginning._prepare
        - if self._back is not None and (place := await fix_start(self._back.feed)) is not None: ...
        + pass

        @ Beginning._open
        + if self._back is not None:
        +     await fix_start(self._back.feed)
        + ...
        """,
        "rows are copied before the place of the way back is fixed",
        "two-way 37",
        server=True,
    ),
)
