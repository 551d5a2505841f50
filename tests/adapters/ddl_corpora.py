"""Outcomes, in a feed, of the schema changes that Debezium and TiCDC are tested with, file by file.

`python -m tests.adapters.ddl_corpora` writes it down: `tests/data/ddl/outcomes.txt` and
`docs/reference/schema-corpora.md`.  Where the statements come from: `tests/data/ddl/NOTICE.md`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tidelock.adapters.app.ddl_plan import USE, PlannedStatement, ddl_plan, split
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read

ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "tests/data/ddl"
OUTCOMES: Final = DATA / "outcomes.txt"
PAGE: Final = ROOT / "docs/reference/schema-corpora.md"
TARGETS: Final = {"mysql": "mysql://u:p@target:1", "postgresql": "postgresql://u:p@target:1/d"}
_FEED: Final = "feed: f\nsource: {}://u:p@source:1\ntarget: {}\ntables: [{{source: test.*}}, {{source: '*.*'}}]\n"
_OF_TABLES: Final = re.compile(
    r"\s*(/\*!\d*\s*)?(TRUNCATE\b|(CREATE|ALTER|DROP|RENAME)\s+((OR\s+REPLACE|UNIQUE|FULLTEXT|SPATIAL|TEMPORARY)\s+)*"
    r"(TABLES?|INDEX|DATABASE|SCHEMA)\b)",
    re.IGNORECASE,
)
_LETTERS: Final = {"a": "applied", "t": "translated", "p": "passed", "h": "halts", "-": "refused"}


class Case(NamedTuple):
    """A statement of a file.  `refused`: what the source's server says of it; '' where it takes it."""

    statement: str
    refused: str
    planned: dict[str, PlannedStatement]

    def outcome(self, target: str) -> str:
        """Returns what becomes of it at a kind of target."""
        if self.refused:
            return "refused"
        return self.planned[target].outcome

    @property
    def is_of_tables(self) -> bool:
        """Tells whether it is about tables, indexes or databases."""
        return _OF_TABLES.match(self.statement) is not None


def files() -> list[Path]:
    """Returns the files of statements."""
    return sorted(DATA.rglob("*.sql"))


def source_of(file: Path) -> str:
    """Returns the kind of server that a file is for."""
    return "mariadb" if file.parent.name == "mariadb" else "mysql"


@functools.cache
def refusals() -> dict[tuple[str, int], str]:
    """Returns what the source's server says of statements that it does not take, by file and number."""
    lines = (line.split("\t") for line in (DATA / "refused.tsv").read_text(encoding="utf-8").splitlines())
    return {(file, int(number)): said for file, number, said in lines}


@functools.cache
def cases(file: Path) -> list[Case]:
    """Returns the statements of a file but USE, with what becomes of each."""
    name, refused = str(file.relative_to(DATA)), refusals()
    statements = [(one, refused.get((name, n), "")) for n, one in enumerate(split(file.read_text(encoding="utf-8")))]
    taken = "DELIMITER $$$$\n" + "$$$$\n".join(one for one, said in statements if not said)
    plans = [ddl_plan(taken, _feed(source_of(file), target)) for target in TARGETS]
    by_turn = iter([dict(zip(TARGETS, one, strict=True)) for one in zip(*plans, strict=True)])
    return [Case(one, said, {} if said else next(by_turn)) for one, said in statements if USE.match(one) is None]


@functools.cache
def _feed(source: str, target: str) -> Feed:
    return read(_FEED.format(source, TARGETS[target]), Path("feed.yaml"))


# ------------------------------------------------------------------ what is written down


def recorded() -> str:
    """Returns the outcomes of all files: a letter for each statement, and why it halts."""
    return "".join(line for file in files() for line in _of_file(file))


def _of_file(file: Path) -> Iterator[str]:
    found, letters = cases(file), {outcome: letter for letter, outcome in _LETTERS.items()}
    yield f"{file.relative_to(DATA)}\n"
    for target in TARGETS:
        yield f"  {target:10} {''.join(letters[case.outcome(target)] for case in found)}\n"
    for case in found:
        whys = {case.planned[t].why.partition(". ")[0] for t in TARGETS if case.outcome(t) == "halts"}
        for why in sorted(whys):
            yield f"    {_short(case.statement)} | {_short(why.replace(f': {case.statement}', ''))}\n"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."


