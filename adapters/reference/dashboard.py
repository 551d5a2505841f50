"""A dashboard for Grafana, written to `docs/reference/monitoring/dashboard.json`.

Rows of panels go from what an operator looks at first (does it run, how far behind is it) to causes.  It asks for a
data source and for feeds when it is opened.
"""

from __future__ import annotations

from json import dumps
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Unit: TypeAlias = Literal["short", "s", "bytes", "ops", "dateTimeFromNow"]
_WIDE, _HEIGHT, _PANELS_A_ROW = 24, 8, 3
_CHOSEN: Final = 'feed=~"$feed"'


class Panel(NamedTuple):
    """A graph.  `queries`: each with the text of its legend; `FEED` stands for the choice of feeds."""

    title: str
    text: str
    unit: Unit
    queries: tuple[tuple[str, str], ...]


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    """Returns the queries for the middle and the slow end of a histogram."""
    rate = f"sum by (feed, le) (rate({metric}_bucket{{FEED}}[$__rate_interval]))"
    return tuple((f"histogram_quantile({part}, {rate})", f"{{{{feed}}}} {part:.0%}") for part in (0.5, 0.95, 0.99))


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Feeds",
        (
            Panel("State", "1 for the state that a feed is in.", "short",
                  (("max by (feed, state) (tidelock_state{FEED} == 1)", "{{feed}} {{state}}"),)),
            Panel("Lag", "How far the target is behind the source.", "s",
                  (("max by (feed) (tidelock_lag_seconds{FEED})", "{{feed}}"),)),
            Panel("Failed rows", "Rows set aside with their error, for an operator.", "short",
                  (("sum by (feed) (tidelock_failed_rows{FEED})", "{{feed}}"),)),
        ),
    ),
    (
        "Rows",
        (
            Panel("Row changes a second", "Committed at the target.", "ops",
                  (("sum by (feed) (rate(tidelock_rows_total{FEED}[$__rate_interval]))", "{{feed}}"),)),
            Panel("By table", "Rows written and deleted a second, the ten busiest tables.", "ops",
                  (("topk(10, sum by (feed, table) (rate(tidelock_table_rows_total{FEED}[$__rate_interval])))",
                    "{{feed}} {{table}}"),)),
            Panel("Copies", "Chunks of tables that are copied and not merged.", "short",
                  (('sum by (feed, table) (tidelock_copy_chunks{FEED,state!="merged"}})', "{{feed}} {{table}}"),)),
        ),
    ),
    (
        "How late, how large, how long",
        (
            Panel("Latency", "From the commit at the source to the commit at the target.", "s",
                  _quantiles("tidelock_latency_seconds")),
            Panel("Transactions at the target", "How long each took.", "s", _quantiles("tidelock_batch_seconds")),
            Panel("Rows of a transaction", "Of those at the target.", "short", _quantiles("tidelock_batch_rows")),
        ),
    ),
    (
        "At work",
        (
            Panel("Rows in lanes", "Queued and running.", "short",
                  (("sum by (feed, lane) (tidelock_lane_rows{FEED})", "{{feed}} lane {{lane}}"),)),
            Panel("Locks", "Held or waited for; rows a second that waited.", "short",
                  (("sum by (feed) (tidelock_locks{FEED})", "{{feed}} held"),
                   ("sum by (feed) (rate(tidelock_lock_waits_total{FEED}[$__rate_interval]))", "{{feed}} waits"))),
            Panel("Transactions a second", "Committed at the target, and tried again.", "ops",
                  (("sum by (feed) (rate(tidelock_batches_total{FEED}[$__rate_interval]))", "{{feed}}"),
                   ("sum by (feed) (rate(tidelock_retries_total{FEED}[$__rate_interval]))", "{{feed}} again"))),
        ),
    ),
    (
        "Trouble",
        (
            Panel("Tried again and again", "For how long the same work has been.", "s",
                  (("max by (feed, at) (tidelock_hindered_seconds{FEED})", "{{feed}} {{at}}"),)),
            Panel("Silence", "How long source and target have not answered.", "s",
                  (("max by (feed, side) (tidelock_silent_seconds{FEED})", "{{feed}} {{side}}"),)),
            Panel("Began anew", "Readers and owners that began anew, and writes that a fence rejected.", "short",
                  (("sum by (feed) (increase(tidelock_restarts_total{FEED}[$__rate_interval]))", "{{feed}} restarts"),
                   ("sum by (feed) (increase(tidelock_fenced_total{FEED}[$__rate_interval]))", "{{feed}} fenced"))),
            Panel("Checkpoint", "For how long committed rows wait for it, by group.", "s",
                  (("max by (feed, group) (tidelock_checkpoint_age_seconds{FEED})", "{{feed}} group {{group}}"),)),
            Panel("Source's time", "Up to which all is committed, by group.", "dateTimeFromNow",
                  (("max by (feed, group) (tidelock_last_event_timestamp_seconds{FEED}) * 1000",
                    "{{feed}} group {{group}}"),)),
            Panel("Starts", "Of feeds under `tidelock serve`, and their last exit codes.", "short",
                  (("sum by (feed) (increase(tidelock_feed_starts_total{FEED}[$__rate_interval]))", "{{feed}} starts"),
                   ("max by (feed) (tidelock_feed_exit_code{FEED})", "{{feed}} exit code"))),
            Panel("Prepared and undecided", "The source's longest prepared transaction.", "s",
                  (("max by (feed) (tidelock_prepared_seconds{FEED})", "{{feed}}"),)),
        ),
    ),
    (
        "Log kept by PostgreSQL, conflicts, verify",
        (
            Panel("Log of slots", "Kept for the feed, and what may still be written until it is lost.", "bytes",
                  (("max by (feed) (tidelock_slot_retained_bytes{FEED})", "{{feed}} kept"),
                   ("min by (feed) (tidelock_slot_safe_bytes{FEED})", "{{feed}} until it is lost"))),
            Panel("Conflicts a second", "With other sites, by outcome; rows that made room.", "ops",
                  (("sum by (feed, type, outcome) (rate(tidelock_conflicts_total{FEED}[$__rate_interval]))",
                    "{{feed}} {{type}} {{outcome}}"),
                   ("sum by (feed) (rate(tidelock_replaced_rows_total{FEED}[$__rate_interval]))",
                    "{{feed}} replaced"))),
            Panel("Differences", "Rows that `tidelock verify --every` found to differ.", "short",
                  (("sum by (feed, table, kind) (tidelock_verify_differences{FEED})", "{{feed}} {{table}} {{kind}}"),)),
        ),
    ),
)  # fmt: skip
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> str:
    """Returns the dashboard as JSON."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append(_heading(len(panels) + 1, title, top))
        top += 1
        for at, panel in enumerate(row):
            left, down = at % _PANELS_A_ROW, at // _PANELS_A_ROW
            panels.append(_graph(len(panels) + 1, panel, left, top + down * _HEIGHT))
        top += _HEIGHT * -(-len(row) // _PANELS_A_ROW)
    whole = {
        "title": "Tidelock",
        "uid": "tidelock",
        "description": "Written by `python -m tidelock.adapters.reference.monitoring`.",
        "tags": ["tidelock", "replication"],
        "schemaVersion": 38,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_choice_of_source(), _choice_of_feeds()]},
        "panels": panels,
    }
    return dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _heading(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": _WIDE, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _graph(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    wide = _WIDE // _PANELS_A_ROW
    targets = [
        {"refId": name, "datasource": _SOURCE, "expr": query.replace("FEED", _CHOSEN), "legendFormat": legend}
        for name, (query, legend) in zip("ABC", panel.queries, strict=False)
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": wide, "x": left * wide, "y": top},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _choice_of_source() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _choice_of_feeds() -> dict[str, Any]:
    query = "label_values(tidelock_build_info, feed)"
    several = {"multi": True, "includeAll": True, "current": {"text": "All", "value": "$__all"}, "refresh": 2}
    return {
        "name": "feed", "label": "Feed", "type": "query", "datasource": _SOURCE, "query": query, **several
    }  # fmt: skip
