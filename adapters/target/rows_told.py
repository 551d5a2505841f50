"""Rows that a transaction at an arbiter tells to the spoke, and what it keeps of a decision, at any database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.conflict_records import Kept, ToldRow, decided, lost_rows, packed
from tidelock.adapters.target.told_uniques import Wanted
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange, ParkedRow, Step
from tidelock.engine.two_way.conflicts import NOT_TOLD, Holder, Met, Writer
from tidelock.engine.two_way.deciding import judged, kept_out, keys_of
from tidelock.engine.two_way.deciding_together import Judged, independent, steps_together
from tidelock.engine.two_way.decisions import Decision

Sql = TypeVar("Sql")
Sql_co = TypeVar("Sql_co", covariant=True)


class ConflictQueries(Protocol[Sql_co]):
    """The SQL by which changes of a table are decided about, for many rows at once: each row of an answer begins with
    the place in the list that was given.  `told`: the columns that it tells of a row.  `key_names`: those of its key.
    """

    @property
    def told(self) -> Sequence[str]: ...
    @property
    def key_names(self) -> Sequence[str]: ...
    @property
    def name(self) -> TableName: ...

    def met(self, asked: Sequence[tuple[Row | None, Row]]) -> Iterator[Sql_co]:
        """Queries of the rows with these keys, each behind whether it is as before, where a row before is given."""
        ...

    def others(self, wanted: Sequence[Wanted]) -> Iterator[tuple[tuple[int, ...], Sql_co]]:
        """Queries of the rows of other keys that hold a unique value of these, each with its columns."""
        ...

    def images(self, keys: Sequence[Row]) -> Iterator[Sql_co]:
        """Queries of the rows with these keys as the log of their database has them, which lock them."""
        ...

    def key_texts(self, keys: Sequence[Row]) -> Iterator[Sql_co]:
        """Queries of the keys' values as that log has them, there or not."""
        ...


_There: TypeAlias = tuple[bool, Row, Writer]
"""A row that is there: whether it is as before, and who wrote it."""
Statements = TypeVar("Statements", bound=ConflictQueries[Any])


