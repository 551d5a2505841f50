"""A `Sample` in Prometheus' text format, with what its groups count; every line says of which feed it is."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.compiled.version import installed
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import STATES, Sample
from tidelock.adapters.web.exposition import Page
from tidelock.adapters.web.slot_metrics import slot_gauges


def metrics(sample: Sample, feed: str, meters: Sequence[Meters] = ()) -> str:
    """Returns the page of a feed.  What is not known is left out: a lag of 0 would look like being caught up."""
    page = Page({"feed": feed})
    _build(page)
    _applied(page, sample)
    _meters(page, meters)
    _troubles(page, sample)
    _copies(page, sample)
    for gauge in slot_gauges(sample.slot) if sample.slot is not None else ():
        page.add(gauge.name, "gauge", gauge.text, *gauge.values)
    states = [({"state": state}, int(state == sample.state)) for state in STATES]
    page.add("state", "gauge", "1 for the state that the feed is in.", *states)
    return page.text


def _build(page: Page) -> None:
    labels = {"version": installed(), "python": platform.python_version(), **compiled_forms.forms()}
    page.add("build_info", "gauge", "1; its labels say the version, and which compiled forms are in use.", (labels, 1))


def _applied(page: Page, sample: Sample) -> None:
    page.one("rows_total", "counter", "Row changes committed at the target.", sample.rows_total)
    page.one("rows_per_second", "gauge", "Row changes committed per second, lately.", sample.rows_per_second)
    if sample.lag_seconds is not None:
        page.one("lag_seconds", "gauge", "How far the target is behind the source.", sample.lag_seconds)
    page.one("lock_waits_total", "counter", "Rows that waited for another row's commit.", sample.lock_waits_total)
    page.one("locks", "gauge", "Locks held or waited for.", sample.locks_held)
    failed = "Row changes set aside with their error, for an operator."
    page.one("failed_rows", "gauge", failed, sample.failed_rows)
    former = "The former name of tidelock_failed_rows, for one release."
    page.one("parked_rows", "gauge", former, sample.failed_rows)
    lanes = [({"lane": number}, rows) for number, rows in enumerate(sample.lanes)]
    page.add("lane_rows", "gauge", "Rows queued and running in a lane.", *lanes)
    page.one("batches_total", "counter", "Transactions committed at the target.", sample.batches_total)
    page.one("retries_total", "counter", "Batches tried again.", sample.retries_total)
    replaced = "Rows of the target that were deleted, as others were to have their unique values."
    page.one("replaced_rows_total", "counter", replaced, sample.replaced_total)
    if sample.conflicts:
        decided = [({"type": kind, "outcome": outcome}, count) for kind, outcome, count in sample.conflicts]
        page.add("conflicts_total", "counter", "Conflicts with other sites that were decided.", *decided)


def _meters(page: Page, meters: Sequence[Meters]) -> None:
    """Each line says of which group it is, too; a feed that is not shared among workers is group 0."""
    if not meters:
        return
    each = [({"group": one.group}, one) for one in meters]
    events = [(labels, one.last_event) for labels, one in each if one.last_event]
    if events:
        text = "The source's time up to which all is committed; of an idle source the time of its last sign of life."
        page.add("last_event_timestamp_seconds", "gauge", text, *events)
    text = "For how long committed rows wait for their checkpoint."
    page.add("checkpoint_age_seconds", "gauge", text, *[(labels, one.checkpoint_seconds) for labels, one in each])
    text = "Rows of each transaction that was committed."
    page.histogram("batch_rows", text, *[(labels, one.batch_rows) for labels, one in each])
    text = "How long each transaction took at the target, from its sending to its answer."
    page.histogram("batch_seconds", text, *[(labels, one.batch_seconds) for labels, one in each])
    text = "How long after their commit at the source changes were committed at the target."
    page.histogram("latency_seconds", text, *[(labels, one.latency_seconds) for labels, one in each])
    rows = [
        ({**labels, "table": table}, count) for labels, one in each for table, count in sorted(one.table_rows.items())
    ]
    if rows:
        text = "Rows written and deleted, by table of the target; changes of a row in one batch count once."
        page.add("table_rows_total", "counter", text, *rows)


def _troubles(page: Page, sample: Sample) -> None:
    text = "Times the source was read anew or the target taken over anew."
    page.one("restarts_total", "counter", text, sample.restarts)
    if sample.prepared:
        text = "How long the source has a transaction prepared that it has not decided."
        page.one("prepared_seconds", "gauge", text, sample.prepared_seconds)
    longest: dict[str, float] = {}
    for one in sample.hindrances:
        longest[one.at] = max(one.seconds, longest.get(one.at, 0.0))
    hindered = [({"at": at}, seconds) for at, seconds in longest.items()]
    if hindered:
        page.add("hindered_seconds", "gauge", "For how long the same work has been tried again and again.", *hindered)
    page.one("fenced_total", "counter", "Writes that a newer owner's fence rejected.", sample.fenced_total)
    silent = [({"side": "source"}, sample.source_silent_seconds), ({"side": "target"}, sample.target_silent_seconds)]
    page.add("silent_seconds", "gauge", "How long source and target have not answered.", *silent)


def _copies(page: Page, sample: Sample) -> None:
    chunks = [
        ({"table": copy.table, "state": state}, count)
        for copy in sample.copies
        for state, count in (
            ("pending", copy.chunks - copy.merged - copy.reading - copy.staged),
            ("reading", copy.reading),
            ("staged", copy.staged),
            ("merged", copy.merged),
        )
    ]
    if chunks:
        page.add("copy_chunks", "gauge", "Chunks of tables that are copied, by what became of them.", *chunks)
        rows = [({"table": copy.table}, copy.rows) for copy in sample.copies]
        page.add("copy_rows_total", "counter", "Rows of merged chunks.", *rows)
