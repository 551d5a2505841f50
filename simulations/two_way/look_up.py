"""The hub world with one promise more: no row makes room at a spoke that has never written it itself.

In the order of the arbiter's log that holds: whoever takes a unique value comes behind the row that gave it up.  It
does not where rows are looked up (`LookUpWorld`), so no feed does that: the spoke is given a row as it is at the
arbiter now, and what gave up its value is still to come.  Sites become equal all the same; until then the spoke lacks a
row that no site has deleted.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelock.engine.two_way.echo import Sending
from tidelock.simulations.two_way.hub import HubWorld, Step
from tidelock.simulations.two_way.hub_rules import REJECT
from tidelock.simulations.two_way.hub_scopes import PAIR, SPOKES, TAKEN
from tidelock.simulations.two_way.hub_state import Entry, Scope, State, key_of, put, with_spoke
from tidelock.simulations.two_way.rule import Rule, Sound


class RoomWorld(HubWorld):
    """An arbiter, and spokes where its rows make room for none."""

    def _fall(self, state: State, number: int, size: int) -> Step:
        word, after = super()._fall(state, number, size)
        if isinstance(after, str):
            return word, after
        spoke = state.spokes[number]
        given = {_key(entry) for entry in state.log[spoke.down : spoke.down + size]}
        wrote = {key_of(note) for note in spoke.log if note.kind == "write"}
        for key, (here, now) in enumerate(zip(spoke.rows, after.spokes[number].rows, strict=True), 1):
            if here is not None and now is None and key not in given | wrote:
                return word, f"row {here} of the arbiter's makes room at S{number}"
        return word, after


class LookUpWorld(RoomWorld):
    """The same, where each row is read at the arbiter when it is sent; its changes up to there are left out."""

    def _fall(self, state: State, number: int, size: int) -> Step:
        spoke, at = state.spokes[number], state.spokes[number].down
        entry = state.log[at]
        key, index = _key(entry), self._index(spoke)
        how = self._sending(index, state, number, at)
        if how is Sending.NOT:
            return super()._fall(state, number, size)
        looked = dict(spoke.looked)
        if at <= looked.get(key, -1):
            passed = spoke._replace(down=at + 1, floor=index.floor, last=index.entries())
            return f"H-S{number} entry {at}: was looked up", with_spoke(state, number, passed)
        image = entry.before if entry.before is not None else entry.after
        read = put(state.log, at, entry._replace(before=image, after=state.rows[key - 1]))
        word, after = super()._fall(state._replace(log=read), number, size)
        if isinstance(after, str):
            return f"{word}, looked up", after
        looked[key] = len(state.log) - 1
        spoke = after.spokes[number]._replace(looked=tuple(sorted(looked.items())))
        return f"{word}, looked up", with_spoke(after._replace(log=state.log), number, spoke)


def _key(entry: Entry) -> int:
    return int((entry.after or entry.before or (0,))[0])


_SEATS = Scope(keys=2, values=(1, 2, 3), deletes=False, layout=TAKEN.layout, policies=REJECT)

LOOK_UP_RULES = {
    "images-of-the-log": Rule("39", "a row is looked up at the arbiter", lambda: LookUpWorld(_SEATS)),
}


def sound(name: str, world: type[RoomWorld], full: Scope, **small: object) -> Sound:
    """`small`: in what the small scope differs; nothing: there is none."""
    less = replace(full, **small)
    return Sound(name, lambda: world(full), (lambda: world(less)) if small else None)


LOOK_UP_SCOPES = [
    sound("pair, no row of the arbiter's makes room", RoomWorld, TAKEN, writes=3),
    sound("pair, three values that change hands", RoomWorld, _SEATS, writes=3),
    sound("pair, rows are looked up", LookUpWorld, PAIR, writes=3),
    sound("two spokes, rows are looked up", LookUpWorld, SPOKES),
]
