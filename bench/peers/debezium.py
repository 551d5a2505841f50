"""Debezium from end to end: its MariaDB connector, Kafka, its JDBC sink into PostgreSQL.

The broker and the Connect worker run for all rounds, and idle between them without a connector: a Java program is slow
in its first minute, and an operator's has run for weeks.  For the same reason the backlog goes through once before the
first round.  In a turn the sink waits for its topic when the source connector is told to run: that starts the clock,
and the visible end of the backlog stops it.

All tables go through one topic of one partition and one task, because the sink is not exact otherwise: with several
partitions a unique value arrives at its new row before the old one has given it up, and the tasks fail.  Batches are
larger than the default, as an operator would make them; the values travel as JSON with their schema, Connect's default.
"""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Final, Self

from bench.harness.servers.kafka import Kafka
from bench.peers.backlog import SCHEMA, BinlogBacklog
from bench.peers.connect import Connect
from bench.peers.connect_jars import connect_jars
from bench.peers.peer import until, verify
from bench.peers.target import Target

BATCH_ROWS: Final = 2000
STATUS_SECONDS: Final = 1.0


class Debezium:
    """From `backlog` of a MariaDB to `target`, a PostgreSQL.  Entering raises PeerMissing, ServerMissing."""

    def __init__(self, backlog: BinlogBacklog, target: Target) -> None:
        self.changes = backlog.changes
        self._backlog, self._target = backlog, target
        self._stack = contextlib.ExitStack()
        self._turns = 0
        self._asked = 0.0
        self._kafka: Kafka
        self._connect: Connect

    def __enter__(self) -> Self:
        connect_jars()
        with self._stack:
            self._kafka = self._stack.enter_context(Kafka())
            self._connect = self._stack.enter_context(Connect(self._kafka.bootstrap))
            self.catch_up()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def catch_up(self) -> float:
        self._target.empty(self._backlog.workload)
        self._turns += 1
        topic, source, sink = (f"{what}_{self._turns}" for what in ("changes", "source", "sink"))
        self._kafka.create_topic(topic)
        try:
            self._begin_sink(sink, topic)
            self._place_source(source, topic)
            begun = time.perf_counter()
            self._connect.resume(source)
            return until(self._target.ended, lambda: self._failure(source, sink), begun)
        finally:
            self._connect.delete_all()
            self._kafka.delete_topic(topic)

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)

    def _failure(self, *connectors: str) -> str:
        """Asked once a second: it is not to take time from what it watches."""
        if time.monotonic() - self._asked < STATUS_SECONDS:
            return ""
        self._asked = time.monotonic()
        return next(filter(None, map(self._connect.failure, connectors)), "")

    def _begin_sink(self, name: str, topic: str) -> None:
        connect = self._connect
        connect.create(name, self._sink(topic))
        connect.resume(name)
        until(lambda: connect.runs(name), lambda: connect.failure(name), time.perf_counter())

    def _place_source(self, name: str, topic: str) -> None:
        """A connector that will begin where the backlog does."""
        self._connect.create(name, self._source(name, topic))
        file, _, offset = self._backlog.start.partition(":")
        start = {"file": file, "pos": int(offset), "gtids": self._backlog.start_gtid}
        self._connect.place(name, {"server": SCHEMA}, start)

    def _source(self, name: str, topic: str) -> dict[str, object]:
        server = self._backlog.server
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": 1,
            "database.hostname": server.host,
            "database.port": server.port,
            "database.user": server.user,
            "database.password": server.password,
            "database.server.id": 1,
            "database.ssl.mode": "disable",
            "topic.prefix": SCHEMA,
            "database.include.list": SCHEMA,
            # The tables are as they were when the backlog began: their definitions are read, their rows are not.
            "snapshot.mode": "recovery",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": self._connect.folder / f"{name}.history",
            "include.schema.changes": False,
            "tombstones.on.delete": False,
            "transforms": "route",
            "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.route.regex": ".*",
            "transforms.route.replacement": topic,
        }

    def _sink(self, topic: str) -> dict[str, object]:
        server = self._target.server
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": 1,
            "topics": topic,
            "connection.url": f"jdbc:postgresql://{server.host}:{server.port}/postgres?options=-csynchronous_commit=off",
            "connection.username": server.user,
            "connection.password": server.password,
            "insert.mode": "upsert",
            "delete.enabled": True,
            "primary.key.mode": "record_key",
            "schema.evolution": "none",
            "collection.name.format": f"{SCHEMA}.${{source.table}}",
            "batch.size": BATCH_ROWS,
            "consumer.override.max.poll.records": BATCH_ROWS,
            "consumer.override.auto.offset.reset": "earliest",
        }
