"""Statements drawn at random among row changes, as a MySQL or MariaDB source carries them out."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from tests.adapters.drawn_columns import (
    DATES,
    DOUBTFUL,
    FILLS,
    FOLLOWED,
    TYPES,
    UNINDEXED,
    base,
    can_be_unique,
    generated,
    value,
)

NAMES = ("alpha", "beta", "gamma", "delta", "order", "Mixed", "size of", "key")
RANGES = (
    "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (25), PARTITION p2 VALUES LESS THAN MAXVALUE"
)
Done: TypeAlias = Callable[[], None]


@dataclasses.dataclass
class Table:
    """A table of the source as the statements so far have made it.

    `columns`: types by name, the key `id` left out.  `computed`: generated columns, with those that they are made of.
    `keyed`: the column that is part of the primary key beside `id`; `keyless`: there is no such key.
    `known`: the feed can tell the types that it has, so that new ones can be followed.
    """

    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    uniques: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    computed: dict[str, str] = dataclasses.field(default_factory=dict)
    keyed: str = ""
    keyless: bool = False
    known: bool = True

    def copy(self) -> Table:
        return Table(dict(self.columns), dict(self.uniques), dict(self.computed), self.keyed, self.keyless,
                     self.known)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A statement.  `done`: to be called once the source has carried it out.  `table`: whose values it may change, so
    that the feed may halt before it.  `way`: how an operator goes on then: by the same statement at the target, or
    without the table; the whole database was dropped.  `mode`: the session's `sql_mode`, if not the usual one.
    `behind`: statements right behind it.  `{schema}` is the database."""

    sql: str
    done: Done = lambda: None
    table: str = ""
    way: Literal["", "same", "drop", "database"] = ""
    mode: str | None = None
    behind: tuple[str, ...] = ()


