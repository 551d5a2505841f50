"""Rows that a transaction at an arbiter tells to the spoke, and what it keeps of a decision, at any database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.conflict_records import LostRow, decided, lost_rows, packed
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange, ParkedRow, Step
from tidelock.engine.two_way.conflicts import Holder, Met, Writer
from tidelock.engine.two_way.deciding import judged, kept_out, keys_of
from tidelock.engine.two_way.deciding_together import Judged, independent, steps_together
from tidelock.engine.two_way.decisions import Decision

Sql = TypeVar("Sql")
Sql_co = TypeVar("Sql_co", covariant=True)


class ConflictQueries(Protocol[Sql_co]):
    """The SQL by which changes of a table are decided about.  `told`: the columns that it tells of a row.  `key_names`:
    those of its key."""

    @property
    def told(self) -> Sequence[str]: ...
    @property
    def key_names(self) -> Sequence[str]: ...
    @property
    def name(self) -> TableName: ...

    def met(self, before: Row | None, key: Row) -> Sql_co:
        """Query of the row with this key, behind whether it is as before."""
        ...

    def others(self, row: Row, key: Row) -> Iterator[tuple[tuple[int, ...], Sql_co]]:
        """Queries of the rows of other keys that hold a unique value of `row`, each with its columns."""
        ...

    def image(self, key: Row) -> Sql_co:
        """Query of the row with this key as the log of its database has it, which locks it."""
        ...

    def key_texts(self, key: Row) -> Sql_co:
        """Query of the key's values as that log has them, there or not."""
        ...


Statements = TypeVar("Statements", bound=ConflictQueries[Any])


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


