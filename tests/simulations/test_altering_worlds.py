"""Worlds in which tables are altered while their rows flow: clean by seed, and known to notice planted bugs."""

from collections import Counter
from random import Random

import pytest

from tidelock.engine.model.schema_change import DdlKind
from tidelock.simulations import campaign
from tidelock.simulations.altering import draws, forms
from tidelock.simulations.altering.reshape import Reshape, at_target, carry_out, reshape_at_target
from tidelock.simulations.altering.trial import DrawnAltering
from tidelock.simulations.model import Database
from tidelock.simulations.mutants import check
from tidelock.simulations.mutants.altering import ALTERING
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.hunt import Order

FIRST = 4_000_000
QUICK, PROOF = 20, 5_000
LIMIT = 400
QUICK_ONES = ("checkpoint-behind-a-statement-to-come", "altered-tables-in-the-old-form")
EXPECTED = (
    *(f"source: altered: {words}" for words in ("ALTER TABLE", "RENAME TABLE", "DROP TABLE", "DROP DATABASE")),
    "source: altered: a name is given away and taken again",
    "source: altered: the name of a table that was dropped is taken",
    "altered: found to be done, or nothing to do",
    "altered: made at the target first",
    "altered: ran when another owner took over",
    *(f"altered: {fault} at a statement" for fault in ("crash", "crash_amid", "rival")),
)
RARER = (
    "altered: forgotten at a statement",
    "altered: failed rows ended before a statement",
    "altered: refused, as nobody could tell later whether it ran",
    "statement took effect without an answer",
    *(f"source: ddl {kind}" for kind in DdlKind if kind is not DdlKind.SHADOW),
)


def assert_clean(tally: campaign.Tally) -> None:
    told = [f"tidelock simulate --altering --from {f.seed} --seeds 1   # {f.mistake}" for f in tally.failures[:20]]
    assert not tally.failed, f"{tally.failed} of {tally.runs} worlds fail:\n" + "\n".join(told)


def test_worlds_are_clean() -> None:
    tally = campaign.run(DrawnAltering(), FIRST, QUICK)
    assert_clean(tally)
    assert [name for name in EXPECTED if not tally.coverage[name]] == []
    assert tally.fewest_changes >= 50 and tally.faults > 10 * QUICK


def test_the_same_seed_is_the_same_world() -> None:
    worlds = DrawnAltering(told=True)
    assert worlds(FIRST).digest == worlds(FIRST).digest != worlds(FIRST + 1).digest


@pytest.mark.proof
def test_a_long_campaign_is_clean_and_reaches_everything() -> None:
    tally = campaign.run(DrawnAltering(), 7 * FIRST, PROOF, jobs=2)
    assert_clean(tally)
    assert [name for name in (*EXPECTED, *RARER) if not tally.coverage[name]] == []


# ---------------------------------------------------------------------- what a statement makes of tables


def drawn(seed: int, statements: int) -> tuple[Database, Database, list[Reshape]]:
    """A source and a target that have carried out the same statements, and those that have a change."""
    chance = Random(seed)
    tables = {name: forms.made_anew(name, chance) for name in forms.NAMES[:3]}
    source, target = Database(tables), Database({name: at_target(spec) for name, spec in tables.items()})
    for name, table in source.tables.items():
        row = tuple(f"{name.table} {column.name}" for column in table.spec.columns)
        table.put(table.slot(row), row)
        line = tuple(f"{name.table} {column.name}" for column in target.tables[name].spec.columns)
        target.tables[name].put(target.tables[name].slot(line), line)
    changes = []
    for _ in range(statements):
        statement = draws.draw(source.specs, chance, keyed=True)
        if statement is not None and statement.reshape is not None:
            carry_out(source, statement.reshape)
            changes.append(reshape_at_target(statement.reshape))
    return source, target, changes


def named(database: Database) -> dict[str, list[dict[str, object]]]:
    """Rows by table, their values by column."""
    return {
        str(name): [
            {c.name: value for c, value in zip(table.spec.columns, row, strict=True)} for row in table.rows.values()
        ]
        for name, table in database.tables.items()
    }


@pytest.mark.parametrize("seed", range(30))
def test_a_target_with_columns_in_another_order_ends_as_the_source(seed: int) -> None:
    source, target, changes = drawn(seed, 12)
    assert len(changes) > 4
    for change in changes:
        assert change.is_open(target.specs) and (change.blurred or not change.is_done(target.specs) or same(change))
        carry_out(target, change)
        assert change.is_done(target.specs)
    assert named(target) == named(source)


def same(change: Reshape) -> bool:
    return tuple(made.spec for made in change.made) == change.before


# ---------------------------------------------------------------------- planted bugs


def test_quick_ones_die() -> None:
    results = check.run(QUICK_ONES, limit=20)
    assert [result.mutant.name for result in results if not result.killed] == []


@pytest.mark.proof
def test_all_die() -> None:
    hunted = [mutant for mutant in ALTERING if mutant.name not in BEYOND]
    orders = [Order(mutant, LIMIT, check.PATIENCE) for mutant in hunted]
    alive = Counter(result.mutant.name for result in check.hunt_all(orders) if not result.killed)
    assert alive == Counter()