_HEAD: Final = """\
# Schema changes of other projects

What a feed makes of the statements that Debezium and TiCDC are tested with: Debezium's parsers and its connectors for
MySQL and MariaDB, TiCDC's integration tests. `python -m tests.adapters.ddl_corpora` makes this page; each statement is
judged as `tidelock ddl plan` judges it, in a feed that takes all tables. [Where they come
from](../../tests/data/ddl/NOTICE.md), [each statement's outcome](../../tests/data/ddl/outcomes.txt).

**Needs nobody**: is applied, translated or passed. **Not for this server**: MySQL 9.7 or MariaDB 10.11 refuses it, as a
statement of TiDB alone; no log has it, and it is not counted. Of a table that a file does not make nobody knows which
types it had, so MODIFY, CHANGE and CONVERT halt; a feed that runs knows them. DROP DATABASE is judged as by a feed that
was running: one that reads it after a stop may halt.

"""


def page() -> str:
    """Returns the page."""
    found = {file: cases(file) for file in files()}
    lines = [_HEAD, "| corpus | target | statements | need nobody |\n|---|---|---|---|\n"]
    for corpus in ("debezium", "ticdc"):
        own = [case for file, of in found.items() if corpus in file.parts for case in of]
        lines += _totals(corpus, own)
    everything = [case for of in found.values() for case in of]
    lines += _totals("both", everything)
    lines += _totals("both, of tables, indexes and databases alone", [case for case in everything if case.is_of_tables])
    lines.append("\n## What halts\n\n| why | statements (→ MySQL, MariaDB) | (→ PostgreSQL) |\n|---|---|---|\n")
    lines += _causes(everything)
    lines.append(
        "\n## File by file\n\nIn each cell: applied or translated · passed · halts.\n\n"
        "| file | → MySQL, MariaDB | → PostgreSQL | not for this server |\n|---|---|---|---|\n"
    )
    lines += (_line(file, of) for file, of in found.items())
    return "".join(lines)


def share(found: list[Case], target: str) -> tuple[int, int]:
    """Returns how many statements a log can have, and how many of them need nobody."""
    count = Counter(case.outcome(target) for case in found)
    taken = len(found) - count["refused"]
    return taken, taken - count["halts"]


def _totals(name: str, found: list[Case]) -> Iterator[str]:
    for target, said in (("mysql", "MySQL, MariaDB"), ("postgresql", "PostgreSQL")):
        taken, nobody = share(found, target)
        yield f"| {name} | {said} | {taken} | {nobody} ({nobody / taken:.1%}) |\n"


def _causes(found: list[Case]) -> Iterator[str]:
    counts = {t: Counter(_cause(case.planned[t].why) for case in _halting(found, t)) for t in TARGETS}
    together = sum(counts.values(), Counter[str]())
    for cause, _ in sorted(together.items(), key=lambda one: (-one[1], one[0])):
        yield f"| {cause} | {counts['mysql'][cause]} | {counts['postgresql'][cause]} |\n"


def _halting(found: list[Case], target: str) -> list[Case]:
    return [case for case in found if case.outcome(target) == "halts"]


_CAUSES: Final = (
    (
        re.compile(r"before (the statement )?(is|are) not known"),
        "a definition anew of a table that the file does not make",
    ),
    (re.compile(r"drops database"), "DROP DATABASE"),
    (re.compile(r"partition|PARTITION"), "a partition that loses or brings rows"),
    (re.compile(r"foreign key that changes rows"), "a foreign key that acts on rows"),
    (re.compile(r"default|more than a column|NOT NULL"), "a column whose value in old rows is not certain"),
    (re.compile(r"not understood|cannot be read|not applied by itself"), "a form that is not read"),
)


def _cause(why: str) -> str:
    reason = why.partition(". ")[0]
    return next((name for pattern, name in _CAUSES if pattern.search(reason)), "the target's table is another")


def _line(file: Path, found: list[Case]) -> str:
    cells = []
    for target in TARGETS:
        count = Counter(case.outcome(target) for case in found)
        made = count["applied"] + count["translated"]
        cells.append(f"{made} · {count['passed']} · {count['halts']}")
    refused = sum(1 for case in found if case.refused)
    return f"| {file.relative_to(DATA).with_suffix('')} | {' | '.join(cells)} | {refused or ''} |\n"


if __name__ == "__main__":
    OUTCOMES.write_text(recorded(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
