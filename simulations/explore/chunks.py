"""The chunk ledger, exhaustively: every small history of a table that is copied while it changes, in every order.

Driven is the engine's own `ChunkLedger`; what is around it is modelled as design 8 has it.  The table has three rows
to be, two in the first chunk and one in the second, and a unique column.  The moves:

- `write`: the source commits the next change;  `show`: readers there see one commit more;
- `take`: the stream comes one further; what takes effect is in flight from then on;
- `commit n`: a change in flight is committed, unless an earlier one in flight has a value in common with it;
- `ask`: a chunk is to be read;  `row c k`: row k of chunk c is read, once all that was taken at `ask` can be seen;
- `stage c`: all rows of it are read; `high` is the end of the log;
- `merge`: the chunk that is due is put in place, with nothing in flight, and the checkpoint is saved;
- `die n`: the owner dies (once), and another goes on behind n.

What must hold: no row is written over a newer one, no unique value is held twice; after a merge the target holds of all
merged chunks exactly the source's rows of then; in the end it holds all.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from typing import Self, TypeAlias

from tidelock.engine.copy.chunk import Chunk, ChunkState
from tidelock.engine.copy.chunk_ledger import ChunkLedger
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Position, Row, RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ChunkStaged, Copied
from tidelock.simulations import catalogue
from tidelock.simulations.explore.search import Broken, Move

TABLES = catalogue.linked(catalogue.ACCOUNT)
NAME = catalogue.ACCOUNT.name
BINDING = Binding(0, catalogue.shape(catalogue.ACCOUNT), catalogue.ACCOUNT)
SPLIT = ChunkSplit(NAME, By.NUMBERS, ("id",), ((3,),))
CHUNKS = ((1, 2), (3,))
VALUES = ("a", "b")

Rows: TypeAlias = dict[int, Row]
Draft: TypeAlias = tuple[Row | None, Row | None]


class Story:
    """A history: the rows before it, its changes, and the source after each of them."""

    def __init__(self, held: Sequence[Row], drafts: Sequence[Draft]) -> None:
        self.drafts = list(drafts)
        self.after: list[Rows] = [{row[0]: row for row in held}]
        for draft in drafts:
            self.after.append(done(self.after[-1], draft))


def done(rows: Rows, draft: Draft) -> Rows:
    before, after = draft
    left = {key: row for key, row in rows.items() if before is None or key != before[0]}
    return left | ({after[0]: after} if after is not None else {})


def stories(longest: int) -> Iterator[list[Story]]:
    """All histories of each length, the shortest first; a row's note tells which change wrote it."""
    starts: tuple[tuple[Row, ...], ...] = ((), ((1, "a", 0),), ((1, "a", 0), (3, "b", 0)))
    found = [Story(held, ()) for held in starts]
    for length in range(1, longest + 1):
        found = [
            Story(tuple(story.after[0].values()), [*story.drafts, draft])
            for story in found
            for draft in _next(story.after[-1], length)
        ]
        yield found


def _next(rows: Rows, note: int) -> Iterator[Draft]:
    held = {row[1] for row in rows.values()}
    for key in (1, 2, 3):
        old = rows.get(key)
        if old is None:
            yield from ((None, (key, value, note)) for value in VALUES if value not in held)
            continue
        yield old, None
        yield old, (key, old[1], note)
        yield from ((old, (key, value, note)) for value in VALUES if value not in held)
        yield from ((old, (to, old[1], note)) for to in (1, 2, 3) if to not in rows)


