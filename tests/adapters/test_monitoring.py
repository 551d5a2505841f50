"""What watches feeds: the counts beside the machine, and dashboard and alert rules, which name only what is served."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.harness.servers.promtool import promtool
from tidelock.adapters.reference import monitoring
from tidelock.adapters.reference.alerts import ALERTS
from tidelock.adapters.runtime.meters import Histogram, Meters
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.exposition import Page, merged
from tidelock.adapters.web.metrics import metrics
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, BatchReady

NAME = re.compile(r"\btidelock_\w+")
PAGES = (monitoring.whole_page(), monitoring.verify_page(), monitoring.served_page())
SERVED = {name for page in PAGES for name in monitoring.names(page)}


def test_a_histogram_counts_up_to_each_bound_and_beyond() -> None:
    found = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 2.0, 50.0):
        found.observe(value)
    assert found.cumulative == [(1.0, 2), (10.0, 3)]
    assert (found.count, found.sum) == (4, 53.5)


def test_only_what_is_committed_is_counted() -> None:
    meters = Meters(3)
    for number, rows in enumerate((5, 7, 100)):
        meters.sent(EffectId(1, number), rows, Counter({"a.b": rows - 1}))
    meters.sent_piece(EffectId(1, 2), 50, Counter({"a.c": 50}))
    meters.answered(BatchReady(EffectId(1, 2)))
    meters.answered(BatchFailed(EffectId(1, 1), Failure(ErrorKind.TRANSIENT, "deadlock")))
    meters.answered(BatchCommitted(EffectId(1, 0)))
    meters.answered(BatchCommitted(EffectId(1, 2)))
    meters.answered(BatchCommitted(EffectId(1, 1)))  # of a copy's merge, or late
    assert (meters.batch_rows.count, meters.batch_rows.sum) == (2, 155.0)
    assert meters.batch_seconds.count == 2
    assert meters.table_rows == {"a.b": 103, "a.c": 50}


def test_a_heartbeat_tells_the_sources_time_and_is_no_late_row() -> None:
    meters = Meters()
    meters.reached(1, 5_000_000)
    assert (meters.last_event, meters.latency_seconds.count) == (5.0, 0)
    meters.sent(EffectId(1, 1), 1, Counter())
    meters.answered(BatchCommitted(EffectId(1, 1)))
    meters.reached(1, 5_000_000)
    assert meters.latency_seconds.count == 0, "it is committed, and not all before it is"
    meters.reached(2, 6_000_000)
    meters.reached(3, 7_000_000)
    assert (meters.last_event, meters.latency_seconds.count) == (7.0, 1)


def test_a_checkpoint_ages_only_while_rows_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tidelock.adapters.runtime.meters.time.monotonic", lambda: now[0])
    meters, first, second = Meters(), Position("bin.1", 4), Position("bin.1", 400)
    for seconds, saved, committed, age in ((0, first, first, 0.0), (50, first, first, 0.0), (10, first, second, 10.0)):
        now[0] += seconds
        meters.saved(saved, committed)
        assert meters.checkpoint_seconds == age
    meters.saved(second, second)
    assert meters.checkpoint_seconds == 0.0


def test_groups_of_a_feed_are_told_apart_and_pages_of_feeds_join() -> None:
    meters = [Meters(0), Meters(4)]
    meters[1].sent(EffectId(1, 1), 20, Counter())
    meters[1].answered(BatchCommitted(EffectId(1, 1)))
    pages = [metrics(Sample(rows_total=7), "shop", meters), metrics(Sample(), "crm", [Meters()])]
    joined = merged(pages)
    families = {family.name: family for family in text_string_to_metric_families(joined)}
    assert joined.count("# TYPE tidelock_batch_rows histogram") == 1
    counts = {
        (one.labels["feed"], one.labels["group"]): one.value
        for one in families["tidelock_batch_rows"].samples
        if one.name.endswith("_count")
    }
    assert counts == {("shop", "0"): 0, ("shop", "4"): 1, ("crm", "0"): 0}
    assert {(one.labels["feed"], one.value) for one in families["tidelock_rows"].samples} == {("shop", 7), ("crm", 0)}


def test_labels_are_escaped() -> None:
    page = Page({"feed": 'a"b'})
    page.add("x", "gauge", "A text.", ({"table": "back\\slash\nline"}, 1))
    assert page.text.splitlines()[-1] == r'tidelock_x{feed="a\"b",table="back\\slash\nline"} 1'


@pytest.mark.parametrize("name", monitoring.files())
def test_the_files_are_written_from_the_code(name: str) -> None:
    written = (monitoring.FOLDER / name).read_text(encoding="utf-8")
    assert written == monitoring.files()[name], "run `python -m tidelock.adapters.reference.monitoring`"


@pytest.mark.parametrize("name", ["monitoring/alerts.yaml", "monitoring/dashboard.json"])
def test_what_they_name_is_served(name: str) -> None:
    named = set(NAME.findall(monitoring.files()[name]))
    assert named and not named - SERVED


def test_the_dashboard_shows_each_metric_but_the_former_names() -> None:
    text = monitoring.files()["monitoring/dashboard.json"] + monitoring.files()["monitoring/alerts.yaml"]
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SERVED if not name.startswith("tidelock_verify")}
    unseen = {name for name in families if name not in text}
    assert unseen <= {
        *("tidelock_parked_rows", "tidelock_rows_per_second", "tidelock_copy_rows_total", "tidelock_slot_answered"),
        *("tidelock_slot_age_seconds", "tidelock_slot_unconfirmed_bytes", "tidelock_slot_active_pid"),
        "tidelock_slot_reader",
    }
    panels = json.loads(monitoring.files()["monitoring/dashboard.json"])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels if p["type"] != "row"]
    assert len(set(places)) == len(places), "no panel lies on another"


# The labels of the one series of each alert, its values a minute (Prometheus' own notation), when it fires, and when
# it is quiet again.
CASES = {
    "TidelockFeedGone": ("tidelock_build_info{}", "1x5 stale _x6 1x20", "9m", "20m"),
    "TidelockFeedDown": ("tidelock_feed_up{}", "1 0x5 1x20", "5m", "20m"),
    "TidelockFeedHalted": ('tidelock_state{state="halted"}', "0 1x5 0x20", "3m", "20m"),
    "TidelockFailedRows": ("tidelock_failed_rows{}", "0 2x5 0x20", "5m", "20m"),
    "TidelockLag": ("tidelock_lag_seconds{}", "0 400x10 1x20", "9m", "20m"),
    "TidelockPaused": ('tidelock_state{state="paused"}', "1x70 0x20", "65m", "80m"),
    "TidelockHindered": ('tidelock_hindered_seconds{at="target"}', "0 90x5 0x20", "5m", "20m"),
    "TidelockSilent": ('tidelock_silent_seconds{side="source"}', "0 90x5 0x20", "5m", "20m"),
    "TidelockCheckpointOld": ('tidelock_checkpoint_age_seconds{group="0"}', "0 400x10 0x20", "9m", "20m"),
    "TidelockRestarts": ("tidelock_restarts_total{}", "0+2x5 10x40", "5m", "40m"),
    "TidelockPrepared": ("tidelock_prepared_seconds{}", "0 700x5 0x20", "5m", "20m"),
    "TidelockSlotLost": ('tidelock_slot_wal_status{slot="s",status="lost"}', "0 1x5 0x20", "5m", "20m"),
    "TidelockSlotFills": ('tidelock_slot_safe_bytes{slot="s"}', "1000x10 9000000000x20", "9m", "20m"),
    "TidelockDifferences": ('tidelock_verify_differences{table="a.b",kind="extra"}', "0 3x5 0x20", "3m", "20m"),
    "TidelockVerifyOld": ("tidelock_verify_last_success_timestamp_seconds{}", "0x2900 174000x20", "2895m", "2910m"),
}


@pytest.mark.proof
@pytest.mark.parametrize("alert", [one.name for one in ALERTS])
def test_each_alert_fires_and_clears(alert: str, tmp_path: Path) -> None:
    series, values, fires, clears = CASES[alert]
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing",feed="shop"}}) or vector(0)'
    expected = [("0m", 0), (fires, 1), (clears, 0)]
    case = {
        "rule_files": [str(monitoring.FOLDER / "monitoring/alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series.replace("{", '{feed="shop",').replace(",}", "}"), "values": values}],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": at, "exp_samples": [{"labels": "{}", "value": count}]}
                    for at, count in expected
                ],
            }
        ],
    }
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(case), encoding="utf-8")
    done = subprocess.run(
        [promtool(), "test", "rules", str(path)], capture_output=True, encoding="utf-8", timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
