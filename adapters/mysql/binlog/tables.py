"""The tables of a log stream: which are wanted, their numbers, and the functions that read their rows.

The key is the raw TABLE_MAP payload: an unchanged one costs one dict look-up, and a changed one (DDL) is a new table
with a new number and newly compiled functions.  Rows of tables that nobody wants are counted, not decoded.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Final

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, VERDICTS
from tidelock.adapters.mysql.binlog import table_map
from tidelock.adapters.mysql.binlog.codecs import UnknownType, codec
from tidelock.adapters.mysql.binlog.known_columns import Named
from tidelock.adapters.mysql.binlog.partial_json import PartialRows
from tidelock.adapters.mysql.binlog.row_compiler import Add, RowReaders, Skip, compile_rows, compile_skip
from tidelock.adapters.mysql.binlog.row_layout import Columns, layout
from tidelock.adapters.mysql.binlog.table_map import TableMap, lenenc
from tidelock.adapters.mysql.errors import DamagedLog
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Kind, Shape, TableName

_MOST_UNWANTED: Final = 10_000


class Role(enum.Enum):
    """MARKER: `tidelock_progress`, whose inserted rows tell that a transaction was replicated (design 6).  CHECKPOINT:
    `tidelock_checkpoint`, which tells how far a feed to the source has come.  VERDICT: `tidelock_verdicts`, whose
    inserted rows tell a spoke which row stands."""

    WANTED = enum.auto()
    MARKER = enum.auto()
    CHECKPOINT = enum.auto()
    VERDICT = enum.auto()
    UNWANTED = enum.auto()


_MARKS: Final = {CHECKPOINTS: Role.CHECKPOINT, VERDICTS: Role.VERDICT}


class LoggedTable:
    """One TABLE_MAP payload.  `one`, `two`: how the rows event of full images begins (column count, bitmaps).

    `images`: rows are to be row images; `columns`: their columns, None where they are tuples nevertheless.
    `unnamed`: the payload, where it does not name the columns, as long as the names of here hold.
    """

    __slots__ = (
        "_kinds", "_lenient", "_map", "_partial", "_skips", "columns", "name", "number", "one", "readers", "role",
        "two", "unnamed",
    )  # fmt: skip

    def __init__(
        self, mapped: TableMap, role: Role, number: int, kinds: Mapping[str, Kind], images: bool = False
    ) -> None:
        self.name = mapped.name
        self.role = role
        self.number = number
        self._map = mapped
        self._kinds = kinds
        self.columns: Columns | None = None
        self.unnamed: bytes | None = None
        self._lenient: RowReaders | None = None
        found = layout(number, self._columns()) if images and role is Role.WANTED else None
        if found is not None:
            self.columns = self._columns()
            self.readers: RowReaders = (found.inserts, found.updates, found.deletes)
            self._lenient = self.readers
        else:
            self.readers = (_no_rows,) * 3 if role is Role.UNWANTED else self._compile(lenient=False)
        self._skips: dict[bytes, Skip] = {}
        self._partial: PartialRows | None = None
        count = len(mapped.columns)
        width = (count + 7) // 8
        header = bytes([count]) if count < 251 else b"\xfc" + count.to_bytes(2, "little")
        full = ((1 << count) - 1).to_bytes(width, "little")
        self.one = header + full
        self.two = header + full + full

    @property
    def lenient_readers(self) -> RowReaders:
        """Readers for rows with undecodable text, which stays bytes."""
        if self._lenient is None:
            self._lenient = self._compile(lenient=True)
        return self._lenient

    def _compile(self, lenient: bool) -> RowReaders:
        try:
            codecs = [codec(wire, kind, lenient) for wire, kind in self._columns()]
        except UnknownType as error:
            raise self._unknown(error) from error
        return compile_rows(codecs, self.number)

    def _columns(self) -> Columns:
        names = self._map.names or ("",) * len(self._map.columns)
        return tuple((wire, self._kinds.get(name)) for wire, name in zip(self._map.columns, names, strict=True))

    def _unknown(self, error: UnknownType) -> DamagedLog:
        return DamagedLog(
            f"{self.name} has a column of {error}",
            "Leave that table out of the feed (`tables`), then `tidelock run FEED`; and report this: the reader does "
            "not know that type",
        )

    def shape(self) -> Shape:
        """The columns, as the log and the catalogue describe them."""
        return self._map.shape(self._kinds)

    def check_images(self, b: bytes, p: int, images: int) -> int:
        """Find where the rows begin, for bitmaps that differ from `one` and `two`: some servers set the unused bits.

        Raises UnsuitableLog if a column of a wanted table is left out, and DamagedLog if the counts differ.
        """
        count, p = lenenc(b, p)
        self._check_count(count)
        width = (count + 7) // 8
        full = (1 << count) - 1
        for _ in range(images):
            if int.from_bytes(b[p : p + width], "little") & full != full:
                raise UnsuitableLog(
                    f"the log holds only some columns of rows of {self.name}",
                    f"SET GLOBAL binlog_row_image=FULL at the source, reconnect its writers; then {RESYNC}",
                )
            p += width
        return p

    def _check_count(self, count: int) -> None:
        if count != len(self._map.columns):
            raise DamagedLog(f"rows of {self.name} have {count} columns, its table map {len(self._map.columns)}")

    def skip(self, b: bytes, p: int, end: int, images: int, ordinal: int) -> int:
        """Counts rows, of partial images too: only the columns present are in them."""
        count, start = lenenc(b, p)
        self._check_count(count)
        width = (count + 7) // 8
        present = b[start : min(start + images * width, end)]
        if len(present) < images * width:
            raise ValueError("rows end within their columns' bitmap")
        skip = self._skips.get(present)
        if skip is None:
            skip = self._skips[present] = self._compile_skip(present, width)
        return skip(b, start + len(present), end, ordinal)

    def partial_rows(self, b: bytes, p: int, end: int, ordinal: int, add: Add, *, lenient: bool) -> int:
        """Read updates whose rows have parts of JSON documents; their images begin at `p`, and are full."""
        return self._partial_reader().read(b, p, end, ordinal, add, lenient=lenient)

    def skip_partial(self, b: bytes, p: int, end: int, ordinal: int) -> int:
        """Count such rows, as `skip` does."""
        count, p = lenenc(b, p)
        self._check_count(count)
        width = (count + 7) // 8
        before, after = (int.from_bytes(b[at : at + width], "little") for at in (p, p + width))
        return ordinal + self._partial_reader().count(b, p + 2 * width, end, (before, after))

    def _partial_reader(self) -> PartialRows:
        if self._partial is None:
            try:
                self._partial = PartialRows(self._columns(), self.number)
            except UnknownType as error:
                raise self._unknown(error) from error
        return self._partial

    def _compile_skip(self, present: bytes, width: int) -> Skip:
        images = []
        try:
            for start in range(0, len(present), width):
                bits = int.from_bytes(present[start : start + width], "little")
                images.append(
                    [codec(wire, None, True) for index, wire in enumerate(self._map.columns) if bits >> index & 1]
                )
        except UnknownType as error:
            raise self._unknown(error) from error
        if not any(images):
            raise ValueError("rows without columns")
        return compile_skip(*images)


def _no_rows(b: bytes, p: int, end: int, n: int, add: Add) -> int:
    raise AssertionError("rows of an unwanted table are counted, not read")


class Tables:
    """`is_marker(table)`: feeds that write to the source keep their receipts or checkpoints there.
    `kinds(table)`: columns that are more than the log says (MariaDB's uuid, inet4, inet6); may ask the server.

    `images`: rows are row images where a table's columns and this installation can have them.
    `by_mariadb`: which server wrote the log file, as its first event says.
    `names(map, own)`: the columns of a map that does not name them; `own`: of one of our own tables.  None: such a log
    is not read.  What it says holds for the number that the log has for the table, until `forget_names`.
    """

    def __init__(
        self,
        wanted: Callable[[TableName], bool],
        is_marker: Callable[[TableName], bool],
        kinds: Callable[[TableName], Mapping[str, Kind]],
        images: bool = False,
        names: Callable[[TableMap, bool], Named] | None = None,
    ) -> None:
        self.by_mariadb = False
        self.are_named = True  # by the log, as the server has it now
        self._names = names
        self._altering = False
        self._images = images
        self._wanted = wanted
        self._is_marker = is_marker
        self._kinds = kinds
        self._tables: dict[bytes, LoggedTable] = {}
        self._numbered: dict[bytes, LoggedTable] = {}
        self._made: dict[tuple[bytes, Named], LoggedTable] = {}  # of maps without names
        self._unnamed: dict[tuple[int, bytes], LoggedTable] = {}  # those of which the names hold
        self._unannounced: dict[int, Shape] = {}
        self.columns: dict[int, Columns] = {}  # of all tables whose rows are images, by number

    def get(self, payload: bytes, id_: int = 0) -> LoggedTable:
        """Return the table of a TABLE_MAP payload, made anew where it was not seen before.  `id_`: the log's number of
        it.  Raises SourceError."""
        table = self._tables.get(payload) or self._unnamed.get((id_, payload))
        return table if table is not None else self._new(payload, id_)

    def forget_names(self, tables: Collection[TableName] = ()) -> None:
        """Forgets the columns of maps that do not name them: these tables, or all, may be others from here on."""
        for key, table in [*self._unnamed.items()]:
            if not tables or table.name in tables:
                table.unnamed = None
                del self._unnamed[key]

    def altered_in_parts(self) -> None:
        """Notes that the log tells an ALTER TABLE where it begins: rows of the table of before follow.  Raises
        UnsuitableLog where columns have no names, which nobody could tell then."""
        self._altering = True
        if self._names is not None and not self.are_named:
            raise _in_parts()

    def wanted(self, name: TableName) -> bool:
        """Tell whether rows of the table are wanted."""
        return self._wanted(name)

    def announce(self) -> dict[int, Shape]:
        """The shapes numbered since the last call."""
        shapes, self._unannounced = self._unannounced, {}
        return shapes

    def _new(self, payload: bytes, id_: int) -> LoggedTable:
        role = self._role(table_map.parse_name(payload, 0)[0])
        mapped = table_map.parse(payload, described=role is not Role.UNWANTED, by_mariadb=self.by_mariadb)
        if role is Role.UNWANTED:
            if len(self._tables) - len(self._numbered) >= _MOST_UNWANTED:
                self._tables = dict(self._numbered)
            table = LoggedTable(mapped, role, -1, {})
        elif self._names is not None and not mapped.names:
            if self._altering:
                raise _in_parts()
            return self._named(payload, id_, self._names(mapped, role is not Role.WANTED), role)
        else:
            kinds = self._kinds(mapped.name) if mapped.fixed_binaries() else {}
            table = self._numbered[payload] = self._announced(mapped, role, kinds)
        self._tables[payload] = table
        return table

    def _named(self, payload: bytes, id_: int, named: Named, role: Role) -> LoggedTable:
        table = self._made.get((payload, named))
        if table is None:
            table = self._made[payload, named] = self._announced(named.mapped, role, dict(named.kinds))
        table.unnamed = payload
        self._unnamed[id_, payload] = table
        return table

    def _announced(self, mapped: TableMap, role: Role, kinds: Mapping[str, Kind]) -> LoggedTable:
        table = LoggedTable(mapped, role, len(self._numbered) + len(self._made), kinds, self._images)
        self._unannounced[table.number] = table.shape()
        if table.columns is not None:
            self.columns[table.number] = table.columns
        return table

    def _role(self, name: TableName) -> Role:
        if self._is_marker(name):
            return _MARKS.get(name.table, Role.MARKER)
        return Role.WANTED if self._wanted(name) else Role.UNWANTED


def _in_parts() -> UnsuitableLog:
    return UnsuitableLog(
        "the log does not name columns, and tells an ALTER TABLE where it begins, before rows that do not have it",
        f"SET GLOBAL binlog_alter_two_phase=OFF and SET GLOBAL binlog_row_metadata=FULL at the source; then {RESYNC}",
    )
