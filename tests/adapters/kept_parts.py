"""Everyday schemas of 60 tables through `init`: each part of the source's tables, and what became of it at the target.

`python -m tests.adapters.kept_parts > docs/reference/init-kept.md` writes the page, with servers of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bench.harness.servers import MySql, Postgres, Server
from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.target_inspection import Details, Target
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.schema.type_map import without_comments
from tidelock.adapters.wiring.inspection import opened
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable

SCHEMAS = Path(__file__).parents[1] / "data" / "schema"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "init-kept.md"
Fate = Literal["kept", "another form", "left out", "lost"]


class Part(NamedTuple):
    """`kind`: a column's type, a foreign key, ….  `words`: it, as `init` names what it leaves out.  `form`: what it is
    in another form."""

    kind: str
    table: str
    words: str
    fate: Fate
    form: str = ""


class Kept:
    """The result of `init` for one schema.  `left_out`: (table, part, reason)."""

    def __init__(self, parts: Sequence[Part], left_out: Sequence[tuple[str, str, str]]) -> None:
        self.parts, self.left_out = parts, left_out

    @property
    def lost(self) -> list[Part]:
        """Parts that are not at the target, and of which `init` says nothing."""
        return [part for part in self.parts if part.fate == "lost"]


async def through_init(source: Server, target: Server) -> Kept:
    """Makes the schema at the source, and with `init` at the target; compares both catalogues."""
    feed = _prepared(source, target)
    plan = await init_plan(feed)
    async with source_inspected(feed) as inspected, opened(feed.target_url) as there:
        for statement in plan:
            if statement.side == "target" and statement.applied:
                await there.execute(statement.sql)
        definitions = await inspected.definitions()
        tables, rules = inspected.view.tables, inspected.view.rules
        names = {name: feed.target_name(name) for name in tables}
        wanted = list(names.values())
        made, details = await there.tables(wanted), await there.details(wanted)
        at_target = await there.definitions(wanted)
        left_out = _left_out(plan)
        parts: list[Part] = []
        for name, table in tables.items():
            place = names[name]
            one = _Compared(table, definitions[name], rules, made[place], at_target[place], details[place], there)
            parts += one.parts({what for owner, what, _ in left_out if owner == name.table})
    return Kept(parts, left_out)


def _prepared(source: Server, target: Server) -> Feed:
    of_postgres = isinstance(source, Postgres)
    database, at_target = source.database("kept"), target.database("kept")
    script = "postgres.sql" if of_postgres else "mysql.sql"
    source.execute_script((SCHEMAS / script).read_text(), database=database)
    schema, place = ("public", at_target) if of_postgres else (database, "kept")
    ends = (source.url(database), target.url()) if of_postgres else (source.url(), target.url(at_target))
    text = f"feed: kept\nsource: {ends[0]}\ntarget: {ends[1]}\nschema: own_{at_target}\n"
    return read(f"{text}tables: [{{source: {schema}.*, target: {place}.*}}]\n", Path("kept.yaml"))


def _left_out(plan: Sequence[PlannedStatement]) -> list[tuple[str, str, str]]:
    found = []
    for one in plan:
        if one.left_out:
            owner, _, why = one.why.partition(": ")
            found.append((owner.partition(".")[2], one.sql, why))
    return found


class _Compared:
    """One table of the source, and what is at the target."""

    def __init__(
        self,
        table: SourceTable,
        definition: Definition,
        rules: dict[tuple[TableName, str], tuple[str, str]],
        made: TargetTable,
        at_target: Definition,
        details: Details,
        target: Target,
    ) -> None:
        self._table, self._definition, self._rules = table, definition, rules
        self._made, self._at_target, self._details = made, at_target, details
        self._columns = {column.name: column for column in made.columns}
        self._postgres = target.dialect == "postgres"

    def parts(self, said: set[str]) -> Iterator[Part]:
        """Yields each part of the table.  `said`: what `init` leaves out of it, in its words."""
        name = self._table.name.table
        yield Part("table", name, name, "kept")
        for kind, words, form in self._found():
            if form is not None:
                yield Part(kind, name, words, "another form" if form else "kept", form)
            else:
                named = any(one.startswith(words) for one in said)
                yield Part(kind, name, words, "left out" if named else "lost")

    def _found(self) -> Iterator[tuple[str, str, str | None]]:
        """Yields (kind, words, form): form None for what is not there, '' for what is there as it was."""
        yield from self._of_columns()
        yield from self._of_keys()
        yield from self._of_foreign_keys()
        checks = {check for check, _ in self._at_target.checks}
        for check, _ in self._definition.checks:
            yield "CHECK", f"CHECK {check} ", "" if check in checks else None
        own = f"{self._made.name.table}_"
        there = {name for index in self._at_target.indexes for name in (index.name, index.name.removeprefix(own))}
        by_key = [unique.columns for unique in self._made.uniques]
        for index in self._definition.indexes:
            columns = tuple(part.column for part in index.parts)
            prefixed = any(part.prefix for part in index.parts)
            other = "left(…)" if prefixed else "" if index.method == "btree" else "btree"
            begins = any(key[: len(columns)] == columns for key in by_key)
            yield "index", f"INDEX {index.name}", other if index.name in there or begins else None
        if self._definition.comment:
            yield "comment", "COMMENT", "" if self._at_target.comment == self._definition.comment else None
        for column, text in self._definition.comments.items():
            yield "comment", f"COMMENT of {column}", "" if self._at_target.comments.get(column) == text else None
        if self._definition.partitioned:
            yield "partitions", f"PARTITION BY {self._definition.partitioned}", None
        yield from (("check of a domain", f"{column} CHECK", None) for column in self._definition.domains)

    def _of_columns(self) -> Iterator[tuple[str, str, str | None]]:
        for column in self._table.columns:
            made = self._columns.get(column.name)
            if made is None:
                yield "generated column", f"column {column.name} ", None
                continue
            own, there = _plain(without_comments(column.type)), _plain(made.type)
            yield "column type", column.name, "" if own == there else f"{own} → {there}"
            if column.generated:
                yield "generated column", f"{column.name} GENERATED", "" if made.generated else None
            elif not column.nullable:
                yield "NOT NULL", column.name, None if made.nullable else ""
        for column_name, default in self._definition.defaults.items():
            if not self._columns[column_name].generated:
                there_is = column_name in self._at_target.defaults
                yield "default", f"{column_name} DEFAULT {default.text}", "" if there_is else None
        for column_name in self._definition.counters:
            words = f"{column_name} AUTO_INCREMENT" if self._postgres else f"{column_name} as a counter"
            other = "identity" if self._postgres else "AUTO_INCREMENT"
            yield "counter", words, other if column_name in self._at_target.counters else None
        for column_name in self._definition.on_update:
            yield "ON UPDATE CURRENT_TIMESTAMP", f"{column_name} ON UPDATE", None

    def _of_keys(self) -> Iterator[tuple[str, str, str | None]]:
        there = {unique.columns for unique in self._made.uniques}
        for unique in self._table.uniques:
            if unique.name == "PRIMARY":
                yield "primary key", "PRIMARY", "" if unique.columns in there else None
            else:
                is_there = unique.columns in there and not unique.opaque
                yield "unique key", f"UNIQUE {unique.name} ", "" if is_there else None

    def _of_foreign_keys(self) -> Iterator[tuple[str, str, str | None]]:
        for key in self._table.foreign_keys:
            found = next((k for k in self._made.foreign_keys if k.columns == key.columns), None)
            yield "foreign key", f"FOREIGN KEY {key.name} ", None if found is None else ""
            own = self._rules.get((key.child, key.name), ("", ""))
            there = self._details.rules.get(found.name, ("", "")) if found is not None else None
            for event, before, after in zip(("UPDATE", "DELETE"), own, there or own, strict=True):
                if before not in ("", "NO ACTION", "RESTRICT"):
                    kept = "" if there is not None and before == after else None
                    yield f"ON {event} {before}", f"FOREIGN KEY {key.name} ", kept


def _plain(type_: str) -> str:
    """Returns a type without its bounds and labels."""
    return " ".join(re.sub(r"\([^()]*\)", "", type_.lower()).split())


# ------------------------------------------------------------------ the page

_HEAD = """\
# What `init` keeps of a schema

