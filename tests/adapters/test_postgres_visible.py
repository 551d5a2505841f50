"""What a reader of a PostgreSQL source's tables sees beside its log: a commit that waits for a standby is in the log,
and sent to whoever reads it, while nobody sees its row."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.harness.rig import until
from bench.harness.servers import Postgres
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.postgres.logical import visible
from tidelock.adapters.postgres.logical.consistent_view import view_of
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import Position, TableName

T = TableName("public", "t")
BRIEF = 0.3  # seconds, where an error is waited for


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server whose settings change."""
    with Postgres(extra=["--max-prepared-transactions=5"]) as made:
        yield made


@pytest.fixture
def server(own: Postgres) -> Iterator[Postgres]:
    """The server with an empty table and a slot that has its log, and nothing else."""
    own.execute("CREATE TABLE t (id int)")
    own.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'secret'")
    own.execute("SELECT pg_create_logical_replication_slot('seen', 'test_decoding')")
    yield own
    own.execute("DROP TABLE IF EXISTS t, other, parted")
    own.execute("DROP ROLE reader")
    own.execute("SELECT pg_drop_replication_slot('seen')")


def of(server: Postgres, user: str = "postgres") -> Endpoint:
    return parse(server.url(user=user, password="secret" if user != "postgres" else None), Path())


@contextlib.contextmanager
def waiting_for_a_standby(server: Postgres) -> Iterator[None]:
    """Each commit, until this ends; there is none."""
    server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.execute("SELECT pg_reload_conf()")
    until(lambda: server.execute("SHOW synchronous_standby_names") == [("nobody",)], "the setting")
    try:
        yield
    finally:
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")


def logged(server: Postgres) -> list[str]:
    """The commits that a reader of the log is sent, as (end, rows)."""
    found = server.execute("SELECT data FROM pg_logical_slot_peek_changes('seen', NULL, NULL) WHERE data LIKE 'table%'")
    return [str(data) for (data,) in found]


def insert(server: Postgres) -> None:
    """Commit a row in a session of its own: the server's is in use."""
    with contextlib.closing(server.connect()) as writer:
        writer.execute("INSERT INTO t VALUES (1)", ())


def rows(server: Postgres) -> int:
    return int(server.execute("SELECT count(*) FROM t")[0][0])


def is_asked(server: Postgres) -> bool:
    """Somebody looks at locks, again and again."""
    found = server.execute("SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    return any("pg_locks" in str(query) for (query,) in found)


def end(server: Postgres) -> Position:
    return source_of(of(server)).end()[0]


def test_a_commit_is_waited_for_that_is_in_the_log_and_not_seen(server: Postgres) -> None:
    source = source_of(of(server))
    with ThreadPoolExecutor(3) as pool:
        with waiting_for_a_standby(server):
            writing = pool.submit(insert, server)
            until(lambda: len(logged(server)) == 1, "the row in the log")
            taken = end(server)
            assert rows(server) == 0, "who reads at once misses the row, and follows the log from behind it"
            one, all_ = pool.submit(source.wait_until_visible, taken, T), pool.submit(source.visible_end)
            until(lambda: one.done() or all_.done() or is_asked(server), "a wait for the row")
            assert not one.done() and not all_.done()
            assert rows(server) == 0 and not writing.done()
        one.result(30.0)
        assert rows(server) == 1
        assert all_.result(30.0).order >= taken.order
        writing.result(30.0)


def test_a_session_idle_in_its_transaction_is_not_waited_for(server: Postgres) -> None:
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO t VALUES (1)")
        source_of(of(server)).wait_until_visible(end(server), T)
        assert source_of(of(server)).visible_end().offset > 0
        assert rows(server) == 0


def test_who_cannot_tell_idle_sessions_apart_is_told_what_to_grant(server: Postgres) -> None:
    place = of(server, "reader")
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO t VALUES (1)")
        pid = writer.execute("SELECT pg_backend_pid()", ())[0][0]
        with pytest.raises(SourceError, match=rf"public\.t cannot be read.* the session {pid} ") as caught:
            visible.wait_until_visible(place, end(server), T, BRIEF)
        grant = str(caught.value.hint)
        assert 'GRANT pg_read_all_stats TO "reader"' in grant
        server.execute('GRANT pg_read_all_stats TO "reader"')
        visible.wait_until_visible(place, end(server), T, BRIEF)


def test_writers_of_other_tables_and_readers_are_not_waited_for(server: Postgres) -> None:
    server.execute("CREATE TABLE other (id int)")
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO other VALUES (1); SELECT * FROM t; LOCK TABLE t IN SHARE MODE")
        visible.wait_until_visible(of(server, "reader"), end(server), T, BRIEF)


def test_writers_of_a_partition_are_waited_for(server: Postgres) -> None:
    server.execute("CREATE TABLE parted (id int) PARTITION BY RANGE (id)")
    server.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (9)")
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO part VALUES (1)")
        with pytest.raises(SourceError, match="the session"):
            visible.wait_until_visible(of(server, "reader"), end(server), TableName("public", "parted"), BRIEF)
        writer.execute_script("COMMIT")
        visible.wait_until_visible(of(server, "reader"), end(server), TableName("public", "parted"), BRIEF)


def test_a_prepared_transaction_is_waited_for(server: Postgres) -> None:
    server.execute("SELECT 1")
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO t VALUES (1)")
        writer.execute_script("PREPARE TRANSACTION 'one'")
    with pytest.raises(SourceError, match=r"1 prepared \(pg_prepared_xacts\)"):
        visible.wait_until_visible(of(server), end(server), T, BRIEF)
    server.execute("COMMIT PREPARED 'one'")
    visible.wait_until_visible(of(server), end(server), T, BRIEF)
    assert rows(server) == 1


def test_a_log_that_ends_before_the_place_is_another_servers(server: Postgres) -> None:
    here = end(server)
    with pytest.raises(SourceError, match=r"before .*, up to which it was read"):
        source_of(of(server)).wait_until_visible(Position(here.file, here.offset + (1 << 32)), T)


# ---------------------------------------------------------------------- views


def test_a_view_has_exactly_the_commits_before_its_place(server: Postgres) -> None:
    """While four sessions write: whoever is in the log before the place is in the view, and nobody else."""
    over = threading.Event()

    def write(first: int) -> None:
        with contextlib.closing(server.connect()) as writer:
            number = first
            while not over.is_set():
                writer.execute("INSERT INTO t VALUES ($1)", (number,))
                number += 4

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, n) for n in range(4)]
        seen: list[tuple[int, set[int]]] = []
        try:
            until(lambda: rows(server) > 40, "rows")
            for _ in range(5):
                with view_of(of(server), T) as view:
                    before = rows(server)
                    until(lambda before=before: rows(server) > before, "rows behind the view")  # type: ignore[misc]
                    batches = view.batches("SELECT id FROM public.t", 7)
                    found = [int(str(number)) for batch in batches for (number,) in batch]
                    seen.append((view.place, set(found)))
                    assert len(found) == len(set(found))
        finally:
            over.set()
        for one in writing:
            one.result(30.0)
    commits = committed(server)
    for place, ids in seen:
        assert ids == {number for number, at in commits.items() if at <= place}
        assert len(commits) > len(ids) > 0
    assert server.execute("SELECT count(*) FROM pg_replication_slots") == [(1,)], "the views' slots are gone"


