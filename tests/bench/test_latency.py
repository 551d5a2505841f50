"""The latency benchmark, small: it runs, its samples are the rows', its figures are what they say."""

import itertools
import json
import math
from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, Postgres
from bench.latency.command import report
from bench.latency.distribution import distribution
from bench.latency.measuring import WARM_SECONDS, Run, latencies, run
from bench.latency.pacer import Order, Paced, Pacer
from bench.outcome import Outcome


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    found = distribution([number / 1000 for number in range(1000, 0, -1)])
    assert (found.p50, found.p99, found.p999, found.highest, found.samples) == (500.0, 990.0, 999.0, 1000.0, 1000)
    with pytest.raises(ValueError, match="no latency"):
        distribution([])


def test_every_sample_is_in_one_bin() -> None:
    found = distribution([-0.001, 0.0, 0.00005, 0.0001, 0.00011, 0.05, 1.0, 3.0])
    assert sum(count for _, count in found.bins) == 8
    assert found.bins[0] == (0.1, 3)
    assert found.bins[1] == (0.1259, 2)
    assert found.bins[-1][0] > 3000.0
    edges = [edge for edge, _ in found.bins]
    assert all(math.isclose(high / low, 10**0.1, rel_tol=2e-3) for low, high in itertools.pairwise(edges))


def test_the_pace_is_kept_and_every_commit_is_noted(mariadb: MariaDb) -> None:
    from bench.latency.pacer import workload

    database = mariadb.database("pace")
    for statement in workload().ddl("mariadb"):
        mariadb.execute(statement, database=database)
    paced = Pacer(Order(mariadb.url(database), 500.0, 0.6)).wait()
    assert paced.changes == 300
    assert len(paced.commits) == 30
    assert paced.ended - paced.begun >= 0.57, "the last of 30 transactions is due after 29 intervals of 20 ms"
    assert paced.commits == sorted(map(list, paced.commits))
    newest = mariadb.execute("SELECT max(version) FROM account", database=database)[0][0]
    assert newest <= paced.commits[-1][0]


def test_a_row_is_a_sample_of_the_change_that_wrote_it_last() -> None:
    warm = 100.0 + WARM_SECONDS
    paced = Paced(100.0, 110.0, 40, 0.0, [(8, warm - 0.1), (17, warm + 0.1), (26, warm + 0.2)])
    found = list(
        latencies(paced, [(8, warm), (9, warm + 0.11), (17, warm + 0.12), (18, warm + 0.25), (26, warm + 0.19)])
    )
    assert found == pytest.approx([0.01, 0.02, 0.05, -0.01])


def test_a_run_and_its_file(
    mariadb: MariaDb, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.latency.measuring.WARM_SECONDS", 0.2)
    one = run(mariadb, postgres, tmp_path, 500.0, 0.4, lanes=2)
    assert 60 < one.latency.samples < 200, "of 200 changes, those that nothing wrote over; the first 100 only insert"
    assert one.latency.highest > 0, "a row may be seen before its writer hears of its COMMIT; not all of them are"
    assert 40 < one.peak_mb < 400
    found = report([one, one], 0.4, 2, 2)
    path = Outcome("latency", {"target": postgres}).write(found, tmp_path)
    (kept,) = json.loads(path.read_text())["rates"]
    assert kept["samples"] == 2 * one.latency.samples == sum(count for _, count in kept["histogram_ms"])
    assert found["met"] is None


def test_the_goals_are_judged_at_their_rate() -> None:
    def at(rate: float, latency: float, peak_mb: float) -> Run:
        return Run("mariadb", rate, rate, 0.0, distribution([latency]), peak_mb, {}, 0.1)

    assert report([at(1000.0, 5.0, 90.0), at(5000.0, 0.03, 90.0)], 1, 1, 8)["met"] is True
    assert report([at(5000.0, 0.05, 90.0)], 1, 1, 8)["met"] is False
    assert report([at(5000.0, 0.03, 301.0)], 1, 1, 8)["met"] is False
