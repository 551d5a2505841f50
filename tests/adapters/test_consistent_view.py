"""A view of a table at real servers: what it holds, which place it tells, and what is said where it cannot be had."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.servers import MySql, Server
from tidelock.adapters.config.url import parse
from tidelock.adapters.ports.source import Source
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import TableName


def of(server: Server, user: str = "root") -> Source:
    return source_of(parse(server.url().replace("//root@", f"//{user}@"), Path()))


def table(server: Server, engine: str = "InnoDB") -> TableName:
    shop = server.database("view")
    server.execute(f"CREATE TABLE heap (a int) ENGINE={engine}", database=shop)
    server.execute("INSERT INTO heap VALUES (1), (1)", database=shop)
    return TableName(shop, "heap")


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_a_view_stays_as_it_was_at_its_place(name: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(name)
    heap, source = table(server), of(server)
    before, _ = source.end()
    with source.view(heap) as view:
        assert view is not None
        server.execute(f"INSERT INTO {heap} VALUES (2)")
        server.execute(f"DELETE FROM {heap} WHERE a = 1 LIMIT 1")
        assert [row for batch in view.batches(f"SELECT a FROM {heap}", 1) for row in batch] == [(1,), (1,)]
        after, _ = source.end()
        assert before.order <= view.snapshot.position.order < after.order


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_an_engine_without_transactions_has_none(name: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(name)
    with of(server).view(table(server, "MyISAM")) as view:
        assert view is None


def test_whoever_may_not_lock_the_table_is_told_the_grant(mysql: MySql) -> None:
    heap = table(mysql)
    mysql.execute("CREATE USER IF NOT EXISTS views@'%'")
    mysql.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO views@'%'")
    mysql.execute(f"GRANT SELECT ON `{heap.schema}`.* TO views@'%'")
    with pytest.raises(SourceError) as caught, of(mysql, "views").view(heap):
        pass
    assert "may not lock it" in str(caught.value)
    grant = caught.value.hint.removeprefix("At the source: ").replace("the feed's user", "views@'%'")
    mysql.execute(grant)
    with of(mysql, "views").view(heap) as view:
        assert view is not None


def test_an_open_transaction_of_the_table_is_told(make_mysql: Callable[..., MySql]) -> None:
    server = make_mysql()
    heap = table(server)
    with contextlib.closing(server.connect(heap.schema)) as writer:
        writer.execute("BEGIN", ())
        writer.execute("INSERT INTO heap VALUES (3)", ())
        with pytest.raises(SourceError, match="uncommitted changes"), of(server).view(heap):
            pass
        writer.execute("COMMIT", ())
    with of(server).view(heap) as view:
        assert view is not None
        assert len([row for batch in view.batches(f"SELECT a FROM {heap}", 100) for row in batch]) == 3
