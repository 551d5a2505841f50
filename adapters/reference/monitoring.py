"""Writes what watches feeds: the page of metrics, Prometheus' alert rules, a dashboard for Grafana.

`python -m tidelock.adapters.reference.monitoring` does it.  A test compares, so that they cannot fall behind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tidelock.adapters.fleet.folder import FeedFile
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.pages import fleet_page
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.reference.alerts import ALERTS, rules
from tidelock.adapters.reference.dashboard import dashboard
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import Hindered, Sample
from tidelock.adapters.runtime.table_copy import TableCopy
from tidelock.adapters.verify.schedule import FoundDifferences, ScheduleState
from tidelock.adapters.verify.schedule import metrics as of_verify
from tidelock.adapters.web.metrics import metrics

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
NOTICE: Final = (
    "<!-- Written by `python -m tidelock.adapters.reference.monitoring`; change the code, not this page. -->\n"
)
_LINE: Final = re.compile(r"^(tidelock_\w+)\{(.*)\} \S+$")
_LABEL: Final = re.compile(r'(\w+)="')
_TEXT: Final = """
# Metrics

What a feed serves at `/metrics` of its `http:` ([how to watch it](../how-to/monitor.md)). Every line has the label
`feed`. What is not known just now is left out: a 0 would look like a good figure. Counters begin anew with the process.
`group` is a group of tables; a feed that is not shared among workers has one, 0.

| metric | kind | labels besides `feed` | |
|---|---|---|---|
"""
_VERIFY: Final = """
`tidelock verify --every` serves its own, at its `--http`:

| metric | kind | labels besides `feed` | |
|---|---|---|---|
"""
_SERVED: Final = """
`tidelock serve --http` serves those of all its feeds, and its own:

| metric | kind | labels besides `feed` | |
|---|---|---|---|
"""
_ALERTS: Final = """
# Alerts

Those of [alerts.yaml](monitoring/alerts.yaml).

| alert | fires when | for | severity |
|---|---|---|---|
"""


def whole_page() -> str:
    """Returns the page of a feed that has something to tell in every metric."""
    meters = Meters()
    meters.last_event = 1.0
    meters.table_rows["shop.order"] = 1
    slot = SlotState(
        name="tidelock_shop", wal_status="reserved", retained_bytes=1, unconfirmed_bytes=1, safe_bytes=1, active_pid=1
    )
    sample = Sample(
        state="running",
        lag_seconds=0.1,
        lanes=(1,),
        conflicts=(("insert_exists", "verdict", 1),),
        copies=(TableCopy("shop.order", 1),),
        prepared="x",
        hindrances=(Hindered("target", 2.0, ""),),
        slot=slot,
    )
    return metrics(sample, "shop", [meters])


def verify_page() -> str:
    """Returns the page of `tidelock verify --every` with something to tell in every metric."""
    return of_verify(ScheduleState(tables={"shop.order": FoundDifferences({"missing": 1})}), "shop")


def served_page() -> str:
    """Returns what `tidelock serve` itself says of a feed."""
    member = Member(FeedFile(Path("shop.yaml"), (0, 0, 0)), Path(), lambda _, __: None, lambda _, __: None)
    member.code = 0
    return fleet_page([member])


def names(page: str) -> set[str]:
    """Returns the names of all series of a page."""
    return {found[1] for line in page.splitlines() if (found := _LINE.match(line))}


def files() -> dict[str, str]:
    """Returns the text of each file, by its name in the folder."""
    return {
        "metrics.md": metrics_page(),
        "monitoring/alerts.yaml": rules(),
        "monitoring/dashboard.json": dashboard(),
    }


def metrics_page() -> str:
    """Returns the page of all metrics and alerts."""
    alerts = [
        f"| `{one.name}` | `{one.when.replace(chr(124), chr(92) + chr(124))}` | {one.lasts} | {one.severity} |"
        for one in ALERTS
    ]
    tables = [_TEXT, _table(whole_page()), _VERIFY, _table(verify_page()), _SERVED, _table(served_page())]
    return NOTICE + "".join(tables) + _ALERTS + "\n".join(alerts) + "\n"


def _table(page: str) -> str:
    labels: dict[str, set[str]] = {}
    for line in page.splitlines():
        if found := _LINE.match(line):
            name = re.sub(r"_(bucket|sum|count)$", "", found[1])
            labels.setdefault(name, set()).update(_LABEL.findall(found[2]))
    rows = []
    for name, text, kind in re.findall(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$", page, re.MULTILINE):
        told = ", ".join(f"`{label}`" for label in sorted(labels.get(name, set()) - {"feed", "le"}))
        rows.append(f"| `{name}` | {kind} | {told} | {text} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
