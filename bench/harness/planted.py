"""Two large tables that are equal at both ends, then a known number of differences of every kind at the target.

Both servers make the rows themselves, each in its own SQL, so that millions take seconds.  `item` has an integer key
whose last tenth is sparse; `word` has a composite key of texts.  Rows whose number is a multiple of `stride` are the
planted ones; a writer (`Planted.write`) that changes all others can run at the same time.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Final

from bench.harness.session import APART, Flavor, connect

SPARSE: Final = 1_000_000
KINDS: Final = ("value", "missing", "extra", "microsecond", "space", "null", "json order")
_PACKET: Final = 20
_INSERT_ROWS: Final = 250_000


class Planted:
    """`rows`: of each table.  `count`: differences of `item`, all kinds but the last are some; `word` has as many rows
    with another value."""

    tables = ("item", "word")

    def __init__(self, rows: int, count: int) -> None:
        self.rows = rows
        self.stride = max(rows // count // 7 * 7, 7)
        self.numbers = range(self.stride, rows + 1, self.stride)

    def ddl(self, flavor: Flavor, source: Flavor) -> list[str]:
        """CREATE TABLE for a server of `flavor`; `source`: of the feed's source."""
        if flavor is Flavor.POSTGRES:
            text, moment, raw = "", "timestamp(6)", "bytea"
            document = "json" if source is Flavor.MARIADB else "jsonb"
        else:
            text, moment, document = f" CHARACTER SET utf8mb4 COLLATE {APART[flavor]}", "datetime(6)", "json"
            raw = "longblob" if source is Flavor.POSTGRES else "varbinary(20)"
        item = f"n int NOT NULL, amount decimal(12,2), at {moment}, note varchar(60){text}, raw {raw}, doc {document}"
        word = f"region varchar(8){text} NOT NULL, code varchar(20){text} NOT NULL, v decimal(10,3)"
        return [
            f"CREATE TABLE item (id bigint PRIMARY KEY, {item})",
            f"CREATE TABLE word ({word}, PRIMARY KEY (region, code))",
        ]

    def fill(self, flavor: Flavor) -> list[str]:
        """Statements that insert the rows."""
        bounds = [*range(1, self.rows + 1, _INSERT_ROWS), self.rows + 1]
        return [statement for low, end in itertools.pairwise(bounds) for statement in self._fill(flavor, low, end - 1)]

    def _fill(self, flavor: Flavor, low: int, high: int) -> list[str]:
        at = "TIMESTAMPADD(MICROSECOND, s * 1234567, '2024-01-01')"
        raw, before = "UNHEX(LPAD(HEX(s), 16, '0'))", ""
        match flavor:
            case Flavor.POSTGRES:
                numbers = f"generate_series({low}::bigint, {high}) AS g(s)"
                at = "timestamp '2024-01-01' + s * interval '1.234567 s'"
                raw = "decode(lpad(to_hex(s), 16, '0'), 'hex')"
            case Flavor.MARIADB:
                numbers = f"(SELECT seq AS s FROM seq_{low}_to_{high}) g"
            case Flavor.MYSQL:
                before = f"SET SESSION cte_max_recursion_depth = {_INSERT_ROWS + 1}; "
                numbers = (
                    f"(WITH RECURSIVE r(s) AS (SELECT {low} UNION ALL SELECT s + 1 FROM r WHERE s < {high}) "
                    "SELECT s FROM r) g"
                )
        document = """CONCAT('{"a": ', s, ', "b": [1, 2.5, "é"]}')"""
        document += " ::json" if flavor is Flavor.POSTGRES else ""
        note = "CASE WHEN MOD(s, 7) = 0 THEN '' ELSE CONCAT('note é ', s) END"
        item = f"{self._id('s')}, MOD(s, 1000), MOD(s, 100000) / 100.0, {at}, {note}, {raw}, {document}"
        word = "CONCAT('r', MOD(s, 3)), CONCAT('Wört-', s), MOD(s, 7777) / 8.0"
        rows = {"item": item, "word": word}
        return [f"{before}INSERT INTO {table} SELECT {row} FROM {numbers}" for table, row in rows.items()]

    def _id(self, number: str) -> str:
        return f"CASE WHEN {number} <= {self.rows * 9 // 10} THEN {number} ELSE {number} * {SPARSE} END"

    def item_id(self, number: int) -> int:
        return number if number <= self.rows * 9 // 10 else number * SPARSE

    def plant(self, flavor: Flavor) -> list[str]:
        """Statements for the target."""
        changes = [self._planted(flavor, number, kind) for number, kind in self.kinds().items()]
        places = (f"region = 'r{number % 3}' AND code = 'Wört-{number}'" for number in self.numbers)
        return changes + [f"UPDATE word SET v = v + 0.001 WHERE {place}" for place in places]

    def _planted(self, flavor: Flavor, number: int, kind: str) -> str:
        at = self.item_id(number)
        match kind:
            case "missing":
                return f"DELETE FROM item WHERE id = {at}"
            case "extra":
                return f"INSERT INTO item (id, n, note) VALUES (-{at}, 1, '')"
            case "value":
                change = "amount = amount + 0.01"
            case "microsecond":
                length = "'1 microsecond'" if flavor is Flavor.POSTGRES else "1 MICROSECOND"
                change = f"at = at + INTERVAL {length}"
            case "space":
                change = "note = ' '"
            case "null":
                change = "note = NULL"
            case _:
                change = f"""doc = '{{"b": [1.0, 2.50, "é"],  "a": {number}}}'"""
        return f"UPDATE item SET {change} WHERE id = {at}"

    def kinds(self) -> dict[int, str]:
        """The kind of each planted row by its number."""
        return dict(zip(self.numbers, itertools.cycle(KINDS), strict=False))

    def expected(self) -> set[tuple[str, str, str, str]]:
        """(table, kind, key, column) of every difference that is to be found; the column of rows that are not there
        at one end is ''."""
        column = {"value": "amount", "microsecond": "at", "space": "note", "null": "note"}
        found = set()
        for number, kind in self.kinds().items():
            found.add(("word", "different", f"r{number % 3},Wört-{number}", "v"))
            if kind in ("missing", "extra"):
                found.add(("item", kind, str(self.item_id(number) * (-1 if kind == "extra" else 1)), ""))
            elif kind in column:
                found.add(("item", "different", str(self.item_id(number)), column[kind]))
        return found

    def write(self, url: str, rate: float, stop: threading.Event) -> int:
        """Until stopped: updates, inserts and deletes of rows that are not planted; how many."""
        session, rng, made, begun = connect(url), random.Random(7), 0, time.monotonic()
        try:
            for packet in itertools.count():
                if stop.wait(max(made / rate - (time.monotonic() - begun), 0)):
                    return made
                session.send(";".join(self._change(rng, packet * _PACKET + n) for n in range(_PACKET)))
                made += _PACKET
        finally:
            session.close()
        return made

    def _change(self, rng: random.Random, number: int) -> str:
        row = rng.randrange(1, self.rows + 1)
        row += row % self.stride == 0 and (1 if row < self.rows else -1)
        new = self.rows * SPARSE * 2 + number // 10
        match number % 10:
            case 0:
                return f"INSERT INTO item (id, n, note) VALUES ({new}, {number}, 'new')"
            case 5 if number >= 1000:
                return f"DELETE FROM item WHERE id = {new - 100}"
            case 3 | 6:
                return f"UPDATE word SET v = v + 1 WHERE region = 'r{row % 3}' AND code = 'Wört-{row}'"
            case _:
                at = "at = CURRENT_TIMESTAMP(6)"
                return f"UPDATE item SET n = n + 1, {at}, amount = amount + 1 WHERE id = {self.item_id(row)}"
