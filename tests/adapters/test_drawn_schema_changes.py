"""Schema changes drawn at random among rows, while the feed is killed: both ends are the same at the end."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
from collections.abc import Callable, Iterator

import pymysql
import pytest

from bench.harness.rig import Rig, until
from bench.harness.session import connect

TYPES = ("int", "bigint", "varchar(20)", "decimal(8,2)", "datetime", "double")
NAMES = ("alpha", "beta", "gamma", "delta", "order", "Mixed")


@dataclasses.dataclass
class Table:
    """A table of the source as the statements so far have made it.  `columns`: types by name, the key `id` left out."""

    columns: dict[str, str]
    uniques: dict[str, tuple[str, ...]]


class Draw:
    """Draws statements that the source carries out, and follows what its tables become.  `swaps`: names may be given
    away and taken again in one statement, which MySQL and MariaDB as targets halt at."""

    def __init__(self, seed: int, *, swaps: bool) -> None:
        self._rng = random.Random(seed)
        self._swaps = swaps
        self._made = 0
        self.tables: dict[str, Table] = {}

    def statements(self, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yields statements, each with what is to be called once the source has carried it out."""
        for _ in range(number):
            if not self.tables:
                yield self._create()
                continue
            yield self._rng.choices(
                (self._rows, self._alter, self._create, self._like, self._drop, self._rename, self._truncate,
                 self._rekey),
                (70, 18, 2, 2, 2, 3, 1, 2),
            )[0]()  # fmt: skip

    def _name(self) -> str:
        self._made += 1
        return f"t{self._made % 7}" if f"t{self._made % 7}" not in self.tables else f"n{self._made}"

    def _any(self) -> tuple[str, Table]:
        name = self._rng.choice(sorted(self.tables))
        return name, self.tables[name]

    def _create(self) -> tuple[str, Callable[[], None]]:
        name, table = self._name(), Table({}, {})
        for column in self._rng.sample(NAMES, self._rng.randint(1, 3)):
            table.columns[column] = self._rng.choice(TYPES)
        words = "".join(f", `{column}` {kind}" for column, kind in table.columns.items())
        return f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY{words})", lambda: self.tables.update({name: table})

    def _like(self) -> tuple[str, Callable[[], None]]:
        name, (like, table) = self._name(), self._any()
        copied = Table(dict(table.columns), dict(table.uniques))
        return f"CREATE TABLE {name} LIKE {like}", lambda: self.tables.update({name: copied})

    def _drop(self) -> tuple[str, Callable[[], None]]:
        name, _ = self._any()
        return f"DROP TABLE {name}", lambda: self.tables.__delitem__(name)

    def _truncate(self) -> tuple[str, Callable[[], None]]:
        return f"TRUNCATE TABLE {self._any()[0]}", lambda: None

    def _rename(self) -> tuple[str, Callable[[], None]]:
        (one, _), to = self._any(), self._name()
        others = sorted(set(self.tables) - {one})
        if self._swaps and others and self._rng.random() < 0.5:
            other = self._rng.choice(others)

            def swapped() -> None:
                self.tables[one], self.tables[other] = self.tables[other], self.tables[one]

            return f"RENAME TABLE {one} TO {to}, {other} TO {one}, {to} TO {other}", swapped

        def renamed() -> None:
            self.tables[to] = self.tables.pop(one)

        return f"RENAME TABLE {one} TO {to}", renamed

    def _rekey(self) -> tuple[str, Callable[[], None]]:
        name, _ = self._any()
        return f"ALTER TABLE {name} DROP PRIMARY KEY, ADD PRIMARY KEY (id)", lambda: None

    def _alter(self) -> tuple[str, Callable[[], None]]:
        name, table = self._any()
        after = Table(dict(table.columns), dict(table.uniques))
        touched: set[str] = set()
        clauses = [
            clause for _ in range(self._rng.randint(1, 3)) if (clause := self._clause(after, touched)) is not None
        ]
        if not clauses:
            return self._rows()
        return f"ALTER TABLE {name} {', '.join(clauses)}", lambda: self.tables.update({name: after})

    def _clause(self, table: Table, touched: set[str]) -> str | None:
        rng = self._rng
        unique = {column for columns in table.uniques.values() for column in columns}
        free = [column for column in sorted(table.columns) if column not in touched]
        unused = [name for name in NAMES if name not in table.columns and name not in touched]
        match rng.choice(("add", "drop", "rename", "unique", "unindex", "plain")):
            case "add" if unused:
                column, kind = rng.choice(unused), rng.choice(TYPES)
                touched.add(column)
                table.columns[column] = kind
                return f"ADD COLUMN `{column}` {kind}" + rng.choice(("", " NULL", " AFTER id"))
            case "drop" if [column for column in free if column not in unique]:
                column = rng.choice([column for column in free if column not in unique])
                touched.add(column)
                del table.columns[column]
                return f"DROP COLUMN `{column}`"
            case "rename" if free and unused:
                column, to = rng.choice(free), rng.choice(unused)
                touched.update((column, to))
                table.columns[to] = table.columns.pop(column)
                for name, columns in table.uniques.items():
                    table.uniques[name] = tuple(to if one == column else one for one in columns)
                return f"RENAME COLUMN `{column}` TO `{to}`"
            case "unique" if len(table.uniques) < 2 and (whole := [c for c in free if table.columns[c] != "double"]):
                columns = tuple(rng.sample(whole, rng.randint(1, min(2, len(whole)))))
                self._made += 1
                table.uniques[f"u{self._made}"] = columns
                touched.update(columns)
                return f"ADD UNIQUE KEY u{self._made} ({', '.join(f'`{column}`' for column in columns)})"
            case "unindex" if table.uniques and not touched:
                name = rng.choice(sorted(table.uniques))
                touched.update(table.uniques.pop(name))
                return f"DROP INDEX {name}"
            case "plain" if free:
                self._made += 1
                return f"ADD INDEX p{self._made} (`{rng.choice(free)}`)"
            case _:
                return None

    # ------------------------------------------------------------------ rows

    def _rows(self) -> tuple[str, Callable[[], None]]:
        name, table = self._any()
        row = self._rng.randint(1, 40)
        column = self._rng.choice(sorted(table.columns)) if table.columns else ""
        match self._rng.choice(("insert", "insert", "update", "several", "delete", "move")):
            case "insert":
                names = "".join(f", `{column}`" for column in table.columns)
                rows = ", ".join(
                    f"({row + number}{''.join(f', {self._value(kind)}' for kind in table.columns.values())})"
                    for number in range(self._rng.randint(1, 4))
                )
                return f"INSERT IGNORE INTO {name} (id{names}) VALUES {rows}", lambda: None
            case "update" if column:
                value = self._value(table.columns[column])
                return f"UPDATE IGNORE {name} SET `{column}` = {value} WHERE id = {row}", lambda: None
            case "several" if column:
                value = self._value(table.columns[column])
                return f"UPDATE IGNORE {name} SET `{column}` = {value} WHERE id < {row}", lambda: None
            case "move":
                return f"UPDATE IGNORE {name} SET id = id + 1 WHERE id > {row} ORDER BY id DESC", lambda: None
            case _:
                return f"DELETE FROM {name} WHERE id = {row}", lambda: None

    def _value(self, kind: str) -> str:
        rng = self._rng
        if rng.random() < 0.15:
            return "NULL"
        match kind:
            case "datetime":
                return f"'2026-11-{rng.randint(1, 28):02} 10:00:{rng.randint(0, 59):02}'"
            case "varchar(20)":
                return f"'{rng.choice('abcdeABCé ')}{rng.randint(0, 30)}'"
            case "double" | "decimal(8,2)":
                return f"{rng.randint(-40, 40)}.25"
            case _:
                return str(rng.randint(-40, 40))


