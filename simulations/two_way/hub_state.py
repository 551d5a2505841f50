"""State of the hub world: an arbiter H, its spokes, and what is on its way between them."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from tidelock.engine.model.index import Index
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Equality
from tidelock.engine.two_way.places import NOTHING, Place
from tidelock.engine.two_way.policies import Group, Policies, Policy
from tidelock.engine.two_way.registers import Layout, Register
from tidelock.engine.two_way.seen import Stretch
from tidelock.simulations.two_way.holding import Waiting

Item = TypeVar("Item")
Rows: TypeAlias = tuple[Row | None, ...]  # by key, from 1
OWN: Final = -1  # the writer of a change that the arbiter made itself


class Entry(NamedTuple):
    """An entry of the arbiter's log.

    `kind`: `row`, `receipt` (of a change that left the row as it was), `verdict`.  `source`: the spoke that it came
    from, of a verdict the spoke that it is for.  `seen`: what that had seen.  `at`: the change's place in its log.
    """

    kind: str
    source: int
    before: Row | None
    after: Row | None
    seen: Place = NOTHING
    at: int = -1


class Note(NamedTuple):
    """An entry of a spoke's log: a `write`, a `mark` of what was applied, or a `checkpoint`."""

    kind: str
    before: Row | None = None
    after: Row | None = None
    applied: tuple[Stretch, ...] = ()


class Spoke(NamedTuple):
    """`up`, `down`: next entries to be read of its log and of the arbiter's.  `seen`, `beyond`: of `SeenPrefix`.
    `sent`: the last place of which something was sent to it.  `floor`, `last`: of `EchoIndex`.  `held`: of `Hold`.
    `looked`: by key, up to which entry a row was looked up."""

    rows: Rows
    log: tuple[Note, ...] = ()
    up: int = 0
    seen: Place = NOTHING
    beyond: tuple[Stretch, ...] = ()
    down: int = 0
    sent: Place = NOTHING
    floor: Place = NOTHING
    last: tuple[tuple[Register, Place], ...] = ()
    held: tuple[Waiting, ...] = ()
    looked: tuple[tuple[int, int], ...] = ()


class State(NamedTuple):
    """`writes`, `saves`, `restarts`: how many are left."""

    rows: Rows
    log: tuple[Entry, ...]
    spokes: tuple[Spoke, ...]
    writes: int
    saves: int
    restarts: int


ROW = Layout(Index(0, (0,), (Equality.EXACT,), True))
UNIQUE = Layout(ROW.key, uniques=(Index(1, (1,), (Equality.EXACT,), False),))
BY_COLUMN = Layout(ROW.key, groups=((1,), (2,)))
UNIQUE_BY_COLUMN = Layout(ROW.key, BY_COLUMN.groups, UNIQUE.uniques, tied=(1,))
COLUMNS = (Group((1,), Policy.ARRIVAL), Group((2,), Policy.ARRIVAL))
ARRIVAL = Policies(Policy.ARRIVAL)


class Scope(msgspec.Struct, frozen=True):
    """How large the world is, and which rules of the design it has.

    `values`: of a column.  `columns`: a row has two of them, and begins there, unless a value is unique.  `counters`:
    each write adds one to a row that begins there.
    `noops`: an update that leaves the row as it is is logged, as PostgreSQL does.  `saves`: with so many checkpoints,
    `seen` is told by them instead of receipts (-1: by receipts).  `restarts`: of the reader of the arbiter's log.
    `loses`: instead, so many times a spoke's server loses its last commit.  `lags`: the arbiter finds conflicts by what
    the reader of its log has come by so far.  `batches`: the spoke applies up to three entries at a time.  `gathers`:
    the arbiter applies two changes of a spoke at a time, with one `seen`.  `limit`: of the index.  `prunes`: it forgets
    what a change of the spoke had seen.  `hold`: older rows wait; `known`: all of the spoke's log is known at once,
    not only what was read.
    """

    spokes: int = 1
    keys: int = 1
    writes: int = 4
    values: tuple[int, ...] = (1, 2)
    deletes: bool = True
    columns: bool = False
    counters: bool = False
    layout: Layout = ROW
    policies: Policies = ARRIVAL
    noops: bool = False
    saves: int = -1
    restarts: int = 0
    loses: bool = False
    lags: bool = False
    batches: bool = False
    gathers: bool = False
    prunes: bool = False
    clears: bool = False
    limit: int = 1000
    hold: bool = False
    known: bool = False


def put(values: tuple[Item, ...], at: int, value: Item) -> tuple[Item, ...]:
    """Returns the values with another one in that place."""
    return (*values[:at], value, *values[at + 1 :])


def with_spoke(state: State, number: int, spoke: Spoke) -> State:
    return state._replace(spokes=put(state.spokes, number, spoke))


def place(number: int) -> Place:
    """Place of an entry in the arbiter's log."""
    return (number,)


def image(key: int, row: Row | None) -> str:
    """`1=2`, or `1=-` for no row."""
    return f"{key}={'-' if row is None else ','.join(map(str, row[1:]))}"


def spelled(rows: Rows) -> str:
    """Returns the images of all rows."""
    return " ".join(image(key, row) for key, row in enumerate(rows, 1))


def key_of(note: Note) -> int:
    """Returns the key of the row that a spoke's writer changed."""
    return int((note.after or note.before or (0,))[0])


def image_of(note: Note) -> str:
    """Returns the image of that row."""
    return image(key_of(note), note.after)


def holders(rows: Rows, wanted: Row) -> tuple[Row, ...]:
    """Other rows with the value of the unique column that a row wants."""
    return tuple(row for row in rows if row is not None and row[0] != wanted[0] and row[1] == wanted[1])