def told_failure(error: NotSpelled | TableChanged) -> Failure:
    """Returns in the engine's words why rows cannot be told."""
    kind = ErrorKind.CHANGED if isinstance(error, TableChanged) else ErrorKind.ROW
    return Failure(kind, str(error))


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
    async def _ask(self, queries: Sequence[tuple[Statements, Sql]]) -> list[Sequence[Sequence[Any]]]:
        """Ask queries of one kind together; returns the rows of each."""

    @abstractmethod
    async def _found(self, statements: Statements, change: DecideChange, values: Sequence[Any]) -> tuple[Row, Writer]:
        """Return a row as the change's log spells it, and who wrote it.  Raises NotSpelled."""

    @abstractmethod
    async def _write(self, steps: Sequence[Step]) -> None:
        """Write what was decided."""

    @abstractmethod
    def _tell(self, statements: Statements, ordinal: int, row_key: bytes, image: bytes | None) -> Sql:
        """Statement that tells a row as it stands.  Raises what ends an attempt that cannot be certain of it."""

    @abstractmethod
    async def _columns(self, statements: Statements) -> Sequence[str]:
        """Return the names of the columns that the table has now.  Its rows are locked, so they stay."""

    async def decide_and_tell(self, statements_of: Callable[[Binding], Statements]) -> list[Decided]:
        """Decide about the batch's changes, write that, and tell its rows as they stand then."""
        found = await self.decide([(statements_of(change.table), change) for change in self._effect.decide])
        for rows in self._effect.told:
            self.tell(statements_of(rows.table), rows.keys)
        await self.tell_all()
        return found

    def parked(self, found: Sequence[Decided]) -> list[ParkedRow]:
        """Return the rows that the batch parks, those among them that were decided to be parked."""
        changes = zip(self._effect.decide, found, strict=True)
        return [*self._effect.parked, *(change.parked for change, answer in changes if answer.parked)]

    async def decide(self, changes: Sequence[tuple[Statements, DecideChange]]) -> list[Decided]:
        """Decide about changes that share no lock, and write that."""
        answers: list[Decided] = []
        left = list(changes)
        while left and left[0][1].refused:  # it is alone, as one that was tried before
            statements, change = left.pop(0)
            decision = kept_out(change)
            await self._conclude([(statements, change, decision)])
            answers.append(decided(decision))
        while left:
            mets = await self._look(left)
            found = [Judged(change, met, judged(change, met)) for (_, change), met in zip(left, mets, strict=True)]
            together = independent(found)
            await self._write(steps_together(together))
            await self._conclude([(left[n][0], one.change, one.decision) for n, one in enumerate(together)])
            answers += [decided(one.decision) for one in together]
            left = left[len(together) :]
        return answers

    async def _look(self, changes: Sequence[tuple[Statements, DecideChange]]) -> list[Met]:
        """Lock and read what changes meet."""
        met: list[tuple[Statements, Sql]] = []
        others: list[tuple[int, tuple[int, ...], Statements, Sql]] = []
        for n, (statements, change) in enumerate(changes):
            image = change.before if change.before is not None else change.after
            assert image is not None, "a change has an image"
            key = change.table.key_of(image)
            met.append((statements, statements.met(change.before, key)))
            held = statements.others(change.after, key) if change.after is not None else ()
            others += [(n, columns, statements, sql) for columns, sql in held]
        there = await self._ask(met)
        holders: list[list[Holder]] = [[] for _ in changes]
        holding = await self._ask([(statements, sql) for _, _, statements, sql in others])
        for (n, columns, statements, _), rows in zip(others, holding, strict=True):
            for values in rows:
                row, writer = await self._found(statements, changes[n][1], values)
                holders[n].append(Holder(columns, row, writer))
        found = []
        for (statements, change), rows, of_change in zip(changes, there, holders, strict=True):
            if not rows:
                found.append(Met(None, holders=tuple(of_change)))
                continue
            same, *values = rows[0]
            row, writer = await self._found(statements, change, values)
            found.append(Met(row, unseen=not same, holders=tuple(of_change), writer=writer))
        return found

    async def _conclude(self, of: Sequence[tuple[Statements, DecideChange, Decision]]) -> None:
        """Keep what lost, and let the rows of the changes be told unless they stand as they came."""
        queries: list[tuple[Statements, Sql]] = []
        last: list[int] = []  # by change, which query is of its last key; -1: such a key cannot be here
        for statements, change, decision in of:
            at = -1
            for key in keys_of(change.table, change.before, change.after):
                try:
                    queries.append((statements, statements.image(key)))
                    at = len(queries) - 1
                except self.unwritable:
                    if not decision.verdict:
                        raise
                    at = -1
            last.append(at)
        images = await self._ask(queries)
        for at, (statements, change, decision) in zip(last, of, strict=True):
            if decision.verdict:
                self.tell(statements, keys_of(change.table, change.before, change.after))
            stands = self._packed(statements, images[at]) if at >= 0 else None
            rows = lost_rows(change, decision)
            self.statements += self._books.record(change.parked, rows, stands, self._effect.origin)

    def _packed(self, statements: Statements, rows: Sequence[Sequence[Any]]) -> bytes | None:
        return packed(_named(statements.told, rows[0])) if rows else None

    def tell(self, statements: Statements, keys: Sequence[Row]) -> None:
        """Let the rows with these keys be told."""
        self._told.update(dict.fromkeys((statements, key) for key in keys))

    async def tell_all(self) -> None:
        """Tell rows as they stand: nothing is decided any more.  Of a key that cannot be here nothing is told.  Raises
        TableChanged: whoever reads the log asks for each column that the table has at that place."""
        images: list[tuple[Statements, Sql]] = []
        texts: list[tuple[Statements, Sql]] = []
        ordinals: list[int] = []
        for ordinal, (statements, key) in enumerate(self._told):
            try:
                image, text = statements.image(key), statements.key_texts(key)
            except self.unwritable:
                continue
            images.append((statements, image))
            texts.append((statements, text))
            ordinals.append(ordinal)
        rows, keys = await self._ask(images), await self._ask(texts)
        for (statements, _), ordinal, row, key_row in zip(images, ordinals, rows, keys, strict=True):
            row_key = packed(_named(statements.key_names, key_row[0]))
            assert row_key is not None, "a table of such a feed has a key"
            self.statements.append(self._tell(statements, ordinal, row_key, self._packed(statements, row)))
        for statements in dict.fromkeys(statements for statements, _ in self._told):
            if new := set(await self._columns(statements)).difference(statements.told):
                raise TableChanged(statements.name, new)


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, str | bytes | None]:
    """Returns values by column; a floating-point number as its text."""
    return {n: repr(v) if isinstance(v, float) else v for n, v in zip(names, values, strict=True)}
