"""Growth, small: the series run and their files are right; a stopped target costs no memory and no row."""

import json
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.growth import many, pressure
from bench.growth.narrow import Narrow
from bench.growth.series import Case, measure, missed, missed_backlog
from bench.growth.shown import SKEWED, as_table, shown_pressure
from bench.growth.spread import Spread
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres
from bench.harness.workload.workload import Kind
from bench.shown import told

CHANGES = 20_000
PRESSED = 80_000
TREE_MB = 240.0
STILL_SECONDS = 3.0  # the source tells whole seconds, and the page may be older than the stop


@pytest.mark.proof
def test_a_series_runs_and_its_file_tells_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "TOGETHER", 2)
    cases = [Case("1 table", 1, partial(Spread, 1), CHANGES), Case("5", 5, partial(Spread, 5, 2), CHANGES, lanes=2)]
    measure("tables", cases, 1, ("1 table",), tmp_path, "postgres")
    found = json.loads((tmp_path / "growth-tables-postgres.json").read_text())
    one, five = found["cases"]
    assert (found["benchmark"], one["x"], five["x"], five["changes"]) == ("growth-tables-postgres", 1, 5, CHANGES)
    assert one["kept"] == {"rows_per_second": 1, "flowing_rows_per_second": 1, "native_rows_per_second": 1}
    assert five["kept"]["rows_per_second"] == pytest.approx(five["rows_per_second"] / one["rows_per_second"], abs=0.01)
    assert set(five["cpu_us"]) >= {"run", "capture", "source", "target"} and 20 < five["tree_mb"] < TREE_MB
    assert [run["case"] for run in found["runs"]] == ["1 table", "1 table", "5"]
    page, pictures = told(found)
    assert f"| 5 | {CHANGES:,} |" in page and list(pictures) == ["growth-tables-postgres-1"]


@pytest.mark.proof
def test_a_stopped_and_a_killed_target_cost_no_memory_and_no_row() -> None:
    """Ten times the room of rows of two kilobytes wait at the source: read without a bound they would be seen."""
    found, _ = pressure.passed(PRESSED, still_seconds=STILL_SECONDS, lanes=4, note_bytes=2_000)
    assert found.differences == 0
    assert found.tree_mb < TREE_MB
    flowing, stopped, _, killed, _ = found.phases
    assert 0 < flowing.rows <= stopped.rows < PRESSED, "the target was to stop in the middle of the work"
    first, last = stopped.lag
    assert first is not None and last is not None and last > first and killed.name == "killed"
    part = shown_pressure(found)
    assert len(part["header"]) == len(part["rows"][0]) and "| stopped | " in as_table(part)
    assert round(stopped.ended - stopped.begun, 1) >= STILL_SECONDS  # both are told in tenths
    json.dumps(part)


@pytest.mark.parametrize("together", [2, 100])
def test_a_difference_among_many_tables_is_found(
    make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(many, "TOGETHER", together)
    rig = make_rig(mariadb, postgres, "many")
    for table in ("a", "b", "c"):
        rig.table(table, "id bigint PRIMARY KEY, n int")
        rig.at_source(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        rig.at_target(f"INSERT INTO {rig.schema}.{table} VALUES (1, 1), (2, 2)")
    tables = [f"{rig.schema}.{table}" for table in rig.tables]
    assert many.differences(mariadb.url(), postgres.url(), tables) == 0
    rig.at_target(f"DELETE FROM {rig.schema}.c WHERE id = 2")
    assert many.differences(mariadb.url(), postgres.url(), tables) == 1
    first, last = many.commits(postgres.url(), tables)
    assert first <= last


def test_hot_tables_take_four_fifths() -> None:
    spread = Spread(200, hot=5)
    spread.seed(1)
    drawn = [spread.transaction(1).statements[0] for _ in range(2_000)]
    hot = sum(any(f" item_{number} " in sql for number in range(1, 6)) for sql in drawn)
    assert 0.75 < hot / len(drawn) < 0.85


def test_narrow_changes_rows_that_are_there() -> None:
    there: set[int] = set()
    kinds = []
    for transaction in islice(Narrow().transactions(100_000, 1), 200):
        (sql,), (kind, *_) = transaction.statements, transaction.kinds
        kinds.append(kind)
        if kind is Kind.INSERT:
            there |= {int(row.partition(",")[0]) for row in sql.partition("(")[2].split("),(")}
        else:
            first, last = map(int, sql.partition("BETWEEN ")[2].split(" AND "))
            rows = set(range(first, last + 1))
            assert len(rows) == 500 and rows <= there, sql
            there -= rows if kind is Kind.DELETE else set()
    assert [kinds[20:].count(kind) for kind in (Kind.INSERT, Kind.UPDATE, Kind.DELETE)] == [108, 54, 18]


def case(label: str, kept: float = 1.0, tree_mb: float = 100.0, cpu: float = 10.0) -> dict[str, Any]:
    return {
        "case": label, "kept": {"flowing_rows_per_second": kept}, "tree_mb": tree_mb, "cpu_us": {"run": cpu},
    }  # fmt: skip


def test_what_was_missed_is_told() -> None:
    assert missed({"cases": [case("1"), case(SKEWED, kept=0.81)]}) == []
    assert len(missed({"cases": [case("1", tree_mb=301.0), case(SKEWED, kept=0.79)]})) == 2
    assert missed_backlog({"cases": [case("1"), case("2", cpu=11.9)]}) == []
    assert len(missed_backlog({"cases": [case("1"), case("2", cpu=12.1)]})) == 1
