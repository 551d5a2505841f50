"""The bookkeeping rows of one feed and group at a MySQL or MariaDB target, as SQL and as what was read (design 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelock.adapters.mysql.target.fencing import Ownership
from tidelock.adapters.mysql.target.literals import blob, text
from tidelock.adapters.mysql.target.session import Session
from tidelock.adapters.ports.sink import Wanted
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Ddl, Position, Row, TableName
from tidelock.engine.protocol.effects import EffectId, Halt, ParkedRow
from tidelock.engine.protocol.events import Copied, ParkedKey, Receipt

ERROR_CHARACTERS = 4000
"""Kept of a parked row's error: a server may quote the whole row."""
_KEYS_EACH = 1000
_ROW = msgspec.msgpack.Decoder(Row)
_PARKED = "source,number,ordinal,table_schema,table_name,row_key,error,change_data"


class Ledger:
    """`origin`, `path`: what the receipts say of where the rows came from and by what way."""

    def __init__(self, owner: Ownership, feed: str, group: int, origin: str, path: str) -> None:
        self._owner = owner
        self._of = owner.identity
        self._mine = f"{text(feed)},{group}"
        self._mark = f"{text(origin)},{text(path)}"
        self._table = f"{owner.schema}.tidelock_"

    def receipt(self, session: Session, id: EffectId, covered: bytes) -> bytes:
        """Inserts no row for an older owner; error 1062: the batch was committed before."""
        values = f"{self._mine},epoch,{id.counter},{blob(covered)},{self._mark}"
        return (
            f"INSERT INTO {self._table}progress (feed,grp,epoch,batch,covered,origin,path) "
            f"SELECT {values} {self._owner.owner_row(session, id.epoch)}"
        ).encode()

    def complete(self, id: EffectId, covered: bytes) -> bytes:
        """In the transaction of its receipt: what that covers, all told."""
        mine = f"{self._of} AND epoch={id.epoch:d} AND batch={id.counter:d}"
        return f"UPDATE {self._table}progress SET covered={blob(covered)} WHERE {mine}".encode()

    def park(self, rows: Sequence[ParkedRow]) -> Iterator[bytes]:
        """A row that is parked already (its retry failed) gets the new error and has no wish any more."""
        head = f"INSERT INTO {self._table}parked (feed,grp,{_PARKED}) VALUES "
        for row in rows:
            error = text(row.error[:ERROR_CHARACTERS])
            values = ",".join(
                (
                    self._mine,
                    text(row.source),
                    f"{row.number:d},{row.ordinal:d}",
                    *map(text, (row.schema, row.table, row.key)),
                    error,
                    blob(row.change),
                )
            )
            yield f"{head}({values}) ON DUPLICATE KEY UPDATE error={error},wish=''".encode("utf-8", "replace")

    def unpark(self, keys: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
        tuples = [f"({text(source)},{number:d},{ordinal:d})" for source, number, ordinal in keys]
        return self._delete("parked", "source,number,ordinal", tuples)

    def empty(self, table: TableName, everywhere: bool = False) -> bytes:
        """What is parked for the table goes with its rows; `everywhere`: in all groups of the feed."""
        groups = self._owner.feed if everywhere else self._of
        return f"DELETE FROM {self._table}parked WHERE {groups} AND {_named(table)}".encode()

    def pass_ddl(self, ddl: Ddl) -> bytes:
        passed = text(f"{ddl.source}:{ddl.number}")
        mine = f"{self._of} AND epoch={self._owner.epoch}"
        return f"UPDATE {self._table}owner SET ddl_passed={passed} WHERE {mine}".encode()

    def drop(self, receipts: Sequence[EffectId]) -> Iterator[bytes]:
        """By their exact keys: a range would lock the gaps that other lanes insert into."""
        return self._delete("progress", "epoch,batch", [f"({id.epoch:d},{id.counter:d})" for id in receipts])

    def _delete(self, table: str, columns: str, tuples: Sequence[str]) -> Iterator[bytes]:
        keys = "feed,grp," + columns
        for first in range(0, len(tuples), _KEYS_EACH):
            listed = ",".join(f"({self._mine},{key[1:]}" for key in tuples[first : first + _KEYS_EACH])
            yield f"DELETE FROM {self._table}{table} WHERE ({keys}) IN ({listed})".encode()

    def split(self, split: ChunkSplit) -> Iterator[bytes]:
        """Its chunks, none of which is merged but those that need no copying, in the place of what stood there."""
        yield f"DELETE FROM {self._table}chunks WHERE {self._of} AND {_named(split.table)}".encode()
        head = f"INSERT INTO {self._table}chunks (feed,grp,table_schema,table_name,chunk,split,rows_merged) VALUES "
        mine = f"({self._mine},{text(split.table.schema)},{text(split.table.table)}"
        how = blob(msgspec.msgpack.encode(split))
        rows = [
            f"{mine},{chunk:d},{'NULL' if chunk else how},{'0' if chunk in split.merged else 'NULL'})"
            for chunk in range(split.chunks)
        ]
        for first in range(0, len(rows), _KEYS_EACH):
            yield (head + ",".join(rows[first : first + _KEYS_EACH])).encode()

    def merged(self, split: ChunkSplit, chunk: int, rows: int) -> bytes:
        mine = f"{self._of} AND {_named(split.table)} AND chunk={chunk:d}"
        return f"UPDATE {self._table}chunks SET rows_merged={rows:d} WHERE {mine}".encode()

    def granted(self, split: ChunkSplit) -> Iterator[bytes]:
        """Take away what asked for this copy, and what could not be had of the table before.  Where rows are repaired
        only what asked for these rows; where those of the target are kept, nothing that asks for more than that."""
        head = f"DELETE FROM {self._table}wanted WHERE {self._of} AND {_named(split.table)}"
        if split.by is By.KEYS:
            keys = [blob(msgspec.msgpack.encode(key)) for key in split.keys]
            yield f"{head} AND mode='refused'".encode()
            for first in range(0, len(keys), _KEYS_EACH):
                listed = ",".join(keys[first : first + _KEYS_EACH])
                yield f"{head} AND mode='repair' AND row_key IN ({listed})".encode()
        else:
            yield (f"{head} AND mode IN ('keep','refused')" if split.keep else head).encode()

    def refuse(self, tables: Sequence[TableName], alarm: Alarm) -> bytes:
        told = blob(msgspec.json.encode(alarm))
        mine = f"{self._of} AND mode<>'refused' AND ({' OR '.join(f'({_named(table)})' for table in tables)})"
        return f"UPDATE {self._table}wanted SET mode='refused',row_key={told} WHERE {mine}".encode()

    def checkpoint(self, position: Position) -> bytes:
        json = text(msgspec.json.encode(position).decode())
        return (
            f"INSERT INTO {self._table}checkpoint (feed,grp,position,saved_at) VALUES ({self._mine},{json},NOW(6)) "
            f"ON DUPLICATE KEY UPDATE position={json},saved_at=NOW(6)"
        ).encode()

    def halt(self, effect: Halt) -> bytes:
        told = msgspec.json.encode({"alarm": effect.alarm, "ddl": effect.ddl}).decode()
        return (
            f"UPDATE {self._table}owner SET halt={text(told)} WHERE {self._of} AND epoch={self._owner.epoch}"
        ).encode()

    def clear_halt(self) -> bytes:
        return f"UPDATE {self._table}owner SET halt=NULL WHERE {self._of} AND epoch={self._owner.epoch}".encode()

    async def read_checkpoint(self, session: Session) -> Position | None:
        rows = (await session.ask(f"SELECT position FROM {self._table}checkpoint WHERE {self._of}")).rows
        return msgspec.json.decode(rows[0][0], type=Position) if rows else None

    async def read_receipts(self, session: Session) -> tuple[Receipt, ...]:
        rows = await session.ask(
            f"SELECT epoch,batch,covered FROM {self._table}progress WHERE {self._of} ORDER BY epoch,batch"
        )
        return tuple(Receipt(EffectId(epoch, batch), covered) for epoch, batch, covered in rows.rows)

    async def read_parked(self, session: Session, *, wished: bool = False) -> tuple[ParkedKey, ...]:
        """In log order of each source; only those with a wish if `wished`."""
        rows = await session.ask(
            f"SELECT source,number,ordinal,table_schema,table_name,change_data,wish FROM {self._table}parked "
            f"WHERE {self._of}{' AND wish<>' + text('') if wished else ''} ORDER BY source,number,ordinal"
        )
        return tuple(
            ParkedKey(source, number, ordinal, TableName(schema, table), change, wish)
            for source, number, ordinal, schema, table, change, wish in rows.rows
        )

    async def read_chunks(self, session: Session) -> tuple[Copied, ...]:
        rows = await session.ask(
            f"SELECT table_schema,table_name,chunk,split,rows_merged IS NOT NULL FROM {self._table}chunks "
            f"WHERE {self._of} ORDER BY table_schema,table_name,chunk"
        )
        splits: list[tuple[ChunkSplit, list[int]]] = []
        for _, _, chunk, split, merged in rows.rows:
            if chunk == 0:
                splits.append((msgspec.msgpack.decode(split, type=ChunkSplit), []))
            if merged:
                splits[-1][1].append(chunk)
        return tuple(Copied(split, tuple(merged)) for split, merged in splits)

    async def read_wanted(self, session: Session) -> tuple[Wanted, ...]:
        """In the order it was asked for."""
        rows = await session.ask(
            f"SELECT ordinal,table_schema,table_name,mode,row_key FROM {self._table}wanted "
            f"WHERE {self._of} AND mode<>'refused' ORDER BY ordinal"
        )
        return tuple(
            Wanted(ordinal, TableName(schema, table), mode, None if key is None else _ROW.decode(key))
            for ordinal, schema, table, mode, key in rows.rows
        )

    async def read_desired_state(self, session: Session) -> str:
        rows = (await session.ask(f"SELECT desired_state FROM {self._table}owner WHERE {self._of}")).rows
        return str(rows[0][0]) if rows else "running"

    async def read_ddl_passed(self, session: Session) -> tuple[str, int] | None:
        rows = (await session.ask(f"SELECT ddl_passed FROM {self._table}owner WHERE {self._of}")).rows
        if not rows or not rows[0][0]:
            return None
        source, _, number = rows[0][0].rpartition(":")
        return source, int(number)


def _named(table: TableName) -> str:
    return f"table_schema={text(table.schema)} AND table_name={text(table.table)}"
