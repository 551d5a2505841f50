"""The end of a source's log as one who begins to read tables may take it: a transaction that waits for a replica is in
the log, and nobody sees its row yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.harness.rig import until
from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog.visible import _owned, log_end, visible_end
from tidelock.adapters.mysql.connection import reader_endpoint

WAIT_MILLISECONDS = 60_000


@contextlib.contextmanager
def waiting_for_a_replica(source: MariaDb | MySql) -> Iterator[None]:
    """Each commit, until this ends; there is none."""
    if isinstance(source, MySql):
        source.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    names = ("master", "slave") if isinstance(source, MariaDb) else ("source", "replica")
    settings = {
        f"rpl_semi_sync_{names[0]}_timeout": WAIT_MILLISECONDS,
        f"rpl_semi_sync_{names[0]}_wait_no_{names[1]}": 1,
        f"rpl_semi_sync_{names[0]}_wait_point": "'AFTER_SYNC'",
        f"rpl_semi_sync_{names[0]}_enabled": 1,
    }
    try:
        for name, value in settings.items():
            source.execute(f"SET GLOBAL {name} = {value}")
        yield
    finally:
        source.execute(f"SET GLOBAL rpl_semi_sync_{names[0]}_enabled = 0")
        if isinstance(source, MySql):
            source.execute("UNINSTALL PLUGIN rpl_semi_sync_source")


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_what_the_log_holds_up_to_there_can_be_seen(name: str, request: pytest.FixtureRequest) -> None:
    source: MariaDb | MySql = request.getfixturevalue(name)
    shop = source.database("visible")
    source.execute("CREATE TABLE t (id int PRIMARY KEY)", database=shop)
    place = parse(source.url(), Path())
    before = log_end(place)[0]
    with ThreadPoolExecutor(2) as pool:
        with waiting_for_a_replica(source):
            writing = pool.submit(write, place, shop)
            until(lambda: log_end(place)[0].order > before.order, "the row in the log")
            written = log_end(place)[0]
            asking = pool.submit(visible_end, place)
            if isinstance(source, MariaDb):  # its snapshot knows where it stands
                assert asking.result(30.0).order < written.order
            else:
                until(lambda: asking.done() or waited_for(source), "a wait for the row")
                assert not asking.done()
            assert seen(place, shop) == 0, "the row is seen already: nothing is shown here"
            assert not writing.done()
        if isinstance(source, MySql):
            assert asking.result(30.0).order >= written.order
            assert seen(place, shop) == 1
        writing.result(30.0)
    assert visible_end(place).order >= written.order
    assert seen(place, shop) == 1


def waited_for(source: MySql) -> bool:
    asked = source.execute("SELECT info FROM performance_schema.processlist WHERE id <> connection_id()")
    return any("WAIT_FOR_EXECUTED_GTID_SET" in str(info) for (info,) in asked)


def write(place: Endpoint, schema: str) -> None:
    connection = server.connect(reader_endpoint(place))
    server.rows(connection, f"INSERT INTO {schema}.t VALUES (1)")
    connection.close()


def seen(place: Endpoint, schema: str) -> int:
    connection = server.connect(reader_endpoint(place))
    try:
        return int(server.rows(connection, f"SELECT COUNT(*) FROM {schema}.t")[0][0])
    finally:
        connection.close()


def test_gtids_that_are_not_committed_yet() -> None:
    assert _owned("") == []
    assert _owned("u-1:5#17:6#18,\nu-2:tag:7#19:8#20") == ["u-1:5", "u-1:6", "u-2:tag:7", "u-2:tag:8"]
