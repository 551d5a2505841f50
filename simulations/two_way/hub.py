"""The hub world: an arbiter H and the spokes that hang on it, each with writers of its own.

What is decided is decided by the engine's leaves, which are called here: `seen`, `registers`, `echo`, `decisions`
and `blind`.  The world itself keeps rows and logs, and lets every step happen that may.  Subclasses break a rule.

Promises: when nothing is on its way any more, all sites hold equal rows; nothing goes round for ever; what a change
overwrites that its writer had not seen is told as lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from tidelock.engine.model.records import Row
from tidelock.engine.two_way import registers as of_registers
from tidelock.engine.two_way.blind import last_images
from tidelock.engine.two_way.column_groups import TouchedRows, laid_over
from tidelock.engine.two_way.conflicts import Holder, Met
from tidelock.engine.two_way.decisions import Arriving, Decision, blind, decide
from tidelock.engine.two_way.echo import EchoIndex, Passing, Sending, sending
from tidelock.engine.two_way.places import NOTHING, Place
from tidelock.engine.two_way.registers import Layout, Registers
from tidelock.engine.two_way.seen import Mark, SeenPrefix, Stretch, seen_of_batch
from tidelock.simulations.two_way.explorer import Word
from tidelock.simulations.two_way.hub_state import (
    OWN,
    Entry,
    Note,
    Rows,
    Scope,
    Spoke,
    State,
    holders,
    image,
    image_of,
    key_of,
    place,
    put,
    spelled,
    with_spoke,
)

FEED, ARBITER = "h-s", "H"

Step = tuple[Word, State | str]
Change = tuple[Row | None, Row | None]


@lru_cache(maxsize=10_000)
def registers(layout: Layout, before: Row | None, after: Row | None) -> Registers | None:
    return of_registers.registers(layout, before, after)


class HubWorld:
    """An arbiter and its spokes."""

    index = EchoIndex
    prefix = SeenPrefix

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        scope = self.scope
        first = {0: None, 1: (0,), 2: (0, 0)}[scope.counters + 2 * (scope.columns and not scope.layout.uniques)]
        rows: Rows = tuple(None if first is None else (key, *first) for key in range(1, scope.keys + 1))
        return State(rows, (), (Spoke(rows),) * scope.spokes, scope.writes, max(scope.saves, 0), scope.restarts)

    def wrong(self, state: State) -> str:
        if len(state.log) > self.scope.writes * (self.scope.keys + 2):
            return "loop: the arbiter's log does not end"
        if any(spoke.up < len(spoke.log) or spoke.down < len(state.log) for spoke in state.spokes):
            return ""
        if any(spoke.rows != state.rows for spoke in state.spokes):
            return f"unequal: H {spelled(state.rows)}, " + ", ".join(
                f"S{n} {spelled(spoke.rows)}" for n, spoke in enumerate(state.spokes)
            )
        if any(spoke.held for spoke in state.spokes):
            return "a row waits for ever"
        done = self.scope.writes - state.writes
        if self.scope.counters and (stand := sum(row[1] for row in state.rows if row)) != done:
            return f"{stand} of {done} additions stand"
        return ""

    def steps(self, state: State) -> Iterator[Step]:
        if state.writes:
            for key, before, after in self._writes(state.rows):
                entry = Entry("row", OWN, before, after)
                rows = put(state.rows, key - 1, after)
                yield (
                    f"H writes {image(key, after)}",
                    state._replace(rows=rows, log=(*state.log, entry), writes=state.writes - 1),
                )
        for number, spoke in enumerate(state.spokes):
            if state.writes:
                for key, before, after in self._writes(spoke.rows):
                    wrote = spoke._replace(
                        rows=put(spoke.rows, key - 1, after), log=(*spoke.log, Note("write", before, after))
                    )
                    word = f"S{number} writes {image(key, after)}"
                    yield word, with_spoke(state._replace(writes=state.writes - 1), number, wrote)
            if state.saves and (saved := self._saved(spoke)) is not None:
                yield f"S{number} saves the checkpoint {saved.applied[0][1][0]}", with_spoke(
                    state._replace(saves=state.saves - 1), number, spoke._replace(log=(*spoke.log, saved))
                )
            if state.restarts:
                yield from self._troubles(state, number, spoke)
            if spoke.up < len(spoke.log):
                yield self._climb(state, number, self._seen(spoke))
                if self.scope.gathers:
                    yield from self._gathered(state, number, spoke)
            if spoke.down < len(state.log):
                yield self._fall(state, number, 1)
                if self.scope.batches:
                    for size in range(2, 1 + min(3, len(state.log) - spoke.down)):
                        yield self._fall(state, number, size)

    # ------------------------------------------------------------------ what sites do by themselves

    def _writes(self, rows: Rows) -> Iterator[tuple[int, Row | None, Row | None]]:
        """Key, row before and after, of everything that a writer may do."""
        scope = self.scope
        for key, row in enumerate(rows, 1):
            for after in self._images(key, row):
                if scope.layout.uniques and holders(rows, after):
                    continue
                yield key, row, after
            if scope.deletes and row is not None:
                yield key, row, None

    def _images(self, key: int, row: Row | None) -> list[Row]:
        scope = self.scope
        if scope.counters:
            return [(key, (row[1] if row else 0) + 1)]
        if not scope.columns:
            return [(key, value) for value in scope.values if row is None or value != row[1]]
        if row is None:
            return [(key, 0, 0)]
        first = [(key, value, row[2]) for value in scope.values if value != row[1]]
        return first + [(key, row[1], value) for value in scope.values if value != row[2]]

    def _saved(self, spoke: Spoke) -> Note | None:
        """A checkpoint that has not been saved: all that was applied without a gap."""
        prefix = self.prefix(FEED, ARBITER)
        for note in spoke.log:
            prefix.observe(Mark(FEED, ARBITER, note.applied))
        note = Note("checkpoint", applied=((NOTHING, prefix.seen),))
        return note if prefix.seen and note not in spoke.log else None

    def _troubles(self, state: State, number: int, spoke: Spoke) -> Iterator[Step]:
        """The reader of the arbiter's log begins anew, or the spoke's server loses its last commit."""
        state = state._replace(restarts=state.restarts - 1)
        if not self.scope.loses:
            if spoke.down:
                yield f"H-S{number} restarts", with_spoke(state, number, self._restarted(spoke))
        elif spoke.log and spoke.log[-1].kind == "write" and spoke.up == len(spoke.log):
            lost = self._lost(state, number, spoke)
            yield f"S{number} loses {image_of(spoke.log[-1])}", with_spoke(state, number, lost)

    def _restarted(self, spoke: Spoke) -> Spoke:
        """Restarts the reader: what was sent is not known any more."""
        return self._floored(spoke, spoke.down)

    def _lost(self, state: State, number: int, spoke: Spoke) -> Spoke:
        """The feed to the spoke goes back to the first change that was lost, and echoes all from there."""
        note, end = spoke.log[-1], len(spoke.log) - 1
        key = key_of(note)
        shorter = spoke._replace(rows=put(spoke.rows, key - 1, note.before), log=spoke.log[:-1], up=end)
        first = next((n for n, e in enumerate(state.log) if e.source == number and e.at == end), len(state.log))
        return self._floored(shorter._replace(down=min(first, spoke.down)), len(state.log))

    def _floored(self, spoke: Spoke, end: int) -> Spoke:
        """With the floor of the index below that entry of the arbiter's log."""
        index = self._index(spoke)
        index.raise_floor(place(end - 1) if end else NOTHING)
        return spoke._replace(floor=index.floor, last=index.entries())

    # ------------------------------------------------------------------ spoke to arbiter

    def _gathered(self, state: State, number: int, spoke: Spoke) -> Iterator[Step]:
        """The arbiter is given the next two changes of the spoke in one batch."""
        writes = [at for at in range(spoke.up, len(spoke.log)) if spoke.log[at].kind == "write"]
        if len(writes) < 2:
            return
        seens, ahead = [], state
        while ahead.spokes[number].up <= writes[1]:
            reader = ahead.spokes[number]
            if reader.up in writes:
                seens.append(self._seen(reader))
                ahead = with_spoke(ahead, number, reader._replace(up=reader.up + 1))
            else:
                ahead = self._passed(ahead, number, reader)
        words: list[str] = []
        while state.spokes[number].up <= writes[1]:
            word, after = self._climb(state, number, self._seen_of_batch(seens))
            if isinstance(after, str):
                yield " + ".join([*words, word]), after
                return
            words.append(word)
            state = after
        yield " + ".join(words), state

    def _seen_of_batch(self, seens: list[Place]) -> Place:
        return seen_of_batch(seens)

    def _passed(self, state: State, number: int, spoke: Spoke) -> State:
        """The mark or checkpoint that is next is read."""
        note, prefix = spoke.log[spoke.up], self._prefix(spoke)
        if self.scope.saves < 0 or note.kind == "checkpoint":
            prefix.observe(Mark(FEED, ARBITER, note.applied))
        return with_spoke(state, number, spoke._replace(up=spoke.up + 1, seen=prefix.seen, beyond=prefix.beyond))

    def _climb(self, state: State, number: int, seen: Place) -> Step:
        """The arbiter is given the next entry of the spoke's log; `seen`: what a change had seen."""
        spoke = state.spokes[number]
        note = spoke.log[spoke.up]
        if note.kind != "write":
            return f"S{number}-H passes a {note.kind}", self._passed(state, number, spoke)
        met = self._met(state, number, spoke, note, seen)
        later = note.after is None or met.row is None or note.after[1] > met.row[1]
        decision = self._decide(Arriving(note.before, note.after, later), met)
        word = f"S{number}-H {decision.outcome.value} {image_of(note)}, seen {seen[0] if seen else 'nothing'}"
        if error := self._untold(state, number, note, seen, met, decision):
            return word, error
        state = with_spoke(state, number, spoke._replace(up=spoke.up + 1))
        return word, self._stand(state, number, spoke.up, note, seen, decision)

    def _index(self, spoke: Spoke) -> EchoIndex:
        return self.index(self.scope.limit, spoke.floor, spoke.last)

    def _prefix(self, spoke: Spoke) -> SeenPrefix:
        return self.prefix(FEED, ARBITER, spoke.seen, spoke.beyond)

    def _seen(self, spoke: Spoke) -> Place:
        """Returns `seen` of the entry that is read next, by the marks before it."""
        return self._prefix(spoke).seen

    def _met(self, state: State, number: int, spoke: Spoke, note: Note, seen: Place) -> Met:
        key = key_of(note)
        row = state.rows[key - 1]
        index = self._index(spoke)
        if not self.scope.lags:  # what stands in the arbiter's log behind the reader is known as well
            for at in range(spoke.down, len(state.log)):
                self._sending(index, state, number, at)
        unseen = row != note.before or index.concerns(self._registers(note.before, note.after), seen)
        taken = holders(state.rows, note.after) if self.scope.layout.uniques and note.after is not None else ()
        return Met(row, unseen, row is None, tuple(Holder((1,), other) for other in taken))

    def _decide(self, change: Arriving, met: Met) -> Decision:
        return decide(self.scope.policies, change, met)

    def _stand(self, state: State, number: int, at: int, note: Note, seen: Place, decision: Decision) -> State:
        """The arbiter with the decision carried out, in one transaction of its log."""
        rows, log = state.rows, list(state.log)
        key = key_of(note)
        for gone in decision.displaced:
            rows = put(rows, gone[0] - 1, None)
            log.append(Entry("row", number, gone, None, seen, at))
        here = state.rows[key - 1]
        if decision.outcome.value in ("write", "merge"):
            rows = put(rows, key - 1, decision.row)
            kind = "row" if decision.row != here or self.scope.noops else "receipt"
            log.append(Entry(kind, number, here, decision.row, seen, at))
        if self._tells(decision):
            log.append(Entry("verdict", number, note.after or note.before, decision.row, NOTHING, at))
        elif decision.verdict:
            log.append(Entry("receipt", number, None, None, seen, at))
        return state._replace(rows=rows, log=tuple(log))

    def _tells(self, decision: Decision) -> bool:
        """Is there a verdict?"""
        return decision.verdict

    def _untold(self, state: State, number: int, note: Note, seen: Place, met: Met, decision: Decision) -> str:
        """Returns what is lost without a record, judged by the arbiter's whole log and not by the index.

        A write that found the row as it wanted it changed nothing, so nothing of it is lost later.
        """
        said = {(lost.incoming, lost.row) for lost in decision.lost}
        if decision.verdict and decision.outcome.value != "merge":
            return "" if met.row == note.after or (True, note.after) in said else "a change is lost without a record"
        if missing := [gone for gone in decision.displaced if (False, gone) not in said]:
            return f"row {missing[0]} is displaced without a record"
        if self.scope.lags or decision.outcome.value == "merge" or met.row == decision.row or self.scope.layout.groups:
            return ""
        if note.before is None and met.row is None:
            return ""  # who deleted a row has it gone; this is another one
        wanted = set(self._registers(note.before, note.after) or ())
        later = islice(state.log, seen[0] + 1 if seen else 0, None)
        for entry in later:
            changed = entry.kind == "row" and entry.source != number
            if changed and wanted & set(self._registers(entry.before, entry.after) or ()):
                return "" if said or decision.conflicts else "a row of the arbiter is lost without a record"
        return ""

    # ------------------------------------------------------------------ arbiter to spoke

    def _fall(self, state: State, number: int, size: int) -> Step:
        """The spoke is given the next entries of the arbiter's log, in one transaction."""
        spoke = state.spokes[number]
        index = self._index(spoke)
        begin, end = spoke.down, spoke.down + size
        hows, sent = [], []
        last = spoke.sent
        for at in range(begin, end):
            how = self._sending(index, state, number, at)
            if self.scope.prunes and state.log[at].source == number:
                index.raise_floor(state.log[at].seen)
            hows.append(how.value)
            if how is not Sending.NOT:
                sent.append(at)
                last = place(at)
        applied: tuple[Stretch, ...] = ((spoke.sent, last),) if sent else ()
        spoke = spoke._replace(down=end, sent=last, floor=index.floor, last=index.entries())
        word = f"H-S{number} entry {begin}: {', '.join(hows)}"
        return word, with_spoke(state, number, self._applied(spoke, [state.log[at] for at in sent], applied))

    def _sending(self, index: EchoIndex, state: State, number: int, at: int) -> Sending:
        entry, name = state.log[at], f"S{number}"
        if entry.kind == "receipt" or (entry.kind == "verdict" and entry.source != number):
            return Sending.NOT
        if entry.kind == "verdict":
            row = entry.after if entry.after is not None else entry.before
            return sending(index, name, Passing(place(at), (), NOTHING, self._registers(None, row)))
        path = () if entry.source == OWN else (f"S{entry.source}",)
        return sending(index, name, Passing(place(at), path, entry.seen, self._registers(entry.before, entry.after)))

    def _applied(self, spoke: Spoke, entries: list[Entry], applied: tuple[Stretch, ...]) -> Spoke:
        """The spoke with these entries applied blindly, and the mark that they leave."""
        if not entries:
            return spoke
        rows, changes = spoke.rows, [(entry.before, entry.after) for entry in entries]
        verdicts = {n for n, entry in enumerate(entries) if entry.kind == "verdict"}
        touched = self._touched([(None if n in verdicts else one[0], one[1]) for n, one in enumerate(changes)])
        for (key,), last in self._folded(changes).items():
            after = last
            if last is not None and (columns := touched.columns(last)) is not None:
                if not columns:
                    continue
                after = self._laid_over(columns, last, rows[key - 1])
            rows = self._written(rows, key, after, last if self.scope.clears else after)
        return spoke._replace(rows=rows, log=(*spoke.log, Note("mark", applied=applied)))

    def _folded(self, images: list[Change]) -> dict[Row, Row | None]:
        return last_images(images, (0,))

    def _touched(self, changes: Sequence[Change]) -> TouchedRows:
        layout = self.scope.layout
        touched = TouchedRows(layout.groups, layout.tied, lambda row: row[0])
        for before, after in changes:
            if before is not None or after is not None:
                touched.add(before, after)
        return touched

    def _laid_over(self, columns: Sequence[int], after: Row, here: Row | None) -> Row:
        return laid_over(columns, after, here)

    def _written(self, rows: Rows, key: int, after: Row | None, wants: Row | None) -> Rows:
        taken = holders(rows, wants) if self.scope.layout.uniques and wants is not None else ()
        decision = blind(after, taken)
        for gone in decision.displaced:
            rows = put(rows, gone[0] - 1, None)
        return put(rows, key - 1, decision.row)

    def _registers(self, before: Row | None, after: Row | None) -> Registers | None:
        return registers(self.scope.layout, before, after)
