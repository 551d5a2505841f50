"""A `Sample` in Prometheus' text format.

Written directly: every value is already in the sample, so prometheus-client's registry would only hold a second copy.
"""

from __future__ import annotations

from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.runtime.progress import STATES, Sample
from tidelock.adapters.web.slot_metrics import slot_gauges

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def metrics(sample: Sample) -> str:
    """Returns the sample in Prometheus' text format.  Lag is left out while it is unknown: a 0 would look like being
    caught up.
    """
    lines: list[str] = []

    def add(name: str, kind: str, text: str, *values: tuple[str, float]) -> None:
        lines.append(f"# HELP tidelock_{name} {text}\n# TYPE tidelock_{name} {kind}")
        lines.extend(f"tidelock_{name}{labels} {value}" for labels, value in values)

    labels = ",".join(f'{name}="{_escaped(form)}"' for name, form in compiled_forms.forms().items())
    add("build_info", "gauge", "1; its labels say which compiled forms are in use.", (f"{{{labels}}}", 1))
    add("rows_total", "counter", "Row changes committed at the target.", ("", sample.rows_total))
    add("rows_per_second", "gauge", "Row changes committed per second, lately.", ("", sample.rows_per_second))
    if sample.lag_seconds is not None:
        add("lag_seconds", "gauge", "How far the target is behind the source.", ("", sample.lag_seconds))
    add("lock_waits_total", "counter", "Rows that waited for another row's commit.", ("", sample.lock_waits_total))
    add("locks", "gauge", "Locks held or waited for.", ("", sample.locks_held))
    add("failed_rows", "gauge", "Row changes set aside with their error, for an operator.", ("", sample.failed_rows))
    add("parked_rows", "gauge", "The former name of tidelock_failed_rows, for one release.", ("", sample.failed_rows))
    lanes = [(f'{{lane="{number}"}}', rows) for number, rows in enumerate(sample.lanes)]
    add("lane_rows", "gauge", "Rows queued and running in a lane.", *lanes)
    add("batches_total", "counter", "Transactions committed at the target.", ("", sample.batches_total))
    add("retries_total", "counter", "Batches tried again.", ("", sample.retries_total))
    replaced = "Rows of the target that were deleted, as others were to have their unique values."
    add("replaced_rows_total", "counter", replaced, ("", sample.replaced_total))
    if sample.conflicts:
        decided = [(f'{{type="{kind}",outcome="{outcome}"}}', count) for kind, outcome, count in sample.conflicts]
        add("conflicts_total", "counter", "Conflicts with other sites that were decided.", *decided)
    add(
        "restarts_total",
        "counter",
        "Times the source was read anew or the target taken over anew.",
        ("", sample.restarts),
    )
    if sample.prepared:
        add(
            "prepared_seconds",
            "gauge",
            "How long the source has a transaction prepared that it has not decided.",
            ("", sample.prepared_seconds),
        )
    longest: dict[str, float] = {}
    for one in sample.hindrances:
        longest[one.at] = max(one.seconds, longest.get(one.at, 0.0))
    hindered = [(f'{{at="{at}"}}', seconds) for at, seconds in longest.items()]
    if hindered:
        add("hindered_seconds", "gauge", "For how long the same work has been tried again and again.", *hindered)
    add("fenced_total", "counter", "Writes that a newer owner's fence rejected.", ("", sample.fenced_total))
    chunks = [
        (f'{{table="{_escaped(copy.table)}",state="{state}"}}', count)
        for copy in sample.copies
        for state, count in (
            ("pending", copy.chunks - copy.merged - copy.reading - copy.staged),
            ("reading", copy.reading),
            ("staged", copy.staged),
            ("merged", copy.merged),
        )
    ]
    if chunks:
        add("copy_chunks", "gauge", "Chunks of tables that are copied, by what became of them.", *chunks)
        rows = [(f'{{table="{_escaped(copy.table)}"}}', copy.rows) for copy in sample.copies]
        add("copy_rows_total", "counter", "Rows of merged chunks.", *rows)
    for gauge in slot_gauges(sample.slot) if sample.slot is not None else ():
        add(gauge.name, "gauge", gauge.text, *gauge.values)
    silent = [('{side="source"}', sample.source_silent_seconds), ('{side="target"}', sample.target_silent_seconds)]
    add("silent_seconds", "gauge", "How long source and target have not answered.", *silent)
    states = [(f'{{state="{state}"}}', int(state == sample.state)) for state in STATES]
    add("state", "gauge", "1 for the state that the feed is in.", *states)
    return "\n".join(lines) + "\n"
