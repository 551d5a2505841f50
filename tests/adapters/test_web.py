"""The HTTP server of a running feed, asked over a real socket; and the samples as people read them."""

from __future__ import annotations

import io
import json
import re
import socket
import sys

import aiohttp
import msgspec
import pytest
from rich.console import Console

from tidelock.adapters.runtime.progress import JsonLines, PlainLines, Sample, live_view, one_line, progress_on
from tidelock.adapters.runtime.table_copy import TableCopy
from tidelock.adapters.web.listen_error import ListenError
from tidelock.adapters.web.metrics import metrics
from tidelock.adapters.web.serving import serve
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.simulations.scenario import Scenario

BUSY = Sample(
    state="running",
    rows_total=12_345_678,
    rows_per_second=45_000.5,
    lag_seconds=0.25,
    lanes=(10, 0, 7),
    lock_waits_total=3,
    locks_held=40,
    failed_rows=2,
    batches_total=99,
    position="bin.000002:400",
    retries_total=1,
    conflicts=(("insert_exists", "verdict", 3), ("update_missing", "park", 1)),
    copies=(
        TableCopy("shop.order", 10, 4, reading=2, staged=1, rows=200_000, seconds=4.0, found=2, before=90_000),
        TableCopy("shop.item", 3, 3, rows=5, seconds=1.0),
    ),
)


async def ask(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_every_page_tells_the_latest_sample() -> None:
    latest = Sample(alarm=None)
    async with serve(("127.0.0.1", 0), lambda: latest, "shop") as port:
        assert await ask(port, "/livez") == (200, "ok\n")
        assert await ask(port, "/readyz") == (503, "starting\n")
        latest = BUSY
        assert await ask(port, "/readyz") == (200, "running\n")
        assert json.loads((await ask(port, "/status"))[1])["rows_total"] == 12_345_678
        assert 'tidelock_rows_total{feed="shop"} 12345678' in (await ask(port, "/metrics"))[1]
        latest = Sample(state="halted", alarm="a gap at bin.000002:400. Look there.")
        assert await ask(port, "/readyz") == (503, "halted: a gap at bin.000002:400. Look there.\n")
        assert (await ask(port, "/livez"))[0] == 200
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(port, "/livez")


WAITS = """\
tables account
options lanes=4 window_rows=1 max_in_flight_rows=100
take over
log 1 resent: insert account 1 a x
log 2: insert account 4 b x
log 3: insert account 5 c y; update account 4 b x to 5 a y
"""


async def test_lanes_tell_who_waits_for_whom() -> None:
    scenario = Scenario()
    for line in WAITS.splitlines():
        list(scenario.take(line))
    machines = [(3, scenario.machine), (4, ApplyMachine(Options()))]  # the other waits for its takeover
    async with serve(("127.0.0.1", 0), lambda: BUSY, "shop", tuple, lambda: machines) as port:
        told = json.loads((await ask(port, "/lanes"))[1])
        machines.clear()
        nothing = {"lanes": [], "waits": [], "hottest": [], "total_waiting": 0}
        assert json.loads((await ask(port, "/lanes"))[1]) == nothing
    states = {lane["lane"]: lane["state"] for lane in told["lanes"]}
    assert states == {0: "idle", 1: "applies", 2: "idle", 3: "applies"}
    (wait,), hottest = told["waits"], told["hottest"]
    assert (wait["change"], wait["waits_for"]) == ("shop.account id=4", "shop.account id=1")
    assert (wait["lane"], wait["at"]) == (1, 3)
    assert (wait["key"], wait["applies"], wait["group"], told["total_waiting"]) == ("email of id=5", True, 3, 1)
    assert hottest == [{"group": 3, "table": "shop.account", "key": "email of id=5", "waiting": 1}]


async def test_a_port_in_use_is_said_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{address[1]}") as caught:
            async with serve(address, lambda: BUSY, "shop"):
                pass
    assert "another" in caught.value.hint


def test_metrics_are_prometheus_text() -> None:
    text = metrics(BUSY, "shop")
    lines = [line.replace('{feed="shop"}', "").replace('feed="shop",', "") for line in text.splitlines()]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["tidelock_rows_per_second"] == "45000.5"
    assert values["tidelock_lag_seconds"] == "0.25"
    assert values['tidelock_lane_rows{lane="2"}'] == "7"
    assert values['tidelock_state{state="running"}'] == "1"
    assert values['tidelock_state{state="caught up"}'] == "0"
    assert values['tidelock_conflicts_total{type="insert_exists",outcome="verdict"}'] == "3"
    states = ("pending", "reading", "staged", "merged")
    counts = [values[f'tidelock_copy_chunks{{table="shop.order",state="{state}"}}'] for state in states]
    assert counts == ["3", "2", "1", "4"]
    assert values['tidelock_copy_rows_total{table="shop.item"}'] == "5"
    typed = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.MULTILINE))
    assert {name.partition("{")[0] for name in values} == typed
    assert all(name.endswith("_total") for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE))


