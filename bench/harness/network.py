"""Sites that feeds connect, for tests of what goes two ways or round: one schema at each, a feed for each direction.

At PostgreSQL a site is a database of its own, so one server may be several sites.  The bookkeeping has a schema of the
network's own: names of sites are bound to servers, which many tests share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness.link import Link
from bench.harness.numbers import numbers
from bench.harness.rig import Said, tidelock, until
from bench.harness.servers import Postgres, Server
from bench.harness.session import Session, connect
from bench.harness.tidelock import Feed, Process
from tidelock.adapters.runtime import journal
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange
from tidelock.engine.protocol.events import LogArrived

QUIET_SECONDS = 60.0
KEYS = 1_000_000
"""Each site writes rows with keys of its own, so many."""
_numbers = numbers()


class Node:
    """A site: its server, a session there, and the keys that it writes."""

    def __init__(self, site: str, server: Server, schema: str, number: int) -> None:
        self.site, self.server, self.schema = site, server, schema
        self.first = number * KEYS
        self.host = server.host
        postgres = isinstance(server, Postgres)
        self.database = f"{schema}_{site}" if postgres else ""
        with contextlib.closing(connect(server.url())) as admin:
            admin.send(server.create_database(self.database or schema))
        with contextlib.closing(connect(self.url)) as owner:
            owner.send(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self._session = self.connect()

    def connect(self) -> Session:
        """Another session, in the schema."""
        made = connect(self.url)
        made.send(f"SET search_path = {self.schema}" if self.database else f"USE {self.schema}")
        return made

    def reconnect(self) -> None:
        """After the server was restarted."""
        self._session.close()
        self._session = self.connect()

    @property
    def url(self) -> str:
        return self.server.url(self.database).replace(f"@{self.server.host}:", f"@{self.host}:")

    def send(self, *statements: str) -> None:
        for statement in statements:
            self._session.send(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._session.rows(sql)

    def write(self, keys: Iterable[int]) -> None:
        """Rows of this site's own keys: each is inserted, changed, and every third deleted."""
        for key in keys:
            row = self.first + key
            self.send(
                f"INSERT INTO note (id, word, n) VALUES ({row}, 'made', 0)",
                f"UPDATE note SET n = {key + 1} WHERE id = {row}",
            )
            if key % 3 == 2:
                self.send(f"DELETE FROM note WHERE id = {row}")

    def notes(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT CONCAT(id, ''), word, CONCAT(n, '') FROM note ORDER BY id")

    def close(self) -> None:
        if self.database:
            with contextlib.suppress(Exception):
                self._drop_slots()
        self._session.close()

    def _drop_slots(self) -> None:
        ours = f"FROM pg_replication_slots WHERE database = '{self.database}'"
        self.send(f"SELECT pg_terminate_backend(active_pid) {ours} AND active")
        until(lambda: not self.rows(f"SELECT 1 {ours} AND active"), "slots that nobody reads")
        self.send(f"SELECT pg_drop_replication_slot(slot_name) {ours}")


class Direction:
    """A feed from one site to another.  `options`: keys of its YAML; `sites`: of the part of that name.  `link`: what
    it reads its source through, if that is not directly.  `tables`: rules of its YAML; none: all tables."""

    def __init__(self, network: Network, source: Node, target: Node, sites: Mapping[str, Any], **options: Any) -> None:
        self.source, self.target = source, target
        self.name = self.name_of(network.schema, source.site, target.site)
        self.journal = network.folder / f"{self.name}.journal"
        self.output = network.folder / f"{self.name}.log"
        self.options: dict[str, Any] = {"schema": network.books, "journal": str(self.journal), **options}
        self.sites: dict[str, Any] = {"source": source.site, "target": target.site, **sites}
        self.tables: Sequence[Mapping[str, Any]] = ()
        self.process: Process | None = None
        self.link: Link | None = None
        self._network = network

    @staticmethod
    def name_of(schema: str, source: str, target: str) -> str:
        return f"{schema}-{source}-{target}"

    @property
    def books(self) -> str:
        """Schema of its bookkeeping."""
        return self._network.books

    @property
    def file(self) -> Path:
        options = {**self.options, **({"sites": self.sites} if self.sites else {})}
        server = self.source.server
        source = self.source.url
        if self.link is not None:
            source = source.replace(f"@{self.source.host}:{server.port}", f"@{self.link.address}")
        schema = self._network.schema
        feed = Feed(self.name, source, self.target.url, schema, lanes=2, tables=self.tables, options=options)
        return feed.write(self._network.folder)

    def run(self) -> None:
        self.process = Process(["run", str(self.file)], self.output)

    def command(self, *words: str) -> Said:
        return tidelock(*words, str(self.file))

    @property
    def begun(self) -> bool:
        """Has it stored where it begins?"""
        if self.process is not None:
            self.process.check()
        with contextlib.suppress(Exception):
            told = f"SELECT CONCAT(grp, '') FROM {self._network.books}.tidelock_checkpoint WHERE feed = '{self.name}'"
            return bool(self.target.rows(told))
        return False

    def carried(self) -> list[RowChange]:
        """Rows that have come through the loop filter, over all its runs."""
        return [row for batch in _batches(self.journal) for row in batch.rows]

    def seen(self) -> list[Position | None]:
        """Returns how far its changes had seen the target's log, batch by batch."""
        return [batch.seen for batch in _batches(self.journal) if batch.rows]

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def kill(self) -> None:
        if self.process is not None and self.process.running:
            self.process.kill()

    def stop(self) -> None:
        """In order, so that the journal is whole."""
        if self.process is not None and self.process.running:
            self.process.stop()


def _batches(path: Path) -> Iterator[LogBatch]:
    for file in sorted(path.parent.glob(f"{path.name}*")):
        for step in journal.read(file):
            if isinstance(step, tuple):
                for event in step[1]:
                    if isinstance(event, LogArrived):
                        yield from event.batches


class Network:
    """`edges`: directions as `a>b`.  A direction whose other way is there too knows its sister."""

    def __init__(self, folder: Path, servers: Mapping[str, Server], edges: Sequence[str]) -> None:
        self.folder = folder
        self.schema = f"net{next(_numbers)}"
        self.books = f"{self.schema}_books"
        self.nodes = {
            site: Node(site, server, self.schema, number) for number, (site, server) in enumerate(servers.items(), 1)
        }
        self.feeds: dict[str, Direction] = {}
        for edge in edges:
            source, target = edge.split(">")
            back = Direction.name_of(self.schema, target, source)
            sites = {"sister": back} if f"{target}>{source}" in edges else {}
            self.feeds[edge] = Direction(self, self.nodes[source], self.nodes[target], sites)
        for node in self.nodes.values():
            node.send("CREATE TABLE note (id int PRIMARY KEY, word varchar(20), n int)")
            if isinstance(node.server, Postgres):
                node.send("ALTER TABLE note REPLICA IDENTITY FULL")

    def __getitem__(self, site: str) -> Node:
        return self.nodes[site]

    def run(self) -> None:
        """All feeds, until each has begun."""
        for feed in self.feeds.values():
            feed.run()
        until(lambda: all(feed.begun for feed in self.feeds.values()), "feeds that have begun", QUIET_SECONDS)

    def write(self, keys: Iterable[int]) -> None:
        """The same number of rows at each site, each with keys of its own."""
        keys = list(keys)
        for node in self.nodes.values():
            node.write(keys)

    def equal(self, sites: Iterable[str] = ()) -> bool:
        for feed in self.feeds.values():
            if feed.process is not None:
                feed.process.check()
        found = [self.nodes[site].notes() for site in sites or self.nodes]
        return all(notes == found[0] for notes in found)

    def come_to_rest(self, sites: Iterable[str] = ()) -> None:
        """Until all sites hold the same rows, and no feed has anything left to do; then they are stopped."""
        until(lambda: self.equal(sites), "equal rows", QUIET_SECONDS)
        until(lambda: all(self.receipts(feed) == 0 for feed in self.feeds.values()), "no receipts", QUIET_SECONDS)
        assert self.equal(sites)
        for feed in self.feeds.values():
            feed.stop()

    def receipts(self, feed: Direction) -> int:
        """Returns receipts of the feed's batches above its checkpoint."""
        told = f"SELECT CONCAT(count(*), '') FROM {self.books}.tidelock_progress WHERE feed = '{feed.name}'"
        return int(feed.target.rows(told)[0][0])

    def saved(self, feed: Direction) -> str:
        """When its checkpoint was stored last."""
        told = f"SELECT CONCAT(saved_at, '') FROM {self.books}.tidelock_checkpoint WHERE feed = '{feed.name}'"
        return str(feed.target.rows(told)[0][0])

    def beats(self, feed: Direction) -> float:
        """When it gave its last sign of life, in seconds."""
        told = f"SELECT UNIX_TIMESTAMP(beat_at) FROM {self.books}.tidelock_runs WHERE feed = '{feed.name}'"
        return float(feed.target.rows(told)[0][0])

    def came_back(self) -> dict[str, int]:
        """Rows that a feed would have brought to the site where they began, by feed; none if nothing is wrong."""
        back = {edge: self.carried(feed, feed.target) for edge, feed in self.feeds.items()}
        return {edge: rows for edge, rows in back.items() if rows}

    def carried(self, feed: Direction, began: Node) -> int:
        """Number of changes that have come through the feed's loop filter and began at that site."""
        rows = [row.before or row.after for row in feed.carried()]
        return sum(began.first <= int(row[0]) < began.first + KEYS for row in rows if row is not None)

    def close(self) -> None:
        for feed in self.feeds.values():
            feed.kill()
        for node in self.nodes.values():
            node.close()
