"""SQL of what is kept of decisions about changes, and of the verdicts that are told to spokes through the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.bookkeeping.tables import CONFLICTS, VERDICTS, quote
from tidelock.adapters.mysql.target.literals import blob, text
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.target.conflict_records import Kept, LostRow, ToldRow, grouped
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.origin import Origin, spelled
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import ParkedRow

_KEPT = (
    "feed,grp,source,number,ordinal,entry,table_schema,table_name,row_key,type,outcome,incoming,lost,stands,path"
)
_TOLD = "feed,grp,epoch,batch,ordinal,table_schema,table_name,row_key,image"


class ConflictSql:
    """Statements for one feed and table group."""

    def __init__(self, schema: str, feed: str, group: int, sites: Sites | None) -> None:
        self._place = quote("mysql", schema)
        self._values = f"{text(feed)},{group:d}"
        self._mine = f"feed={text(feed)} AND grp={group:d}"
        self._sites = sites

    def record(self, kept: Sequence[Kept], origin: Origin | None) -> Iterator[bytes]:
        """Keep what lost.  A change that is decided again is kept once."""
        came_by = origin or (self._sites.local if self._sites is not None else None)
        path = text(spelled(came_by.path) if came_by is not None else "")
        values = [self._kept(one, row, path) for one in kept for row in one.rows]
        for some in grouped(values):
            insert = f"INSERT INTO {self._place}.{CONFLICTS} ({_KEPT}) VALUES {','.join(some)}"
            yield f"{insert} ON DUPLICATE KEY UPDATE feed=feed".encode("utf-8", "replace")

    def _kept(self, one: Kept, row: LostRow, path: str) -> str:
        place = one.place
        values = (
            self._values,
            text(place.source),
            f"{place.number:d},{place.ordinal:d},{row.entry:d}",
            *map(text, (place.schema, place.table, place.key, row.type, row.outcome)),
            f"{row.incoming:d}",
            _blob(row.lost),
            _blob(one.stands),
            path,
        )
        return f"({','.join(values)})"

    def tell(self, id: EffectId, rows: Sequence[ToldRow]) -> Iterator[bytes]:
        """Tell rows to the spoke."""
        of = f"{self._values},{id.epoch:d},{id.counter:d}"
        values = [
            f"({of},{row.ordinal:d},{text(row.table.schema)},{text(row.table.table)},{blob(row.key)},"
            f"{_blob(row.image)})"
            for row in rows
        ]
        for some in grouped(values):
            yield f"INSERT INTO {self._place}.{VERDICTS} ({_TOLD}) VALUES {','.join(some)}".encode()

    async def decided_before(self, session: TargetSession, place: ParkedRow) -> Decided:
        """Read what was decided about the change of a batch that is committed."""
        at = f"number={place.number:d} AND ordinal={place.ordinal:d}"
        change = f"{self._mine} AND source={text(place.source)} AND {at}"
        async with session.transaction():
            parked = (await session.ask(f"SELECT 1 FROM {self._place}.tidelock_parked WHERE {change}")).rows
            found = await session.ask(f"SELECT DISTINCT type,outcome FROM {self._place}.{CONFLICTS} WHERE {change}")
        return Decided(bool(parked), tuple((type, outcome) for type, outcome in found.rows))


def _blob(value: bytes | None) -> str:
    return "NULL" if value is None else blob(value)
