"""The hub world with `hold`: rows of the arbiter wait at a spoke that has newer ones of its own.

Promises, besides those of the hub: where all of the spoke's log is known at once, no older row shows there over a newer
one of its own; nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.echo import Sending
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.registers import Registers
from tidelock.simulations.two_way.holding import Hold, Waiting
from tidelock.simulations.two_way.hub import HubWorld, Step, registers
from tidelock.simulations.two_way.hub_state import (
    ROW,
    Entry,
    Note,
    Rows,
    Spoke,
    State,
    key_of,
    place,
    with_spoke,
)

LOG = "s"


class HoldWorld(HubWorld):
    """An arbiter, and spokes where its rows wait."""

    def _fall(self, state: State, number: int, size: int) -> Step:
        spoke, at = state.spokes[number], state.spokes[number].down
        entry, name = state.log[at], f"H-S{number} entry {at}"
        hold = self._hold(self._own(state, number, spoke, at), spoke.held)
        index = self._index(spoke)
        how = self._sending(index, state, number, at)
        image = entry.after if entry.after is not None else entry.before
        key = self._key(image) if image is not None and entry.kind != "receipt" else ()
        due = self._due(state, number, at, hold, key)
        rows, log = spoke.rows, list(spoke.log)
        again = any(stretch[1] == place(at) for note in spoke.log for stretch in note.applied)
        if how is not Sending.NOT and not again:
            offered = self._offered(hold, key, entry, (spoke.sent, place(at)))
            words = f"{name}: {how.value}" + ("" if offered is not None else ", waits")
            if offered is not None:
                due.append(offered)
        else:
            words = f"{name}: {'was applied' if again else 'not'}"
            if any(each.key == key for each in hold.waiting()) and entry.kind == "row" and entry.source == number:
                return words, "a row waits whose echo is not sent"
        for each in due:
            written = self._written(rows, each.key[0][1], each.row, each.row)
            log.append(Note("mark", applied=each.applied))
            if wrong := self._shown(state, number, at, each, rows, written):
                return words, wrong
            rows = written
        if released := [each.row for each in due if each.applied[-1][1] != place(at)]:
            words += f", releases {released}"
        sent = self._sent(spoke, at, hold, key) if how is not Sending.NOT else spoke.sent
        spoke = spoke._replace(rows=rows, log=tuple(log), down=at + 1, sent=sent, held=hold.waiting())
        return words, with_spoke(state, number, spoke._replace(floor=index.floor, last=index.entries()))

    def _hold(self, own: Iterable[tuple[Place, Registers]], held: tuple[Waiting, ...]) -> Hold:
        return Hold(LOG, own, held)

    def _shown(self, state: State, number: int, at: int, each: Waiting, before: Rows, after: Rows) -> str:
        """Returns what is wrong with what the spoke shows now."""
        if self.scope.known and self._older(state, number, at, each.key):
            return "an older row shows at the spoke"
        return ""

    def _key(self, row: Row) -> Registers:
        return registers(ROW, None, row) or ()

    def _offered(self, hold: Hold, key: Registers, entry: Entry, stretch: tuple[Place, Place]) -> Waiting | None:
        return hold.offer(key, entry.after, stretch)

    def _sent(self, spoke: Spoke, at: int, hold: Hold, key: Registers) -> Place:
        """The end of what has a stretch: also of what waits."""
        return place(at)

    def _due(self, state: State, number: int, at: int, hold: Hold, key: Registers) -> list[Waiting]:
        """Returns what this entry of the arbiter's log releases; receipts come with the last entry of a transaction."""
        entry = state.log[at]
        more = at + 1 < len(state.log) and state.log[at + 1][1::4] == entry[1::4]
        if entry.source != number or more:
            return []
        return hold.covered(LOG, self._receipts(state, number, at), key)

    def _receipts(self, state: State, number: int, at: int) -> list[Place]:
        return [place(state.log[at].at)]

    def _own(self, state: State, number: int, spoke: Spoke, at: int) -> list[tuple[Place, Registers]]:
        """Changes of the spoke that the arbiter's log before that entry does not cover, as far as they are known."""
        here = state.log[at].at if state.log[at].source == number else -1
        covered = {entry.at for entry in state.log[:at] if self._covers(entry, number)} - {here}
        known = spoke.log if self.scope.known else spoke.log[: spoke.up]
        return [
            (place(n), self._waits_for(note))
            for n, note in enumerate(known)
            if note.kind == "write" and n not in covered
        ]

    def _covers(self, entry: Entry, number: int) -> bool:
        return entry.source == number

    def _waits_for(self, note: Note) -> Registers:
        return self._key((key_of(note),))

    def _older(self, state: State, number: int, at: int, key: Registers) -> bool:
        covered = {entry.at for entry in state.log[: at + 1] if entry.source == number}
        return any(
            note.kind == "write" and n not in covered and self._key((key_of(note),)) == key
            for n, note in enumerate(state.spokes[number].log)
        )

    def _restarted(self, spoke: Spoke) -> Spoke:
        """Restarts: what waited is read again, from the checkpoint; what was applied has its receipt."""
        first = self._hold((), spoke.held).checkpoint(spoke.sent)
        begin = spoke.down
        if spoke.held:
            begin = min(each.applied[0] for each in spoke.held)[1][0]
        return self._floored(spoke, spoke.down)._replace(down=begin, sent=first, held=())


class StrictHoldWorld(HoldWorld):
    """The same, with all that is wanted: whatever the feed knows of the spoke's log, no older row shows there, and none
    of its newer rows makes room.  Rows wait by their unique values too."""

    def _hold(self, own: Iterable[tuple[Place, Registers]], held: tuple[Waiting, ...]) -> Hold:
        return Hold(LOG, own, held, lambda row: self._registers(None, row) or ())

    def _waits_for(self, note: Note) -> Registers:
        return self._registers(note.before, note.after) or ()

    def _shown(self, state: State, number: int, at: int, each: Waiting, before: Rows, after: Rows) -> str:
        if self._older(state, number, at, each.key):
            return "an older row shows at the spoke"
        gone = (row for row, now in zip(before, after, strict=True) if row is not None and now is None)
        if any(self._older(state, number, at, self._key(row)) for row in gone if self._key(row) != each.key):
            return "a newer row of the spoke's own makes room"
        return ""
