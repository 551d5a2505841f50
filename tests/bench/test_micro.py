"""Microbenchmarks do the work they claim to measure, and say so when it costs more than it did."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from bench import outcome
from bench.harness.servers import MariaDb, MySql, Postgres, Server, ServerMissing
from bench.micro import account, against, command, decode, profile, recording, remote, suite
from bench.micro.budgets import Budgets
from bench.micro.case import held
from bench.micro.suite import CASES, Figure
from tidelock.adapters.mysql.binlog.batch_frames import FrameDecoder
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Row, RowChange


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty budget file."""
    path = tmp_path / "budgets.json"
    monkeypatch.setattr(command, "PATH", path)
    return path


def figure(name: str, us: float) -> Figure:
    return Figure(name, us, us)


# ---------------------------------------------------------------------- what is measured


def changes(chunks: list[SourceChunk]) -> list[RowChange]:
    return [change for chunk in chunks for transaction in chunk.transactions for change in transaction.rows]


def changes_of_frames(sent: list[tuple[int, bytes]]) -> list[RowChange]:
    """Row images as the tuples that they stand for."""
    decoder = FrameDecoder()
    rows = [row for kind, body in sent for row in decoder.batch(kind, memoryview(body)).rows]
    return [RowChange(row.table, _tuple(row.before), _tuple(row.after), row.ordinal) for row in rows]


def _tuple(row: Row | None) -> Row | None:
    return None if row is None else tuple(row)


@pytest.mark.parametrize("server", recording.SERVERS)
def test_a_recorded_log_holds_the_rows_it_says_by_every_way_of_reading_it(server: str) -> None:
    for name, stretch in recording.recorded(server).items():
        found = changes(list(decode.decoded(stretch, decode.tables())))
        assert len(found) == stretch.span.rows, name
        assert changes(list(decode.read(stretch, decode.tables()))) == found, name
        sent = list(decode.frames(stretch, decode.tables(images=True)))
        assert changes_of_frames(sent) == found, name
    assert set(decode.SHAPES) < set(recording.recorded(server))


@pytest.mark.parametrize("share", account.SHARES)
def test_the_modelled_log_has_the_share_of_conflicts_it_is_asked_for(share: int) -> None:
    count, recent, conflicts = 5_000, list[set[Any]](), 0
    for before, after in account.changes(count, share):
        touched = {value for row in (before, after) if row is not None for value in row[:2]}
        conflicts += any(touched & earlier for earlier in recent[-account.RECENT :])
        recent.append(touched)
    assert abs(conflicts / count * 100 - share) < 2.5


def test_the_modelled_log_is_one_that_a_table_with_its_keys_allows() -> None:
    ids: dict[Any, Any] = {}
    for before, after in account.changes(5_000, 40):
        if before is not None and before[0] >= 1_000_000:
            assert ids.pop(before[0]) == before[1]
        if after is not None and after[0] >= 1_000_000:
            assert after[0] not in ids and after[1] not in ids.values()
            ids[after[0]] = after[1]


@pytest.mark.proof
@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in CASES}))
def test_every_benchmark_runs(group: str) -> None:
    for name, make in CASES.items():
        if name.startswith(f"{group}/"):
            case = make()
            case.work(case.prepare())
            assert case.rows > 0, name


