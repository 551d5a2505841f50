"""*filled*: five tables that hold many rows before the first change, as a copy finds them, and changes all over them.

The server makes the rows; the model knows them by formula and remembers only what was changed since.

- `item` has a skewed key: nine tenths of its numbers are dense, the last tenth is a million apart;
- `word` has a composite key of texts;
- `person` has two unique keys beside the primary key, one of them over two columns;
- `token` has a key of sixteen bytes, in no order that a number has (at PostgreSQL it is their digits: bytes without a
  length cannot be MySQL's key);
- `tally` has no key at all, and some thousand rows of each kind.

Changes are what makes a copy hard: rows move to keys of other chunks and freed keys come back, unique values go to rows
of other chunks (by swaps, by a delete and an insert, through NULL), rows that are being copied are deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, TypeAlias

from bench.harness.session import Flavor, literal
from bench.harness.workload.made import inserts
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

ITEM = Table(
    "item",
    (
        ("id", "bigint", False),
        ("n", "int", False),
        ("amount", "decimal(12,2)", False),
        ("at", "datetime(6)", False),
        ("note", "varchar(60)", True),
    ),
)
WORD = Table(
    "word",
    (("region", "varchar(8)", False), ("code", "varchar(20)", False), ("v", "decimal(10,3)", False)),
    primary_key=("region", "code"),
)
PERSON = Table(
    "person",
    (
        ("id", "bigint", False),
        ("email", "varchar(64)", False),
        ("region", "varchar(8)", True),
        ("code", "int", True),
        ("balance", "decimal(12,2)", False),
    ),
    uniques=(("email",), ("region", "code")),
)
TOKEN = Table("token", (("id", "binary(16)", False), ("holder", "bigint", False), ("note", "varchar(20)", True)))
DIGITS = Table("token", (("id", "varchar(32)", False), *TOKEN.columns[1:]))
TALLY = Table(
    "tally",
    (("sensor", "int", False), ("value", "decimal(8,2)", False), ("note", "varchar(20)", True)),
    primary_key=(),
)
SHARES: Final = {"item": 4, "word": 3, "person": 3, "token": 3, "tally": 2}
SPARSE: Final = 1_000_000
TALLY_KINDS: Final = 200

Code: TypeAlias = tuple[str, int] | None


class _Numbers:
    """Numbers of rows that are there: first 1 to `count`; in order of events alone, so that a seed draws the same."""

    def __init__(self, count: int) -> None:
        self._last = count
        self._gone: set[int] = set()
        self.freed: list[int] = []

    def draw(self, random: float) -> int:
        number = 1 + int(random * self._last)
        while number in self._gone:
            number = number % self._last + 1
        return number

    def remove(self, number: int) -> None:
        self._gone.add(number)
        self.freed.append(number)

    def add(self, again: bool) -> int:
        """A number that was freed (the oldest), if wanted and there is one; else a new one."""
        if again and self.freed:
            number = self.freed.pop(0)
            self._gone.remove(number)
            return number
        self._last += 1
        return self._last


class Filled(Workload):
    """`rows`: in all tables, before the first change.  `flavor`: of the source."""

    name = "filled"

    def __init__(self, rows: int, flavor: Flavor) -> None:
        self._flavor = flavor
        self.specs = (ITEM, WORD, PERSON, DIGITS if flavor is Flavor.POSTGRES else TOKEN, TALLY)
        self.rows = {table: max(rows * share // sum(SHARES.values()), 10) for table, share in SHARES.items()}
        self._dense = self.rows["item"] * 9 // 10
        self._live = {table: _Numbers(count) for table, count in self.rows.items()}
        self._emails: dict[int, str] = {}
        self._codes: dict[int, Code] = {}
        self._fresh = itertools.count(1)
        self._tally = [
            self.rows["tally"] // TALLY_KINDS + (0 < kind <= self.rows["tally"] % TALLY_KINDS)
            for kind in range(TALLY_KINDS)
        ]
        super().__init__()

    # ------------------------------------------------------------------ rows by formula

    def fill(self) -> list[str]:
        """Statements that insert the rows, in the session's current database."""
        at = "TIMESTAMPADD(MICROSECOND, MOD(s, 50000000) * 1234567, '2024-01-01')"
        if self._flavor is Flavor.POSTGRES:
            at = "timestamp '2024-01-01' + MOD(s, 50000000) * interval '1.234567 s'"
        values = {
            "item": f"CASE WHEN s <= {self._dense} THEN s ELSE s * {SPARSE} END, MOD(s, 1000), MOD(s, 100000) / 100.0, "
            f"{at}, CASE WHEN MOD(s, 7) = 0 THEN NULL ELSE CONCAT('note é ', s) END",
            "word": "CONCAT('r', MOD(s, 3)), CONCAT('Wört-', s), MOD(s, 7777) / 8.0",
            "person": "s, CONCAT('user', s, '@example.com'), CONCAT('r', MOD(s, 3)), s, MOD(s, 5000) / 4.0",
            "token": f"{self._key('s')}, s, NULL",
            "tally": f"MOD(s, {TALLY_KINDS}), MOD(s, {TALLY_KINDS}) / 4.0, CASE WHEN MOD(s, 2) = 0 THEN 'é' END",
        }
        made = (inserts(self._flavor, table, values[table], count) for table, count in self.rows.items())
        return [*itertools.chain.from_iterable(made)]

    def _id(self, number: int) -> int:
        return number if number <= self._dense else number * SPARSE

    def _email(self, number: int) -> str:
        return self._emails.get(number, f"user{number}@example.com")

    def _code(self, number: int) -> Code:
        return self._codes.get(number, (f"r{number % 3}", number))

    # ------------------------------------------------------------------ a server's own SQL

    def _key(self, number: int | str) -> str:
        """Returns the token of a number, or of the SQL expression `number`: scattered, and each its own below 2^32."""
        scattered = f"MOD({number} * 2654435761, 4294967296)"
        if self._flavor is Flavor.POSTGRES:
            return f"lpad(to_hex({scattered}), 32, '0')"
        return f"UNHEX(LPAD(HEX({scattered}), 32, '0'))"

    def _one_of(self, kind: int) -> str:
        """Says which of the equal rows of a kind is changed: any."""
        equal = f"sensor={kind} AND value={kind / 4:.2f}"
        if self._flavor is Flavor.POSTGRES:
            return f"ctid = (SELECT ctid FROM tally WHERE {equal} LIMIT 1)"
        return f"{equal} LIMIT 1"

    # ------------------------------------------------------------------ changes

    def changes(self) -> Iterator[Change]:
        tables = [self._item, self._word, self._person, self._token, self._tallied]
        while True:
            yield from tables[int(self._rng.random() * len(tables))]()

    def _draw(self, table: str) -> int:
        return self._live[table].draw(self._rng.random())

    def _new(self, table: str) -> int:
        return self._live[table].add(again=self._rng.random() < 0.5)

    def _item(self) -> Iterator[Change]:
        drawn, number = self._rng.random(), self._draw("item")
        if drawn < 0.6:
            yield Kind.UPDATE, f"UPDATE item SET amount={self.amount()} WHERE id={self._id(number)}"
        elif drawn < 0.75:
            new = self._id(self._new("item"))
            self._live["item"].remove(number)
            yield Kind.UPDATE, f"UPDATE item SET id={new} WHERE id={self._id(number)}"
        elif drawn < 0.87:
            self._live["item"].remove(number)
            yield Kind.DELETE, f"DELETE FROM item WHERE id={self._id(number)}"
        else:
            values = f"{self._id(self._new('item'))},{self.next_version()},{self.amount()},{self.moment()},'new'"
            yield Kind.INSERT, f"INSERT INTO item VALUES ({values})"

    def _word(self) -> Iterator[Change]:
        drawn, number = self._rng.random(), self._draw("word")
        if drawn < 0.6:
            yield Kind.UPDATE, f"UPDATE word SET v={self._rng.randrange(9999)}.125 WHERE {_word(number)}"
        elif drawn < 0.75:
            new = self._new("word")
            self._live["word"].remove(number)
            yield Kind.UPDATE, f"UPDATE word SET region='r{new % 3}',code='Wört-{new}' WHERE {_word(number)}"
        elif drawn < 0.87:
            self._live["word"].remove(number)
            yield Kind.DELETE, f"DELETE FROM word WHERE {_word(number)}"
        else:
            new = self._new("word")
            yield Kind.INSERT, f"INSERT INTO word VALUES ('r{new % 3}','Wört-{new}',0.5)"

    def _person(self) -> Iterator[Change]:
        drawn, number = self._rng.random(), self._draw("person")
        if drawn < 0.3:
            yield self._set(number, f"balance={self.amount()}")
        elif drawn < 0.55:
            yield from self._swap_emails(number, self._draw("person"))
        elif drawn < 0.7:
            yield from self._hand_code_over(number, self._draw("person"))
        elif drawn < 0.85:
            yield from self._replace(number)
        else:
            yield self._move(number)

    def _set(self, number: int, assignments: str) -> Change:
        return Kind.UPDATE, f"UPDATE person SET {assignments} WHERE id={number}"

    def _swap_emails(self, one: int, two: int) -> Iterator[Change]:
        if one == two:
            return
        first, second = self._email(one), self._email(two)
        yield self._set(one, f"email='swap{next(self._fresh)}@example.com'")
        yield self._set(two, f"email={literal(first)}")
        yield self._set(one, f"email={literal(second)}")
        self._emails[one], self._emails[two] = second, first

    def _hand_code_over(self, giver: int, taker: int) -> Iterator[Change]:
        """Give one row's code to another; the code that the taker had before, nobody has any more."""
        code = self._code(giver)
        if giver == taker or code is None:
            return
        yield self._set(giver, "region=NULL,code=NULL")
        yield self._set(taker, f"region={literal(code[0])},code={code[1]}")
        self._codes[giver], self._codes[taker] = None, code

    def _replace(self, number: int) -> Iterator[Change]:
        """A row goes, and another takes its unique values at once."""
        email, code = self._email(number), self._code(number)
        new = self._new("person")
        self._live["person"].remove(number)
        region, digits = (literal(code[0]), str(code[1])) if code else ("NULL", "NULL")
        yield Kind.DELETE, f"DELETE FROM person WHERE id={number}"
        yield Kind.INSERT, f"INSERT INTO person VALUES ({new},{literal(email)},{region},{digits},{self.amount()})"
        self._emails[new], self._codes[new] = email, code

    def _move(self, number: int) -> Change:
        new = self._new("person")
        self._live["person"].remove(number)
        self._emails[new], self._codes[new] = self._email(number), self._code(number)
        return Kind.UPDATE, f"UPDATE person SET id={new} WHERE id={number}"

    def _token(self) -> Iterator[Change]:
        drawn, number = self._rng.random(), self._draw("token")
        if drawn < 0.6:
            yield Kind.UPDATE, f"UPDATE token SET note='{self.next_version()}' WHERE id={self._key(number)}"
        elif drawn < 0.75:
            new = self._new("token")
            self._live["token"].remove(number)
            yield Kind.UPDATE, f"UPDATE token SET id={self._key(new)} WHERE id={self._key(number)}"
        elif drawn < 0.87:
            self._live["token"].remove(number)
            yield Kind.DELETE, f"DELETE FROM token WHERE id={self._key(number)}"
        else:
            yield Kind.INSERT, f"INSERT INTO token VALUES ({self._key(self._new('token'))},{number},'new')"

    def _tallied(self) -> Iterator[Change]:
        """Changes one of the equal rows of a kind; which one makes no difference."""
        drawn, kind = self._rng.random(), int(self._rng.random() * TALLY_KINDS)
        while not self._tally[kind]:
            kind = (kind + 1) % TALLY_KINDS
        if drawn < 0.4:
            new = int(self._rng.random() * TALLY_KINDS)
            self._tally[kind] -= 1
            self._tally[new] += 1
            sensor, value, note = _tally(new)
            changed = f"sensor={sensor},value={value},note={note}"
            yield Kind.UPDATE, f"UPDATE tally SET {changed} WHERE {self._one_of(kind)}"
        elif drawn < 0.7:
            self._tally[kind] -= 1
            yield Kind.DELETE, f"DELETE FROM tally WHERE {self._one_of(kind)}"
        else:
            self._tally[kind] += 1
            yield Kind.INSERT, f"INSERT INTO tally VALUES ({','.join(_tally(kind))})"


def _tally(kind: int) -> tuple[str, str, str]:
    """Returns the row of a kind, as SQL."""
    return str(kind), f"{kind / 4:.2f}", "NULL" if kind % 2 else "'é'"


def _word(number: int) -> str:
    return f"region='r{number % 3}' AND code='Wört-{number}'"
