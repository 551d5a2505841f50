"""Record every row change that a target sees, and judge whether the order was right.

Triggers on the target's tables write one history row per change: a sequence number, the
target transaction, the primary key and the version before and after.  Changes of one row
follow each other through the row's lock, so for one primary key the sequence is the order
of commit.  Upserts fire the trigger of what they did in fact, an insert or an update; a
rolled-back transaction leaves no history.

A table needs one primary key column and a `version` that grows with each change of the
key at the source (`bench.harness.workload`).  An applier may skip versions (it merges) and may
turn an update into delete + insert inside one transaction, so the changes of a key inside
one transaction are judged by their net effect.

The transaction's number: PostgreSQL has `txid_current()`; MariaDB fills the `ROW START`
column of a system-versioned table with it; MySQL tells (thread, event) of the running
transaction in `performance_schema.events_transactions_current`.  `innodb_trx` would not
do: it is cached while it is read often.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import asyncpg
import pymysql

from bench.harness.session import Endpoint, Flavor, connection

SCHEMA = "recorder"
HISTORY = f"{SCHEMA}.history"

_POSTGRES_HISTORY = f"""
CREATE SCHEMA {SCHEMA};
CREATE TABLE {HISTORY} (seq bigserial PRIMARY KEY, tx text NOT NULL DEFAULT txid_current()::text,
    place text NOT NULL, old_key bigint, old_version bigint, new_key bigint, new_version bigint);
CREATE FUNCTION {SCHEMA}.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO {HISTORY} (place, old_key, old_version, new_key, new_version) VALUES (TG_TABLE_NAME,
        CASE WHEN TG_OP <> 'INSERT' THEN (to_jsonb(OLD) ->> TG_ARGV[0])::bigint END,
        CASE WHEN TG_OP <> 'INSERT' THEN OLD.version END,
        CASE WHEN TG_OP <> 'DELETE' THEN (to_jsonb(NEW) ->> TG_ARGV[0])::bigint END,
        CASE WHEN TG_OP <> 'DELETE' THEN NEW.version END);
    RETURN NULL;
END $$
"""
_COLUMNS = "place varchar(64) NOT NULL, old_key bigint, old_version bigint, new_key bigint, new_version bigint"
_MARIADB_HISTORY = f"""
CREATE DATABASE {SCHEMA};
CREATE TABLE {HISTORY} (seq bigint AUTO_INCREMENT PRIMARY KEY, {_COLUMNS},
    tx bigint unsigned GENERATED ALWAYS AS ROW START, tx_end bigint unsigned GENERATED ALWAYS AS ROW END,
    PERIOD FOR SYSTEM_TIME (tx, tx_end)) ENGINE=InnoDB WITH SYSTEM VERSIONING
"""
# performance_schema is read without locks: while the session's own row changes it may seem not to be there, so the
# function looks again.  A session that has none at all stands for its transactions, which is weaker and never wrong.
_MYSQL_HISTORY = f"""
CREATE DATABASE {SCHEMA};
CREATE TABLE {HISTORY} (seq bigint AUTO_INCREMENT PRIMARY KEY, {_COLUMNS}, tx varchar(64) NOT NULL) ENGINE=InnoDB;
CREATE FUNCTION {SCHEMA}.running() RETURNS varchar(64) NOT DETERMINISTIC READS SQL DATA BEGIN
    DECLARE found varchar(64); DECLARE looks int DEFAULT 0;
    REPEAT
        SET found = (SELECT concat(thread_id, '-', event_id) FROM performance_schema.events_transactions_current
            WHERE thread_id = ps_current_thread_id());
        SET looks = looks + 1;
    UNTIL found IS NOT NULL OR looks = 100 END REPEAT;
    RETURN coalesce(found, concat('session ', connection_id()));
END
"""
_MYSQL_TRANSACTION = f"{SCHEMA}.running()"
_CREATE_HISTORY = {
    Flavor.POSTGRES: _POSTGRES_HISTORY,
    Flavor.MARIADB: _MARIADB_HISTORY,
    Flavor.MYSQL: _MYSQL_HISTORY,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One row change at the target; None where there was no row before, or is none after."""

    seq: int
    transaction: str
    table: str
    old_key: int | None
    old_version: int | None
    new_key: int | None
    new_version: int | None


class Rule(enum.Enum):
    """Kinds of rules that a history can break."""

    TWICE = "a row version was applied twice"
    OLDER = "an older row version was applied after a newer one"
    VANISHED = "a row that the source kept was gone between two transactions"


@dataclasses.dataclass(frozen=True)
class Violation:
    """`seen`: the newest version the key had before; `version`: what was applied (VANISHED: what went away)."""

    rule: Rule
    table: str
    key: int
    seq: int
    transaction: str
    version: int
    seen: int

    def __str__(self) -> str:
        return (
            f"{self.rule.value}: {self.table} key {self.key} version {self.version} after {self.seen}"
            f" (history {self.seq}, transaction {self.transaction})"
        )


