"""An arbiter and its spoke, each a server of its own, with a feed for each direction (`conflicts:`)."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Any

import asyncpg
import msgspec
import pymysql

from bench.harness.network import Direction, Network, Node
from bench.harness.rig import until
from bench.harness.servers import Postgres
from bench.harness.session import connect
from tidelock.adapters.bookkeeping import verdicts

TABLES = {
    "seat": "CREATE TABLE seat (id int PRIMARY KEY, place varchar(20) UNIQUE, n int)",
    "lamp": "CREATE TABLE lamp (id int PRIMARY KEY, word varchar(20), n int)",
}
_KEYS = 8
_PLACES = 6
_REFUSED = (asyncpg.PostgresError, pymysql.MySQLError)


class Pair:
    """Both sites of a network of two, `eu` and `us`; `eu` is the arbiter.  `default`: its policy.  `more`: statements
    that make further tables, by their names.  `groups`: tables with columns that have groups of their own."""

    def __init__(
        self,
        network: Network,
        default: str = "arrival",
        more: Mapping[str, str] = MappingProxyType({}),
        groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.network = network
        self.arbiter, self.spoke = network["eu"], network["us"]
        self.down, self.up = network.feeds["eu>us"], network.feeds["us>eu"]
        for feed in (self.down, self.up):
            feed.options["conflicts"] = {"arbiter": "eu", "default": default}
            feed.tables = [
                *(
                    {
                        "source": f"{network.schema}.{table}",
                        "conflicts": {"groups": [{"columns": [column], "policy": default} for column in columns]},
                    }
                    for table, columns in groups.items()
                ),
                {"source": f"{network.schema}.*"},
            ]
        for node in (self.arbiter, self.spoke):
            for table, statement in {**TABLES, **more}.items():
                node.send(statement)
                if isinstance(node.server, Postgres):
                    node.send(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        for feed in (self.up, self.down):
            self.catch_up(feed)

    def run_down(self) -> None:
        """Until it has brought a row, so that what is written next is behind the floor of its reader."""
        self.down.run()
        self.arbiter.send("INSERT INTO note SELECT coalesce(max(id), 900) + 1, 'begun', 0 FROM note WHERE id > 900")
        until(lambda: self.begun() and self.rows("note")[0][-1] == self.rows("note")[1][-1], "a row")

    def begun(self) -> bool:
        assert self.down.process is not None
        self.down.process.check()
        return bool(self.rows("note")[1])

    def catch_up(self, feed: Direction) -> None:
        said = feed.command("run", "--until-caught-up")
        assert said.code == 0, f"{said.out}\n{said.err}"

    def stored(self) -> None:
        """The spoke's log says what it has of the arbiter's."""
        until(lambda: self.network.receipts(self.down) == 0, "a checkpoint")

    def rows(self, table: str) -> list[list[tuple[Any, ...]]]:
        columns = "CONCAT(id, ''), " + ("place" if table == "seat" else "word") + ", CONCAT(n, '')"
        return [node.rows(f"SELECT {columns} FROM {table} ORDER BY id") for node in (self.arbiter, self.spoke)]

    def equal(self) -> bool:
        if self.down.process is not None:
            self.down.process.check()
        return all(one == other for one, other in map(self.rows, ("note", *TABLES)))

    def tell(self, table: str, key: int, row: dict[str, Any] | None) -> None:
        """The arbiter stands by a row, or by none, against the spoke's: a verdict as the feed to it writes one."""
        books, feed = self.network.books, self.up.name
        image = None if row is None else verdicts.image(row)
        verdict = verdicts.Verdict(feed, 0, 99, key, 0, self.network.schema, table, verdicts.image({"id": key}), image)
        if isinstance(self.arbiter.server, Postgres):
            receipt = msgspec.json.encode({"receipt": (feed, 0, 99, key, "", "us", "us", "", "")}).decode()
            self.arbiter.send(
                f"BEGIN; SELECT pg_logical_emit_message(true, 'tidelock', '{receipt}'); "
                f"SELECT pg_logical_emit_message(true, '{verdicts.PREFIX}', '{verdicts.content(verdict)}'); COMMIT"
            )
            return
        told = "NULL" if image is None else f"x'{image.hex()}'"
        self.arbiter.send(
            "START TRANSACTION",
            f"INSERT INTO {books}.tidelock_progress VALUES ('{feed}', 0, 99, {key}, '', 'us', 'us', '', '')",
            f"INSERT INTO {books}.tidelock_verdicts VALUES ('{feed}', 0, 99, {key}, 0, '{self.network.schema}', "
            f"'{table}', x'{verdict.row_key.hex()}', {told})",
            f"DELETE FROM {books}.tidelock_progress WHERE feed = '{feed}' AND epoch = 99",
            f"DELETE FROM {books}.tidelock_verdicts WHERE feed = '{feed}' AND epoch = 99",
            "COMMIT",
        )

    def displaced(self) -> list[tuple[str, dict[str, Any]]]:
        """Type, and the row that is gone."""
        told = self.spoke.rows(
            f"SELECT type, lost FROM {self.network.books}.tidelock_conflicts WHERE feed = '{self.down.name}' "
            "AND outcome = 'displaced' AND incoming = 0"
        )
        return [(str(kind), msgspec.msgpack.decode(lost)) for kind, lost in told]

    def family(self) -> list[dict[str, list[tuple[Any, ...]]]]:
        """Rows of tables with foreign keys, at both sites."""
        columns = {"parent": "word", "child": "parent", "toy": "child", "coat": "parent"}
        return [
            {
                table: sorted(node.rows(f"SELECT CONCAT(id, ''), CONCAT({more}, '') FROM {table}"))
                for table, more in columns.items()
            }
            for node in (self.arbiter, self.spoke)
        ]

    def failed(self) -> list[tuple[Any, ...]]:
        """Failed rows at both, each with its feed, table and error."""
        asked = f"SELECT feed, table_name, row_key, error FROM {self.network.books}.tidelock_parked"
        return [row for node in (self.arbiter, self.spoke) for row in node.rows(asked)]

    def write_at_once(self, statements: int, seed: int) -> None:
        """Both sites change the same few rows and unique values, each in a thread of its own; what its server refuses
        is left out."""
        writers = [
            threading.Thread(target=_write, args=(node, statements, random.Random(f"{seed} {node.site}")))
            for node in (self.arbiter, self.spoke)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

    def come_to_rest(self, seconds: float = 60.0) -> None:
        """Until no feed has anything left to do, and both sites hold the same rows."""
        until(lambda: self.equal() and self.equal_at_rest(), "equal rows, and nothing to do", seconds)

    def equal_at_rest(self) -> bool:
        return all(self.network.receipts(feed) == 0 for feed in (self.down, self.up)) and self.equal()


def _write(node: Node, statements: int, rng: random.Random) -> None:
    with closing(connect(node.url)) as session:
        session.send(f"SET search_path = {node.schema}" if node.database else f"USE {node.schema}")
        for statement in _statements(statements, rng):
            try:
                session.send(statement)
            except _REFUSED:
                continue


def _statements(count: int, rng: random.Random) -> Iterator[str]:
    for n in range(count):
        key, other, place = rng.randint(1, _KEYS), rng.randint(1, _KEYS), f"p{rng.randint(1, _PLACES)}"
        yield rng.choice(
            (
                f"INSERT INTO seat VALUES ({key}, '{place}', {n})",
                f"INSERT INTO lamp VALUES ({key}, '{place}', {n})",
                f"UPDATE seat SET place = '{place}' WHERE id = {key}",
                f"UPDATE seat SET n = {n} WHERE id = {key}",
                f"UPDATE lamp SET n = {n}, word = '{place}' WHERE id = {key}",
                f"UPDATE seat SET id = {other} WHERE id = {key}",
                f"DELETE FROM seat WHERE id = {key}",
                f"DELETE FROM lamp WHERE id = {key}",
            )
        )
