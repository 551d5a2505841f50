"""`tidelock ddl plan`: what a feed would make of the statements in a file, without a server.

The statements are read, judged and translated by what does so with those of the log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.conversions import STRICT_MODE
from tidelock.adapters.ddl.dropped_database import of_tables
from tidelock.adapters.ddl.exchanged import clauses_of, exchanges
from tidelock.adapters.ddl.file_tables import FileTables
from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.ddl.kept_shadows import Shadows
from tidelock.adapters.ddl.lexer import NotPlain, tokens
from tidelock.adapters.ddl.made_table import read_table
from tidelock.adapters.ddl.operations import AlterTable, NotCarried, Operation, RenameTable
from tidelock.adapters.ddl.parser import added
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ddl.shadow_forms import former_of
from tidelock.adapters.ddl.shadows import noted
from tidelock.adapters.ddl.statement import operations, plain
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.capture_order import sites_of
from tidelock.engine.apply.ddl_barrier import Passage, alarm, judge
from tidelock.engine.capture.concern import related
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.capture.shadow_names import shadowed
from tidelock.engine.capture.statements import ruled
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable

Outcome: TypeAlias = Literal["applied", "translated", "passed", "halts"]
USE: Final = re.compile(r"\s*USE\s+`?([^`;\s]+)`?\s*$", re.IGNORECASE)
_ROWS: Final = re.compile(
    r"\s*(/\*!\d*\s*)?(INSERT|UPDATE|DELETE|REPLACE|LOAD|SELECT|SET|BEGIN|START|COMMIT|LOCK|UNLOCK|CALL)\b",
    re.IGNORECASE,
)
_COMMENTS: Final = re.compile(r"\A(\s+|--(?=\s)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/)*", re.DOTALL)
_SETTINGS: Final = re.compile(r"\s*SET\s+STATEMENT\b", re.IGNORECASE)


class PlannedStatement(msgspec.Struct, frozen=True):
    """What becomes of one statement.  `runs`: at the target.  `why`: of one that halts, or what is assumed."""

    statement: str
    outcome: Outcome
    runs: tuple[str, ...] = ()
    why: str = ""


def ddl_plan(text: str, feed: Feed) -> list[PlannedStatement]:
    """Returns what becomes of the schema changes in `text`.  Raises NotPlain where it cannot be taken apart."""
    plan, made = _Plan(feed), list[PlannedStatement]()
    for statement in split(text):
        if (used := USE.match(statement)) is not None:
            plan.schema = used[1]
        elif not _ROWS.match(statement) or _SETTINGS.match(statement):
            made.append(plan.take(statement))
    return made


def split(text: str) -> Iterator[str]:
    """Yields the statements of a file, as the client of MySQL takes them apart, DELIMITER included."""
    pieces = re.split(r"^[ \t]*DELIMITER[ \t]+(\S+)[ \t]*$", text, flags=re.IGNORECASE | re.MULTILINE)
    for delimiter, part in zip((";", *pieces[1::2]), pieces[::2], strict=True):
        for statement in _by_semicolon(part) if delimiter == ";" else part.split(delimiter):
            if tokens(statement, lenient=True):
                yield _COMMENTS.sub("", statement).rstrip("; \n")


def _by_semicolon(text: str) -> Iterator[str]:
    begin = 0
    for token in tokens(text, lenient=True):
        if token.upper == ";":
            yield text[begin : token.end - 1]
            begin = token.end
    yield text[begin:]


class _Plan:
    """The file so far.  `schema`: the default database."""

    def __init__(self, feed: Feed) -> None:
        self.schema = next((s for rule in feed.tables if "*" not in (s := rule.source.partition(".")[0])), "")
        self._mapping = Mapping(rules_of(feed), feed.schema)
        self._said: list[str] = []
        self._rules = DdlRules(feed.ddl, feed.select, self._said.append)
        self._dialect: Dialect = feed.target_url.dialect
        self._source: Literal["mysql", "mariadb"] = "mariadb" if feed.source_url.scheme == "mariadb" else "mysql"
        self._between = sites_of(feed)
        self._stamps = feed.conflicts is not None and feed.conflicts.stamp is not None
        self._tables = FileTables(self._dialect, self._mapping.target)
        self._shadows: Shadows = {}
        self._former: dict[TableName, FormerTable] = {}

    def take(self, statement: str) -> PlannedStatement:
        """Returns what becomes of the next statement."""
        read = classify(Ddl(self.schema, statement, "", 0), self._source)
        databases, read = read.databases, of_tables(read, self._former)
        former = former_of(read, self._former, shadowed(read.tables[0]) if read.tables else None)
        read = replace(read, sql_mode=STRICT_MODE, former=former, moment_us=time.time_ns() // 1000, zone="SYSTEM")
        self._follow(read)
        ddl = related(read, self._mapping, between_sites=self._between is not None)
        if self._between is not None:
            ddl = ruled(ddl, self._between)
        passage = judge(ddl, None, stamps=self._stamps)
        if passage is Passage.PASS:
            unknown = f"the file makes no table in {', '.join(databases)}: a feed drops those that it knows of"
            return PlannedStatement(statement, "passed", why=unknown if databases else "")
        if passage is Passage.HALT:
            told = alarm(ddl, "", stamps=self._stamps)
            reason = _reason(ddl) or told.message.partition(":")[0]
            return PlannedStatement(statement, "halts", why=f"{reason}. {told.hint}")
        return self._translated(ddl)

    def _follow(self, ddl: Ddl) -> None:
        """Note what the source's tables are behind a statement."""
        for name, table in moved(ddl, self._former).items():
            self._former.pop(name, None)
            if table is not None:
                self._former[name] = table

    def _translated(self, ddl: Ddl) -> PlannedStatement:
        before, done = len(self._tables.assumed), list[Operation]()
        self._said.clear()
        if ddl.kind is DdlKind.ALTERED:
            done = self._operations(ddl)
            self._tables.assume(done)
        try:
            runs = translate(
                ddl, self._dialect, self._mapping.target, self._tables.tables, self._rules, self._shadows
            )
        except TargetError as error:
            return PlannedStatement(ddl.statement, "halts", why=f"{error}. {error.hint}")
        assumed = ", ".join(map(str, self._tables.assumed[before:]))
        if ddl.optional and assumed:
            self._tables.forget(before)  # the statement tells little of a table
        else:
            self._note(ddl, done)
        self._shadows = noted(ddl, self._shadows, self._mapping.selects)
        said = [f"the file does not make {assumed}: taken to be as the statement needs it"] if assumed else []
        why = "; ".join([*said, *self._said])
        if not runs:
            return PlannedStatement(ddl.statement, "passed", why=why)
        outcome: Outcome = "applied" if self._dialect == "mysql" else "translated"
        return PlannedStatement(ddl.statement, outcome, tuple(runs), why)

    def _operations(self, ddl: Ddl) -> list[Operation]:
        """Returns what an ALTERED statement does to tables of the feed."""
        found = operations(ddl)
        renames = [one for one in found if isinstance(one, RenameTable)]
        if not (exchanged := exchanges(renames, lambda name: name if self._mapping.selects(name) else None)):
            return [one for one in found if self._mapping.selects(one.table)]
        known = {table: self._shadows.get(shadow) for table, shadow in exchanged.items()}
        return [AlterTable(table, clauses_of(shadow) if shadow is not None else ()) for table, shadow in known.items()]

    def _note(self, ddl: Ddl, done: list[Operation]) -> None:
        if ddl.kind is DdlKind.CREATE_TABLE:
            self._tables.made(read_table(plain(ddl, "CREATE", "TABLE"), ddl.schema))
        elif ddl.kind is DdlKind.ADD_COLUMN:
            name, columns = added(plain(ddl, "ALTER", "TABLE"), ddl.schema)
            self._tables.added(name, [new.column for new in columns])
        else:
            self._tables.follow(done)


def _reason(ddl: Ddl) -> str:
    """Returns which clause is not followed, and why; '' where the statement cannot be read as clauses."""
    if ddl.elsewhere is not None or ddl.kind is DdlKind.TRUNCATE:
        return ""
    try:
        found = operations(ddl)
    except NotPlain as error:
        return f"not understood at {error}"
    clauses = [clause for one in found if isinstance(one, AlterTable) for clause in one.clauses]
    return "; ".join(f"{c.what}: {c.why}" for c in clauses if isinstance(c, NotCarried))
