"""Systems that take turns on the same work, round by round, and what came of it.

In every round each system has one turn, so that a machine that grows busy or slow hurts all alike; the ratio of two
systems is the median of their ratios within a round.  A system that fails leaves the run with its reason, and the
others go on.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.harness.servers import ServerFailed, ServerMissing
from bench.peers.peer import Peer, PeerFailed, PeerMissing


@dataclasses.dataclass
class Record:
    """Result of one system on one workload; `failed` and `missing` say why it did no more.

    `rows_per_second`: by round.  `exit_rows_per_second`: until its process had ended too, where it ends by itself.
    """

    changes: int = 0
    rows_per_second: list[int] = dataclasses.field(default_factory=list)
    exit_rows_per_second: list[int] = dataclasses.field(default_factory=list)
    load: list[float] = dataclasses.field(default_factory=list)
    failed: str = ""
    missing: str = ""

    @property
    def median(self) -> int:
        return round(statistics.median(self.rows_per_second)) if self.rows_per_second else 0

    @property
    def verdict(self) -> str:
        """Returns the remark that the table makes about its rows."""
        first = (self.missing or self.failed).partition("\n")[0]
        if first:
            return f"{'not here' if self.missing else 'failed'}: {first}"
        return "0"

    def summary(self) -> dict[str, Any]:
        """For the result file: rates in row changes a second."""
        rates = self.rows_per_second
        spread = {"median": self.median, "least": min(rates), "most": max(rates)} if rates else {}
        return {**spread, **{name: value for name, value in vars(self).items() if value}, "differences": self.verdict}


class Tournament:
    """`say`: takes a line for the operator."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.records: dict[str, Record] = {}
        self._peers: dict[str, Peer] = {}
        self._say = say

    def enter(self, name: str, make: Callable[[], Peer]) -> None:
        """Let a system take part, or note why it cannot."""
        record = self.records[name] = Record()
        try:
            peer = self._peers[name] = make()
        except (PeerMissing, ServerMissing, ServerFailed, PeerFailed) as error:
            record.missing = str(error)
            self._say(f"{name}: not here: {error}")
            return
        record.changes = peer.changes

    def play(self, rounds: int) -> None:
        for number in range(1, rounds + 1):
            for name in list(self._peers):
                self._turn(name, f"round {number}")

    def _turn(self, name: str, label: str) -> None:
        peer, record = self._peers[name], self.records[name]
        load = os.getloadavg()[0]
        try:
            seconds = peer.catch_up()
            peer.verify()
        except Exception as error:  # whatever a driver raises: the other systems go on
            record.failed = str(error) if isinstance(error, PeerFailed) else f"{type(error).__name__}: {error}"
            del self._peers[name]
            self._say(f"{label}  {name:<26} failed: {record.failed}")
            return
        record.rows_per_second.append(round(peer.changes / seconds))
        record.load.append(round(load, 2))
        ended = getattr(peer, "exit_seconds", seconds)
        record.exit_rows_per_second.append(round(peer.changes / ended))
        times = f"{seconds:6.2f} s, to its end {ended:6.2f} s"
        self._say(f"{label}  {name:<26} {record.rows_per_second[-1]:>8,} rows/s  {times}  load {load:.1f}")

    def ratio(self, ours: str, other: str) -> dict[str, float] | None:
        """Our rate to the other's: the median and the extremes of the rounds that both ended."""
        mine, theirs = self.records[ours].rows_per_second, self.records[other].rows_per_second
        ratios = [round(one / two, 3) for one, two in zip(mine, theirs, strict=False)]
        if not ratios:
            return None
        return {"median": round(statistics.median(ratios), 3), "least": min(ratios), "most": max(ratios)}

    def ratios(self, beside: Mapping[str, Iterable[str]]) -> dict[str, dict[str, dict[str, float]]]:
        """`beside`: system → those of ours to compare it with.  Returns system → ours → ratio."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for other, names in beside.items():
            for ours in names:
                if other in self.records and ours in self.records and (ratio := self.ratio(ours, other)):
                    found.setdefault(other, {})[ours] = ratio
        return found


def rows(report: Mapping[str, Any]) -> list[Sequence[object]]:
    """The lines of a table from one workload's part of the result file: see `HEADER`."""
    lines: list[Sequence[object]] = []
    for name, system in report["systems"].items():
        rate = f"{system['median']:,}" if "median" in system else "–"
        spread = f"{system['least']:,} to {system['most']:,}" if "median" in system else "–"
        ratios = report["ratios"].get(name, {})
        beside = [f"{ratio['median']:.2f} ({ours.removeprefix('tidelock ')})" for ours, ratio in ratios.items()]
        lines.append([name, rate, spread, "; ".join(beside) or "–", system["differences"]])
    return lines


HEADER = ("system", "rows/s", "spread", "ours to it", "differences")
