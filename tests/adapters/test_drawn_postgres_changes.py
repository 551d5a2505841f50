"""Schema changes of a PostgreSQL source drawn at random among rows, while the feed is killed: both ends are the same.

Before a change that a drop and an added column make uncertain the feed has read on, as the page on schema changes asks
for.  Where it cannot be certain it halts, or has the same values behind it.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
from collections.abc import Callable

import asyncpg
import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Postgres

OPERATOR = 4
STATEMENTS = 200
SECONDS = 240.0
FIRST_TABLES = 8
DIVIDED = ("t0", "t1")
BOUNDS = {
    "a": "FOR VALUES FROM (MINVALUE) TO (15)", "b": "FOR VALUES FROM (15) TO (30)", "c": "DEFAULT",
    "d": "FOR VALUES FROM (1000) TO (1200)",
}  # fmt: skip
"""Partitions of a table that has some."""
SEEDS = os.environ.get("TIDELOCK_DRAWN_SEEDS", "1-5")
"""First and last seed."""
TYPES = {
    "int": "7", "bigint": "9000000000", "numeric(8,2)": "1.50", "text": "'é'", "varchar(20)": "'none'", "date":
    "'2026-02-28'", "timestamp": "'2026-01-01 10:00:00.25'", "boolean": "true", "double precision": "0.25",
    "bytea": "'\\x00ff'", "jsonb": "'{\"a\": 1}'",
}  # fmt: skip
"""A value of each type."""
NAMES = ("alpha", "beta", "gamma", "delta", "order", "Mixed", "size of", "key")


@dataclasses.dataclass
class Table:
    """A table of the source.  `settled`: the feed has passed a row since its columns were changed or it was written
    anew.  `parts`: its partitions, with their bounds."""

    columns: dict[str, str]
    key: str = "id"
    settled: bool = True
    parts: dict[str, str] = dataclasses.field(default_factory=dict)


class Drawing:
    """A feed that follows drawn changes, and is killed now and then."""

    def __init__(self, rig: Rig, rng: random.Random) -> None:
        self._rig, self._rng = rig, rng
        self._numbers = 0
        self.tables = {f"t{number}": Table({}) for number in range(FIRST_TABLES)}
        self.ran: list[str] = []
        self.halts: list[str] = []
        rig.at_source("CREATE TABLE pulse (id int PRIMARY KEY)")
        for name, table in self.tables.items():
            table.columns = {column: rng.choice([*TYPES]) for column in rng.sample(NAMES, rng.randint(1, 4))}
            words = "".join(f', "{column}" {kind}' for column, kind in table.columns.items())
            divided = name in DIVIDED
            rig.at_source(f"CREATE TABLE {name} (id int PRIMARY KEY{words}){' PARTITION BY RANGE (id)' * divided}")
            for letter, bounds in BOUNDS.items() if divided else ():
                rig.at_source(f"CREATE TABLE {name}_{letter} PARTITION OF {name} {bounds}")
                table.parts[f"{name}_{letter}"] = bounds
        rig.begin_here()
        self._process = rig.run()
        self._beat("its beginning, at which it compares the tables")

    def run(self, number: int) -> None:
        """Makes changes, and has the feed end with the same rows.  Raises AssertionError."""
        until_kill = self._rng.randint(20, 50)
        kinds = {
            self._rows: 70, self._columns: 16, self._rename: 3, self._drop: 1, self._truncate: 2, self._rowless: 4,
            self._doubtful: 3, self._together: 6, self._silent: 2, self._divided: 2,
        }  # fmt: skip
        for _ in range(number):
            self._rng.choices([*kinds], [*kinds.values()])[0]()
            until_kill -= 1
            if until_kill == 0:
                until_kill = self._rng.randint(20, 50)
                self._kill()
        self._beat("all changes")
        assert self._process.running, self._rig.said()[-1500:]
        self._process.stop()
        assert self._rig.catch_up_code() == 0, self._rig.said()[-1500:]
        self._rig.assert_exact()

    def _send(self, sql: str) -> bool:
        try:
            self._rig.at_source(sql)
        except asyncpg.PostgresError:
            self._rig.at_source("ROLLBACK")
            return False
        self.ran.append(sql)
        return True

    def _kill(self) -> None:
        assert self._process.running, f"{self.ran[-60:]} {self._rig.said()[-1500:]}"
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.code(10.0)
        self._process = self._rig.run()

    def _beat(self, what: str) -> None:
        """Waits until the feed has passed all rows so far, or has ended."""
        self._numbers += 1
        self._rig.tables = ["pulse", *sorted(self.tables)]
        assert self._send(f"INSERT INTO pulse VALUES ({self._numbers})")
        beat = f"SELECT 1 FROM {self._rig.schema}.pulse WHERE id = {self._numbers}"
        until(lambda: not self._process.running or bool(self._rig.rows(beat)), f"the feed behind {what}", SECONDS)

    def _any(self) -> tuple[str, Table]:
        name = self._rng.choice(sorted(self.tables))
        return name, self.tables[name]

    # ------------------------------------------------------------------ changes

    def _columns(self) -> None:
        """Columns that are added, dropped and renamed; of several at once none is dropped where one is added."""
        rng, (name, table) = self._rng, self._any()
        self._settle(name)
        unused = [column for column in NAMES if column not in table.columns]
        for _ in range(rng.choice((1, 1, 2))):
            free = sorted(table.columns)
            match rng.choice(("add", "add", "drop", "rename", "key")):
                case "add" if unused and table.settled:
                    column, kind = unused.pop(), rng.choice([*TYPES])
                    default = rng.choice(("", f" DEFAULT {TYPES[kind]}", f" NOT NULL DEFAULT {TYPES[kind]}"))
                    if self._send(f'ALTER TABLE {name} ADD "{column}" {kind}{default}'):
                        table.columns[column] = kind
                        table.settled = False
                    return
                case "drop" if len(free) > 1:
                    if self._send(f'ALTER TABLE {name} DROP "{(column := rng.choice(free))}"'):
                        del table.columns[column]
                case "rename" if unused and free:
                    column, to = rng.choice(free), unused.pop()
                    if self._send(f'ALTER TABLE {name} RENAME "{column}" TO "{to}"'):
                        table.columns[to] = table.columns.pop(column)
                case "key":
                    self._numbers += 1
                    to = f"id{self._numbers}"
                    if self._send(f"ALTER TABLE {name} RENAME {table.key} TO {to}"):
                        table.key = to
                case _:
                    pass
            table.settled = False

    def _settle(self, *names: str) -> None:
        """Has a row written behind the last change of each table, and waits for them."""
        for name in (changed := [name for name in names if not self.tables[name].settled]):
            self._insert(name)
            self.tables[name].settled = True
        if changed:
            self._beat(f"rows of {', '.join(changed)}")

    def _rename(self) -> None:
        """A table without partitions: rows of these do not tell another name of their table, the next look does."""
        name, table = self._any()
        if table.parts:
            return
        self._settle(name)
        self._numbers += 1
        if self._send(f"ALTER TABLE {name} RENAME TO n{self._numbers}"):
            table.settled = False
            self.tables[f"n{self._numbers}"] = self.tables.pop(name)

    def _drop(self) -> None:
        name, _ = self._any()
        self._settle(name)
        if len(self.tables) > 3 and self._send(f"DROP TABLE {name}"):
            del self.tables[name]

    def _truncate(self) -> None:
        names = self._rng.sample(sorted(self.tables), self._rng.choice((1, 2)))
        if self._send(f"TRUNCATE {', '.join(names)}"):
            for name in names:
                self.tables[name].settled = False

    def _rowless(self) -> None:
        """What means nothing to rows."""
        name, table = self._any()
        column = self._rng.choice(sorted(table.columns))
        sql = self._rng.choice((
            f'ALTER TABLE {name} ALTER "{column}" DROP DEFAULT',
            f'ALTER TABLE {name} ALTER "{column}" SET DEFAULT {TYPES[table.columns[column]]}',
            f'ALTER TABLE {name} ALTER "{column}" SET STATISTICS 50', f"REINDEX TABLE {name}",
            f'ALTER TABLE {name} ALTER "{column}" SET NOT NULL', f'ALTER TABLE {name} ALTER "{column}" DROP NOT NULL',
            f"ALTER TABLE {name} ADD CHECK ({table.key} > -1000)",
            f'CREATE INDEX ON {name} ("{column}")', f"COMMENT ON TABLE {name} IS 'x'", f"VACUUM FULL {name}",
            f"CLUSTER {name} USING {name}_pkey", f"ANALYZE {name}",
        ))  # fmt: skip
        written_anew = sql.startswith(("VACUUM", "CLUSTER"))
        if written_anew and table.parts:  # which nobody can tell from a TRUNCATE of each partition
            return
        if written_anew or "SET DEFAULT" in sql:  # between it and a new column, on either side, a row comes
            self._settle(name)
        if self._send(sql) and written_anew:
            table.settled = False

    def _doubtful(self) -> None:
        """What no message may tell: the feed halts, and goes on as it advises.  All else is at the target before: else
        rows in between may halt it too, and `init` makes every table that the source has by then."""
        rng, (name, table) = self._rng, self._any()
        self._settle(*sorted(self.tables))
        self._beat("all before what is doubtful")
        column, kind = rng.choice(sorted(table.columns)), rng.choice([*TYPES])
        new = next(one for one in NAMES if one not in table.columns)
        without = {name: type_ for name, type_ in table.columns.items() if name != column}
        sql, columns = rng.choice((
            (f'ALTER TABLE {name} ALTER "{column}" TYPE {kind} USING NULL', {**table.columns, column: kind}),
            (f'ALTER TABLE {name} DROP "{column}", ADD "{new}" {kind}', {**without, new: kind}),
            (f'ALTER TABLE {name} DROP "{column}", ADD "{column}" {kind} DEFAULT {TYPES[kind]}',
             {**without, column: kind}),
            (f'ALTER TABLE {name} ADD "{new}" text DEFAULT clock_timestamp()::text', {**table.columns, new: "text"}),
        ))  # fmt: skip
        if not self._send(sql):
            return
        table.columns = columns
        self._insert(name)
        self._beat(sql)
        if self._process.running:
            until(lambda: not self._process.running or self._rig.equal(), f"equal ends behind {sql}", SECONDS)
            assert self._process.running, self._rig.said()[-1500:]
            return
        self._mended(name, sql)

    def _together(self) -> None:
        """One transaction, of which a savepoint takes a change back, or which is taken back whole, or in which a column
        is new to its rows."""
        rng, (name, table) = self._rng, self._any()
        self._settle(name)
        column, row = rng.choice(sorted(table.columns)), rng.randint(1, 40)
        new = next(one for one in NAMES if one not in table.columns)
        kind = rng.choice([*TYPES])
        change = (
            f'UPDATE {name} SET "{column}" = {TYPES[table.columns[column]]} WHERE {table.key} < {row}; '
            f"DELETE FROM {name} WHERE {table.key} = {row}"
        )
        more = f"INSERT INTO {name} ({table.key}) VALUES ({row}) ON CONFLICT DO NOTHING"
        if rng.random() < 0.3:
            added = f'ALTER TABLE {name} ADD "{new}" {kind} DEFAULT {TYPES[kind]}'
            if self._send(f"BEGIN; {added}; {more}; {change}; COMMIT"):
                table.columns[new], table.settled = kind, False
            return
        undone = rng.choice((
            f'ALTER TABLE {name} DROP "{column}"', f'ALTER TABLE {name} ADD "{new}" {kind} DEFAULT {TYPES[kind]}',
            f'ALTER TABLE {name} RENAME "{column}" TO "{new}"', f"TRUNCATE {name}", f"DROP TABLE {name}",
            f'ALTER TABLE {name} ALTER "{column}" TYPE {kind} USING NULL',
        ))  # fmt: skip
        seen = "SELECT 1" if undone.startswith("DROP") else more
        end = rng.choice(("COMMIT", "ROLLBACK"))
        self._send(f"BEGIN; {change}; SAVEPOINT s; {undone}; {seen}; ROLLBACK TO s; {more}; {end}")

    def _divided(self) -> None:
        """A partition that brings no rows."""
        if found := [(name, table) for name, table in self.tables.items() if table.parts]:
            name, table = self._rng.choice(sorted(found, key=lambda one: one[0]))
            self._settle(name)  # a partition that is new has no value of before of a column that came just now
            self._numbers += 1
            part, first = f"{name}_p{self._numbers}", 10_000 + 10 * self._numbers
            bounds = f"FOR VALUES FROM ({first}) TO ({first + 10})"
            if self._send(self._rng.choice((
                f"CREATE TABLE {part} PARTITION OF {name} {bounds}; INSERT INTO {name} ({table.key}) VALUES ({first})",
                f"CREATE TABLE {part} (LIKE {name} INCLUDING ALL); ALTER TABLE {name} ATTACH PARTITION {part} {bounds}",
            ))):  # fmt: skip
                table.parts[part] = bounds

    def _silent(self) -> None:
        """Makes a change without a word in the log that leaves other rows: the next look at the tables finds it."""
        rng, (name, table) = self._rng, self._any()
        self._settle(*sorted(self.tables))
        self._beat("all before what is silent")
        column = rng.choice(sorted(table.columns))
        kind = table.columns[column]
        part = rng.choice(sorted(table.parts)) if table.parts else ""
        copied, first = f"{name}_x{self._numbers}", 20_000 + 10 * self._numbers
        made = (
            f"CREATE TABLE {copied} (LIKE {name} INCLUDING ALL); INSERT INTO {copied} ({table.key}) VALUES ({first}); "
            f"ALTER TABLE {name} ATTACH PARTITION {copied} FOR VALUES FROM ({first}) TO ({first + 10})"
        )
        sql = f'ALTER TABLE {name} ALTER "{column}" TYPE {kind} USING {TYPES[kind]}::{kind}'
        if part:
            sql = rng.choice((
                f"DROP TABLE {part}", f"ALTER TABLE {name} DETACH PARTITION {part}; DROP TABLE {part}",
                f"TRUNCATE {part}", f"VACUUM FULL {part}", made,
            ))  # fmt: skip
        if not self._send(sql):
            return
        if "ATTACH" in sql:
            table.parts[copied] = ""
        if "DROP TABLE" in sql:
            del table.parts[part]
        self._insert(name)
        self._beat(sql)
        if self._process.running:
            self._process.stop()
            self._process = self._rig.run()
        until(lambda: not self._process.running, f"a halt behind {sql}", SECONDS)
        self._mended(name, sql)

    def _mended(self, name: str, sql: str) -> None:
        """Goes on as a halt advises."""
        assert self._process.code(10.0) == OPERATOR, self._rig.said()[-1500:]
        assert f"{self._rig.schema}.{name}" in self._rig.said()[-1500:], f"{sql}: {self._rig.said()[-1500:]}"
        self.halts.append(sql)
        self._rig.at_target(f"DROP TABLE {self._rig.schema}.{name}")
        feed = str(self._rig.feed)
        for words in (["init", "--apply", feed], ["ddl", "done", feed]):
            done = tidelock(*words, seconds=SECONDS)
            assert done.code == 0, f"{words}: {done.out} {done.err}"
        self._process = self._rig.run()
        done = tidelock("copy", feed, "--table", f"{self._rig.schema}.{name}", "--yes", seconds=SECONDS)
        assert done.code == 0, f"{sql}: {done.out} {done.err}"
        until(lambda: not self._process.running or self._rig.equal(), f"equal ends behind {sql}", SECONDS)
        assert self._process.running, self._rig.said()[-1500:]

    # ------------------------------------------------------------------ rows

    def _insert(self, name: str) -> None:
        """Has a row written for certain."""
        table = self.tables[name]
        self._numbers += 1
        names = "".join(f', "{column}"' for column in table.columns)
        values = "".join(f", {TYPES[kind]}" for kind in table.columns.values())
        assert self._send(f"INSERT INTO {name} ({table.key}{names}) VALUES ({1000 + self._numbers}{values})")

    def _rows(self) -> None:
        rng, (name, table) = self._rng, self._any()
        row, columns = rng.randint(1, 40), sorted(table.columns)
        match rng.choice(("insert", "insert", "update", "delete", "move")):
            case "update" if columns:
                column = rng.choice(columns)
                self._send(f'UPDATE {name} SET "{column}" = {TYPES[table.columns[column]]} WHERE {table.key} < {row}')
            case "delete":
                self._send(f"DELETE FROM {name} WHERE {table.key} = {row}")
            case "move":
                self._send(f"UPDATE {name} SET {table.key} = {table.key} + 100 WHERE {table.key} = {row}")
            case _:
                names = "".join(f', "{column}"' for column in columns)
                values = "".join(f", {rng.choice((TYPES[table.columns[c]], 'DEFAULT'))}" for c in columns)
                self._send(f"INSERT INTO {name} ({table.key}{names}) VALUES ({row}{values}), ({row + 1}{values}) "
                           "ON CONFLICT DO NOTHING")  # fmt: skip


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", ["postgres", "mysql", "mariadb"])
@pytest.mark.parametrize("seed", range(int(SEEDS.split("-")[0]), int(SEEDS.split("-")[1]) + 1))
def test_drawn_changes(
    target: str, seed: int, make_rig: Callable[..., Rig], postgres_source: Postgres, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(seed)
    consistency = rng.choice(("row", "transaction"))
    rig = make_rig(postgres_source, request.getfixturevalue(target), "drawn", lanes=4, consistency=consistency)
    drawing = Drawing(rig, rng)
    try:
        drawing.run(STATEMENTS)
    except AssertionError:
        (rig.folder / "statements.sql").write_text(";\n".join(drawing.ran))
        print(rig.said()[-3000:], rig.folder)
        raise
    print(f"{len(drawing.ran)} statements, {len(drawing.halts)} halts", *drawing.halts, sep="\n  ")