def committed(server: Postgres) -> dict[int, int]:
    """Where the commit of each row ends in the log."""
    found, open_ = dict[int, int](), list[int]()
    for lsn, data in server.execute("SELECT lsn::text, data FROM pg_logical_slot_peek_changes('seen', NULL, NULL)"):
        if "INSERT" in data:
            open_.append(int(str(data).rpartition(":")[2]))
        elif data.startswith("COMMIT"):
            found |= dict.fromkeys(open_, lsn_of(str(lsn)))
            open_.clear()
    return found


def test_a_view_waits_for_a_commit_that_nobody_sees(server: Postgres) -> None:
    with ThreadPoolExecutor(2) as pool:
        with waiting_for_a_standby(server):
            writing = pool.submit(insert, server)
            until(lambda: len(logged(server)) == 1, "the row in the log")
            opening = pool.submit(seen_by_a_view, server)
            making = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%'"
            until(lambda: opening.done() or server.execute(making) == [(1,)], "the view that is being made")
            assert not opening.done()
        writing.result(30.0)
        assert opening.result(30.0) == 1


def seen_by_a_view(server: Postgres, seconds: float = 30.0) -> int:
    with view_of(of(server), T, seconds) as view:
        return sum(len(batch) for batch in view.batches("SELECT id FROM public.t", 10))


def test_a_view_that_an_open_transaction_holds_up_says_so_and_leaves_no_slot(server: Postgres) -> None:
    with contextlib.closing(server.connect()) as writer:
        writer.execute_script("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(SourceError, match=r"public\.t has no key.* open when it") as caught:
            seen_by_a_view(server, BRIEF)
        query = caught.value.hint.partition("stays: ")[2].partition(";")[0]
        assert len(server.execute(query)) == 1, "what it advises finds the transaction"
    until(lambda: server.execute("SELECT count(*) FROM pg_replication_slots") == [(1,)], "no slot of the view")


def test_a_server_without_a_free_slot_says_so(make_postgres: Callable[..., Postgres]) -> None:
    server = make_postgres(extra=["--max-replication-slots=1"])
    server.execute("CREATE TABLE t (id int)")
    server.execute("SELECT pg_create_physical_replication_slot('taken')")
    with pytest.raises(SourceError, match=r"takes a slot.*all replication slots are in use") as caught:
        seen_by_a_view(server)
    assert "max_replication_slots" in caught.value.hint
