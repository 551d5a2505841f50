"""The documents resolve: what code and pages cite, link to or name is in the tree."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.command_lines import in_blocks, in_prose, refusal
from tidelock.simulations.mutants.catalogue import CATALOGUE

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "docs/explanation/design.md"
COUNTER_EXAMPLES = ROOT / "docs/explanation/counter-examples.md"
GLOSSARY = ROOT / "docs/reference/glossary.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The changelog and the decisions tell also what was.
PRESENT = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "decisions"]
BESIDE_CODE = [ROOT / "simulations/README.md", ROOT / "simulations/mutants/TABLE.md"]

CITED = re.compile(r"\b(counter-example|design)(?: section)?(s?) (\d+(?:(?:, | and | to )\d+)*)(?!\d)", re.IGNORECASE)
NAMED = re.compile(r"\btest_counter_example_(\d+)_")
QUOTED = re.compile(r'\bdesign (\d+), "([^"]+)"', re.IGNORECASE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
# A path of the tree: it begins with one of its folders, or is a file at its root by name and ending.
FOLDERS = ("adapters", "bench", "docs", "engine", "packages", "simulations", "tests")
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./-]*(?:::\w+)?|[A-Za-z][\w/-]*\.(?:toml|lock|md|py|pyx|pxi)")
PLANTED = re.compile(r"planted bugs? ((?:`[\w-]+`(?:,\s+)?)+)")


def sources() -> list[Path]:
    """All code and pages of the tree, but this file, which spells out citations that lead nowhere."""
    endings = ("py", "pyx", "pxi", "md")
    found = [p for folder in FOLDERS for ending in endings for p in (ROOT / folder).rglob(f"*.{ending}")]
    return sorted({*found, *ROOT.glob("*.md")} - {Path(__file__)})


def cited(text: str) -> list[tuple[str, int]]:
    """(`counter-example` or `design`, number), in the order of the text; of `5 to 7` both ends and what is between."""
    found = []
    for kind, _, numbers in CITED.findall(re.sub(r"\s*\n[\s#>*]*", " ", text)):
        for part in re.split(", | and ", numbers):
            ends = [int(number) for number in part.split(" to ")]
            found += [(kind.lower(), number) for number in range(ends[0], ends[-1] + 1)]
    return found + [("counter-example", int(number)) for number in NAMED.findall(text)]


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Explicit ones, and those that a heading gets: lower case, without punctuation, hyphens for blanks."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)]
    return frozenset([*ANCHOR.findall(text), *headings])


def unresolved_citations(text: str) -> list[str]:
    pages = {"design": DESIGN, "counter-example": COUNTER_EXAMPLES}
    return [f"{kind} {number}" for kind, number in cited(text) if f"{kind}-{number}" not in anchors(pages[kind])]


def section(number: int) -> str:
    return DESIGN.read_text(encoding="utf-8").partition(f'<a id="design-{number}"></a>')[2].partition("<a id=")[0]


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for link in LINK.findall(FENCED.sub("", text)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@functools.cache
def functions(module: Path) -> frozenset[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def missing_paths(text: str) -> list[str]:
    """Paths in backticks that are not in the tree, and tests that their file does not have."""
    missing = []
    for span in SPAN.findall(FENCED.sub("", text)):
        if not PATH.fullmatch(span):
            continue
        name, _, function = span.partition("::")
        path = ROOT / name
        if not path.exists() or (function and function not in functions(path)):
            missing.append(span)
    return missing


@pytest.mark.parametrize("page", [DESIGN, COUNTER_EXAMPLES, GLOSSARY], ids=lambda page: page.stem)
def test_each_anchor_is_there_once(page: Path) -> None:
    found = ANCHOR.findall(page.read_text(encoding="utf-8"))
    assert len(found) == len(set(found)) > 0


def test_what_is_cited_has_its_place() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {citation}"
        for path in sources()
        for citation in unresolved_citations(path.read_text(encoding="utf-8"))
    ]
    assert not broken, "\n".join(broken)


def test_what_is_quoted_of_the_design_stands_in_its_section() -> None:
    quotes = [
        (path.relative_to(ROOT), int(number), quote)
        for path in sources()
        for number, quote in QUOTED.findall(path.read_text(encoding="utf-8"))
    ]
    assert quotes
    broken = [quote for quote in quotes if quote[2].lower() not in section(quote[1]).lower()]
    assert not broken


@pytest.mark.parametrize("page", [*PAGES, *BESIDE_CODE], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_resolve(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_paths_that_a_page_names_are_in_the_tree(page: Path) -> None:
    assert missing_paths(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PRESENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_line_of_a_page_is_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [(line, True) for line in in_blocks(text)] + [(line, False) for line in in_prose(text)]
    refused = {line: why for line, whole in lines if (why := refusal(line, whole=whole))}
    assert not refused


def test_each_counter_example_names_a_guard_that_exists() -> None:
    planted = {mutant.name for mutant in CATALOGUE}
    parts = re.split(r'<a id="counter-example-(\d+)"></a>', COUNTER_EXAMPLES.read_text(encoding="utf-8"))
    entries = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    assert list(entries) == [*range(1, 19), 30, 31]
    for number, text in entries.items():
        assert re.search(r"`tests/[\w/]+\.py::\w+`", text), f"{number} names no test"
        names = {name for listed in PLANTED.findall(text) for name in SPAN.findall(listed)}
        assert names <= planted, f"{number}: {sorted(names - planted)}"
        rows = {mutant.row for mutant in CATALOGUE if mutant.name in names}
        assert number in rows or number == 17, f"{number} names no planted bug that stands for it"


def test_each_word_of_the_glossary_is_there_once_in_order() -> None:
    rows = re.findall(r'^\| <a id="[^"]+"></a>(.+?) \| (.+?) \|', GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for word, _ in rows]
    assert len(words) > 50
    assert words == sorted(set(words), key=str.lower)
    assert all(meaning.endswith((".", ".)")) or "](" in meaning for _, meaning in rows)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see counter-example 7", [("counter-example", 7)]),
        ("Counter-examples 3 and 4", [("counter-example", 3), ("counter-example", 4)]),
        ("counter-examples 5 to 7, 9", [("counter-example", n) for n in (5, 6, 7, 9)]),
        ("(design 6, as ever)", [("design", 6)]),
        ("of design section 12", [("design", 12)]),
        ("a comment that ends in design\n    # 8 and goes on", [("design", 8)]),
        ("def test_counter_example_3_a_zombie() -> None:", [("counter-example", 3)]),
        ("the design of 2026", []),
    ],
)
def test_what_counts_as_a_citation(text: str, found: list[tuple[str, int]]) -> None:
    assert cited(text) == found


@pytest.mark.parametrize(
    ("line", "whole", "why"),
    [
        ("tidelock rows list shop.yaml --limit 3", True, ""),
        ("tidelock rows list", False, ""),
        ("tidelock rows list", True, "Missing"),
        ("tidelock rows lst", False, "no command 'lst'"),
        ("tidelock run FEED --until", False, "no option --until"),
        ("tidelock run a.yaml b.yaml", True, "b.yaml"),
        ("tidelock bench chaos --minutes 60", True, ""),
        ("tidelock bench chaos --hours 1", False, "no option --hours"),
        ("tidelock simulate --sees 3", True, "--sees"),
    ],
)
def test_what_is_a_command_line(line: str, whole: bool, why: str) -> None:
    told = refusal(line, whole=whole)
    assert (why in told) if why else not told


def test_command_lines_are_found_in_blocks_and_in_prose() -> None:
    block = "PW=x .venv/bin/tidelock run a.yaml \\\n  --json | cat  # so\nw1$ tidelock check b\n"
    page = f"`tidelock run` and\n```sh\n{block}```\n"
    assert list(in_blocks(page)) == ["tidelock run a.yaml    --json", "tidelock check b"]
    assert list(in_prose(page)) == ["tidelock run"]


def test_what_does_not_resolve_is_told() -> None:
    assert unresolved_citations("design 99, counter-example 4, counter-examples 1 and 77") == [
        "design 99",
        "counter-example 77",
    ]
    links = "[a](nowhere.md) [b](design.md#nothing) [c](design.md#design-5) [d](#5-the-lock-table-and-the-lanes)"
    assert broken_links(DESIGN, links) == ["nowhere.md", "design.md#nothing"]
    paths = "`engine/nothing.py` `engine/replay.py` `tests/test_documents.py::test_no` `adapters/*` `a.yaml` `no.toml`"
    assert missing_paths(paths) == ["engine/nothing.py", "tests/test_documents.py::test_no", "no.toml"]