def test_a_renamed_metric_has_both_names() -> None:
    lines = metrics(BUSY, "shop").splitlines()
    assert {'tidelock_failed_rows{feed="shop"} 2', 'tidelock_parked_rows{feed="shop"} 2'} <= set(lines)
    assert "# HELP tidelock_parked_rows The former name of tidelock_failed_rows, for one release." in lines


def test_a_renamed_field_of_a_sample_has_both_names_and_is_read_under_the_former() -> None:
    told = json.loads(msgspec.json.encode(BUSY))
    assert (told["failed_rows"], told["parked_rows"]) == (2, 2)
    del told["failed_rows"]  # as a run of the last release tells it
    assert msgspec.json.decode(json.dumps(told), type=Sample).failed_rows == 2


def test_metrics_parse_with_prometheus_own_parser() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    families = {family.name: family for family in text_string_to_metric_families(metrics(BUSY, "shop"))}
    assert families["tidelock_rows"].samples[0].value == 12_345_678
    assert len(families["tidelock_lane_rows"].samples) == 3


def test_a_copy_is_told_until_it_is_done() -> None:
    order, item = BUSY.copies
    assert str(order) == "shop.order 4 of 10 chunks, 290,000 rows, 50,000 rows/s, 0:12 left"
    assert str(item) == "shop.item 3 of 3 chunks, 5 rows, 5 rows/s"
    assert f"copying {order}" in one_line(BUSY) and "shop.item" not in one_line(BUSY)
    assert TableCopy("a", 5).seconds_left is None and TableCopy("a", 1200, 1, seconds=10.0).seconds_left == 11_990
    shown = io.StringIO()
    Console(file=shown, width=120).print(live_view("shop", BUSY, 1))
    assert "4/10 chunks" in shown.getvalue() and "0:12 left" in shown.getvalue() and "copied" in shown.getvalue()


def test_the_headline_counts_copied_rows_too() -> None:
    assert one_line(BUSY).startswith("running, 12,545,683 rows (200,005 of them copied), 95,000 rows/s, ")
    shown = io.StringIO()
    Console(file=shown, width=160).print(live_view("shop", BUSY, 1))
    assert "12,545,683 rows (200,005 of them copied)" in shown.getvalue()


class Gone(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("json", [True, False])
def test_a_run_goes_on_when_nobody_reads_its_lines(json: bool) -> None:
    progress = progress_on(Gone(), "shop", json)
    progress.update(BUSY)
    progress.message("bye")
    progress.close()


@pytest.mark.parametrize(("json", "said"), [(True, '{"error":"disk full"}\n'), (False, "shop: disk full\n")])
def test_errors_go_to_stderr(json: bool, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    progress_on(sys.stdout, "shop", json).error("disk full")
    assert capsys.readouterr() == ("", said)


def test_unknown_lag_is_no_number() -> None:
    assert "tidelock_lag_seconds" not in metrics(Sample(), "shop")
    assert "lag unknown" in one_line(Sample())


def test_plain_lines_are_paced_but_lose_no_state_and_not_the_end() -> None:
    stream = io.StringIO()
    progress = PlainLines(stream, "shop", seconds=3600)
    for rows in range(100):
        progress.update(Sample(state="running", rows_total=rows))
    progress.update(Sample(state="halted", rows_total=100, alarm="disk full"))
    progress.update(Sample(state="halted", rows_total=101, alarm="disk full"))
    progress.message("bye")
    progress.close()
    assert stream.getvalue().splitlines() == [
        "shop: running, 0 rows, 0 rows/s, lag unknown",
        "shop: halted, 100 rows, 0 rows/s, lag unknown, disk full",
        "shop: bye",
        "shop: halted, 101 rows, 0 rows/s, lag unknown, disk full",
    ]


def test_json_lines() -> None:
    stream = io.StringIO()
    progress = progress_on(stream, "shop", json=True)
    assert isinstance(progress, JsonLines)
    progress.update(BUSY)
    progress.message("bye")
    progress.close()
    sample, message = (json.loads(line) for line in stream.getvalue().splitlines())
    assert sample["sample"]["lanes"] == [10, 0, 7]
    assert message == {"message": "bye"}


def test_live_view_shows_each_lane_by_its_length() -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100)
    console.print(live_view("shop", BUSY, fullest=10))
    text = console.file.getvalue()
    bars = [line.count("━") for line in text.splitlines() if "lane" in line]
    assert bars == [40, 0, 28]
    assert "12,545,683 rows" in text
    assert "2 failed rows" in text
