"""`tidelock bench report`: what bench/results/ holds, as tables and pictures in docs/explanation/performance-tables.md.

The page has prose, and a place for each result between `<!-- NAME -->` and `<!-- end NAME -->`, which is written anew;
nothing else is touched.  A result that was never measured leaves a line that says how to get it, and so does one of
another form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from bench import shown
from bench.outcome import RESULTS, read
from bench.shown import PICTURES, Found, Shown
from bench.two_way import shown as two_way

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "performance-tables.md"
SUITES: Final = ("pairs", "lanes", "far", "unique", "hot", "modes", "matrix")


def untitled(show: Callable[[Found], str]) -> Callable[[Found], Shown]:
    """A table alone, without pictures."""
    return lambda found: (show(found), {})


KINDS: Final[Mapping[str, tuple[str, Callable[[Found], Shown]]]] = {
    **{f"e2e-{suite}": (f"e2e --suite {suite}", shown.suite) for suite in SUITES},
    "e2e-curve": ("e2e --suite curve", shown.curve),
    "e2e-steady": ("e2e --steady 5000,20000", shown.steady),
    "latency": ("latency", shown.latency),
    **{f"e2e-{suite}": ("two-way", untitled(two_way.rates)) for suite in ("sites", "arbiter")},
    "e2e-marks": ("two-way", untitled(two_way.marks)),
    "two-way-live": ("two-way", untitled(two_way.live)),
    "two-way-both": ("two-way", untitled(two_way.both)),
    "two-way-lags": ("two-way", untitled(two_way.lags)),
    "two-way-reopen": ("two-way", untitled(two_way.reopen)),
    "two-way-crossed": ("two-way", untitled(two_way.crossed)),
    "peers": ("peers", shown.peers),
    "chaos-one": ("chaos --minutes 60", shown.told),
    "fleet": ("serve --feeds 20 --minutes 60", shown.told),
    "micro": ("micro", shown.micro),
}
"""Place of the page and name of the result → (how it is measured, how it is shown)."""
SERIES: Final[Mapping[str, str]] = {"growth": "scale", "copying": "copying", "hive": "hive", "stream": "stream"}
"""Place of the page, which is what the names of its results begin with → how they are measured."""


class Report:
    """`results`: the folder of the JSON files.  After `places()`, `pictures` and `missing` tell of them."""

    def __init__(self, results: Path = RESULTS) -> None:
        self._results = results
        self.pictures: dict[str, str] = {}
        self.missing: list[str] = []

    def places(self) -> dict[str, str]:
        """Name of a place → its Markdown."""
        found = {name: self._place(name, how, show) for name, (how, show) in KINDS.items()}
        for series, how in SERIES.items():
            names = sorted(path.stem for path in self._results.glob(f"{series}-*.json")) or [series]
            found[series] = "\n\n".join(self._place(name, how, shown.told) for name in names)
        return found

    def _place(self, name: str, how: str, show: Callable[[Found], Shown]) -> str:
        found = read(name, self._results)
        if found is None:
            self.missing.append(name)
            return f"Not measured yet: `tidelock bench {how}`."
        try:
            text, pictures = show(found)
            foot = shown.machine(found)
        except (KeyError, TypeError, ValueError) as error:
            self.missing.append(name)
            form = f"{type(error).__name__}: {error}"
            return f"`{name}.json` has another form ({form}): `tidelock bench {how}` writes it anew."
        self.pictures |= pictures
        return f"{text}\n\n{foot}"


def filled(page: str, places: Mapping[str, str]) -> tuple[str, list[str]]:
    """The page with its places written anew, and the names that it has no place for."""
    homeless = []
    for name, text in places.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, begun, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if begun and ended:
            page = f"{before}{begin}{text}\n{end}{after}"
        else:
            homeless.append(name)
    return page, homeless


def written(page: Path, report: Report) -> Iterator[str]:
    """Write the page and its pictures; yields what the operator should know."""
    text, homeless = filled(page.read_text(), report.places())
    folder = page.parent / PICTURES
    folder.mkdir(exist_ok=True)
    for name, svg in report.pictures.items():
        (folder / f"{name}.svg").write_text(svg)
    page.write_text(text)
    yield from (f"not to be shown: {name}" for name in report.missing)
    yield from (f"{page.name} has no place for {name}" for name in homeless)


def command(
    results: Annotated[Path, typer.Option(help="The folder of the JSON files.")] = RESULTS,
    page: Annotated[Path, typer.Option(help="The page whose places are filled.")] = PAGE,
) -> int:
    """Write tables and pictures of all results into docs/explanation/performance-tables.md."""
    for line in written(page, Report(results)):
        print(line)
    print(f"written: {page.name}")
    return 0


if __name__ == "__main__":
    from bench.command import alone

    alone("report")
