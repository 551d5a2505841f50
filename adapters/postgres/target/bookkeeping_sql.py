"""SQL of the bookkeeping tables (`adapters.bookkeeping.tables`) for one feed and table group.

Every transaction that writes begins with a statement that takes the owner's row FOR SHARE *by its epoch* and goes on
with a check that this found it (design 6).  A zombie waits there for the takeover's commit, then finds another epoch.
The check is a statement that fails, because several statements travel together and only errors stop them.

Batches may commit without waiting for the disk (`synchronous_commit=off`).  What is *not* repeated after a crash of
the server must wait: a lost takeover would give the next owner the same epoch, and a lost checkpoint would have been
followed by Kafka offsets and replication slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from tidelock.adapters.bookkeeping.tables import SHADOWS
from tidelock.adapters.ddl import kept_shadows
from tidelock.adapters.ddl.kept_shadows import Shadows, ShadowsSql
from tidelock.adapters.ports.sink import Control
from tidelock.adapters.postgres.log_marks import PREFIX, checkpoint, receipt_row
from tidelock.adapters.postgres.target.copy_bookkeeping_sql import CopyBookkeepingSql
from tidelock.adapters.postgres.target.literals import numbers, text
from tidelock.adapters.postgres.target.row_writers import WritersSql
from tidelock.adapters.postgres.target.statements import identifier
from tidelock.adapters.target import displaced
from tidelock.adapters.target.displaced import Displaced
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.origin import Origin, spelled
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ParkedKey, Receipt
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.engine.two_way.decisions import DISPLACED

DURABLE = "SET LOCAL synchronous_commit = on"
_FENCED = "tidelock: not the owner"
_OUTVOTED = "tidelock: not all votes hold"


class BookkeepingSql:
    """Statements, or the query that their name says.  `copies`: those of copied tables.  `shadows`: of shadow tables.

    A feed that names `sites` writes its marks into the log too (`adapters.postgres.log_marks`), where a feed from here
    finds them.  `writers`: notes the receipts that are dropped.
    """

    def __init__(self, options: SinkOptions, writers: WritersSql | None = None) -> None:
        schema, feed, group = options.schema, options.feed, int(options.group)
        self.schema, self.feed, self.group = schema, feed, group
        self.copies = CopyBookkeepingSql(schema, feed, group)
        place = identifier(schema)
        self.shadows = ShadowsSql(f"{place}.{SHADOWS}", feed, text)
        self.owner, self.progress, self.checkpoint, self.parked = (
            f"{place}.tidelock_{name}" for name in ("owner", "progress", "checkpoint", "parked")
        )
        self.conflicts = f"{place}.tidelock_conflicts"
        self._ours = f"feed = {text(feed)}"
        self.mine = f"{self._ours} AND grp = {group}"
        self._values = f"{text(feed)}, {group}"
        self._marks = f"{text(options.origin)}, {text(options.path)}"
        self._sites, self._writers = options.sites, writers

    def prepare(self) -> list[str]:
        """Prepare a session for `receipt`, once: planning these two statements costs more than running them."""
        owner = f"FROM {self.owner} WHERE {self.mine} AND epoch = $1 FOR SHARE"
        insert = f"INSERT INTO {self.progress} (feed, grp, epoch, batch, covered, origin, path"
        receipt = f"{insert}) SELECT feed, grp, epoch, $2, $3, {self._marks} {owner}"
        parameters = "bigint, bigint, bytea"
        if self._sites is not None:
            inserted = f"{insert}, marks, seen) SELECT feed, grp, epoch, $2, $3, $4, $5, $6, $7 {owner} RETURNING batch"
            receipt = f"WITH r AS ({inserted}) SELECT {_emit('$8')} FROM r"
            parameters += ", text" * 5
        check = _check(f"{self.progress} WHERE {self.mine} AND epoch = $1 AND batch = $2")
        return [
            f"PREPARE tidelock_receipt({parameters}) AS {receipt}",
            f"PREPARE tidelock_check(bigint, bigint) AS {check}",
        ]

    def receipt(
        self, batch: EffectId, covered: bytes, origin: Origin | None = None, seen: Position | None = None
    ) -> list[str]:
        """Insert the receipt, which is fence, fencing token and sync marker: the first statements after BEGIN.

        `origin`, `seen`: as `ApplyBatch` has them.

        A batch that waits for a takeover finds the new epoch, and inserts nothing.  That it has a transaction number
        proves nothing then (the row was locked before its epoch was compared), so the receipt itself is looked for.
        """
        marks = "".join(f", {text(told)}" for told in self._told(batch, origin, seen))
        return [
            f"EXECUTE tidelock_receipt({batch.epoch}, {batch.counter}, '\\x{covered.hex()}'{marks})",
            f"EXECUTE tidelock_check({batch.epoch}, {batch.counter})",
        ]

    def _told(self, batch: EffectId, origin: Origin | None, seen: Position | None) -> tuple[str, ...]:
        if self._sites is None:
            return ()
        return receipt_row(self.feed, self.group, batch, origin or self._sites.local, seen)

    def marks(self, batch: EffectId) -> list[str]:
        """Mark what follows in the transaction as a feed's, where sites have names."""
        told = self._told(batch, None, None)
        return [f"SELECT {_emit(text(told[-1]))}"] if told else []

    def complete(self, batch: EffectId, covered: bytes) -> str:
        """Store what the receipt covers, all told; in the transaction that inserted it."""
        return (
            f"UPDATE {self.progress} SET covered = '\\x{covered.hex()}' "
            f"WHERE {self.mine} AND epoch = {batch.epoch} AND batch = {batch.counter}"
        )

    def fence(self, epoch: int) -> list[str]:
        """Keep any newer owner waiting in a transaction without a receipt."""
        row = f"{self.owner} WHERE {self.mine} AND epoch = {epoch}"
        return [f"SELECT epoch FROM {row} FOR SHARE", _check(row)]

    def park(self, rows: Iterable[ParkedRow]) -> list[str]:
        """Park rows.  One that is parked already (its retry failed) gets the new error and has no wish any more."""
        columns = "feed, grp, source, number, ordinal, table_schema, table_name, row_key, error, change_data"
        insert = f"INSERT INTO {self.parked} ({columns}) VALUES ({self._values}, "
        return [
            f"{insert}{text(row.source)}, {row.number}, {row.ordinal}, {text(row.schema)}, {text(row.table)}, "
            f"{_shown(row.key)}, {_shown(row.error)}, '\\x{row.change.hex()}') "
            "ON CONFLICT (feed, grp, source, number, ordinal) DO UPDATE SET error = excluded.error, wish = ''"
            for row in rows
        ]

    def record_displaced(self, rows: Iterable[Displaced], origin: Origin | None) -> list[str]:
        """Record rows that made room for others; `origin`: of the changes that they made room for."""
        assert self._sites is not None, "conflicts are decided between sites"
        path = spelled((origin or self._sites.local).path)
        columns = f"feed, grp, {displaced.COLUMNS}, entry"
        return [
            f"INSERT INTO {self.conflicts} ({columns}) SELECT {self._values}, {change}, {text(row.table.schema)}, "
            f"{text(row.table.table)}, {_shown(row.key)}, '{row.conflict.value}', '{DISPLACED}', 0, "
            f"'\\x{row.lost.hex()}'::bytea, {_bytes(row.stands)}, {text(path)}, "
            f"coalesce(max(entry) + 1, 0) FROM {self.conflicts} "
            f"WHERE {self.mine} AND (source, number, ordinal) = ({change})"
            for row in rows
            for change in [f"{text(row.of[0])}, {row.of[1]}, {row.of[2]}"]
        ]

    def unpark(self, rows: Iterable[tuple[str, int, int]]) -> list[str]:
        """Delete what is parked under these places in the log (source, number, ordinal)."""
        return [
            f"DELETE FROM {self.parked} WHERE {self.mine} AND source = {text(source)} AND number = {number} "
            f"AND ordinal = {ordinal}"
            for source, number, ordinal in rows
        ]

    def empty(self, table: TableName, everywhere: bool = False) -> str:
        """Delete what is parked for the table, which goes with its rows; `everywhere`: in all groups of the feed."""
        name = f"table_schema = {text(table.schema)} AND table_name = {text(table.table)}"
        return f"DELETE FROM {self.parked} WHERE {self._ours if everywhere else self.mine} AND {name}"

    async def has_parked(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        tables: Sequence[TableName],
        *,
        everywhere: bool = False,
    ) -> bool:
        """Tell whether anything is parked for one of the tables; `everywhere`: in any group of the feed."""
        names = ", ".join(f"({text(name.schema)}, {text(name.table)})" for name in tables)
        rows = f"{self.parked} WHERE {self._ours if everywhere else self.mine} AND (table_schema, table_name)"
        return bool(await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {rows} IN ({names}))"))

    def fence_votes(self, votes: Mapping[int, int]) -> list[str]:
        """Keep each group at the epoch of its vote until the transaction ends."""
        pairs = ", ".join(f"({int(group)}, {int(epoch)})" for group, epoch in sorted(votes.items()))
        row = f"{self.owner} WHERE {self._ours} AND (grp, epoch) IN ({pairs})"
        return [f"SELECT grp FROM {row} ORDER BY grp FOR SHARE", _check(row, len(votes), _OUTVOTED)] if votes else []

    def settle(self, epoch: int) -> list[str]:
        """Change nothing: but a commit that has written something waits for the disk, and for all before it."""
        row = f"{self.owner} WHERE {self.mine} AND epoch = {epoch}"
        return [f"UPDATE {self.owner} SET epoch = epoch WHERE {self.mine} AND epoch = {epoch}", _check(row), DURABLE]

    def save_checkpoint(self, epoch: int, position: str, drop: Iterable[EffectId]) -> list[str]:
        """Store the checkpoint and delete receipts below it; waits for the disk."""
        dropped = tuple(drop)
        epochs, batches = numbers(i.epoch for i in dropped), numbers(i.counter for i in dropped)
        row = f"{self.owner} WHERE {self.mine} AND epoch = {epoch}"
        site, marks = "NULL", []
        if self._sites is not None:
            site = text(self._sites.source)
            told = checkpoint(self.feed, self.group, position, self._sites.source)
            marks.append(f"SELECT {_emit(text(told))}")
        upsert = (
            f"INSERT INTO {self.checkpoint} (feed, grp, position, saved_at, site) "
            f"SELECT feed, grp, {text(position)}, now(), {site} FROM {row} FOR SHARE ON CONFLICT (feed, grp) "
            "DO UPDATE SET position = excluded.position, saved_at = excluded.saved_at, site = excluded.site"
        )
        delete = (
            f"DELETE FROM {self.progress} AS p USING unnest({epochs}::bigint[], {batches}::bigint[]) AS d(e, b) "
            f"WHERE {self.mine} AND p.epoch = d.e AND p.batch = d.b"
        )
        forget = [delete] if self._writers is None else self._writers.keep(delete)
        return [upsert, _check(row), DURABLE, *marks, *forget]

    def make_owner(self) -> str:
        """Make the owner's row where there is none."""
        return f"INSERT INTO {self.owner} (feed, grp, epoch) VALUES ({self._values}, 0) ON CONFLICT DO NOTHING"

    def raise_epoch(self) -> str:
        """Raise the epoch and take a stored halt away; returns the epoch."""
        return f"UPDATE {self.owner} SET epoch = epoch + 1, halt = NULL WHERE {self.mine} RETURNING epoch"

    def halt(self, epoch: int, halt: str) -> list[str]:
        """Keep the alarm and statement that halted the feed, as JSON."""
        row = f"{self.owner} WHERE {self.mine} AND epoch = {epoch}"
        return [f"UPDATE {self.owner} SET halt = {text(halt)} WHERE {self.mine} AND epoch = {epoch}", _check(row)]

    def pass_ddl(self, id: EffectId, ddl: Ddl, statements: Iterable[str]) -> list[str]:
        """Run `statements`, marked as a batch's rows are, and note that they ran."""
        epoch = id.epoch
        row = f"{self.owner} WHERE {self.mine} AND epoch = {epoch}"
        passed = text(f"{ddl.source}:{ddl.number}")
        return [
            f"UPDATE {self.owner} SET ddl_passed = {passed} WHERE {self.mine} AND epoch = {epoch}",
            _check(row),
            DURABLE,
            *self.marks(id),
            *statements,
        ]

    def start(self, position: str) -> str:
        """Store the first checkpoint."""
        return f"INSERT INTO {self.checkpoint} (feed, grp, position) VALUES ({self._values}, {text(position)})"

    def missing(self, epoch: int, batches: Iterable[int]) -> str:
        """Query one row: `missing`, those of the batches that have no receipt, with commas between (of an array that is
        not of text asyncpg would ask the server for its type first), the owner's `epoch`, and the stored `position`."""
        receipt = f"SELECT FROM {self.progress} WHERE {self.mine} AND epoch = {epoch} AND batch = wanted"
        return (
            f"SELECT array_to_string(ARRAY(SELECT wanted FROM unnest({numbers(batches)}::bigint[]) AS wanted "
            f"WHERE NOT EXISTS ({receipt})), ',') AS missing, "
            f"(SELECT epoch FROM {self.owner} WHERE {self.mine}) AS epoch, "
            f"(SELECT position FROM {self.checkpoint} WHERE {self.mine}) AS position"
        )

    async def read_checkpoint(self, connection: asyncpg.Connection[asyncpg.Record]) -> str | None:
        """Read the checkpoint, as JSON; None before the first is stored."""
        found: str | None = await connection.fetchval(f"SELECT position FROM {self.checkpoint} WHERE {self.mine}")
        return found

    async def read_receipts(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[Receipt, ...]:
        """Read the receipts of batches above the checkpoint."""
        rows = await connection.fetch(
            f"SELECT epoch, batch, covered FROM {self.progress} WHERE {self.mine} ORDER BY epoch, batch"
        )
        return tuple(Receipt(EffectId(r["epoch"], r["batch"]), r["covered"]) for r in rows)

    async def read_parked(
        self, connection: asyncpg.Connection[asyncpg.Record], wished: bool = False
    ) -> tuple[ParkedKey, ...]:
        """Read what is parked, in log order of each source; only rows with a wish if `wished`."""
        rows = await connection.fetch(
            f"SELECT source, number, ordinal, table_schema, table_name, change_data, wish FROM {self.parked} "
            f"WHERE {self.mine}{' AND wish <> $$$$' if wished else ''} ORDER BY source, number, ordinal"
        )
        return tuple(
            ParkedKey(
                r["source"], r["number"], r["ordinal"], TableName(r["table_schema"], r["table_name"]),
                r["change_data"], r["wish"],
            )
            for r in rows
        )  # fmt: skip

    async def read_control(self, connection: asyncpg.Connection[asyncpg.Record]) -> Control:
        """Read what operators asked for."""
        state = await connection.fetchval(f"SELECT desired_state FROM {self.owner} WHERE {self.mine}")
        parked = await self.read_parked(connection, wished=True)
        return Control(state or "running", parked, await self.copies.read_wanted(connection))

    async def read_shadows(self, connection: asyncpg.Connection[asyncpg.Record]) -> Shadows:
        """Read what is known of shadow tables."""
        return kept_shadows.read(map(tuple, await connection.fetch(self.shadows.select)))

    async def read_ddl_passed(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[str, int] | None:
        """Read source and number of the last DDL statement that ran or was passed by."""
        found = await connection.fetchval(f"SELECT ddl_passed FROM {self.owner} WHERE {self.mine}")
        source, colon, number = (found or "").rpartition(":")
        return (source, int(number)) if colon else None

    def is_receipt(self, error: BaseException) -> bool:
        """Tell whether the batch was committed before."""
        return (
            isinstance(error, asyncpg.UniqueViolationError)
            and error.schema_name == self.schema
            and error.table_name == "tidelock_progress"
        )


def is_fenced(error: BaseException) -> bool:
    """Tell whether a newer owner has the feed."""
    return _says(error, _FENCED)


def is_outvoted(error: BaseException) -> bool:
    """Tell whether a group has a newer owner than the one that voted."""
    return _says(error, _OUTVOTED)


def _check(row: str, wanted: int = 1, words: str = _FENCED) -> str:
    """The number is read from a text that is none, so the error carries our own words."""
    return f"SELECT CASE count(*) WHEN {wanted} THEN 1 ELSE CAST('{words}' || count(*) AS int) END FROM {row}"


def _emit(content: str) -> str:
    return f"pg_logical_emit_message(true, '{PREFIX}', {content})"


def _says(error: BaseException, words: str) -> bool:
    return isinstance(error, asyncpg.InvalidTextRepresentationError) and f'"{words}' in str(error)


def _bytes(value: bytes | None) -> str:
    return "NULL" if value is None else f"'\\x{value.hex()}'::bytea"


def _shown(words: str) -> str:
    """Words for people, whatever a row held."""
    return text(words.replace("\0", "␀").encode(errors="replace").decode())