class Books(Protocol[Sql_co]):
    """The bookkeeping of conflicts, as SQL."""

    def record(self, kept: Sequence[Kept], origin: Origin | None) -> Iterator[Sql_co]:
        """Keep what lost."""
        ...

    def tell(self, id: EffectId, rows: Sequence[ToldRow]) -> Iterator[Sql_co]:
        """Tell rows to the spoke."""
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

    def _check_told(self, rows: Sequence[ToldRow]) -> None:
        """Raise what ends an attempt that cannot be certain of these rows."""

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
        keys = [_met_by(change)[1] for _, change in changes]
        places = _by_table([statements for statements, _ in changes])
        by_table = {statements: _in_order(numbers, keys) for statements, numbers in places.items()}
        there = await self._rows_there(changes, by_table)
        holders = await self._holders(changes, by_table, there)
        found = []
        for n, held_by in enumerate(holders):
            same, row, writer = there.get(n, (True, None, NOT_TOLD))
            found.append(Met(row, unseen=not same, holders=tuple(held_by), writer=writer))
        return found

    async def _rows_there(
        self, changes: Sequence[tuple[Statements, DecideChange]], by_table: Mapping[Statements, Sequence[int]]
    ) -> dict[int, _There]:
        """Lock and read the rows of the changes' keys, by the number of the change."""
        queries: list[tuple[Statements, Sql]] = []
        of: list[Sequence[int]] = []
        for statements, numbers in by_table.items():
            met = [(statements, sql) for sql in statements.met([_met_by(changes[n][1]) for n in numbers])]
            queries += met
            of += [numbers] * len(met)
        there: dict[int, _There] = {}
        for numbers, rows in zip(of, await self._ask(queries), strict=True):
            for number, same, *values in rows:
                n = numbers[int(number)]
                there[n] = (bool(same), *await self._found(*changes[n], values))
        return there

    async def _holders(
        self,
        changes: Sequence[tuple[Statements, DecideChange]],
        by_table: Mapping[Statements, Sequence[int]],
        there: Mapping[int, _There],
    ) -> list[list[Holder]]:
        """Lock and read the rows of other keys that hold unique values of the changes'.  Of a value that the row of the
        change holds itself nobody asks."""
        queries: list[tuple[Statements, Sql]] = []
        of: list[tuple[Sequence[int], tuple[int, ...]]] = []
        for statements, numbers in by_table.items():
            wanted: list[Wanted] = []
            wanting = []
            for n in numbers:
                if (after := changes[n][1].after) is not None:
                    wanting.append(n)
                    wanted.append((after, _met_by(changes[n][1])[1], there[n][1] if n in there else None))
            for columns, sql in statements.others(wanted):
                queries.append((statements, sql))
                of.append((wanting, columns))
        holders: list[list[Holder]] = [[] for _ in changes]
        for (numbers, columns), rows in zip(of, await self._ask(queries), strict=True):
            for number, *values in rows:
                n = numbers[int(number)]
                holders[n].append(Holder(columns, *await self._found(*changes[n], values)))
        return holders

    async def _conclude(self, of: Sequence[tuple[Statements, DecideChange, Decision]]) -> None:
        """Keep what lost, and let the rows of the changes be told unless they stand as they came."""
        lost = [(one, change, rows) for one, change, decision in of if (rows := lost_rows(change, decision))]
        last = [(statements, _last_key(change)) for statements, change, _ in lost]
        (stands,) = await self._by_key(last, _images)
        kept = [
            Kept(change.parked, rows, self._packed(statements, stands.get((statements, _last_key(change)))))
            for statements, change, rows in lost
        ]
        self.statements += self._books.record(kept, self._effect.origin)
        for statements, change, decision in of:
            if decision.verdict:
                self.tell(statements, keys_of(change.table, change.before, change.after))

    async def _by_key(
        self,
        of: Iterable[tuple[Statements, Row]],
        *kinds: Callable[[Statements, Sequence[Row]], Iterable[Sql]],
    ) -> list[dict[tuple[Statements, Row], Sequence[Any]]]:
        """Ask for something of rows by their keys, of each kind; returns it by table and key.  Of a key that cannot be
        here there is nothing."""
        found: list[dict[tuple[Statements, Row], Sequence[Any]]] = [{} for _ in kinds]
        by_table: dict[Statements, dict[Row, None]] = {}
        for statements, key in of:
            by_table.setdefault(statements, {})[key] = None
        queries: list[tuple[Statements, Sql]] = []
        places: list[tuple[int, Sequence[Row]]] = []
        for statements, keys in by_table.items():
            possible = self._possible(statements, list(keys))
            for n, ask in enumerate(kinds):
                asked = [(statements, sql) for sql in ask(statements, possible)]
                queries += asked
                places += [(n, possible)] * len(asked)
        for (statements, _), (n, possible), rows in zip(queries, places, await self._ask(queries), strict=True):
            for number, *values in rows:
                found[n][statements, possible[int(number)]] = values
        return found

    def _possible(self, statements: Statements, keys: Sequence[Row]) -> Sequence[Row]:
        """Returns those of the keys that can be at the target."""
        try:
            for _ in (*statements.images(keys), *statements.key_texts(keys)):
                pass
        except self.unwritable:
            half = len(keys) // 2
            return [key for some in (keys[:half], keys[half:]) if half for key in self._possible(statements, some)]
        return keys

    def _packed(self, statements: Statements, values: Sequence[Any] | None) -> bytes | None:
        return None if values is None else packed(_named(statements.told, values))

    def tell(self, statements: Statements, keys: Sequence[Row]) -> None:
        """Let the rows with these keys be told."""
        self._told.update(dict.fromkeys((statements, key) for key in keys))

    async def tell_all(self) -> None:
        """Tell rows as they stand: nothing is decided any more.  Of a key that cannot be here nothing is told.  Raises
        TableChanged: whoever reads the log asks for each column that the table has at that place."""
        images, texts = await self._by_key(self._told, _images, _key_texts)
        told: list[ToldRow] = []
        for ordinal, place in enumerate(self._told):
            if place not in texts:
                continue
            statements, _ = place
            row_key = packed(_named(statements.key_names, texts[place]))
            assert row_key is not None, "a table of such a feed has a key"
            told.append(ToldRow(ordinal, statements.name, row_key, self._packed(statements, images.get(place))))
        self._check_told(told)
        self.statements += self._books.tell(self._effect.id, told)
        for statements in dict.fromkeys(statements for statements, _ in self._told):
            if new := set(await self._columns(statements)).difference(statements.told):
                raise TableChanged(statements.name, new)


def _by_table(of: Sequence[Statements]) -> dict[Statements, list[int]]:
    """Returns the places of each table's."""
    found: dict[Statements, list[int]] = {}
    for n, statements in enumerate(of):
        found.setdefault(statements, []).append(n)
    return found


def _in_order(numbers: Sequence[int], keys: Sequence[Row]) -> Sequence[int]:
    """Returns these in the order of their keys: who locks rows in one order waits for no one who waits for them."""
    try:
        return sorted(numbers, key=lambda n: keys[n])
    except TypeError:  # a text that is none, in bytes
        return numbers


def _met_by(change: DecideChange) -> tuple[Row | None, Row]:
    """Returns the row that the change was made from, and the key under which it is looked for."""
    image = change.before if change.before is not None else change.after
    assert image is not None, "a change has an image"
    return change.before, change.table.key_of(image)


def _last_key(change: DecideChange) -> Row:
    return keys_of(change.table, change.before, change.after)[-1]


def _images(statements: ConflictQueries[Sql], keys: Sequence[Row]) -> Iterable[Sql]:
    return statements.images(keys)


def _key_texts(statements: ConflictQueries[Sql], keys: Sequence[Row]) -> Iterable[Sql]:
    return statements.key_texts(keys)


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, str | bytes | None]:
    """Returns values by column; a floating-point number as its text."""
    return {n: repr(v) if isinstance(v, float) else v for n, v in zip(names, values, strict=True)}