class Draw:
    """Draws statements that the source carries out, and follows what its tables become.

    `swaps`: names may be given away and taken again in one statement, which a PostgreSQL target follows.  `maria`: the
    source is MariaDB.
    """

    def __init__(self, seed: int, *, swaps: bool, maria: bool) -> None:
        self._rng = random.Random(seed)
        self._swaps, self._maria = swaps, maria
        self._made = 0
        self.tables: dict[str, Table] = {}

    def statements(self, number: int) -> Iterator[Drawn]:
        """Yields so many statements."""
        kinds: dict[Callable[[], Drawn], int] = {
            self._rows: 70, self._alter: 22, self._create: 3, self._like: 2, self._drop: 2, self._rename: 4,
            self._truncate: 1, self._rekey: 2, self._index: 2, self._rowless: 5, self._doubtful: 5, self._losing: 3,
            self._generated: 4, self._database: 1,
        }  # fmt: skip
        for _ in range(number):
            if len(self.tables) < 2:
                yield self._create()
                continue
            yield self._rng.choices([*kinds], [*kinds.values()])[0]()

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _name(self) -> str:
        short = f"t{self._number() % 7}"
        return short if short not in self.tables else f"n{self._made}"

    def _any(self) -> tuple[str, Table]:
        name = self._rng.choice(sorted(self.tables))
        return name, self.tables[name]

    def _put(self, name: str, table: Table) -> Done:
        return lambda: self.tables.update({name: table})

    # ------------------------------------------------------------------ tables

    def _create(self) -> Drawn:
        rng, name, table = self._rng, self._name(), Table()
        words = ["id int NOT NULL"]
        for column in rng.sample(NAMES, rng.randint(1, 4)):
            kind = table.columns[column] = rng.choice(TYPES)
            words.append(f"`{column}` {kind}" + self._attributes(kind))
        words.append("PRIMARY KEY (id)")
        if rng.random() < 0.3 and (whole := [name for name, kind in table.columns.items() if can_be_unique(kind)]):
            columns = table.uniques[unique := f"u{self._number()}"] = (rng.choice(whole),)
            words.append(f"UNIQUE KEY {unique} ({self._listed(columns)})")
        if rng.random() < 0.2:
            table.computed["twice"] = "id"
            words.append(f"twice int AS (id * 2) {rng.choice(('STORED', 'VIRTUAL'))}")
        if rng.random() < 0.15 and self.tables:
            words += ["parent int", f"FOREIGN KEY (parent) REFERENCES {self._any()[0]} (id)"]
            table.columns["parent"] = "int"
        elif rng.random() < 0.1:
            return Drawn(f"CREATE TABLE {name} ({', '.join(words)}) PARTITION BY HASH (id) PARTITIONS 3",
                         self._put(name, table))  # fmt: skip
        if self._maria and rng.random() < 0.2 and self.tables:
            name, table.known = self._any()[0], False
            return Drawn(f"CREATE OR REPLACE TABLE {name} ({', '.join(words)})", self._put(name, table))
        exists = rng.choice((*[""] * 7, "IF NOT EXISTS "))
        table.known = not exists
        return Drawn(f"CREATE TABLE {exists}{name} ({', '.join(words)}) CHARSET utf8mb4", self._put(name, table))

    def _attributes(self, kind: str) -> str:
        """Attributes of a new table's column, which no row of before is concerned by."""
        if kind in FILLS and self._rng.random() < 0.3:
            return f"{self._null(kind)} DEFAULT {self._rng.choice(FILLS[kind])} COMMENT 'it''s'"
        return ""

    def _like(self) -> Drawn:
        name, (like, table) = self._name(), self._any()
        return Drawn(f"CREATE TABLE {name} LIKE {like}", self._put(name, table.copy()))

    def _drop(self) -> Drawn:
        names = self._rng.sample(sorted(self.tables), self._rng.choice((1, 1, 1, 2)))

        def dropped() -> None:
            for name in names:
                del self.tables[name]

        return Drawn(f"DROP TABLE {self._rng.choice(('', 'IF EXISTS '))}{', '.join(names)}", dropped)

    def _database(self) -> Drawn:
        """The whole database goes, and comes again without tables."""
        behind = ("CREATE DATABASE {schema}", "USE {schema}", "CREATE TABLE pulse (id int PRIMARY KEY)")
        return Drawn("DROP DATABASE {schema}", self.tables.clear, way="database", behind=behind)

    def _truncate(self) -> Drawn:
        return Drawn(f"TRUNCATE TABLE {self._any()[0]}")

    def _rename(self) -> Drawn:
        """One table, two at once, two that exchange names, or one that takes the name of one that goes."""
        rng, to, (one, other) = self._rng, self._name(), self._rng.sample(sorted(self.tables), 2)
        spare = f"s{self._number()}"
        moves = rng.choice(
            ([(one, to)], [(one, to), (other, spare)], [(one, to), (other, one)],
             [(one, to), (other, one), (to, other)])
        )  # fmt: skip

        def renamed() -> None:
            for before, after in moves:
                self.tables[after] = self.tables.pop(before)

        sql = f"RENAME TABLE {', '.join(f'{before} TO {after}' for before, after in moves)}"
        if len(moves) == 1 and rng.random() < 0.5:
            sql = f"ALTER TABLE {one} RENAME TO {to}"
        exchanged = len(moves) == 3 and not self._swaps
        return Drawn(sql, renamed, one if exchanged else "", "same" if exchanged else "")

    def _rekey(self) -> Drawn:
        name, table = self._any()
        whole = [column for column, kind in table.columns.items() if base(kind) in ("int", "bigint")]
        after = table.copy()
        if not table.keyless and self._rng.random() < 0.3:
            after.keyed, after.keyless = "", True
            return Drawn(f"ALTER TABLE {name} DROP PRIMARY KEY", self._put(name, after))
        after.keyless = False
        after.keyed = self._rng.choice(whole) if whole and self._rng.random() < 0.5 else ""
        columns = ("id", after.keyed) if after.keyed else ("id",)
        dropped = "" if table.keyless else "DROP PRIMARY KEY, "
        return Drawn(f"ALTER TABLE {name} {dropped}ADD PRIMARY KEY ({self._listed(columns)})", self._put(name, after))

    def _index(self) -> Drawn:
        """CREATE and DROP INDEX as statements of their own."""
        rng, (name, table) = self._rng, self._any()
        after = table.copy()
        if table.uniques and rng.random() < 0.5:
            index = rng.choice(sorted(table.uniques))
            del after.uniques[index]
            return Drawn(f"DROP INDEX {index} ON {name}", self._put(name, after))
        whole = [column for column, kind in table.columns.items() if can_be_unique(kind)]
        if not whole:
            return self._rows()
        index, columns = f"u{self._number()}", (rng.choice(whole),)
        if rng.random() < 0.5:
            after.uniques[index] = columns
            return Drawn(f"CREATE UNIQUE INDEX {index} ON {name} ({self._listed(columns)})", self._put(name, after))
        return Drawn(f"CREATE INDEX {index} ON {name} ({self._listed(columns)})")

    def _generated(self) -> Drawn:
        """A column that is computed, also in rows that are there, by what all servers compute alike."""
        rng, (name, table) = self._rng, self._any()
        found = [(column, kind) for column, kind in table.columns.items() if generated(kind)]
        if not found or not table.known:
            return self._rows()
        column, kind = rng.choice(found)
        after, new = table.copy(), f"g{self._number()}"
        after.computed[new] = column
        type_, expression = rng.choice(generated(kind))
        stored = rng.choice(("STORED", "VIRTUAL", ""))
        return Drawn(f"ALTER TABLE {name} ADD COLUMN {new} {type_} AS ({expression.format(column)}) {stored}",
                     self._put(name, after))  # fmt: skip

    def _rowless(self) -> Drawn:
        """What means nothing to rows."""
        name, table = self._any()
        column = self._rng.choice(sorted(table.columns))
        return Drawn(self._rng.choice((
            f"ALTER TABLE {name} COMMENT 'x', ENGINE=InnoDB", f"ALTER TABLE {name} PARTITION BY HASH (id) PARTITIONS 4",
            f"ALTER TABLE {name} REMOVE PARTITIONING", f"ALTER TABLE {name} FORCE",
            *[f"ALTER TABLE {name} ENGINE=InnoDB PARTITION BY RANGE (id) ({RANGES})"] * 3,
            f"ALTER TABLE {name} REORGANIZE PARTITION p0, p1 INTO (PARTITION p1 VALUES LESS THAN (25))",
            f"ALTER TABLE {name} REBUILD PARTITION ALL", f"ALTER TABLE {name} COALESCE PARTITION 1",
            f"ALTER TABLE {name} ADD CONSTRAINT k{self._number()} CHECK (id < 1000000)",
            f"ALTER TABLE {name} ADD INDEX (`{column}`)", f"ALTER TABLE {name} ALTER COLUMN `{column}` DROP DEFAULT",
            f"CREATE OR REPLACE VIEW v AS SELECT id FROM {name}", f"CREATE TEMPORARY TABLE n{self._number()} (id int)",
            f"ALTER TABLE {name} ADD FOREIGN KEY (id) REFERENCES {self._any()[0]} (id)",
        )))  # fmt: skip

    def _doubtful(self) -> Drawn:
        """What may change values that rows have, or what a target may not follow by itself."""
        rng, (name, table) = self._rng, self._any()
        column, kind, after = rng.choice(sorted(table.columns)), rng.choice(DOUBTFUL), table.copy()
        after.columns[column] = kind
        modified = f"ALTER TABLE {name} MODIFY `{column}` {kind}{rng.choice(('', ' FIRST', ' AFTER id'))}"
        converted, computed, widened = table.copy(), table.copy(), table.copy()
        after.known = converted.known = computed.known = widened.known = False
        computed.computed["more"] = column
        new = f"d{self._number()}"
        widened.columns[new] = "datetime"
        real = table.copy()
        real.columns[new], real.known = "double", False
        narrower = table.copy()
        several = [columns for columns in table.uniques.values() if len(columns) > 1]
        gone = rng.choice(several)[0] if several else column
        del narrower.columns[gone]
        left = {index: tuple(c for c in columns if c != gone) for index, columns in table.uniques.items()}
        narrower.uniques = {index: columns for index, columns in left.items() if columns}
        charset = rng.choice(("utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "latin1", "utf8mb3"))
        sql, behind = rng.choice((
            *[(modified, after)] * 5,
            (f"ALTER TABLE {name} CONVERT TO CHARACTER SET {charset}", converted),
            (f"ALTER TABLE {name} DEFAULT CHARACTER SET {charset}", converted),
            (f"ALTER TABLE {name} ENGINE=InnoDB DEFAULT CHARSET={charset}", converted),
            (f"ALTER TABLE {name} DEFAULT CHARSET={charset}, MODIFY `{column}` {kind}", after),
            (f"ALTER TABLE {name} MODIFY `{column}` {kind}, ENGINE=InnoDB CHARSET={charset}", after),
            (f"ALTER TABLE {name} ADD COLUMN `{new}` real NOT NULL", real),
            (f"ALTER TABLE {name} DROP COLUMN `{gone}`", narrower) if narrower.columns else (modified, after),
            (f"ALTER TABLE {name} ADD COLUMN more varchar(30) AS (CONCAT(id, '!')) STORED", computed),
            (f"ALTER TABLE {name} ADD COLUMN `{new}` datetime DEFAULT CURRENT_TIMESTAMP", widened),
            (f"ALTER TABLE {name} ADD COLUMN `{new}` datetime NOT NULL DEFAULT (NOW())", widened),
        ))  # fmt: skip
        return Drawn(sql, self._put(name, behind), name, "drop", rng.choice((None, None, "", "REAL_AS_FLOAT")))

    def _losing(self) -> Drawn:
        """Takes rows away without a row in the log, or gives the name of a column to another."""
        rng, (name, table) = self._rng, self._any()
        partition = rng.choice(("p0", "p1", "p2"))
        swapped = table.copy()
        names = rng.sample(sorted(table.columns), 2) if len(table.columns) > 1 else []
        gone = [f"ALTER TABLE {name} {verb} PARTITION {partition}" for verb in ("TRUNCATE", "DROP")]
        if not names or table.computed or any({*names} & {*columns} for columns in table.uniques.values()):
            return Drawn(rng.choice(gone), self._put(name, table.copy()), name, "drop")
        one, two = names
        swapped.columns[one], swapped.columns[two] = table.columns[two], table.columns[one]
        swapped.known = False
        swapped.keyed = {one: two, two: one}.get(table.keyed, table.keyed)
        exchange = f"ALTER TABLE {name} RENAME COLUMN `{one}` TO `{two}`, RENAME COLUMN `{two}` TO `{one}`"
        return rng.choice((
            Drawn(rng.choice(gone), self._put(name, table.copy()), name, "drop"),
            Drawn(exchange, self._put(name, swapped), name, "same"),
        ))  # fmt: skip

    # ------------------------------------------------------------------ ALTER TABLE

    def _alter(self) -> Drawn:
        name, table = self._any()
        after = table.copy()
        touched: set[str] = set()
        drawn = (self._clause(after, touched) for _ in range(self._rng.choice((1, 1, 2, 3))))
        clauses = [clause for clause in drawn if clause is not None]
        if not clauses:
            return self._rows()
        clauses += self._rng.choice(([], [], [], ["ALGORITHM=INSTANT"], ["ALGORITHM=INPLACE", "LOCK=NONE"]))
        return Drawn(f"ALTER TABLE {name} {', '.join(clauses)}", self._put(name, after))

    def _clause(self, table: Table, touched: set[str]) -> str | None:
        rng = self._rng
        unique = {column for columns in table.uniques.values() for column in columns}
        free = [column for column in sorted(table.columns) if column not in touched]
        unused = [name for name in NAMES if name not in table.columns and name not in touched]
        match rng.choice(("add", "add", "drop", "rename", "modify", "modify", "change", "unique", "unindex", "plain")):
            case "add" if unused:
                column = rng.choice(unused)
                touched.add(column)
                return f"ADD COLUMN {self._added(table, column)}{rng.choice(('', ' AFTER id', ' FIRST'))}"
            case "drop" if len(table.columns) > 1 and (
                droppable := [c for c in free if c not in unique and c != table.keyed]
            ):
                column = rng.choice(droppable)
                touched.add(column)
                del table.columns[column]
                return f"DROP COLUMN `{column}`"
            case "rename" if free and unused:
                column, to = rng.choice(free), rng.choice(unused)
                touched.update((column, to))
                self._renamed(table, column, to)
                return f"RENAME COLUMN `{column}` TO `{to}`"
            case "modify" if able := self._able(table, free):
                column = rng.choice(able)
                touched.add(column)
                return f"MODIFY COLUMN {self._defined(table, column)}{rng.choice(('', ' AFTER id', ' FIRST'))}"
            case "change" if unused and (able := self._able(table, free)):
                column, to = rng.choice(able), rng.choice(unused)
                touched.update((column, to))
                self._renamed(table, column, to)
                return f"CHANGE `{column}` {self._defined(table, to)}"
            case "unique" if len(table.uniques) < 2 and (whole := [c for c in free if can_be_unique(table.columns[c])]):
                columns = tuple(rng.sample(whole, rng.randint(1, min(2, len(whole)))))
                table.uniques[name := f"u{self._number()}"] = columns
                touched.update(columns)
                return f"ADD UNIQUE KEY {name} ({self._listed(columns)})"
            case "unindex" if table.uniques and not touched:
                name = rng.choice(sorted(table.uniques))
                touched.update(table.uniques.pop(name))
                return f"DROP INDEX {name}"
            case "plain" if able := [column for column in free if base(table.columns[column]) not in UNINDEXED]:
                return f"ADD INDEX p{self._number()} (`{rng.choice(able)}`)"
            case _:
                return None

    def _added(self, table: Table, column: str) -> str:
        kind = table.columns[column] = self._rng.choice(TYPES)
        if kind in FILLS and self._rng.random() < 0.5:
            return f"`{column}` {kind}{self._null(kind)} DEFAULT {self._rng.choice(FILLS[kind])}"
        return f"`{column}` {kind}"

    def _able(self, table: Table, free: list[str]) -> list[str]:
        """Columns whose new type is certain to be followed; a generated column may show it in another way."""
        return [c for c in free if table.known and not table.computed and table.columns[c] in FOLLOWED]

    def _defined(self, table: Table, column: str) -> str:
        kind = table.columns[column] = self._rng.choice(FOLLOWED[table.columns[column]])
        return f"`{column}` {kind}{self._null(kind)}"

    def _null(self, kind: str) -> str:
        """NOT NULL now and then; dates would become 0000-00-00 by INSERT IGNORE, which only MySQL and MariaDB have."""
        return " NOT NULL" if base(kind) not in DATES and self._rng.random() < 0.3 else ""

    def _renamed(self, table: Table, column: str, to: str) -> None:
        table.columns[to] = table.columns.pop(column)
        table.keyed = to if table.keyed == column else table.keyed
        for name, columns in table.uniques.items():
            table.uniques[name] = tuple(to if one == column else one for one in columns)
        for name, made_of in table.computed.items():
            table.computed[name] = to if made_of == column else made_of

    def _listed(self, columns: tuple[str, ...]) -> str:
        return ", ".join(f"`{column}`" for column in columns)

    # ------------------------------------------------------------------ rows

    def _rows(self) -> Drawn:
        rng, (name, table) = self._rng, self._any()
        row, column = rng.randint(1, 40), rng.choice(sorted(table.columns)) if table.columns else ""
        match rng.choice(("insert", "insert", "replace", "update", "several", "delete", "move", "copy", "both")):
            case "insert" | "replace" as verb:
                names = "".join(f", `{column}`" for column in table.columns)
                rows = ", ".join(
                    f"({row + number}{''.join(f', {value(rng, kind)}' for kind in table.columns.values())})"
                    for number in range(rng.randint(1, 4))
                )
                words = "REPLACE" if verb == "replace" else "INSERT IGNORE"
                return Drawn(f"{words} INTO {name} (id{names}) VALUES {rows}")
            case "update" if column:
                return Drawn(f"UPDATE IGNORE {name} SET `{column}` = {self._of(table, column)} WHERE id = {row}")
            case "several" if column:
                return Drawn(f"UPDATE IGNORE {name} SET `{column}` = {self._of(table, column)} WHERE id < {row}")
            case "move":
                return Drawn(f"UPDATE IGNORE {name} SET id = id + 1 WHERE id > {row} ORDER BY id DESC")
            case "copy":
                return Drawn(f"INSERT IGNORE INTO {name} (id) SELECT id + {row} FROM {self._any()[0]}")
            case "both":
                other = self._any()[0]
                return Drawn(f"DELETE {name}, o FROM {name} JOIN {other} o ON o.id = {name}.id + 1 "
                             f"WHERE {name}.id = {row}")  # fmt: skip
            case _:
                return Drawn(f"DELETE FROM {name} WHERE id = {row}")

    def _of(self, table: Table, column: str) -> str:
        return value(self._rng, table.columns[column])
