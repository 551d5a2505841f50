"""The plan of one run, drawn from its seed: tables, engine settings, and which faults may happen how often.

*Swarm testing* (Groce et al., ISSTA 2012): each run turns features and faults on and off by chance, so that no fault
hides another; a run in which everything may happen never gets deep into anything.

A plan is plain data.  The seed alone makes it (`draw`), the world runs it, and a shrunk one is kept as JSON in
`simulations/seeds/`.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from tidelock.simulations import catalogue

DEFAULT_CHANGES = 100
LEAST_TABLES = 3
LEAST_FAULTS = 5
ROW_BYTES = 100  # each row of a log came in so many
COPIED_SHARE = 0.3  # of all runs copy tables
POOL = catalogue.POOL.name.table
POOL_SHARE = 0.15  # of all runs have it, beside what else they have
REPAIRED_SHARE = 0.2  # of all runs repair rows
IMAGE_SHARE = 0.3  # of all runs in which whole rows are logged, and none is kept, compare them
KEYED_SHARE = 0.25  # of all runs have tables of which the log tells less than whole rows
NUMBERS_A_CHANGE = 5  # a history ends after so many transactions for each change it should have, whatever they did

# fault → what happens.  How often it does is the plan's.
FAULTS = {
    "lost": "a batch of the log never arrives",
    "repeated": "a batch of the log arrives twice",
    "reordered": "a batch of the log overtakes the one before it",
    "rewound": "what carries the log goes back and delivers a stretch of it again",
    "hole": "a resend begins behind the place that was asked for",
    "disconnected": "the reader loses its connection",
    "purged": "the source no longer has its log from there; the feed halts until an operator brings it back",
    "unreadable": "the reader meets an event that it does not understand; the feed halts",
    "crash": "the owner dies, and another takes over",
    "crash_amid": "the owner dies between two effects of one step",
    "rival": "another owner takes over while this one lives on as a zombie",
    "hang": "the owner stands still for a while",
    "clock": "the owner's clock jumps",
    "deadlock": "the target rolls a batch back",
    "doubt": "COMMIT is sent and its answer lost",
    "crossing": "an earlier held batch waits at the target for a lock of a later one",
    "stall": "the target leaves a batch open for long",
    "checkpoint": "a checkpoint or a statement fails or is left in doubt",
    "broken": "the target must be mended by hand (disk full); the feed halts until it is",
    "forgotten": "the target crashes and has forgotten its last commits",
    "echo": "an answer of the target arrives a second time",
    "other_log": "another log is in the place of the source's: it was reset, or put back to an older state and gone on "
    "from there; the feed halts until an operator brings the right one back",
    "moved_log": "the same log is served by a replica, by another server with its disk, or without its oldest files",
}
_OF_LOGS = ("other_log", "moved_log")  # drawn apart: older seeds keep all else
LOGS_SHARE = 0.15  # of all runs have each of them
# At least one of these is in every run: they can happen at any moment, however little there is left to do.
ALWAYS_POSSIBLE = ("disconnected", "crash", "rival")

# feature → what the run's history or its operator does.
FEATURES = {
    "ddl": "statements that change the schema",
    "poison": "rows that the target refuses",
    "two_way": "transactions that came from the target's side, and must not go back",
    "wishes": "an operator who retries and skips parked rows",
    "pauses": "an operator who pauses and resumes the feed",
    "large": "transactions far larger than a window",
}


# Kept plans are files of older versions too.
_STORED: Final = {
    "min_rows_per_lane": "fill_rows",
    "max_in_flight_rows": "room_rows",
    "max_in_flight_bytes": "room_bytes",
    "coalesce_rows": "gather_rows",
    "linger_us": "gather_us",
}


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=_STORED):
    """Settings of the apply machine (`engine.model.options.Options`)."""

    lanes: int
    batch_rows: int
    window_rows: int
    max_in_flight_rows: int
    checkpoint_us: int
    idle_checkpoint_us: int
    commit_bound_us: int
    min_rows_per_lane: int = 0
    coalesce_rows: int = 0
    linger_us: int = 0
    max_in_flight_bytes: int = 32 << 20
    stream_idle_us: int = 30_000_000


class Copy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tables that hold rows before the log begins, and are copied while it flows (`engine.copy.chunk_ledger`).

    `families`: all their tables are copied; those of `again` once more on the way; those of `keep` to a target that
    holds some of their rows already.  `rows`: how many a table has, at most.  `seed`: of how they are split and read.
    `reads`, `touched`: `Options.copy_reads`, `copy_touched`."""

    families: tuple[str, ...]
    again: tuple[str, ...]
    rows: int
    seed: int
    reads: int
    touched: int
    keep: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`seed`: of the source's history.  `schedule`: of everything that happens to it afterwards.
    `families`: names in `catalogue.BY_NAME`.  `changes`: how many row changes the source commits at least.
    `faults`: name → weight, beside the others.  `fault_rate`: chance of one a step.  `longest`: entries of the log in
    one batch; `cut_anywhere`: else a transaction is cut only where it alone is longer, as the adapters' readers do.
    `cascades`: how the source logs a cascade (`catalogue.CASCADES`).
    `copy`: what is copied; None: the target starts as empty as the source.  `repairs`: rows of the target are changed
    behind the feed's back, and repaired.  `keyed`: tables of which the source does not log whole rows
    (`simulations.identity`).
    `image`: rows are compared with their before-images (`Options.verify`).
    `altered`: tables are altered, and how the target commits that: "implicit", by itself and before the bookkeeping
    says so, or "noted", together with it.
    `without`: numbers of source transactions that do not happen (a shrunk run).  `locking`: off only to show what the
    locks are for."""

    seed: int
    schedule: int
    families: tuple[str, ...]
    changes: int
    atomic: bool
    features: tuple[str, ...]
    faults: dict[str, int]
    fault_rate: float
    longest: int
    cut_anywhere: bool
    engine: Engine
    cascades: str = "hidden"
    without: tuple[int, ...] = ()
    locking: bool = True
    copy: Copy | None = None
    repairs: bool = False
    keyed: tuple[str, ...] = ()
    image: bool = False
    altered: str = ""


def draw(seed: int, changes: int = DEFAULT_CHANGES, *, locking: bool = True) -> Plan:
    """The plan that this seed makes."""
    chance = Random(seed)
    families = _families(chance)
    copy = _copy(Random(f"copy {seed}"), seed, families)  # apart, as `min_rows_per_lane` is
    gathering = Random(f"gather {seed}")
    faults = chance.sample(sorted(set(FAULTS) - set(_OF_LOGS)), chance.randint(3, 9))
    if not set(faults) & set(ALWAYS_POSSIBLE):
        faults.append(chance.choice(ALWAYS_POSSIBLE))
    keyed = _keyed(Random(f"keyed {seed}"), families, copy) if locking else ()
    repairs = locking and Random(f"repairs {seed}").random() < REPAIRED_SHARE
    image = locking and not keyed and not (copy and copy.keep) and Random(f"image {seed}").random() < IMAGE_SHARE
    return Plan(
        seed=seed,
        schedule=seed,
        families=(*families, POOL) if Random(f"pool {seed}").random() < POOL_SHARE else families,
        changes=changes,
        atomic=chance.random() < 0.35,
        features=(features := _features(chance, families, copy)),
        faults={name: chance.choice((1, 1, 4)) for name in faults} | _of_logs(Random(f"logs {seed}")),
        fault_rate=chance.choice((0.03, 0.05, 0.07, 0.1)),
        longest=chance.choice((2, 6, 15, 40)),
        cut_anywhere=chance.random() < 0.5,
        engine=Engine(
            lanes=chance.choice((1, 2, 3, 4, 8)),
            batch_rows=chance.choice((1, 3, 10, 50)),
            window_rows=chance.choice((1, 6, 15, 40)),
            max_in_flight_rows=chance.choice((4, 10, 40, 200)),
            checkpoint_us=chance.choice((2_000, 50_000, 500_000)),
            idle_checkpoint_us=chance.choice((20_000, 5_000_000)),
            commit_bound_us=chance.choice((20_000, 200_000)),
            min_rows_per_lane=Random(f"fill {seed}").choice((0, 0, 1, 3, 10)),  # apart: older seeds keep all else
            coalesce_rows=gathering.choice((0, 2, 5, 20)),
            linger_us=gathering.choice((1_000, 50_000, 10_000_000)),
            max_in_flight_bytes=ROW_BYTES * gathering.choice((4, 16, 100, 1_000)),
            stream_idle_us=Random(f"stream {seed}").choice((1_000, 50_000, 30_000_000)),
        ),
        cascades=chance.choice(catalogue.CASCADES),
        locking=locking,
        copy=copy,
        repairs=repairs,
        keyed=keyed,
        image=image and not (repairs and "wishes" in features),  # who skips a locked row has to repair it then
    )


def _keyed(chance: Random, families: tuple[str, ...], copy: Copy | None) -> tuple[str, ...]:
    """Tables with a key and without a filter, and of which no row of the target's own is kept: one that is not there
    could not be made of what the log tells."""
    if chance.random() >= KEYED_SHARE:
        return ()
    kept = copy.keep if copy is not None else ()
    chosen = [family for family in families if family not in (*kept, catalogue.LEAD.name.table)]
    tables = [table for family in chosen for table in catalogue.BY_NAME[family]]
    return tuple(table.name.table for table in tables if table.key and chance.random() < 0.7)


def _of_logs(chance: Random) -> dict[str, int]:
    return {name: chance.choice((1, 4)) for name in _OF_LOGS if chance.random() < LOGS_SHARE}


def _copy(chance: Random, seed: int, families: tuple[str, ...]) -> Copy | None:
    """Tables that cascade are copied twice as often: much has to meet there."""
    cascading = catalogue.CASCADING[0].name.table
    if chance.random() >= (2 * COPIED_SHARE if cascading in families else COPIED_SHARE):
        return None
    copied = tuple(f for f in families if chance.random() < 0.6 or f == cascading) or families[:1]
    copy = Copy(
        families=copied,
        again=tuple(family for family in copied if chance.random() < 0.2),
        rows=chance.choice((2, 5, 5)),
        seed=seed,
        reads=chance.choice((1, 2, 4)),
        touched=chance.choice((2, 6, 1000, 1000)),
    )
    may_keep = [f for f in copied if f not in copy.again and _alone(f)] if chance.random() < 0.3 else []
    return msgspec.structs.replace(copy, keep=tuple(f for f in may_keep if chance.random() < 0.6))


def _alone(family: str) -> bool:
    """One table with a key and without foreign keys: what is kept there can be told exactly."""
    first, *others = catalogue.BY_NAME[family]
    return not others and bool(first.key) and not first.foreign_keys


def _families(chance: Random) -> tuple[str, ...]:
    """Enough families for three tables."""
    names = sorted(set(catalogue.BY_NAME) - {POOL, catalogue.STOCK.name.table, *catalogue.STAMPED})
    chance.shuffle(names)
    chosen: list[str] = []
    tables = 0
    while tables < LEAST_TABLES:
        chosen.append(names.pop())
        tables += len(catalogue.BY_NAME[chosen[-1]])
    return tuple(sorted(chosen))


def _features(chance: Random, families: tuple[str, ...], copy: Copy | None) -> tuple[str, ...]:
    """A cascade that the log does not show cannot be told from a change that was parked: no refusals beside it.  Nor
    where rows are kept, as nobody knows what they should be once a change of them is parked."""
    chosen = {name for name in sorted(FEATURES) if chance.random() < 0.35}
    if (copy is not None and copy.keep) or catalogue.OWNER.name.table in families:
        chosen -= {"poison", "wishes"}
    elif "poison" in chosen and chance.random() < 0.7:
        chosen.add("wishes")
    return tuple(sorted(chosen))
