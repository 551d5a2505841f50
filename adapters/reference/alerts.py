"""Prometheus' alert rules for feeds, written to `docs/reference/monitoring/alerts.yaml`."""

from __future__ import annotations

from json import dumps
from typing import Final, NamedTuple


class Alert(NamedTuple):
    """An alert rule.  `lasts`: for how long `when` must hold before it fires.  `summary`, `advice`: of Prometheus'
    templates, with the feed's name in `$labels.feed`."""

    name: str
    when: str
    lasts: str
    severity: str
    summary: str
    advice: str


_FEED: Final = "Feed {{ $labels.feed }}"
_STATUS: Final = "`tidelock status FEED` says why, and what to do."

ALERTS: Final = (
    Alert(
        "TidelockFeedGone",
        "max by (feed) (max_over_time(tidelock_build_info[1h])) unless on (feed) tidelock_build_info",
        "2m",
        "critical",
        f"{_FEED} answers no more",
        "It ended, its machine died, or Prometheus does not reach it. It fires for an hour: a feed that was ended for "
        f"good is quiet then. {_STATUS}",
    ),
    Alert(
        "TidelockFeedDown",
        "min by (feed) (tidelock_feed_up) == 0",
        "2m",
        "critical",
        f"{_FEED} has no process under `tidelock serve`",
        f"It has halted, its file is wrong, or it cannot begin and is tried again. {_STATUS}",
    ),
    Alert(
        "TidelockFeedHalted",
        'max by (feed) (tidelock_state{state="halted"}) == 1',
        "0m",
        "critical",
        f"{_FEED} has halted",
        f"It waits for an operator. {_STATUS}",
    ),
    Alert(
        "TidelockFailedRows",
        "sum by (feed) (tidelock_failed_rows) > 0",
        "1m",
        "warning",
        f"{_FEED} has {{{{ $value }}}} failed rows",
        "`tidelock rows list FEED` shows them; `rows retry`, `rows take-source` and `rows skip` end them.",
    ),
    Alert(
        "TidelockLag",
        "max by (feed) (tidelock_lag_seconds) > 300",
        "5m",
        "warning",
        f"{_FEED} is {{{{ $value | humanizeDuration }}}} behind its source",
        "See whether it is slow (lanes full), hindered, paused or silent on the dashboard.",
    ),
    Alert(
        "TidelockPaused",
        'max by (feed) (tidelock_state{state=~"paused|held"}) == 1',
        "1h",
        "warning",
        f"{_FEED} has applied nothing for an hour, as it is paused or waits for its sister",
        "`tidelock resume FEED` ends a pause; `tidelock status FEED` says what a permit waits for.",
    ),
    Alert(
        "TidelockHindered",
        "max by (feed, at) (tidelock_hindered_seconds) > 60",
        "1m",
        "warning",
        f"{_FEED} tries the same work at the {{{{ $labels.at }}}} again and again",
        "`tidelock status FEED` has the server's words, and docs/reference/errors.md what they mean.",
    ),
    Alert(
        "TidelockSilent",
        "max by (feed, side) (tidelock_silent_seconds) > 60",
        "1m",
        "warning",
        "The {{ $labels.side }} of feed {{ $labels.feed }} has not answered for a minute",
        "See whether the server runs, and whether the network reaches it.",
    ),
    Alert(
        "TidelockCheckpointOld",
        "max by (feed, group) (tidelock_checkpoint_age_seconds) > 300",
        "5m",
        "warning",
        "Feed {{ $labels.feed }} has saved no checkpoint for {{ $value | humanizeDuration }}",
        "What is committed is safe, but a restart looks through all of it, and the source must keep its log so long.",
    ),
    Alert(
        "TidelockRestarts",
        "max by (feed) (increase(tidelock_restarts_total[15m])) > 3",
        "0m",
        "warning",
        f"{_FEED} began anew several times within 15 minutes",
        "The lines of its process say why: a network, a server that restarts, or another owner.",
    ),
    Alert(
        "TidelockPrepared",
        "max by (feed) (tidelock_prepared_seconds) > 600",
        "0m",
        "warning",
        "The source of feed {{ $labels.feed }} keeps a transaction prepared for {{ $value | humanizeDuration }}",
        "Its rows come once it is committed: XA RECOVER (or pg_prepared_xacts) shows it, somebody has to decide it.",
    ),
    Alert(
        "TidelockSlotLost",
        'max by (feed, slot) (tidelock_slot_wal_status{status=~"lost|missing"}) == 1',
        "1m",
        "critical",
        "The source keeps no log for feed {{ $labels.feed }} any more",
        f"Its slot {{{{ $labels.slot }}}} is lost or gone; `tidelock resync FEED` goes on from now. {_STATUS}",
    ),
    Alert(
        "TidelockSlotFills",
        "min by (feed, slot) (tidelock_slot_safe_bytes) < 1073741824",
        "5m",
        "critical",
        "The source will drop the log of feed {{ $labels.feed }} soon",
        "Less than 1 GB may be written until then. Let the feed get on, or raise max_slot_wal_keep_size.",
    ),
    Alert(
        "TidelockDifferences",
        "sum by (feed, table) (tidelock_verify_differences) > 0",
        "0m",
        "critical",
        "{{ $value }} rows of {{ $labels.table }} differ",
        "`tidelock verify FEED --report FILE`, then `tidelock repair FEED --from-report FILE`.",
    ),
    Alert(
        "TidelockVerifyOld",
        "max by (feed) (time() - tidelock_verify_last_success_timestamp_seconds) > 172800",
        "10m",
        "warning",
        "No round of `tidelock verify --every` of feed {{ $labels.feed }} ended well for two days",
        "The lines of its process say why.",
    ),
)  # fmt: skip


def rules() -> str:
    """Returns the rules as YAML; each text is in JSON's quotes, which YAML reads alike."""
    lines = ["# Written by `python -m tidelock.adapters.reference.monitoring`; change the code, not this file."]
    lines += ["groups:", "  - name: tidelock", "    rules:"]
    for one in ALERTS:
        lines += [f"      - alert: {one.name}", f"        expr: {dumps(one.when)}", f"        for: {one.lasts}"]
        lines += [f"        labels: {{severity: {one.severity}}}", "        annotations:"]
        lines += [f"          summary: {dumps(one.summary, ensure_ascii=False)}"]
        lines += [f"          description: {dumps(one.advice, ensure_ascii=False)}"]
    return "\n".join(lines) + "\n"
