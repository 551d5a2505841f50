"""World that all explorations of a scope share: the pieces that are driven, compiled keys, and a target that remembers.

A batch does the same to the same rows whichever way led there, so it is carried out once for each content: its changes
one after another with their before-images, its merged steps on the model database, and the two must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.log.receipts import Fence
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.index import Digest
from tidelock.engine.model.records import Position, Row, RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import RowKeys, compile_keys
from tidelock.engine.parallel.lock_request import LockRequest, X
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import Step
from tidelock.simulations.explore.histories import Contents, Draft, Scope
from tidelock.simulations.explore.search import Broken
from tidelock.simulations.model import Violation

Merge: TypeAlias = Callable[[Sequence[Change], Ranks], list[Step]]
SOURCE = "0-1"
MOST_CHANGES = 8
MOST_LOGS = 10_000  # kept for the next time


def _as_they_are(_binding: Binding, keys: RowKeys) -> RowKeys:
    return keys


class Pieces(msgspec.Struct, frozen=True):
    """Parts of which a model is built: the engine's own, or one of them broken on purpose.

    `keys`: what becomes of the compiled keys of a table.
    """

    dispatcher: Callable[[Sequence[Lane], LockTable], Dispatcher] = Dispatcher
    locks: type[LockTable] = LockTable
    lane: type[Lane] = Lane
    keys: Callable[[Binding, RowKeys], RowKeys] = _as_they_are
    merge: Merge = merge
    fence: type[Fence] = Fence
    watermark: type[Watermark] = Watermark


ENGINE = Pieces()


class Log(msgspec.Struct, frozen=True, eq=False):
    """`drafts[i]` is `changes[i]`, number i + 1 of the log; `kinds`: what they do, notes apart; all keys that they may
    take; `earlier[n]`: which numbers before n touch a row that n touches."""

    drafts: tuple[Draft, ...]
    changes: tuple[Change, ...]
    kinds: tuple[int, ...]
    exclusive: list[Digest]
    requests: list[LockRequest]
    earlier: dict[int, list[int]]


class World:
    def __init__(self, scope: Scope, pieces: Pieces = ENGINE) -> None:
        space = Keyspace()
        self.scope = scope
        self.pieces = pieces
        self.keys = {b: pieces.keys(b, compile_keys(b, space, scope.tables)) for b in scope.bindings}
        self.positions = [Position("log.000001", n) for n in range(MOST_CHANGES + 1)]
        self._ranks = Ranks(scope.tables, {})
        self._logs: dict[tuple[Draft, ...], Log] = {}
        self._changes: dict[tuple[Draft, int], Change] = {}
        self._numbers: dict[object, int] = {}
        self._rows: dict[Contents, int] = {}
        self._applied: dict[tuple[Contents, tuple[Draft, ...]], Contents | Broken] = {}

    def number(self, content: object) -> int:
        """A short name for something large."""
        return self._numbers.setdefault(content, len(self._numbers))

    def rows(self, contents: Contents) -> int:
        """The number of these rows, notes apart."""
        found = self._rows.get(contents)
        if found is None:
            found = self._rows[contents] = self.number(tuple((table, row[:-1]) for table, row in contents))
        return found

    def home(self, draft: Draft, lanes: int) -> int:
        table, before, after = draft
        row = before or after
        assert row is not None, "a change has an image"
        return self.scope.homes[table](row) % lanes

    def log(self, drafts: tuple[Draft, ...]) -> Log:
        found = self._logs.get(drafts)
        if found is None:
            if len(self._logs) == MOST_LOGS:
                self._logs.clear()
            found = self._logs[drafts] = self._log(drafts)
        return found

    def _log(self, drafts: tuple[Draft, ...]) -> Log:
        changes = tuple(self._change(draft, n) for n, draft in enumerate(drafts, 1))
        exclusive: list[Digest] = []
        requests: list[LockRequest] = []
        for change in changes:
            keys = self.keys[change.binding]
            exclusive += keys.exclusive(change.before, change.after)
            if keys.requests is not None:
                requests += [(key, X) for key, _ in keys.requests(change.before, change.after)]
        kinds = tuple(self.number(tuple((table, row and row[:-1]) for row in images)) for table, *images in drafts)
        touched = [{(table, row[0]) for row in images if row} for table, *images in drafts]
        earlier = {n: [m for m in range(1, n) if touched[m - 1] & touched[n - 1]] for n in range(1, len(drafts) + 1)}
        return Log(drafts, changes, kinds, list(dict.fromkeys(exclusive)), list(dict.fromkeys(requests)), earlier)

    def _change(self, draft: Draft, number: int) -> Change:
        found = self._changes.get((draft, number))
        if found is None:
            table, before, after = draft
            row = RowChange(table, before, after, 0)
            found = self._changes[draft, number] = Change.of(
                self.scope.bindings[table], row, Transaction(SOURCE, number, 0)
            )
        return found

    # ------------------------------------------------------------------ the target

    def steps(self, changes: Sequence[Change]) -> list[Step]:
        return self.pieces.merge(changes, self._ranks)

    def applied(self, contents: Contents, log: Log, numbers: tuple[int, ...]) -> Contents:
        """Returns what the target holds once the changes `numbers` of `log` are committed.  Raises Broken."""
        drafts = tuple(log.drafts[n - 1] for n in numbers)
        found = self._applied.get((contents, drafts))
        if found is None:
            try:
                found = self._carried_out(contents, drafts, [log.changes[n - 1] for n in numbers])
            except Broken as error:
                found = error
            self._applied[contents, drafts] = found
        if isinstance(found, Broken):
            raise found
        return found

    def _carried_out(self, contents: Contents, drafts: Sequence[Draft], changes: Sequence[Change]) -> Contents:
        in_turn = replayed(contents, drafts)
        database = self.scope.database(contents).copy()
        session = database.begin()
        try:
            session.run(self.steps(changes))
        except Violation as error:
            raise Broken(str(error)) from None
        session.commit()
        if broken := database.broken():
            raise Broken(broken)
        merged = self.scope.contents(database)
        if merged != in_turn:
            raise Broken(f"the merged batch gives {merged}, its changes one after another {in_turn}")
        return merged


def replayed(contents: Contents, drafts: Sequence[Draft]) -> Contents:
    """The changes one after another.  Raises Broken where the row is not what the change was made to."""
    rows = {(table, row[0]): row for table, row in contents}
    for table, before, after in drafts:
        if before is not None:
            _expect(rows.pop((table, before[0]), None), before)
        if after is not None:
            if (table, after[0]) in rows:
                raise Broken(f"a change expects no row {after[0]}, the target has {rows[table, after[0]]}")
            rows[table, after[0]] = after
    return tuple((table, rows[table, key]) for table, key in sorted(rows))


def _expect(found: Row | None, before: Row) -> None:
    if found != before:
        raise Broken(f"a change of {before} finds {found or 'no such row'} at the target")