Two everyday schemas ([MySQL's](../../tests/data/schema/mysql.sql),
[PostgreSQL's](../../tests/data/schema/postgres.sql)): a video shop, a firm's people, a web shop, tickets, a warehouse,
a ledger. `init` makes them at the other kind of
server, and both catalogues are compared. Made by `python -m tests.adapters.kept_parts > docs/reference/init-kept.md`.

Nothing is lost without a line: what is neither kept nor in another form is a line `-- left out` of `init`'s.
"""


def page(mysql: Kept, postgres: Kept) -> str:
    """Returns the page.  `mysql`, `postgres`: from where."""
    ways = (("MySQL → PostgreSQL", mysql), ("PostgreSQL → MySQL", postgres))
    return _HEAD + "".join(line for title, kept in ways for line in _of_way(title, kept))


def _of_way(title: str, kept: Kept) -> Iterator[str]:
    yield f"\n## {title}\n\n| part | at the source | kept | in another form | left out, and said |\n"
    yield "|---|---|---|---|---|\n"
    counted = Counter((part.kind, part.fate) for part in kept.parts)
    for kind in dict.fromkeys(part.kind for part in kept.parts):
        fates = [counted[kind, fate] for fate in ("kept", "another form", "left out")]
        yield f"| {kind} | {sum(fates)} | {' | '.join(str(n) if n else '' for n in fates)} |\n"
    forms = Counter(part.form for part in kept.parts if part.form and part.kind == "column type")
    yield "\nTypes in another form: " + ", ".join(sorted(forms)) + ".\n"
    yield "\n| table | left out | why |\n|---|---|---|\n"
    for table, what, why in sorted(kept.left_out):
        yield f"| {table} | {_cell(what)} | {_cell(why)} |\n"


def _cell(text: str) -> str:
    return re.sub(r"\bkept_?\d*\.|\bpublic\.", "", text).replace("|", "\\|").replace("`", "")


async def _both() -> str:
    with MySql() as mysql, Postgres() as postgres:
        return page(await through_init(mysql, postgres), await through_init(postgres, mysql))


if __name__ == "__main__":
    print(asyncio.run(_both()), end="")
