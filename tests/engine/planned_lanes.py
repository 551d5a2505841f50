"""Windows that are planned on lanes, for tests to look at or to run."""



from tests.engine.world import (
    World,
)
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import RowKeys, compile_keys
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change


def few(keys: RowKeys, digests: int) -> RowKeys:
    """As if digests had only so many values."""
    exclusive = keys.exclusive
    return RowKeys(lambda b, a: [digest % digests for digest in exclusive(b, a)], keys.requests, keys.serial)


class Planned:
    """A dispatcher with its lanes, as a new owner has it.  `digests`: keys have no more different ones, if not 0."""

    def __init__(
        self, world: World, bindings: list, lanes: int, *, locking: bool = True, digests: int = 0, **sizes: int
    ) -> None:
        self.lanes = [Lane(n) for n in range(lanes)]
        self.locks = LockTable()
        self.dispatcher = Dispatcher(self.lanes, self.locks, locking=locking, **sizes)
        space = self.space = Keyspace()
        tied: list[Binding] = []  # with others, by keys that have readers
        for binding in bindings:
            keys = compile_keys(binding, space, world.tables)
            tied += [binding] if keys.requests is not None else []
            self.dispatcher.bind(binding, few(keys, digests) if digests else keys)
        self.ordered = [tied, *([binding] for binding in bindings)]
        self.window = 0

    def plan(self, changes: list[Change]) -> int:
        self.window += 1
        return self.dispatcher.plan(self.window, changes)

    def plan_transactions(self, changes: list[Change]) -> int:
        self.window += 1
        return self.dispatcher.plan_transactions(self.window, changes, self.window % len(self.lanes))

    def where(self, one: Change) -> int:
        (lane,) = (lane.number for lane in self.lanes for s in lane.queue if one in s.changes)
        return lane

    def waits(self) -> int:
        return sum(s.holder.pending_predecessors for lane in self.lanes for s in lane.queue)


# ------------------------------------------------------------------ cases by name


def planned(world: World, *windows: list[Change], lanes: int = 4, **sizes: int) -> Planned:
    made = Planned(world, list(dict.fromkeys(c.binding for w in windows for c in w)), lanes, **sizes)
    for window in windows:
        made.plan(window)
    return made


def together(world: World, *log: Change) -> bool:
    """In one window, or each in its own: on one lane, waiting for nothing?"""
    one, many = planned(world, list(log)), planned(world, *([c] for c in log))
    return all(len({p.where(c) for c in log}) == 1 and p.waits() == 0 for p in (one, many))
