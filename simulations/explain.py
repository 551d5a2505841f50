"""A run as a story for people, made from a told trial: what was given, what happened to whom, what was checked."""

from __future__ import annotations

import sys
from collections import Counter

from tidelock.engine.model.schema import TargetTable
from tidelock.simulations.checkers import ALL
from tidelock.simulations.history import History
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.narrative import Chapter, Narrator, many
from tidelock.simulations.plan import FAULTS, FEATURES, Plan
from tidelock.simulations.trial import Trial


def story(trial: Trial) -> list[Chapter]:
    """The chapters of a told trial: the source, one for each owner, the end."""
    assert trial.history is not None, "the trial was not told"
    return [_plan(trial.plan, trial.history), _source(trial.history), *Narrator(trial).chapters(), _end(trial)]


# ---------------------------------------------------------------------- the plan


def _plan(plan: Plan, history: History) -> Chapter:
    engine = plan.engine
    unit = "whole source transactions, in their order" if plan.atomic else "rows, in any order that the locks allow"
    lines = [
        *(_table(table) for table in history.tables.values()),
        f"applied as {unit}, on {many(engine.lanes, 'lane')} in batches of {many(engine.batch_rows, 'row')}",
        f"{many(engine.window_rows, 'row')} planned at once, room for {many(engine.max_in_flight_rows, 'row')}",
        *(f"with {FEATURES[feature]}" for feature in plan.features),
        *(f"it may happen that {FAULTS[fault]}" for fault in plan.faults),
    ]
    return Chapter(f"The plan of seed {plan.seed}, schedule {plan.schedule}", [("", line) for line in lines])


def _table(table: TargetTable) -> str:
    parts = [f"{table.name} by {' and '.join(table.key) or 'no key'}"]
    parts += [f"unique {' and '.join(u.columns)}" for u in table.uniques if u.columns != table.key]
    parts += [f"{' and '.join(f.columns)} of {f.parent}" for f in table.foreign_keys]
    return ", ".join(parts)


# ---------------------------------------------------------------------- the source


def _source(history: History) -> Chapter:
    entries = history.entries
    transactions = dict.fromkeys(entry.number for entry in entries if entry.ddl is None)
    changes = Counter(_what(entry) for entry in entries if entry.taken)
    tables = Counter(str(entry.shape.name) for entry in entries if entry.taken and entry.shape is not None)
    files = dict.fromkeys(entry.end.file for entry in entries)
    lines = [
        f"{many(len(transactions), 'transaction')} in {many(len(files), 'log file')}",
        f"{many(history.rows, 'row change')} for the feed: {_counted(changes)}",
        *(f"{table}: {n}" for table, n in tables.items()),
        *(f"statement {entry.ddl.number}: {entry.ddl.statement}" for entry in entries if entry.ddl is not None),
        *(f"{deed}: {n}" for deed, n in sorted(history.deeds.items())),
    ]
    return Chapter("The source", [("", line) for line in lines])


def _what(entry: Entry) -> str:
    return "inserts" if entry.before is None else "deletes" if entry.after is None else "updates"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "none"


# ---------------------------------------------------------------------- the end


def _end(trial: Trial) -> Chapter:
    if trial.mistake:
        return Chapter("The mistake", [("", trial.mistake)])
    return Chapter("What held at every commit, and at the end", [("", line) for line in checks()])


def checks() -> list[str]:
    """The property that each checker checks, in its own words."""
    return [" ".join((sys.modules[checker.__module__].__doc__ or "").split("\n\n")[0].split()) for checker in ALL]