class ChunkModel:
    """A state and the moves from it.  Subclasses break a rule."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.written = self.visible = self.taken = self.saved = 0
        self.deaths = 1
        self.attempts = 0
        self.merged: tuple[int, ...] = ()
        self.target: Rows = {}
        self.flying: tuple[tuple[int, Row | None, Row | None], ...] = ()
        self.applied: frozenset[int] = frozenset()
        self.read: dict[int, dict[int, Row | None]] = {}  # by chunk: what is read or staged
        self.wanted: dict[int, int] = {}  # by chunk: what must be visible first
        self.ledger = self._ledger()

    def _ledger(self) -> ChunkLedger:
        return ChunkLedger([Copied(SPLIT, self.merged)], TABLES)

    # ------------------------------------------------------------------ as the search wants it

    def key(self) -> Hashable:
        chunks = tuple(
            (c.state, tuple(c.touched.items()), c.high.offset if c.high is not None and c.open else -1, c.restarts)
            for c in self.ledger.chunks
        )
        read = tuple((n, tuple(rows.items())) for n, rows in sorted(self.read.items()))
        return (
            self.written, self.visible, self.taken, self.saved, self.deaths, self.merged, self.flying, self.applied,
            tuple(sorted(self.target.items())), read, tuple(sorted(self.wanted.items())), chunks,
        )  # fmt: skip

    def fork(self) -> Self:
        twin = copy.copy(self)
        twin.ledger = copy.deepcopy(self.ledger, {id(TABLES): TABLES, id(BINDING): BINDING})
        twin.target = self.target.copy()
        twin.read = {number: rows.copy() for number, rows in self.read.items()}
        twin.wanted = self.wanted.copy()
        return twin

    def moves(self) -> Sequence[Move]:
        length, found = len(self.story.drafts), list[Move]()
        if self.written < length:
            found.append(("write",))
        if self.visible < self.written:
            found.append(("show",))
        due = self.ledger.due(_at(self.taken))
        if self.taken < self.written and due is None:
            found.append(("take",))
        if due is not None and self._drained():
            found.append(("merge",))
        found += [("commit", n) for n, *_ in self.flying if self._free(n)]
        found += self._reads()
        if self.deaths and self.taken:
            found += [("die", n) for n in sorted({self.saved, self._prefix()})]
        if not found:
            self._see_end()
        return found

    def take(self, move: Move) -> None:
        match move:
            case ("write",):
                self.written += 1
            case ("show",):
                self.visible += 1
            case ("take",):
                self._take()
            case ("commit", int(number)):
                self._commit(number)
            case ("ask",):
                self._ask()
            case ("row", int(chunk), int(key)):
                self.read[chunk][key] = self.story.after[self.visible].get(key)
            case ("stage", int(number)):
                attempt = self._chunk(number).attempt
                assert attempt is not None
                self.ledger.staged(ChunkStaged(attempt, _at(self.written), 0))
            case ("merge",):
                self._merge()
            case ("die", int(behind)):
                self._die(behind)

    # ------------------------------------------------------------------ the stream

    def _take(self) -> None:
        """The ledger sees every change; a receipt keeps it from being applied again."""
        before, after = self.story.drafts[self.taken]
        self.taken += 1
        change = Change.of(BINDING, RowChange(0, before, after, 0), Transaction("0-1", self.taken, 0))
        if not self._seen(self.taken):
            return
        part = self.ledger.take([change], _at(self.taken - 1), _at(self.taken)).get(change, change)
        for number in [n for n in self.read if not self._chunk(n).open]:
            del self.read[number]
        if part is not None and self.taken not in self.applied:
            self.flying = (*self.flying, (self.taken, part.before, part.after))

    def _seen(self, number: int) -> bool:
        return True

    def _free(self, number: int) -> bool:
        """No change before it that is in flight has a row or value in common with it."""
        held: set[object] = set()
        for n, before, after in self.flying:
            values = {value for row in (before, after) if row is not None for value in row[:2]}
            if n == number:
                return held.isdisjoint(values)
            held |= values
        raise AssertionError("it is in flight")

    def _commit(self, number: int) -> None:
        ((before, after),) = [(b, a) for n, b, a in self.flying if n == number]
        self.flying = tuple(entry for entry in self.flying if entry[0] != number)
        self.applied |= {number}
        if before is not None:
            self.target.pop(before[0], None)
        if after is not None:
            self._put(after)

    def _put(self, row: Row) -> None:
        if any(other[1] == row[1] for key, other in self.target.items() if key != row[0]):
            raise Broken(f"row {row[0]} wants {row[1]}, which another row holds")
        if row[0] in self.target and self.target[row[0]][2] > row[2]:
            raise Broken(f"{row} is written over {self.target[row[0]]}")
        self.target[row[0]] = row

    def _prefix(self) -> int:
        """Up to where everything that was taken is committed."""
        return min([n - 1 for n, *_ in self.flying], default=self.taken)

    # ------------------------------------------------------------------ the copier

    def _reads(self) -> list[Move]:
        found: list[Move] = [("ask",)] if self.ledger.next(2) is not None else []
        for chunk in self.ledger.chunks:
            if chunk.state is ChunkState.READING and self._may_read(chunk):
                left = [key for key in CHUNKS[chunk.number] if key not in self.read[chunk.number]]
                found += [("row", chunk.number, key) for key in left] or [("stage", chunk.number)]
        return found

    def _may_read(self, chunk: Chunk) -> bool:
        return self.visible >= self.wanted[chunk.number]

    def _ask(self) -> None:
        chunk = self.ledger.next(2)
        assert chunk is not None
        self.attempts += 1
        self.ledger.read(chunk, EffectId(1, self.attempts))
        self.read[chunk.number], self.wanted[chunk.number] = {}, self.taken

    def _drained(self) -> bool:
        return not self.flying

    def _merge(self) -> None:
        chunk = self.ledger.due(_at(self.taken))
        assert chunk is not None
        rows = {key: row for key, row in self.read.pop(chunk.number).items() if (key,) not in chunk.touched}
        rows |= {key[0]: row for key, row in chunk.touched.items()}
        for _, row in sorted(rows.items()):
            if row is not None:
                self._put(row)
        self.ledger.merged(chunk)
        self.merged = tuple(sorted((*self.merged, chunk.number)))
        self._save()
        live = self._live()
        if not self.flying and self.target != live:
            raise Broken(f"after the merge of chunk {chunk.number} the target holds {self.target}, the source {live}")

    def _save(self) -> None:
        self.saved = self.taken

    def _live(self) -> Rows:
        keys = [key for number in self.merged for key in CHUNKS[number]]
        return {key: row for key, row in self.story.after[self.taken].items() if key in keys}

    def _chunk(self, number: int) -> Chunk:
        return next(chunk for chunk in self.ledger.chunks if chunk.number == number)

    # ------------------------------------------------------------------ another owner, the end

    def _die(self, behind: int) -> None:
        self.deaths -= 1
        self.taken, self.flying = behind, ()
        self.read, self.wanted = {}, {}
        self.ledger = self._ledger()
        self.ledger.add([Copied(SPLIT, self.merged)])

    def _see_end(self) -> None:
        last = self.story.after[-1]
        if len(self.merged) < len(CHUNKS):
            raise Broken(f"only the chunks {self.merged} are merged")
        if self.target != last:
            raise Broken(f"the target ends with {self.target}, the source with {last}")


def _at(number: int) -> Position:
    return Position("log.000001", number)
