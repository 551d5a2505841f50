"""The engine, stage by stage and as a whole, on a modelled log and without a target.

*keys*: the keys a change locks, and the lane it hashes to.  *locks*: keys issued and released, by the share of keys
that a segment in flight holds.  *plan*: a window onto lanes.  *merge*: from changes to steps.  *engine*: the apply
machine from log batches to target batches (route, lock, merge, batch), each answered one step later, so that a window
meets the one before it in flight.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Final

from bench.micro import account, decode
from bench.micro.case import Case, Factory
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.model.hashing import home_of
from tidelock.engine.model.index import Digest, digest
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.lock_keys import compile_keys
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyBatch, ApplyEffect, SaveCheckpoint
from tidelock.engine.protocol.events import ApplyEvent, BatchCommitted, CheckpointSaved, LogArrived, TakenOver

ROWS: Final = 20_000
WINDOW: Final = 4_000
BATCH: Final = 1_000
SEGMENT_ROWS: Final = 100
IN_FLIGHT: Final = 8
LANES: Final = 8
STEP_US: Final = 1_000


def _changes(conflicts: int) -> list[Change]:
    return account.on_their_way(account.log(ROWS, conflicts), account.binding())


def keys() -> Case:
    """Lock keys and home lane of each change."""
    changes = _changes(0)
    binding = changes[0].binding
    row_keys = compile_keys(binding, Keyspace(), {binding.name: binding.target})
    home, identity = home_of(binding), binding.identity

    def work(_: object) -> None:
        for change in changes:
            row_keys.exclusive(change.before, change.after)
            home(identity(change.before or change.after))  # type: ignore[arg-type]

    return Case(ROWS, work)


def locks(conflicts: int) -> Case:
    """Segments of 100 one-key changes, up to eight of them in flight; `conflicts` per cent ask for a key held then."""
    keys: list[list[Digest]] = []
    for number in range(ROWS // SEGMENT_ROWS):
        shared = SEGMENT_ROWS * conflicts // 100 if number else 0
        own = [digest((0, number * SEGMENT_ROWS + n)) for n in range(SEGMENT_ROWS - shared)]
        keys.append([*keys[-1][len(keys[-1]) - shared :], *own] if shared else own)

    def work(_: object) -> None:
        table = LockTable()
        flying: list[LockHolder] = []
        for number, own in enumerate(keys):
            holder = LockHolder(number, number % LANES)
            for before in dict.fromkeys(table.holders(own).values()):
                if before.lane != holder.lane:
                    holder.wait_for(before)
            holder.keys += own
            table.issue(holder)
            flying.append(holder)
            if len(flying) >= IN_FLIGHT:
                table.release(flying.pop(0))
        for holder in flying:
            table.release(holder)

    return Case(ROWS, work)


def plan(conflicts: int) -> Case:
    """Windows of 4,000 changes onto eight lanes, each committed before the next."""
    changes = _changes(conflicts)
    windows = [changes[at : at + WINDOW] for at in range(0, ROWS, WINDOW)]
    binding = changes[0].binding

    def work(_: object) -> None:
        locks, lanes = LockTable(), [Lane(n) for n in range(LANES)]
        dispatcher = Dispatcher(lanes, locks)
        dispatcher.bind(binding, compile_keys(binding, Keyspace(), {binding.name: binding.target}))
        for number, window in enumerate(windows):
            dispatcher.plan(number, window)
            while any(lane.queue for lane in lanes):
                for lane in lanes:
                    if lane.ready:
                        lane.cut(BATCH)
                        for segment in lane.running:
                            locks.release(segment.holder)
                        lane.finish()

    return Case(ROWS, work)


def merging(conflicts: int) -> Case:
    """Batches of 1,000 changes."""
    changes = _changes(conflicts)
    batches = [changes[at : at + BATCH] for at in range(0, ROWS, BATCH)]
    target = changes[0].binding.target
    ranks = Ranks({target.name: target}, {})

    def work(_: object) -> None:
        for batch in batches:
            merge(batch, ranks)

    return Case(ROWS, work)


def whole(log: list[LogBatch], lanes: int = LANES) -> Case:
    """The apply machine, at its default settings."""

    def work(_: object) -> None:
        applied = drive(log, lanes)
        assert applied == ROWS, f"{applied} rows of {ROWS}"

    return Case(ROWS, work)


def recorded() -> Case:
    """A recorded log of the mix workload, as it comes from the capture process, by a new machine for each pass."""
    batches = decode.handed_over("mariadb", "account/mix")
    rows = sum(len(batch.rows) for batch in batches)

    def work(_: object) -> None:
        for _ in range(ROWS // rows):
            assert drive(batches, LANES) == rows

    return Case(ROWS // rows * rows, work)


def drive(batches: list[LogBatch], lanes: int) -> int:
    """Give the machine a window of the log whenever it has room, answer what it asks for; return the rows committed."""
    machine = ApplyMachine(Options(lanes=lanes))
    target = account.target()
    start = batches[0].prev
    events: list[ApplyEvent] = [TakenOver(1, start, tables={target.name: target}, log_end=start)]
    late: list[ApplyEvent] = []
    waiting = iter(batches)
    now = 0
    while events or late:
        now += STEP_US
        effects = machine.step(now, events)
        events, late = late, [_answer(effect) for effect in effects]
        if not machine.backpressured and (arrived := list(itertools.islice(waiting, WINDOW // account.CHUNK_ROWS))):
            events = [*events, LogArrived(arrived, 0)]
    seen = machine.status()
    assert seen is not None, "it has taken over"
    return seen.rows


def _answer(effect: ApplyEffect) -> ApplyEvent:
    match effect:
        case ApplyBatch():
            return BatchCommitted(effect.id)
        case SaveCheckpoint():
            return CheckpointSaved(effect.id)
        case _:
            raise AssertionError(f"the modelled log asks for nothing else: {effect}")


def _by_share(make: Callable[[int], Case]) -> dict[str, Factory]:
    return {f"{share} % conflict": functools.partial(make, share) for share in account.SHARES}


CASES: Final[dict[str, Factory]] = {
    "keys/keys and hash": keys,
    **{f"locks/{name}": make for name, make in _by_share(locks).items()},
    **{f"plan/{name}": make for name, make in _by_share(plan).items()},
    **{f"merge/{name}": make for name, make in _by_share(merging).items()},
    **{f"engine/{name}": make for name, make in _by_share(lambda share: whole(account.log(ROWS, share))).items()},
    "engine/0 % conflict, 1 lane": lambda: whole(account.log(ROWS, 0), 1),
    "engine/recorded mix": recorded,
    "engine/ten hot rows": lambda: whole(account.hot_log(ROWS)),
}
