"""Metrics of the slot by which a source keeps its log for a feed.

What is not known is left out: an old figure, or a 0, would look like a good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tidelock.adapters.ports.slot_state import SlotState

_STATUSES: Final = ("reserved", "extended", "unreserved", "lost", "missing")
_READERS: Final = ("run", "other", "nobody")


class Gauge(NamedTuple):
    """A gauge by its name, without our prefix.  `values`: labels and value of each of its lines."""

    name: str
    text: str
    values: Sequence[tuple[Mapping[str, str], float]]


def slot_gauges(slot: SlotState) -> Iterator[Gauge]:
    """Yields what is known of the slot."""
    label = {"slot": slot.name}
    yield _gauge("answered", "1 where the source answered the last question about it.", label, int(not slot.unread))
    yield _gauge("age_seconds", "How old the figures of the slot are.", label, slot.seconds)
    if slot.unread:
        return
    status = slot.wal_status or "missing"
    yield _choice("wal_status", "1 for the state that the slot is in.", label, "status", _STATUSES, status)
    if slot.missing:
        return
    sizes = (
        ("retained_bytes", "Log kept, from the oldest place that the slot needs.", slot.retained_bytes),
        ("unconfirmed_bytes", "Log that the feed has not confirmed.", slot.unconfirmed_bytes),
        ("safe_bytes", "Log that can be written until the slot may be lost.", slot.safe_bytes),
    )
    for name, text, count in sizes:
        if count is not None:
            yield _gauge(name, text, label, count)
    reader = "nobody" if not slot.active_pid else "run" if slot.ours else "other"
    yield _choice("reader", "1 for who reads it: a run of ours, others, nobody.", label, "reader", _READERS, reader)
    yield _gauge("active_pid", "The source's session that reads the slot, 0 without one.", label, slot.active_pid)


def _gauge(name: str, text: str, label: Mapping[str, str], value: float) -> Gauge:
    return Gauge(f"slot_{name}", text, [(label, value)])


def _choice(
    name: str, text: str, label: Mapping[str, str], kind: str, words: Sequence[str], word: str
) -> Gauge:
    """A line for each word, with 1 for the one that holds."""
    return Gauge(f"slot_{name}", text, [({**label, kind: one}, int(one == word)) for one in words])
