"""Pages in Prometheus' text format.

Written directly: every value is at hand already, so prometheus-client's registry would only hold a second copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from tidelock.adapters.runtime.meters import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "tidelock_"
_FAMILY: Final = re.compile(r"^(?=# HELP )", re.MULTILINE)

Labels: TypeAlias = Mapping[str, object]


class Page:
    """One page.  `labels`: those that every line carries."""

    def __init__(self, labels: Labels) -> None:
        self._labels = dict(labels)
        self._lines: list[str] = []

    def add(self, name: str, kind: Literal["counter", "gauge"], text: str, *values: tuple[Labels, float]) -> None:
        """Adds a metric, by its name without our prefix, with labels and value of each of its lines."""
        self._begin(name, kind, text)
        self._lines += [f"{PREFIX}{name}{self._shown(labels)} {value}" for labels, value in values]

    def one(self, name: str, kind: Literal["counter", "gauge"], text: str, value: float) -> None:
        """Adds a metric of one line."""
        self.add(name, kind, text, ({}, value))

    def histogram(self, name: str, text: str, *values: tuple[Labels, Histogram]) -> None:
        """Adds a histogram."""
        self._begin(name, "histogram", text)
        for labels, found in values:
            for bound, count in (*found.cumulative, ("+Inf", found.count)):
                self._lines.append(f"{PREFIX}{name}_bucket{self._shown({**labels, 'le': bound})} {count}")
            self._lines.append(f"{PREFIX}{name}_sum{self._shown(labels)} {found.sum}")
            self._lines.append(f"{PREFIX}{name}_count{self._shown(labels)} {found.count}")

    def _begin(self, name: str, kind: str, text: str) -> None:
        self._lines += [f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}"]

    def _shown(self, labels: Labels) -> str:
        every = {**self._labels, **labels}
        shown = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in every.items())
        return f"{{{shown}}}" if shown else ""

    @property
    def text(self) -> str:
        """The page."""
        return "\n".join(self._lines) + "\n"


def merged(pages: Iterable[str]) -> str:
    """Returns one page of many: each metric once, with the lines of all of them."""
    lines: dict[str, list[str]] = {}
    for page in pages:
        for family in filter(str.strip, _FAMILY.split(page)):
            help_, kind, *values = family.splitlines()
            lines.setdefault(f"{help_}\n{kind}", []).extend(values)
    return "".join("\n".join([head, *values]) + "\n" for head, values in lines.items())


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