PAIRS = [("mysql", "postgres"), ("mariadb", "mysql")]


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
@pytest.mark.parametrize("seed", range(1, 6))
def test_drawn_statements(
    pair: tuple[str, str], seed: int, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    source, target = (request.getfixturevalue(name) for name in pair)
    rng = random.Random(seed)
    rig = make_rig(source, target, "drawn", lanes=2, consistency=rng.choice(("row", "transaction")))
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.catch_up()
    draw = Draw(seed, swaps=pair[1] == "postgres")
    session = connect(rig.source_place)
    session.send(f"USE {rig.schema}")
    process = rig.run()
    until_kill = rng.randint(20, 60)
    ran = []
    for statement, done in draw.statements(400):
        try:
            session.send(statement)
        except pymysql.Error:
            continue
        ran.append(statement)
        done()
        until_kill -= 1
        if until_kill == 0:
            until_kill = rng.randint(20, 60)
            os.kill(process.pid, signal.SIGKILL)
            process.code(10.0)
            process = rig.run()
    rig.tables = sorted(draw.tables)
    try:
        until(lambda: not process.running or rig.equal(), "equal ends", 120)
        process.stop()
        assert rig.catch_up_code() == 0
    except AssertionError:
        (rig.folder / "statements.sql").write_text(";\n".join(ran))
        print(rig.said()[-1500:], rig.folder)
        raise
    kept = rig.rows(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{rig.schema}'")
    assert sorted(str(row[0]) for row in kept) == rig.tables
    assert rig.parked() == 0
