"""The page of results: written anew in its places, whatever is missing or of another form."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from bench import charts, shown
from bench.report import KINDS, PAGE, Report, filled, written

MACHINE = {
    "at": "2026-11-22T06:00:00+00:00", "processor": "P", "cores": 2, "memory_gib": 24, "kernel": "6.1",
    "python": "3.11.7", "servers": {"target": "Postgres PostgreSQL 15.18 (Debian) on x86_64"},
    "load_before": 0.1, "load_after": 0.2,
}  # fmt: skip


def rate(median: float) -> dict[str, float]:
    return {"median": median, "low": median - 10, "high": median + 10}


def setup(label: str, median: float, against: str | None) -> dict[str, Any]:
    return {
        "label": label, "setup": {"workload": "mix"}, "rows_per_second": rate(median / 2), "against": against,
        "flowing_rows_per_second": rate(median), "ratio": rate(median / 1000), "peak_mb": 100.4,
        "cpu_seconds_a_million": {"run": 4.0},
    }  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with one comparison, in which the second setup misses its goal, and a file of another form."""
    found = {
        "benchmark": "e2e-lanes", "machine": MACHINE, "question": "Do lanes cost?", "changes": 1000, "rounds": 2,
        "goal": 0.9, "met": False, "setups": [setup("one & only", 1000.0, None), setup("eight", 800.0, "one & only")],
    }  # fmt: skip
    (tmp_path / "e2e-lanes.json").write_text(json.dumps(found))
    (tmp_path / "latency.json").write_text(json.dumps({"machine": MACHINE}))
    return tmp_path


def test_a_result_becomes_a_table_with_a_picture_and_its_machine(results: Path) -> None:
    report = Report(results)
    text = report.places()["e2e-lanes"]
    assert "| eight | 800 | 790 to 810 | 400 | 0.80 (-9.20 to 10.80) | run 4.0 | 100 |" in text
    assert "**Not met.**" in text
    assert "PostgreSQL 15.18;" not in text
    assert text.endswith("load 0.1 before and 0.2 after; target: Postgres PostgreSQL 15.18</sub>")
    drawn = ElementTree.fromstring(report.pictures["e2e-lanes"])
    assert {"one & only", "eight"} <= {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}


def test_the_curve_of_lanes_has_a_line_for_each_distance() -> None:
    setups = [setup(f"{lanes} {ms}", 1000.0 * lanes, None) for ms in (0.0, 10.0) for lanes in (1, 8)]
    for one, (ms, lanes) in zip(setups, [(0.0, 1), (0.0, 8), (10.0, 1), (10.0, 8)], strict=True):
        one["setup"] |= {"delay_ms": ms, "lanes": lanes}
    found = {"benchmark": "e2e-curve", "question": "?", "changes": 9, "rounds": 1, "goal": None, "setups": setups}
    _, pictures = shown.curve(found)
    drawn = ElementTree.fromstring(pictures["e2e-curve"])
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
    assert "10 ms each way" in pictures["e2e-curve"]


def test_a_result_that_says_itself_how_it_is_shown(results: Path) -> None:
    chart = {"title": "Rate by tables", "units": ["tables", "rows/s"], "series": {"ours": [[1, 9.0], [2000, 8.0]]}}
    told = {"title": "As tables grow", "text": "Goal: 80 %.", "header": ["tables", "rows/s"], "rows": [["1", "9"]]}
    found = {
        "benchmark": "growth-tables",
        "machine": MACHINE,
        "shown": {**told, "charts": [{**chart, "logarithmic": True}]},
    }
    (results / "growth-tables.json").write_text(json.dumps(found))
    report = Report(results)
    text = report.places()["growth"]
    assert "**As tables grow.** Goal: 80 %.\n\n| tables | rows/s |" in text
    assert "![Rate by tables](performance/growth-tables-1.svg)" in text
    assert "growth-tables-1" in report.pictures


def test_what_is_missing_or_of_another_form_is_told(results: Path) -> None:
    report = Report(results)
    places = report.places()
    assert places["peers"] == "Not measured yet: `tidelock bench peers`."
    assert "latency.json` has another form (KeyError" in places["latency"]
    assert "e2e-lanes" not in report.missing
    assert {"peers", "latency", "micro", "growth"} <= set(report.missing)


def test_only_places_are_written_and_again_gives_the_same(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- e2e-lanes -->\nold\n<!-- end e2e-lanes -->\nafter\n<!-- micro -->\nnever ends\n")
    said = list(written(page, Report(results)))
    once = page.read_text()
    assert once.startswith("before\n<!-- e2e-lanes -->\nDo lanes cost?")
    assert once.endswith("<!-- end e2e-lanes -->\nafter\n<!-- micro -->\nnever ends\n")
    assert "old" not in once
    assert "page.md has no place for micro" in said
    assert (tmp_path / "performance" / "e2e-lanes.svg").exists()
    list(written(page, Report(results)))
    assert page.read_text() == once


def test_the_page_has_a_place_for_every_result() -> None:
    _, homeless = filled(PAGE.read_text(), dict.fromkeys([*KINDS, "growth"], ""))
    assert homeless == []


@pytest.mark.parametrize(("page", "least"), [("performance.md", 30), ("comparison.md", 15)])
def test_each_figure_of_a_page_that_quotes_them_is_in_the_tables(page: str, least: int) -> None:
    figures = re.findall(r"\d+(?:,\d{3})+|\d+\.\d+", (PAGE.parent / page).read_text())
    assert len(figures) > least
    told = set(re.findall(r"\d+(?:,\d{3})+|\d+\.\d+", PAGE.read_text()))
    assert set(figures) - told == set()


def test_axes_have_round_numbers() -> None:
    assert [charts.top(value) for value in (0.93, 7.0, 101_000.0)] == [1.0, 8.0, 150_000.0]
    assert charts.Scale(0.0, 1.0, 0.0, 10.0).ticks == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert charts.Scale(1.0, 20.0, 0.0, 10.0, logarithmic=True).ticks == [1.0, 2.0, 5.0, 10.0, 20.0]
    assert charts.Scale(1.0, 1e6, 0.0, 10.0, logarithmic=True).ticks == [10.0**n for n in range(7)]


def test_places_on_an_axis() -> None:
    up = charts.Scale(0.0, 100.0, 340.0, 40.0)
    assert (up(0.0), up(50.0), up(100.0)) == (340.0, 190.0, 40.0)
    decades = charts.Scale(1.0, 100.0, 0.0, 10.0, logarithmic=True)
    assert (decades(1.0), decades(10.0), decades(0.001)) == (0.0, 5.0, 0.0)


def test_pictures_are_well_formed_also_when_empty() -> None:
    for svg in (
        charts.bars("a < b", "rows/s", [charts.Bar("x", 3.0, 2.0, 4.0)], goal=5.0),
        charts.bars("none", "rows/s", []),
        charts.histogram("h", "ms", {"5,000/s": [(1.0, 3), (1.26, 0), (1.58, 1)]}),
        charts.histogram("none", "ms", {}),
        charts.lines("l", ("tables", "rows/s"), {"even": [(1, 10.0), (2000, 5.0)]}, logarithmic=True, limit=12.0),
        charts.lines("none", ("s", "MB"), {}),
    ):
        assert ElementTree.fromstring(svg).tag.endswith("svg")
