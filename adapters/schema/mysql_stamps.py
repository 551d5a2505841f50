"""Triggers that stamp rows at MySQL and MariaDB (`schema.stamped_table`).

An application's insert is stamped, written, and then looked at again: who looked before it waited for a deleter has
looked too early.  A trigger cannot change the row that was just written, so where the tombstone is greater by then the
insert fails (40001), and its transaction is to be run again, as after a deadlock.  The looks are locking reads, as all
that a trigger reads is: they wait for a tombstone that is not committed, and see what the transaction's own view is too
old for.  At REPEATABLE READ they lock the gap where none is, so an update looks only where it changes the key.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.schema.stamped_table import LONGEST_WAIT_US, StampedTable, Trigger, Words

CLOCK: Final = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
DELETED: Final = "tidelock: the row was deleted at this moment, or REPLACE was used; run the transaction again"
_APPLICATION = "@tidelock_apply IS NULL"


def wait_for_clock(time: int) -> str:
    """Returns the statement that waits until the clock has passed a stamp's time (`engine.two_way.stamp.must_wait`): a
    courtesy to sites whose clocks are behind."""
    ahead = f"(SELECT {time} - {CLOCK} + 1 AS us) ahead"
    return f"SELECT SLEEP(us / 1000000) FROM {ahead} WHERE us BETWEEN 1 AND {LONGEST_WAIT_US}"


def columns(table: StampedTable) -> str:
    """Returns the statement that adds the columns."""
    words = Words(table, "mysql")
    site = f"{words.stamped_at} VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''"
    return f"ALTER TABLE {words.rows} ADD COLUMN {words.time} BIGINT NOT NULL DEFAULT 0, ADD COLUMN {site}"


def tombstones(table: StampedTable) -> list[str]:
    """Returns the statements that make the table of tombstones."""
    words = Words(table, "mysql")
    wanted = words.listed(words.time, words.stamped_at)
    made = f"CREATE TABLE {words.dead} (PRIMARY KEY ({words.listed()})) ENGINE=InnoDB"
    return [f"{made} SELECT {wanted} FROM {words.rows} WHERE FALSE"]


def triggers(table: StampedTable) -> list[Trigger]:
    """Returns the triggers."""
    words = Words(table, "mysql")
    moved = f"NOT ({words.same('OLD', 'NEW', '<=>')})"
    look, bury = _look(words), _bury(words)
    declared, over = "DECLARE buried BIGINT;", f"IF({moved}, {_over(words)}, 0)"
    return [
        _trigger(table, "tl_new", "BEFORE INSERT", _stamp(words, "", _over(words))),
        _trigger(table, "tl_set", "BEFORE UPDATE", _stamp(words, f"OLD.{words.time} + 1, ", over)),
        _trigger(table, "tl_look", "AFTER INSERT", look, declared),
        _trigger(table, "tl_move", "AFTER UPDATE", f"IF {moved} THEN {bury} {look} END IF;", declared),
        _trigger(table, "tl_bury", "AFTER DELETE", bury),
    ]


def _trigger(table: StampedTable, suffix: str, when: str, work: str, declared: str = "") -> Trigger:
    words = Words(table, "mysql")
    name = f"{table.name.table}_{suffix}"
    quoted = f"{words.quoted(table.name.schema)}.{words.quoted(name)}"
    body = f"BEGIN {declared} IF {_APPLICATION} THEN {work} END IF; END".replace("BEGIN  IF", "BEGIN IF")
    return Trigger(
        name,
        body,
        (
            f"DROP TRIGGER IF EXISTS {quoted}",
            f"CREATE TRIGGER {quoted} {when} ON {words.rows} FOR EACH ROW {body}",
        ),
    )


def _over(words: Words) -> str:
    return f"(SELECT d.{words.time} + 1 FROM {words.dead} d WHERE {words.same('d', 'NEW')})"


def _stamp(words: Words, over: str, dead: str) -> str:
    time = f"GREATEST({CLOCK}, {over}COALESCE({dead}, 0), COALESCE({words.floor}, 0))"
    return f"SET NEW.{words.time} = {time}, NEW.{words.stamped_at} = {words.site};"


def _look(words: Words) -> str:
    found = f"FROM {words.dead} d WHERE {words.same('d', 'NEW')} LOCK IN SHARE MODE"
    return (
        f"SELECT MAX(d.{words.time}) INTO buried {found}; "
        f"IF buried >= NEW.{words.time} THEN SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = '{DELETED}'; END IF;"
    )


def _bury(words: Words) -> str:
    """A row's own stamp is above its tombstone, so the new one is too."""
    time = f"GREATEST({CLOCK}, OLD.{words.time} + 1, COALESCE({words.floor}, 0))"
    values = words.listed(time, words.site, of="OLD.")
    sets = f"{words.time} = VALUES({words.time}), {words.stamped_at} = VALUES({words.stamped_at})"
    named = words.listed(words.time, words.stamped_at)
    return f"INSERT INTO {words.dead} ({named}) VALUES ({values}) ON DUPLICATE KEY UPDATE {sets};"
