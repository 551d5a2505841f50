"""Rows that a transaction at an arbiter tells to the spoke, and what it keeps of a decision, at any database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from tidelock.adapters.target.conflict_records import LostRow, lost_rows
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.steps import DecideChange, ParkedRow
from tidelock.engine.two_way.deciding import keys_of
from tidelock.engine.two_way.decisions import Decision


class Tellable(Protocol):
    """The SQL of a table whose rows are told.  `told`: the columns that it tells."""

    @property
    def told(self) -> Sequence[str]: ...
    @property
    def name(self) -> TableName: ...


Statements = TypeVar("Statements", bound=Tellable)
Sql = TypeVar("Sql")
Sql_co = TypeVar("Sql_co", covariant=True)


class Books(Protocol[Sql_co]):
    """The bookkeeping of conflicts, as SQL."""

    def record(
        self, place: ParkedRow, rows: Sequence[LostRow], stands: bytes | None, origin: Origin | None
    ) -> Iterator[Sql_co]:
        """Keep what lost."""
        ...


class TableChanged(Exception):
    """Error of a table that has got columns which this owner of the feed does not know, so it cannot tell its rows."""

    def __init__(self, table: TableName, columns: Iterable[str]) -> None:
        super().__init__(f"{table} has got the columns {', '.join(sorted(columns))}: the feed reads its tables anew")

    @property
    def failure(self) -> Failure:
        """Returns it in the engine's words."""
        return Failure(ErrorKind.CHANGED, str(self))


class RowsTold(ABC, Generic[Statements, Sql]):
    """One transaction that decides or tells.  `statements`: what is still to be sent before its COMMIT."""

    unwritable: ClassVar[type[Exception]]
    """Error of a key that cannot be at the target."""

    def __init__(self, books: Books[Sql], effect: ApplyBatch) -> None:
        self.statements: list[Sql] = []
        self._books = books
        self._effect = effect
        self._told: dict[tuple[Statements, Row], None] = {}

    @abstractmethod
    async def _image(self, statements: Statements, key: Row) -> bytes | None:
        """Lock and read the row with this key; returns it packed, None where there is none."""

    @abstractmethod
    async def _tell(self, statements: Statements, key: Row, ordinal: int) -> None:
        """Tell the row with this key as it stands."""

    @abstractmethod
    async def _columns(self, statements: Statements) -> Sequence[str]:
        """Return the names of the columns that the table has now.  Its rows are locked, so they stay."""

    async def conclude(self, statements: Statements, change: DecideChange, decision: Decision) -> None:
        """Keep what lost, and let the rows of the change be told unless it stands as it came."""
        keys, stands = keys_of(change.table, change.before, change.after), None
        for key in keys:
            try:
                stands = await self._image(statements, key)
            except self.unwritable:  # such a key cannot be here
                if not decision.verdict:
                    raise
                stands = None
        if decision.verdict:
            self.tell(statements, keys)
        rows = lost_rows(change, decision)
        self.statements += self._books.record(change.parked, rows, stands, self._effect.origin)

    def tell(self, statements: Statements, keys: Sequence[Row]) -> None:
        """Let the rows with these keys be told."""
        self._told.update(dict.fromkeys((statements, key) for key in keys))

    async def tell_all(self) -> None:
        """Tell rows as they stand: nothing is decided any more.  Of a key that cannot be here nothing is told.  Raises
        TableChanged: whoever reads the log asks for each column that the table has at that place."""
        for ordinal, (statements, key) in enumerate(self._told):
            await self._tell(statements, key, ordinal)
        for statements in dict.fromkeys(statements for statements, _ in self._told):
            if new := set(await self._columns(statements)).difference(statements.told):
                raise TableChanged(statements.name, new)
