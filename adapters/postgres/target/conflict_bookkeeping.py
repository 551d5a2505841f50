"""SQL of what is kept of decisions about changes, and of the verdicts that are told to spokes through the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import asyncpg
import msgspec

from tidelock.adapters.bookkeeping.tables import CONFLICTS
from tidelock.adapters.postgres.target.literals import text
from tidelock.adapters.postgres.target.statements import identifier
from tidelock.adapters.target.conflict_records import Kept, LostRow, ToldRow, grouped
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.origin import Origin, spelled
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import ParkedRow

VERDICT: Final = "tidelock.verdict"
"""Prefix of a verdict's message; its content is JSON of the columns of `tidelock_verdicts`, bytes in base64."""


class ConflictSql:
    """Statements for one feed and table group."""

    def __init__(self, schema: str, feed: str, group: int, sites: Sites | None) -> None:
        self._conflicts, self._parked = (f"{identifier(schema)}.{name}" for name in (CONFLICTS, "tidelock_parked"))
        self._feed, self._group, self._sites = feed, group, sites

    def record(self, kept: Sequence[Kept], origin: Origin | None) -> Iterator[str]:
        """Keep what lost.  A change that is decided again is kept once."""
        columns = (
            "feed, grp, source, number, ordinal, entry, table_schema, table_name, row_key, type, outcome, incoming, "
            "lost, stands, path"
        )
        came_by = origin or (self._sites.local if self._sites is not None else None)
        path = spelled(came_by.path) if came_by is not None else ""
        for some in grouped(self._kept(one, row, path) for one in kept for row in one.rows):
            yield f"INSERT INTO {self._conflicts} ({columns}) VALUES {', '.join(some)} ON CONFLICT DO NOTHING"

    def _kept(self, one: Kept, row: LostRow, path: str) -> str:
        place, shown = one.place, one.place.key.replace("\0", "␀").encode(errors="replace").decode()
        values = (
            text(self._feed), self._group, text(place.source), place.number, place.ordinal, row.entry,
            text(place.schema), text(place.table), text(shown), text(row.type),
            text(row.outcome), row.incoming, _bytes(row.lost), _bytes(one.stands), text(path),
        )  # fmt: skip
        return f"({', '.join(map(str, values))})"

    def tell(self, id: EffectId, rows: Sequence[ToldRow]) -> Iterator[str]:
        """Tell rows to the spoke."""
        for row in rows:
            told: dict[str, Any] = {
                "feed": self._feed, "grp": self._group, "epoch": id.epoch, "batch": id.counter, "ordinal": row.ordinal,
                "table_schema": row.table.schema, "table_name": row.table.table, "row_key": row.key, "image": row.image,
            }  # fmt: skip
            yield f"SELECT pg_logical_emit_message(true, '{VERDICT}', {text(msgspec.json.encode(told).decode())})"

    async def decided_before(self, connection: asyncpg.Connection[asyncpg.Record], place: ParkedRow) -> Decided:
        """Read what was decided about the change of a batch that is committed."""
        mine = f"feed = {text(self._feed)} AND grp = {self._group}"
        change = f"source = {text(place.source)} AND number = {place.number} AND ordinal = {place.ordinal}"
        parked = await connection.fetchval(f"SELECT count(*) FROM {self._parked} WHERE {mine} AND {change}")
        found = await connection.fetch(
            f"SELECT DISTINCT type, outcome FROM {self._conflicts} WHERE {mine} AND {change}"
        )
        return Decided(bool(parked), tuple((row["type"], row["outcome"]) for row in found))


def _bytes(value: bytes | None) -> str:
    return "NULL" if value is None else f"'\\x{value.hex()}'"