def test_memory_that_a_stage_holds_is_counted() -> None:
    megabyte = suite.Case(1, lambda _: len(bytes(1 << 20)))
    assert 1 << 20 <= held(megabyte) < 1.1 * (1 << 20)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.proof] * (kind != "postgres")) for kind in remote.SERVERS]
)
def test_sinks_are_measured_on_a_real_server(
    kind: str, postgres: Postgres, mariadb: MariaDb, mysql: MySql, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Server = {"postgres": postgres, "mariadb": mariadb, "mysql": mysql}[kind]
    monkeypatch.setitem(remote.SERVERS, kind, lambda: contextlib.nullcontext(server))
    monkeypatch.setitem(remote.SIZES, 100, 200)
    names = [name for name in remote.NAMES if name.startswith(f"sink {kind}/deletes, 100 ")]
    versions: dict[str, str] = {}
    found = remote.measured(names, versions)
    assert versions[kind].startswith(f"{type(server).__name__} ")
    assert [one.name for one in found] == names and len(names) == 2
    assert all(one.us > 0 and one.rows_a_second for one in found)


# ---------------------------------------------------------------------- what is told


@pytest.mark.proof
def test_figures_are_told_recorded_and_compared(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["wire/encode", "locks/0 % conflict"]
    assert command.command(names, values=1, record=True) == 0
    recorded = Budgets.read(kept)
    assert set(recorded.recorded) == set(names) and all(us > 0 for us in recorded.recorded.values())
    said = capsys.readouterr().out
    assert "0 % conflict" in said and "2 measured, 2 with a budget" in said

    kept.write_text(json.dumps({"recorded": dict.fromkeys(names, 0.001)}))
    assert command.command(names, values=1) == 0
    assert "20% over the budget: 2" in capsys.readouterr().out.replace("\n", " ")
    assert command.command(names, values=1, strict=True) == 3


@pytest.mark.parametrize(
    ("us", "exceeds"), [(1.0, False), (1.19, False), (1.21, True)], ids=["as before", "a fifth", "more"]
)
def test_more_than_a_fifth_over_what_was_recorded_is_a_regression(us: float, exceeds: bool) -> None:
    assert Budgets(recorded={"a/b": 1.0}).exceeded(figure("a/b", us)) == exceeds


def test_a_server_may_add_a_tenth_of_a_microsecond() -> None:
    budgets = Budgets(recorded={"sink/a": 0.2, "merge/a": 0.2})
    assert not budgets.exceeded(Figure("sink/a", 0.3, 0.3, rows_a_second=1e5))
    assert budgets.exceeded(Figure("sink/a", 0.4, 0.4, rows_a_second=1e5))
    assert budgets.exceeded(figure("merge/a", 0.3))


def test_a_limit_holds_whatever_was_recorded() -> None:
    budgets = Budgets(recorded={"a/b": 4.9}, limits={"a/b": 5.0})
    assert not budgets.exceeded(figure("a/b", 5.0)) and budgets.exceeded(figure("a/b", 5.1))
    assert not budgets.exceeded(figure("a/new", 100.0))


def test_recording_a_part_keeps_the_rest(kept: Path) -> None:
    Budgets(limits={"a/b": 5.0}, recorded={"a/b": 1.0, "a/c": 2.0}).record([figure("a/b", 3.0)], "a machine", kept)
    assert Budgets.read(kept) == Budgets("a machine", {"a/b": 5.0}, {"a/b": 3.0, "a/c": 2.0})


def test_every_budget_is_that_of_a_benchmark() -> None:
    budgets = Budgets.read(command.PATH)
    assert {*budgets.recorded, *budgets.limits} <= {*CASES, *remote.NAMES}


def test_a_server_that_is_missing_is_told_and_the_rest_goes_on(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> Server:
        raise ServerMissing("no MariaDB here")

    monkeypatch.setitem(remote.SERVERS, "mariadb", missing)
    monkeypatch.setattr(command, "measured", lambda names, *_: [figure(name, 1.0) for name in names])
    assert command.command(["wire/encode", "sink mariadb/deletes, 1 a"]) == 0
    said = capsys.readouterr()
    assert "left out: no MariaDB here" in said.err and "1 measured" in said.out


@pytest.mark.parametrize(("only", "written"), [(None, True), (["wire"], False)], ids=["all", "a part"])
def test_only_a_whole_run_is_a_result(
    only: list[str] | None, written: bool, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(names: list[str], *_: object) -> list[Figure]:
        return [figure(name, 1.0) for name in names]

    write: Callable[..., Path] = outcome.Outcome.write
    monkeypatch.setattr(command, "measured", measured)
    monkeypatch.setattr(remote, "measured", measured)
    monkeypatch.setattr(outcome.Outcome, "write", lambda self, content: write(self, content, tmp_path))
    assert command.command(only) == 0
    found = outcome.read("micro", tmp_path)
    assert (found is not None) == written
    if found is not None:
        assert [one["name"] for one in found["figures"]] == [*CASES, *remote.NAMES]
        assert found["unit"] == "CPU microseconds a row" and found["over_budget"] == [] and found["machine"]["cores"]


def test_one_benchmark_goes_on_for_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setitem(CASES, "a/b", lambda: suite.Case(1, lambda _: calls.append(1)))
    ticks = itertools.count()
    monkeypatch.setattr(profile, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    profile.command("a/b", seconds=3.0)
    assert len(calls) == 2  # at 1 and at 2
    with pytest.raises(typer.BadParameter, match="a/c is no benchmark"):
        profile.command("a/c")


# ---------------------------------------------------------------------- against another checkout


def test_two_checkouts_are_compared_round_by_round() -> None:
    rounds = [([figure("a", here)], [figure("a", there)]) for here, there in ((1.0, 2.0), (3.0, 1.0), (2.0, 2.0))]
    (one,) = against.compared(rounds)
    assert (one.here, one.there, one.ratios, one.ratio) == (1.0, 1.0, (0.5, 3.0, 1.0), 1.0)
    assert "| a | 1.000 | 1.000 | 1.000 | 0.5 | 3.0 |" in against.shown([one])


def test_another_checkout_is_asked_for_its_benchmarks(tmp_path: Path) -> None:
    assert against.names_of(against.HERE) == list(CASES)
    with pytest.raises(ValueError, match="no checkout"):
        against.names_of(tmp_path)
