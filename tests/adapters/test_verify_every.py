"""`tidelock verify --every`: shares of the rows that leave no gap, round after round; metrics; a restart goes on."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server
from tidelock.adapters.config.loader import load
from tidelock.adapters.verify.rotation import RotationPlace, share
from tidelock.adapters.verify.schedule import ScheduleState, store
from tidelock.adapters.verify.schedule import load as load_state
from tidelock.adapters.verify.verify import VerifyStep, examine
from tidelock.engine.model.records import TableName

DIFFERENT = 3
SECONDS = 240


class Steps:
    def begin(self, step: VerifyStep) -> None: ...

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


def filled(make_rig: Callable[..., Rig], source: Server, target: Server, piece_rows: int = 1000) -> Rig:
    rig = make_rig(source, target, "every", spark={"piece_rows": str(piece_rows)})
    rig.table("numbers", "id bigint PRIMARY KEY, v int")
    rig.table("words", "id varchar(20) PRIMARY KEY, v int")
    rows = ", ".join(f"({n * n}, 0)" for n in range(1, 3501))
    rig.at_source(f"INSERT INTO numbers VALUES {rows}", "INSERT INTO words VALUES ('a', 1), ('b', 2)")
    rig.at_source("ANALYZE TABLE numbers, words")
    rig.catch_up()
    return rig


def planted(rig: Rig) -> None:
    """Before the first row, behind the last, at the bounds of ranges, and in the other table."""
    place = f"{rig.schema}.numbers"
    rig.at_target(f"INSERT INTO {place} VALUES (-5, 0), (99999999, 0)", f"DELETE FROM {place} WHERE id = {1000 * 1000}")
    rig.at_target(f"UPDATE {place} SET v = 7 WHERE id = {1001 * 1001}")
    rig.at_target(f"DELETE FROM {rig.schema}.words WHERE id = 'b'")


FOUND = {"-5", "99999999", str(1000 * 1000), str(1001 * 1001), "b"}


@pytest.mark.parametrize(
    ("source", "target"), [("mariadb", "postgres"), pytest.param("mysql", "mariadb", marks=pytest.mark.proof)]
)
def test_shares_are_the_tables_without_a_gap(
    source: str,
    target: str,
    make_rig: Callable[..., Rig],
    spark: object,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    rig = filled(make_rig, request.getfixturevalue(source), request.getfixturevalue(target))
    planted(rig)
    feed, path = load(rig.feed), tmp_path / "folder" / "state.json"
    state, found, places = ScheduleState(), list[str](), list[RotationPlace]()
    while not state.passes:
        part = asyncio.run(share(feed, (), 0.25, state.place))
        assert 2 <= part.rows <= 2000
        report = examine(feed, part.plan, spark, 60, Steps())  # type: ignore[arg-type]
        found += [value for table in report.tables for d in table.differences for value in d.key.values()]
        state.take(part, report, 1.0)
        places.append(state.place)
        store(path, state)
        state = load_state(path)  # as a restart does
    assert (len(found), set(found)) == (len(FOUND), FOUND)
    assert state.rows == 3502
    assert len(places) == 4
    numbers = TableName(rig.schema, "numbers")
    assert places[:3] == [RotationPlace(numbers, (n * 1000) ** 2) for n in (1, 2, 3)]
    assert places[3] == RotationPlace()
    assert {name.rpartition(".")[2]: [of.known(k) for k in ("missing", "extra", "different")]
            for name, of in state.tables.items()} == {"numbers": [1, 2, 1], "words": [1, 0, 0]}  # fmt: skip


def test_what_is_known_of_a_table_stays_until_a_whole_pass_says_otherwise() -> None:
    state = load_state(Path("/nowhere"))
    assert state == ScheduleState()
    from tidelock.adapters.verify.schedule import FoundDifferences

    found = FoundDifferences(before={"missing": 3}, now={"missing": 1})
    assert found.known("missing") == 3
    assert FoundDifferences(before={"missing": 3}, now={"missing": 4}).known("missing") == 4
    assert found.known("extra") == 0


def test_the_command_goes_on_until_it_is_stopped_and_serves_metrics(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = filled(make_rig, mysql, postgres, 5000)
    planted(rig)
    place, report, said = tmp_path / "place.json", tmp_path / "report.json", tmp_path / "said"
    words = ["verify", str(rig.feed), "--every", "1h", "--share", "1", "--place", str(place), "--report", str(report)]
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelock", *words, "--http", "127.0.0.1:0"], stdout=out, stderr=out
        )
    try:
        until(lambda: "metrics at" in said.read_text() or process.poll() is not None, "an address", SECONDS)
        address = re.search(r"http://\S+", said.read_text())
        assert address is not None, said.read_text()

        def metrics() -> str:
            with urllib.request.urlopen(address[0]) as answer:
                return str(answer.read().decode())

        def passed() -> bool:
            assert process.poll() is None, said.read_text()
            return f'tidelock_verify_passes_total{{feed="{rig.name}"}} 1' in metrics()

        until(passed, "a pass", SECONDS)
        shown = metrics()
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()
    assert f'tidelock_verify_differences{{feed="{rig.name}",table="{rig.schema}.numbers",kind="extra"}} 2' in shown
    assert f'tidelock_verify_differences{{feed="{rig.name}",table="{rig.schema}.words",kind="missing"}} 1' in shown
    assert f'tidelock_verify_failures_total{{feed="{rig.name}"}} 0' in shown
    assert json.loads(report.read_text())["feed"] == rig.name
    assert load_state(place).passes == 1
    assert "pass 1 is done" in said.read_text()


def test_the_first_difference_ends_it_if_that_is_wanted(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mysql, postgres, "every")
    rig.table("t", "id int PRIMARY KEY")
    rig.at_target(f"INSERT INTO {rig.schema}.t VALUES (1)")
    words = ["--every", "1h", "--place", str(tmp_path / "place"), "--stop-on-difference", "--json"]
    ended = tidelock("verify", str(rig.feed), *words, seconds=SECONDS)
    assert ended.code == DIFFERENT, ended
    assert ended.json["tables"][0]["extra"] == 1
    refused = tidelock("verify", str(rig.feed), "--every", "soon")
    assert refused.code == 2 and "is no length of time" in refused.err


def test_a_round_that_cannot_be_done_is_told_and_the_next_tries_again(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "every")
    rig.at_source("CREATE TABLE lonely (id int PRIMARY KEY)")
    said = tmp_path / "said"
    words = ["verify", str(rig.feed), "--every", "1s", "--place", str(tmp_path / "place")]
    with said.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "tidelock", *words], stdout=out, stderr=out)
    try:
        until(lambda: said.read_text().count("not compared") > 1 or process.poll() is not None, "two tries", SECONDS)
        assert process.poll() is None, said.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert f"the target has no table {rig.schema}.lonely" in said.read_text()
    assert load_state(tmp_path / "place").failures > 1