class Recorder:
    """Context manager: triggers and history are there inside, and gone after.

    `tables`: as `schema.table`; `key`: name of their primary key column.  The target's user of `endpoint` must be
    allowed to create schemas and triggers.
    """

    def __init__(self, endpoint: Endpoint, tables: Sequence[str], key: str = "id") -> None:
        self._session, self._close = connection(endpoint)
        self._tables = tables
        self._key = key

    def __enter__(self) -> Self:
        self._session.send(_CREATE_HISTORY[self._session.flavor])
        for table in self._tables:
            self._session.send(self._triggers(table))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._remove()
        finally:
            self._close()

    def reconnect(self, endpoint: Endpoint) -> None:
        """After the target was restarted; its history went through the restart as its tables did."""
        with contextlib.suppress(OSError, pymysql.Error, asyncpg.InterfaceError, asyncpg.PostgresError):
            self._close()
        self._session, self._close = connection(endpoint)

    def events(self) -> Iterator[Event]:
        """The history so far, in order."""
        cast = "{}::text" if self._session.flavor is Flavor.POSTGRES else "{}"
        names = ("seq", "tx", "place", "old_key", "old_version", "new_key", "new_version")
        columns = ", ".join(map(cast.format, names))
        for seq, tx, place, *numbers in self._session.stream(f"SELECT {columns} FROM {HISTORY} AS h ORDER BY h.seq"):
            yield Event(int(seq), tx, place, *(None if number is None else int(number) for number in numbers))

    def _triggers(self, table: str) -> str:
        if self._session.flavor is Flavor.POSTGRES:
            # ALWAYS: an applier may run with session_replication_role = replica, which skips ordinary triggers.
            return (
                f"CREATE TRIGGER recorder AFTER INSERT OR UPDATE OR DELETE ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.record('{self._key}');"
                f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER recorder"
            )
        schema, _, name = table.partition(".")
        old, new, none = f"OLD.{self._key}, OLD.version", f"NEW.{self._key}, NEW.version", "NULL, NULL"
        mysql = self._session.flavor is Flavor.MYSQL
        return ";".join(
            f"CREATE TRIGGER {schema}.recorder_{name}_{event} AFTER {event} ON {table} FOR EACH ROW"
            f" INSERT INTO {HISTORY} (place, old_key, old_version, new_key, new_version{', tx' if mysql else ''})"
            f" VALUES ('{name}', {before}, {after}{', ' + _MYSQL_TRANSACTION if mysql else ''})"
            for event, before, after in (("INSERT", none, new), ("UPDATE", old, new), ("DELETE", old, none))
        )

    def _remove(self) -> None:
        if self._session.flavor is Flavor.POSTGRES:
            self._session.send(f"SET client_min_messages = warning; DROP SCHEMA {SCHEMA} CASCADE")
            return
        for table in self._tables:
            schema, _, name = table.partition(".")
            for event in ("INSERT", "UPDATE", "DELETE"):
                self._session.send(f"DROP TRIGGER IF EXISTS {schema}.recorder_{name}_{event}")
        self._session.send(f"DROP DATABASE {SCHEMA}")


@dataclasses.dataclass(slots=True)
class _Net:
    """The net effect of one transaction on one key."""

    transaction: str
    seq: int
    before: int | None
    after: int | None


def check(history: Iterable[Event], deleted: Iterable[tuple[str, int, int]] | None = None) -> list[Violation]:
    """Every violation in a history, in order of table, key and sequence.

    `deleted`: (table, key, version) of each row that the source deleted or moved to another key
    (`Workload.deleted`); without it, VANISHED is not judged.
    """
    gone: dict[tuple[str, int], list[int]] | None = None if deleted is None else {}
    for table, key, version in deleted or ():
        assert gone is not None
        gone.setdefault((table, key), []).append(version)
    violations: list[Violation] = []
    for (table, key), effects in sorted(_net_effects(history).items()):
        violations += _judge(table, key, effects, None if gone is None else gone.get((table, key), []))
    return violations


def _net_effects(history: Iterable[Event]) -> dict[tuple[str, int], list[_Net]]:
    """Per (table, key): what each transaction did to it, in order."""
    effects: dict[tuple[str, int], list[_Net]] = {}
    for event in history:
        moved = event.old_key != event.new_key
        if event.old_key is not None:
            after = None if moved else event.new_version
            _fold(effects.setdefault((event.table, event.old_key), []), event, event.old_version, after)
        if event.new_key is not None and moved:
            _fold(effects.setdefault((event.table, event.new_key), []), event, None, event.new_version)
    return effects


def _fold(effects: list[_Net], event: Event, before: int | None, after: int | None) -> None:
    if effects and effects[-1].transaction == event.transaction:
        effects[-1].after = after
        effects[-1].seq = event.seq
    else:
        effects.append(_Net(event.transaction, event.seq, before, after))


def _judge(table: str, key: int, effects: list[_Net], gone: list[int] | None) -> Iterator[Violation]:
    """`seen` is the newest version the key ever had at the target; rows there before the recording count too."""
    seen = -1
    for number, effect in enumerate(effects):
        if effect.before is not None:
            seen = max(seen, effect.before)
        if effect.after is None:
            later = next((e.after for e in effects[number + 1 :] if e.after is not None), None)
            if gone is not None and effect.before is not None and not _was_deleted(effect.before, later, gone):
                yield Violation(Rule.VANISHED, table, key, effect.seq, effect.transaction, effect.before, seen)
            continue
        if effect.after <= seen:
            rule = Rule.TWICE if effect.after == seen else Rule.OLDER
            yield Violation(rule, table, key, effect.seq, effect.transaction, effect.after, seen)
        seen = max(seen, effect.after)


def _was_deleted(version: int, later: int | None, gone: list[int]) -> bool:
    """The source deleted this version, or a later one that the applier merged away, before the next one came."""
    return any(version <= deleted and (later is None or deleted < later) for deleted in gone)
