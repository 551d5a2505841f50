"""Systems that take turns: small runs on real servers, and what becomes of those that fail or are not here."""

import contextlib
import json
import sys
from pathlib import Path

import pytest

from bench.harness.forking import COMMAND
from bench.harness.servers.place import ServerMissing
from bench.outcome import Outcome, table
from bench.peers import go_mysql
from bench.peers.backlog import SCHEMA
from bench.peers.command import WORKLOADS, feeds_beside, measure
from bench.peers.peer import PeerFailed, PeerMissing
from bench.peers.program import Program, prepare
from bench.peers.roster import PEERS, Field, Plan
from bench.peers.tournament import HEADER, Tournament, rows

CHANGES = 600


def plan(workload: str) -> Plan:
    return Plan(WORKLOADS[workload], CHANGES, CHANGES, rounds=2, seed=3, lanes=2, command=COMMAND)


class Scripted:
    """A system whose turns take the given times; None: it fails."""

    changes = 1000

    def __init__(self, *seconds: float | None, exact: bool = True) -> None:
        self._seconds = iter(seconds)
        self._exact = exact

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None: ...

    def catch_up(self) -> float:
        seconds = next(self._seconds)
        if seconds is None:
            raise PeerFailed("duplicate key\nin detail")
        return seconds

    def verify(self) -> None:
        if not self._exact:
            raise PeerFailed("3 rows differ")


def tournament(**systems: Scripted) -> Tournament:
    made = Tournament(print)
    for name, system in systems.items():
        made.enter(name, lambda system=system: system)
    made.play(3)
    return made


@pytest.mark.proof
@pytest.mark.parametrize("every", [False, True], ids=["some", "every one"])
def test_native_replication_and_ours_on_one_backlog(every: bool, tmp_path: Path) -> None:
    names = ["postgres-native", "mariadb-native-4"]
    if every:
        names.append("mariadb-native")
        if go_mysql.place().exists():  # else it would be compiled now, which takes a minute
            names.append("go-mysql")
    versions: dict[str, str] = {}
    feeds = ["mariadb-postgres", "mariadb-mariadb", "postgres-postgres"]
    found = measure(plan("churn"), feeds, names, versions)
    assert versions.keys() == {"mariadb", "postgres"}
    systems = {*(f"tidelock {feed}" for feed in feeds), *names}
    assert found["systems"].keys() == systems
    for name, system in found["systems"].items():
        assert system["differences"] == "0", f"{name}: {system}"
        assert len(system["rows_per_second"]) == 2
        assert system["least"] <= system["median"] <= system["most"]
    assert found["ratios"]["mariadb-native-4"].keys() == {"tidelock mariadb-mariadb"}
    assert found["ratios"]["postgres-native"].keys() == {"tidelock mariadb-postgres", "tidelock postgres-postgres"}
    path = Outcome("peers").write({"workloads": {"churn": found}}, tmp_path)
    kept = json.loads(path.read_text())
    assert kept["workloads"]["churn"] == found
    assert kept["machine"]["cores"] > 0
    assert len(table(HEADER, rows(found)).splitlines()) == 2 + len(systems)


def test_a_row_that_differs_is_a_failure(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        field = Field(stack, tmp_path, plan("mix"))
        system = stack.enter_context(PEERS["mariadb-native"].make(field))
        assert system.catch_up() > 0
        system.verify()
        field.target("mariadb").server.execute(f"DELETE FROM {SCHEMA}.account ORDER BY id LIMIT 1")
        with pytest.raises(PeerFailed, match="1 rows differ"):
            system.verify()


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    made = tournament(ours=Scripted(1.0, 1.0, 4.0), other=Scripted(2.0, 2.5, 4.0))
    assert made.ratio("ours", "other") == {"median": 2.0, "least": 1.0, "most": 2.5}
    assert made.records["ours"].median == 1000


def test_who_fails_leaves_and_the_others_go_on() -> None:
    made = tournament(ours=Scripted(1.0, 1.0, 1.0), other=Scripted(2.0, None), wrong=Scripted(0.1, exact=False))
    assert made.records["ours"].rows_per_second == [1000, 1000, 1000]
    assert made.records["other"].rows_per_second == [500]
    assert made.records["other"].verdict == "failed: duplicate key"
    assert made.records["wrong"].rows_per_second == [], "a fast wrong answer has no rate"
    assert made.ratio("ours", "other") == {"median": 2.0, "least": 2.0, "most": 2.0}
    assert made.ratio("ours", "wrong") is None


@pytest.mark.parametrize("error", [PeerMissing("Go is too old"), ServerMissing("no mvn")])
def test_who_is_not_here_is_named(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def make() -> Scripted:
        raise error

    made = Tournament(print)
    made.enter("other", make)
    made.play(1)
    assert str(error) in capsys.readouterr().out
    report = {"systems": {"other": made.records["other"].summary()}, "ratios": {}}
    assert rows(report) == [["other", "–", "–", "–", f"not here: {error}"]]


def test_every_peer_has_its_counterpart() -> None:
    assert feeds_beside(["debezium"]) == ["mariadb-postgres"]
    assert all(feeds_beside([name]) for name in PEERS)


def test_a_program_is_gone_behind_its_turn(tmp_path: Path) -> None:
    with Program([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log") as running:
        assert running.running
        assert running.failure() == ""
    assert not running.running


def test_what_cannot_be_made_ready_says_why(tmp_path: Path) -> None:
    with pytest.raises(PeerMissing, match=r"the tool could not be made ready: no network$"):
        prepare("the tool", [sys.executable, "-c", "import sys; sys.exit('no network')"], tmp_path, {})
