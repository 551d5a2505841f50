"""The bookkeeping rows of one feed and group at a MySQL or MariaDB target, as SQL and as what was read (design 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.tables import SHADOWS
from tidelock.adapters.ddl import kept_shadows
from tidelock.adapters.ddl.kept_shadows import Shadows, ShadowsSql
from tidelock.adapters.mysql.target.copy_bookkeeping_sql import CopyBookkeepingSql, named
from tidelock.adapters.mysql.target.fencing import Fencing
from tidelock.adapters.mysql.target.literals import blob, text
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.ports.sink import Control
from tidelock.adapters.target import displaced
from tidelock.adapters.target.displaced import Displaced
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.origin import Origin, spelled
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol.effects import EffectId, Halt
from tidelock.engine.protocol.events import ParkedKey, Receipt
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.engine.two_way.decisions import DISPLACED

ERROR_CHARACTERS = 4000
"""Kept of a parked row's error: a server may quote the whole row."""
_KEYS_EACH = 1000
_PARKED = "source,number,ordinal,table_schema,table_name,row_key,error,change_data"
_POSITION: Final = msgspec.json.Decoder(Position)


class BookkeepingSql:
    """Statements, or the query that their name says.  `copies`: those of copied tables.  `shadows`: of shadow tables.

    """

    def __init__(self, fencing: Fencing, options: SinkOptions) -> None:
        feed, group = options.feed, options.group
        self.schema, self.feed, self.group = options.schema, feed, group
        self.copies = CopyBookkeepingSql(fencing, feed, group)
        self._fencing = fencing
        self._mine = fencing.identity
        self._values = f"{text(feed)},{group}"
        self._set = f"feed={text(feed)},grp={group}"
        self._marks = f"{text(options.origin)},{text(options.path)}"
        self._sites = options.sites
        self._table = f"{fencing.schema}.tidelock_"
        self.shadows = ShadowsSql(f"{fencing.schema}.{SHADOWS}", feed, text)

    def receipt(
        self,
        session: TargetSession,
        id: EffectId,
        covered: bytes,
        origin: Origin | None = None,
        seen: Position | None = None,
    ) -> bytes:
        """Insert the receipt: no row for an older owner; error 1062 where the batch was committed before.

        `origin`, `seen`: as `ApplyBatch` has them.
        """
        columns, marks = "origin,path", self._marks
        if self._sites is not None:
            columns, marks = "origin,path,marks,seen", self._marked(origin or self._sites.local, seen)
        values = f"{self._values},epoch,{id.counter},{blob(covered)},{marks}"
        return (
            f"INSERT INTO {self._table}progress (feed,grp,epoch,batch,covered,{columns}) "
            f"SELECT {values} {self._fencing.owner_row(session, id.epoch)}"
        ).encode()

    def _marked(self, origin: Origin, seen: Position | None) -> str:
        told = "" if seen is None else msgspec.json.encode(seen).decode()
        return ",".join(map(text, (origin.path[0], spelled(origin.path), spelled(origin.marks), told)))

    def marks(self, session: TargetSession, id: EffectId) -> tuple[bytes, ...]:
        """Mark what follows in the transaction as a feed's, where sites have names; no receipt stays."""
        if self._sites is None:
            return ()
        key = f"epoch={id.epoch:d} AND batch={id.counter:d}"
        drop = f"DELETE FROM {self._table}progress WHERE {self._mine} AND {key}"
        return self.receipt(session, id, NOTHING), drop.encode()

    def complete(self, id: EffectId, covered: bytes) -> bytes:
        """Store what the receipt covers, all told; in the transaction that inserted it."""
        mine = f"{self._mine} AND epoch={id.epoch:d} AND batch={id.counter:d}"
        return f"UPDATE {self._table}progress SET covered={blob(covered)} WHERE {mine}".encode()

    def park(self, rows: Sequence[ParkedRow]) -> Iterator[bytes]:
        """Park rows.  One that is parked already (its retry failed) gets the new error and has no wish any more."""
        head = f"INSERT INTO {self._table}parked (feed,grp,{_PARKED}) VALUES "
        for row in rows:
            error = text(row.error[:ERROR_CHARACTERS])
            values = ",".join(
                (
                    self._values,
                    text(row.source),
                    f"{row.number:d},{row.ordinal:d}",
                    *map(text, (row.schema, row.table, row.key)),
                    error,
                    blob(row.change),
                )
            )
            yield f"{head}({values}) ON DUPLICATE KEY UPDATE error={error},wish=''".encode("utf-8", "replace")

    def record_displaced(self, row: Displaced, origin: Origin | None) -> bytes:
        """Record a row that made room for another; `origin`: of the change that it made room for."""
        assert self._sites is not None, "conflicts are decided between sites"
        table, change = row.table, f"{text(row.of[0])},{row.of[1]:d},{row.of[2]:d}"
        values = ",".join(
            (
                self._values,
                change,
                *map(text, (table.schema, table.table, row.key, row.conflict.value, DISPLACED)),
                "0",
                blob(row.lost),
                "NULL" if row.stands is None else blob(row.stands),
                text(spelled((origin or self._sites.local).path)),
            )
        )
        mine = f"{self._mine} AND (source,number,ordinal)=({change})"
        return (
            f"INSERT INTO {self._table}conflicts (feed,grp,{displaced.COLUMNS},entry) SELECT {values},"
            f"COALESCE(MAX(entry)+1,0) FROM {self._table}conflicts WHERE {mine}"
        ).encode("utf-8", "replace")

    def unpark(self, keys: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
        """Delete what is parked under these places in the log (source, number, ordinal)."""
        tuples = [f"({text(source)},{number:d},{ordinal:d})" for source, number, ordinal in keys]
        return self._delete("parked", "source,number,ordinal", tuples)

    def empty(self, table: TableName, everywhere: bool = False) -> bytes:
        """Delete what is parked for the table, which goes with its rows; `everywhere`: in all groups of the feed."""
        groups = self._fencing.feed if everywhere else self._mine
        return f"DELETE FROM {self._table}parked WHERE {groups} AND {named(table)}".encode()

    async def has_parked(
        self, session: TargetSession, tables: Sequence[TableName], *, everywhere: bool = False
    ) -> bool:
        """Tell whether anything is parked for one of the tables; `everywhere`: in any group of the feed."""
        groups = self._fencing.feed if everywhere else self._mine
        names = " OR ".join(f"({named(name)})" for name in tables)
        rows = f"SELECT 1 FROM {self._table}parked WHERE {groups} AND ({names}) LIMIT 1"
        return bool((await session.ask(rows)).rows)

    def pass_ddl(self, ddl: Ddl) -> bytes:
        """Note that a DDL statement ran; changes no row for an older owner."""
        passed = text(f"{ddl.source}:{ddl.number}")
        mine = f"{self._mine} AND epoch={self._fencing.epoch}"
        return f"UPDATE {self._table}owner SET ddl_passed={passed} WHERE {mine}".encode()

    def announce(self, ddl: Ddl, marked: Sequence[str]) -> Iterator[bytes]:
        """Store the texts of a statement's `marked` ones, once."""
        path = text(spelled(ddl.path))
        for ordinal, statement in enumerate(marked):
            values = f"{text(self.feed)},{text(ddl.source)},{ddl.number:d},{ordinal},{path},{text(statement)}"
            yield (
                f"INSERT INTO {self._table}statements (feed,source,number,ordinal,path,statement) VALUES ({values}) "
                "ON DUPLICATE KEY UPDATE path=VALUES(path),statement=VALUES(statement)"
            ).encode()

    def drop_receipts(self, receipts: Sequence[EffectId], *, verdicts: bool = False) -> Iterator[bytes]:
        """Delete receipts by their exact keys: a range would lock the gaps that other lanes insert into.

        `verdicts`: and the verdicts of their batches, which are in the log."""
        batches = [f"({id.epoch:d},{id.counter:d})" for id in receipts]
        yield from self._delete("progress", "epoch,batch", batches)
        if verdicts:
            yield from self._delete("verdicts", "epoch,batch", batches)

    def _delete(self, table: str, columns: str, tuples: Sequence[str]) -> Iterator[bytes]:
        keys = "feed,grp," + columns
        for first in range(0, len(tuples), _KEYS_EACH):
            listed = ",".join(f"({self._values},{key[1:]}" for key in tuples[first : first + _KEYS_EACH])
            yield f"DELETE FROM {self._table}{table} WHERE ({keys}) IN ({listed})".encode()

    def save_checkpoint(self, position: Position) -> bytes:
        """Store the checkpoint."""
        json = text(msgspec.json.encode(position).decode())
        site = f",site={text(self._sites.source)}" if self._sites is not None else ""
        return (
            f"INSERT INTO {self._table}checkpoint SET {self._set},position={json},saved_at=NOW(6){site} "
            f"ON DUPLICATE KEY UPDATE position={json},saved_at=NOW(6){site}"
        ).encode()

    def halt(self, effect: Halt) -> bytes:
        """Keep the alarm and statement that halted the feed; changes no row for an older owner."""
        told = msgspec.json.encode({"alarm": effect.alarm, "ddl": effect.ddl}).decode()
        return (
            f"UPDATE {self._table}owner SET halt={text(told)} WHERE {self._mine} AND epoch={self._fencing.epoch}"
        ).encode()

    def clear_halt(self) -> bytes:
        """Take a stored halt away."""
        return f"UPDATE {self._table}owner SET halt=NULL WHERE {self._mine} AND epoch={self._fencing.epoch}".encode()

    async def read_checkpoint(self, session: TargetSession) -> Position | None:
        """Read the checkpoint; None before the first is stored."""
        rows = (await session.ask(f"SELECT position FROM {self._table}checkpoint WHERE {self._mine}")).rows
        return _POSITION.decode(rows[0][0]) if rows else None

    async def read_receipts(self, session: TargetSession) -> tuple[Receipt, ...]:
        """Read the receipts of batches above the checkpoint."""
        rows = await session.ask(
            f"SELECT epoch,batch,covered FROM {self._table}progress WHERE {self._mine} ORDER BY epoch,batch"
        )
        return tuple(Receipt(EffectId(epoch, batch), covered) for epoch, batch, covered in rows.rows)

    async def read_parked(self, session: TargetSession, *, wished: bool = False) -> tuple[ParkedKey, ...]:
        """Read what is parked, in log order of each source; only those with a wish if `wished`."""
        rows = await session.ask(
            f"SELECT source,number,ordinal,table_schema,table_name,change_data,wish FROM {self._table}parked "
            f"WHERE {self._mine}{' AND wish<>' + text('') if wished else ''} ORDER BY source,number,ordinal"
        )
        return tuple(
            ParkedKey(source, number, ordinal, TableName(schema, table), change, wish)
            for source, number, ordinal, schema, table, change, wish in rows.rows
        )

    async def read_control(self, session: TargetSession) -> Control:
        """Read what operators asked for."""
        rows = (await session.ask(f"SELECT desired_state FROM {self._table}owner WHERE {self._mine}")).rows
        parked = await self.read_parked(session, wished=True)
        return Control(str(rows[0][0]) if rows else "running", parked, await self.copies.read_wanted(session))

    async def read_shadows(self, session: TargetSession) -> Shadows:
        """Read what is known of shadow tables."""
        return kept_shadows.read((await session.ask(self.shadows.select)).rows)

    async def read_ddl_passed(self, session: TargetSession) -> tuple[str, int] | None:
        """Read source and number of the last DDL statement that ran or was passed by."""
        rows = (await session.ask(f"SELECT ddl_passed FROM {self._table}owner WHERE {self._mine}")).rows
        if not rows or not rows[0][0]:
            return None
        source, _, number = rows[0][0].rpartition(":")
        return source, int(number)
