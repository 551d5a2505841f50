"""A PostgreSQL source end to end: its log, read by logical decoding, at a PostgreSQL target, exactly.

The rules are those of `adapters.postgres.logical`: what the server is told, whose log it is, which slot.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop

from bench.harness.rig import Rig, kill_at_random, until
from bench.harness.servers import Postgres, Standby
from bench.harness.servers.certificates import authority, server_certificate
from bench.harness.servers.place import free_port, give
from bench.harness.tidelock import Process, sample
from bench.harness.wire import Wire
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.harness.workload.workload import Workload
from tests.adapters.postgres_feed import (
    ELSEWHERE,
    ITEM,
    assert_halted,
    checkpoint,
    confirmed,
    count,
    end_of_log,
    insert,
    last_read,
    made,
    moved_to,
    slot,
)
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.config.url import parse
from tidelock.adapters.ports.capture_messages import Failed, Stored
from tidelock.adapters.ports.source_errors import AccessDenied
from tidelock.adapters.postgres.logical.last_read import FAR_BYTES, SPEAK_BYTES
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.session import session
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.engine.model.records import Position


@pytest.fixture
def source(postgres_source: Postgres) -> Postgres:
    return postgres_source


@pytest.fixture
def make_standby() -> Iterator[Callable[[Postgres], Standby]]:
    with ExitStack() as stack:
        yield lambda primary: stack.enter_context(Standby(primary, ["--wal-keep-size=256MB"]))


# ------------------------------------------------------------------ rows


def test_rows_transactions_and_savepoints(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    rig = made(make_rig, source, postgres, "rows")
    insert(rig, 1, 20)
    rig.at_source(
        "UPDATE item SET name = 'other', amount = -0.05 WHERE id % 3 = 0",
        "DELETE FROM item WHERE id % 5 = 0",
        "UPDATE item SET id = id + 100 WHERE id % 7 = 0",
        "UPDATE item SET name = NULL WHERE id = 1",
        "UPDATE item SET name = name",
        "BEGIN; INSERT INTO item VALUES (50, 'kept', 1); SAVEPOINT a; INSERT INTO item VALUES (51, 'undone', 1); "
        "UPDATE item SET amount = 9 WHERE id = 50; ROLLBACK TO a; INSERT INTO item VALUES (52, 'kept', 2); COMMIT",
        "BEGIN; INSERT INTO item VALUES (60, 'undone', 1); ROLLBACK",
        "BEGIN; UPDATE item SET id = -1 WHERE id = 1; UPDATE item SET id = 1 WHERE id = 2; "
        "UPDATE item SET id = 2 WHERE id = -1; COMMIT",
    )
    rig.catch_up()
    rig.assert_exact()
    kept = rig.rows("SELECT id::text FROM item WHERE id BETWEEN 50 AND 99 ORDER BY id")
    assert kept == [("50",), ("52",)]


WORK = [
    (Mix, "row", "postgres", "FULL"),
    (Churn, "row", "postgres", "DEFAULT"),
    (Churn, "row", "mariadb", "FULL"),
    (Churn, "transaction", "mysql", "FULL"),
]

MORE_WORK = [
    (Churn, "row", "postgres", "FULL"),
    (Churn, "transaction", "postgres", "FULL"),
    (Churn, "row", "mysql", "DEFAULT"),
]


@pytest.mark.parametrize(
    ("kind", "consistency", "target", "identity"),
    [*WORK, *(pytest.param(*one, marks=pytest.mark.proof) for one in MORE_WORK)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_workload(
    kind: type[Workload],
    consistency: str,
    target: str,
    identity: str,
    make_rig: Callable[..., Rig],
    source: Postgres,
    request: pytest.FixtureRequest,
) -> None:
    server = request.getfixturevalue(target)
    rig = make_rig(source, server, "load", lanes=4, consistency=consistency, batch_rows=200)
    workload = made_workload(rig, kind(), identity)
    rig.catch_up()
    rig.load(workload, 2000, 7)
    rig.catch_up()
    rig.assert_exact()


def made_workload(rig: Rig, workload: Workload, identity: str = "FULL") -> Workload:
    rig.make(workload)
    rig.at_source(*(f"ALTER TABLE {table} REPLICA IDENTITY {identity}" for table in workload.tables))
    return workload


def test_a_role_that_writes_days_first(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    """The walsender spells values as its session says, which a role may say otherwise."""
    rig = make_rig(source, postgres, "spelled", lanes=2)
    columns = "id int PRIMARY KEY, day date, moment timestamptz, span interval, data bytea, f float8"
    rig.table("value", columns)
    role = f"reader_{rig.schema}"
    settings = {
        "datestyle": "'SQL, DMY'", "intervalstyle": "iso_8601", "timezone": "'Asia/Tokyo'", "bytea_output": "escape",
        "extra_float_digits": "0", "statement_timeout": "'3s'",
    }  # fmt: skip
    rig.at_source(
        "ALTER TABLE value REPLICA IDENTITY FULL",
        f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 's''e\\c ret'",
        *(f"ALTER ROLE {role} SET {name} = {value}" for name, value in settings.items()),
    )
    rig.source_url = source.url(rig.schema, role, "s'e\\c ret")
    rig.catch_up()
    rig.at_source(
        "INSERT INTO value VALUES (1, '2026-02-01', '2026-02-01 03:04:05.000006+09', '1 mon 2 days 03:04:05', "
        "'\\x00ff5c', 0.1::float8 + 0.2)",
        "UPDATE value SET day = '2026-12-11' WHERE id = 1",
    )
    rig.catch_up()
    found = rig.rows(
        "SELECT day::text, extract(epoch FROM moment)::text, span::text, encode(data, 'hex'), "
        "(f = 0.1::float8 + 0.2)::text FROM value"
    )
    assert found == [("2026-12-11", "1769882645.000006", "1 mon 2 days 03:04:05", "00ff5c", "true")]


def test_truncates_stand_where_they_were(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    """One message names all tables of a statement; rows before it are gone, rows behind it stay."""
    rig = made(make_rig, source, postgres, "emptied")
    child = "id int PRIMARY KEY, item int REFERENCES {}item (id)"
    rig.table("child", child.format(""), child.format(f"{rig.schema}."))
    rig.at_source("ALTER TABLE child REPLICA IDENTITY FULL")
    publish(rig, "child")
    insert(rig, 1, 100)
    rig.at_source(
        "INSERT INTO child SELECT n, n FROM generate_series(1, 50) AS n",
        "TRUNCATE item, child",
        "INSERT INTO item VALUES (1, 'again', 1)",
        "BEGIN; INSERT INTO item VALUES (2, 'gone', 2); TRUNCATE item CASCADE; INSERT INTO item VALUES (2, 'kept', 3); "
        "INSERT INTO child VALUES (7, 2); COMMIT",
    )
    rig.catch_up()
    rig.assert_exact()
    assert rig.rows("SELECT id::text, name FROM item") == [("2", "kept")]


def publish(rig: Rig, table: str) -> None:
    """As the halt for a table that the publication lacks says."""
    rig.at_source(f"ALTER PUBLICATION {slot_name(rig.name)} ADD TABLE {table}")


def test_partitions_come_as_their_table(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    rig = make_rig(source, postgres, "parts", lanes=2)
    columns = "id int, day date, v text, PRIMARY KEY (id, day)"
    rig.at_source(
        f"CREATE TABLE visit ({columns}) PARTITION BY RANGE (day)",
        "CREATE TABLE visit_1 PARTITION OF visit FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
        "CREATE TABLE visit_2 PARTITION OF visit FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
        *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("visit", "visit_1", "visit_2")),
    )
    rig.at_target(f"CREATE TABLE {rig.schema}.visit ({columns})")
    rig.catch_up()
    rig.at_source(
        "INSERT INTO visit SELECT n, '2026-01-20'::date + n, 'of ' || n FROM generate_series(1, 30) AS n",
        "UPDATE visit SET v = 'other' WHERE id % 3 = 0",
        "UPDATE visit SET day = day + 14 WHERE id = 5",
        "DELETE FROM visit WHERE id % 7 = 0",
    )
    rig.catch_up()
    rows = "SELECT id::text, day::text, v FROM visit ORDER BY id"
    assert rig.source.execute(rows, database=rig.schema) == rig.rows(rows)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_long_values_that_an_update_leaves_alone(
    identity: str, make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """The log does not tell them again: the target keeps what it has, also where the key changes."""
    rig = make_rig(source, postgres, "long", lanes=2)
    rig.table("page", "id int PRIMARY KEY, body text, seen int")
    rig.at_source("ALTER TABLE page ALTER body SET STORAGE EXTERNAL", f"ALTER TABLE page REPLICA IDENTITY {identity}")
    rig.catch_up()
    rig.at_source("INSERT INTO page SELECT n, repeat('abc' || n, 3000), 0 FROM generate_series(1, 20) AS n")
    rig.catch_up()
    rig.at_source(
        "UPDATE page SET seen = seen + 1",
        "UPDATE page SET id = id + 100 WHERE id % 4 = 0",
        "BEGIN; UPDATE page SET seen = 9 WHERE id = 3; UPDATE page SET body = 'short' WHERE id = 3; "
        "UPDATE page SET seen = 10 WHERE id = 3; COMMIT",
        "BEGIN; INSERT INTO page VALUES (50, repeat('x', 9000), 1); UPDATE page SET seen = 2 WHERE id = 50; COMMIT",
        "DELETE FROM page WHERE id % 5 = 0",
    )
    rig.catch_up()
    rig.assert_exact()


def test_a_filter_of_what_the_log_does_not_tell_halts(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """Whether such a row was at the target nobody can say.  Inserts are told whole, and go by the filter."""
    rig = make_rig(source, postgres, "untold", lanes=2)
    rig.rules = [{"source": f"{rig.schema}.item", "where": "name = 'eu'"}]
    rig.table("item", ITEM)
    rig.catch_up()
    rig.at_source("INSERT INTO item VALUES (1, 'eu', 1), (2, 'us', 2)")
    rig.catch_up()
    assert rig.rows("SELECT id::text FROM item") == [("1",)]
    rig.at_source("UPDATE item SET amount = 3 WHERE id = 1", "DELETE FROM item WHERE id = 2")
    assert_halted(rig, "name", f"ALTER TABLE {rig.schema}.item REPLICA IDENTITY FULL")


def test_a_column_that_is_added_with_a_constant(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """The relation message is the notice; it stands before the transaction that shows the new form first."""
    rig = made(make_rig, source, postgres, "wider")
    process = rig.run()
    insert(rig, 1, 10)
    until(rig.equal, "rows at the target")
    rig.at_source("ALTER TABLE item ADD COLUMN extra int DEFAULT 7", "UPDATE item SET extra = 8 WHERE id = 3")
    until(lambda: rig.equal() or not process.running, "the column at the target")
    assert process.running, rig.said()[-2000:]
    process.stop()
    rig.assert_exact()


# ------------------------------------------------------------------ who may what


def test_the_rights_that_init_prints_are_enough(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """A user that owns nothing: somebody else runs the statements that `init` prints, then all goes by itself."""
    rig = make_rig(source, postgres, "poor", lanes=2)
    rig.table("item", ITEM)
    role = f"reader_{rig.schema}"
    rig.at_source("ALTER TABLE item REPLICA IDENTITY FULL", f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
    rig.source_url = source.url(rig.schema, role, "p")
    printed = rig.command("init", "--json", "@")
    for statement in printed.json["statements"]:
        if statement["side"] == "source" and statement["administrator"]:
            rig.at_source(statement["sql"].replace("'…'", "'p'"))
    done = rig.command("init", "--apply", "@")
    assert done.code == 0, done
    insert(rig, 1, 10)
    rig.catch_up()
    rig.assert_exact()
    assert count(rig) == 10, "it begins with init"


# ------------------------------------------------------------------ what the server is told


def test_the_slot_follows_the_stored_checkpoint_and_never_passes_it(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    """What was received, but not stored, must be there to be read again."""
    rig = made(make_rig, source, postgres, "told")
    process = rig.run()
    insert(rig, 1, 100)
    until(rig.equal, "rows at the target")
    end = last_read(rig)
    until(lambda: confirmed(rig) >= end, "the slot at the last transaction")
    assert end < checkpoint(rig)
    rig.at_target("BEGIN; LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
    insert(rig, 101, 200)
    written = end_of_log(source)
    until(lambda: lsn_of(received(rig)) >= written, "the rows at the reader")
    assert confirmed(rig) <= checkpoint(rig) < written
    sender = slot(rig, "active_pid")
    rig.at_source(f"SELECT pg_terminate_backend({sender})")  # reading goes on behind all that was taken
    until(lambda: slot(rig, "active_pid") not in (sender, "None"), "another reader")
    insert(rig, 201, 300)
    written = end_of_log(source)
    until(lambda: lsn_of(received(rig)) >= written, "the rows at the reader")
    assert confirmed(rig) <= checkpoint(rig) < written
    process.kill()
    assert confirmed(rig) <= checkpoint(rig) < written
    rig.at_target("ROLLBACK")
    rig.catch_up()
    rig.assert_exact()


def received(rig: Rig) -> str:
    found = rig.source.execute(
        "SELECT coalesce(max(write_lsn), '0/0')::text FROM pg_stat_replication WHERE application_name LIKE 'tidelock%'",
        database=rig.schema,
    )
    return str(found[0][0])


@pytest.mark.proof
def test_a_target_that_is_slower_than_the_source_is_patient(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """The server hears of a reader whose target takes nothing for long: else it would be ended again and again."""
    source = make_postgres(extra=["--wal-sender-timeout=2s"])
    rig = made(make_rig, source, postgres, "slow", batch_rows=100)
    process = rig.run()
    insert(rig, 1, 10)
    until(rig.equal, "rows at the target")
    rig.at_target("BEGIN; LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
    rig.at_source("INSERT INTO item SELECT n, repeat('x', 4000), 1 FROM generate_series(11, 15000) AS n")
    sender = slot(rig, "active_pid")
    held_until = time.monotonic() + 8.0
    while time.monotonic() < held_until:
        assert slot(rig, "active_pid") == sender, source.log_text()[-2000:]
        time.sleep(0.3)
    assert "terminating walsender" not in source.log_text()
    rig.at_target("ROLLBACK")
    until(rig.equal, "rows at the target", 90.0)
    assert slot(rig, "active_pid") == sender
    process.stop()


def test_an_idle_source_lets_its_log_go(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """Other tables' log must not be held for a feed that has nothing to do; 64 MiB of it are enough to move.

    Before that we write a message, so the place that is moved to is proven by a transaction near it.
    """
    source = make_postgres()
    rig = made(make_rig, source, postgres, "idle")
    process = rig.run()
    insert(rig, 1, 1)
    until(rig.equal, "a row at the target")
    before = confirmed(rig)
    half = "INSERT INTO elsewhere.other SELECT repeat(n::text, 200) FROM generate_series(1, 40000) AS n"
    rig.at_source(*ELSEWHERE, half)
    written = end_of_log(source)
    assert SPEAK_BYTES < written - before < FAR_BYTES
    until(lambda: end_of_log(source) > written, "a message in the log")
    rig.at_source(half)
    assert end_of_log(source) - before > FAR_BYTES
    until(lambda: confirmed(rig) >= written - (1 << 20), "a slot that has moved on", 60.0)
    assert confirmed(rig) == last_read(rig) <= checkpoint(rig)
    process.stop()


@pytest.mark.proof
@pytest.mark.parametrize("rows", [pytest.param(100, id="read"), pytest.param(15_000, id="not read")])
def test_a_server_shuts_down_while_the_target_takes_nothing(
    rows: int, make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """It would wait until its readers have confirmed all, which no checkpoint allows now; `stop` raises if it does."""
    source = make_postgres()
    rig = made(make_rig, source, postgres, "stuck", batch_rows=100)
    process = rig.run()
    insert(rig, 1, 10)
    until(rig.equal, "rows at the target")
    rig.at_target("BEGIN; LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
    rig.at_source(f"INSERT INTO item SELECT n, repeat('x', 4000), 1 FROM generate_series(11, {rows}) AS n")
    source.restart()
    rig.at_target("ROLLBACK")
    rig.reconnect()
    until(lambda: rig.equal() or not process.running, "rows at the target", 90.0)
    process.check()
    process.stop()


@pytest.mark.proof
def test_a_source_that_is_restarted_and_killed(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """A server that shuts down waits for its readers; ours does not keep it waiting."""
    source = make_postgres()
    rig = made(make_rig, source, postgres, "restarted")
    process = rig.run()
    insert(rig, 1, 1000)
    until(rig.equal, "rows at the target")
    rig.at_source(*ELSEWHERE)
    for number, again in enumerate((source.restart, lambda: (source.kill(), source.start())), 1):
        rig.at_source("INSERT INTO elsewhere.other VALUES ('not ours')")
        again()
        rig.reconnect()
        insert(rig, number * 1000 + 1, number * 1000 + 1000)
        until(lambda: rig.equal() or not process.running, "rows at the target", 60.0)
        assert process.running, rig.said()[-2000:]
    process.stop()
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_a_run_outlives_a_silence(make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres) -> None:
    """A lost route refuses no connection and ends none: the run says that it waits, and goes on."""
    rig = made(make_rig, source, postgres, "silent", http=f"127.0.0.1:{free_port()}")
    with Wire(source.port) as wire:
        rig.source_url = rig.source_url.replace(f":{source.port}/", f":{wire.port}/")
        rig.source_url += "?connect_timeout=1&read_timeout=1"
        process = rig.run()
        insert(rig, 1, 10)
        until(rig.equal, "rows at the target", 60.0)
        wire.silence()
        insert(rig, 11, 20)

        def told() -> bool:
            process.check()
            now = sample(rig.options["http"])
            return now is not None and bool(now.hindrances)

        until(told, "the run says that it waits", 60.0)
        wire.speak()
        until(rig.equal, "rows at the target", 60.0)
        process.stop()


def test_the_source_is_the_one_that_its_certificate_says(
    make_postgres: Callable[..., Postgres], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Certificates that are carried need no file, so no folder for temporary ones that has room."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    source = make_postgres()
    ours, others = authority(tmp_path), authority(tmp_path, "other")
    pem = server_certificate(tmp_path, ours)
    for name in ("server.crt", "server.key"):
        shutil.copy(pem, source.data / name)
        (source.data / name).chmod(0o600)
    give(source.data, source.account)
    source.execute("ALTER SYSTEM SET ssl = on")
    source.execute("SELECT pg_reload_conf()")
    until(lambda: source.execute("SHOW ssl") == [("on",)], "TLS")
    by_name = source.url().replace("127.0.0.1", "localhost")

    def encrypted(url: str, *, carried: bool = False) -> str | None:
        place = parse(url, tmp_path)
        with session(place.carried() if carried else place, replication=True) as opened:
            return opened.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")[0][0]

    for mode in ("prefer", "require", f"verify-ca&sslrootcert={ours}", f"verify-full&sslrootcert={ours}"):
        assert encrypted(f"{source.url()}?sslmode={mode}") == "t", mode
    assert encrypted(f"{by_name}?sslmode=verify-full&sslrootcert={ours}", carried=True) == "t"
    assert encrypted(f"{source.url()}?sslmode=disable") == "f"
    assert encrypted(f"{source.url()}?sslmode=require&sslrootcert={others}") == "t", "it checks nothing"
    for mode in (f"verify-ca&sslrootcert={others}", f"verify-full&sslrootcert={others}"):
        with pytest.raises(AccessDenied, match="certificate"):
            encrypted(f"{source.url()}?sslmode={mode}")


# ------------------------------------------------------------------ crashes


@pytest.mark.parametrize(
    "kind", [pytest.param(Mix, id="mix", marks=pytest.mark.proof), pytest.param(Churn, id="churn")]
)
def test_sigkill_at_random_moments(
    kind: type[Workload], make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    killed(make_rig(source, postgres, "killed", lanes=4, batch_rows=200), kind(), 5)


@pytest.mark.proof
@pytest.mark.parametrize("kind", [Mix, Churn], ids=["mix", "churn"])
def test_sigkill_at_twenty_random_moments(
    kind: type[Workload], make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    killed(make_rig(source, postgres, "killed", lanes=8), kind(), 20)


def killed(rig: Rig, workload: Workload, kills: int) -> None:
    made_workload(rig, workload)
    rig.catch_up()
    work = rig.work(workload, 1_000_000, 3, 1500)
    kill_at_random(rig, kills, random.Random(3), 1.2, work)
    counts = work.stop()
    rig.catch_up()
    rig.assert_exact()
    assert rig.epoch() > kills * 4 // 5, "too many runs died before they took over"
    assert counts.changes > kills * 100


@pytest.mark.proof
@pytest.mark.parametrize(
    ("rows", "size"), [(30_000, 8_000), pytest.param(1_000_000, 1_000, marks=pytest.mark.proof)], ids=["240 MB", "1 GB"]
)
def test_a_large_transaction_comes_in_parts(
    rows: int, size: int, make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], postgres: Postgres
) -> None:
    """Memory stays flat however large a transaction is, also where the run is killed in the middle of it.

    A process takes 107 MiB at rest; 32 MiB of rows under way, their text and their copies add 70 to 115 MiB.
    One that held the transaction would take 350 MiB and more.
    """
    rig = made(make_rig, make_postgres(), postgres, "large", batch_rows=500)
    process = rig.run()
    rig.at_source(f"INSERT INTO item SELECT n, repeat('x', {size}), 1 FROM generate_series(1, {rows}) AS n")
    most = 0
    until(lambda: count(rig) > 2_000, "parts at the target", 120.0)
    process.kill()
    process = rig.run()
    deadline = time.monotonic() + 240.0
    while count(rig) < rows and process.running and time.monotonic() < deadline:
        most = max(most, resident(process))
        time.sleep(0.1)
    process.check()
    process.stop()
    rig.catch_up()
    rig.assert_exact()
    assert most < 280 << 20, f"{most >> 20} MiB"


def resident(process: Process) -> int:
    """Bytes of the largest process of the run."""
    sizes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == process.pid:
                sizes.append(int((folder / "statm").read_text().split()[1]) * 4096)
        except (OSError, IndexError):
            continue
    return max(sizes, default=0)


@pytest.mark.proof
def test_a_run_waits_for_the_promotion_of_a_standby(
    make_rig: Callable[..., Rig],
    make_postgres: Callable[..., Postgres],
    make_standby: Callable[[Postgres], Standby],
    postgres: Postgres,
) -> None:
    """An address that has moved already, to a server that takes no writes yet, is no reason to halt."""
    primary = make_postgres(extra=["--wal-keep-size=256MB"])
    standby = make_standby(primary)
    rig = made(make_rig, primary, postgres, "waits")
    insert(rig, 1, 10)
    until(standby.caught_up, "a standby")
    rig.catch_up()
    primary.stop()
    standby.stop()
    standby.take_slots()
    standby.start()
    rig.source_url = standby.url(rig.schema)
    process = rig.run()
    until(lambda: "is a standby" in rig.said() or not process.running, "a run that waits")
    process.check()
    standby.promote()
    moved_to(rig, standby)
    insert(rig, 11, 20)
    until(lambda: rig.equal() or not process.running, "rows at the target", 60.0)
    process.check()
    process.stop()


def test_a_checkpoint_is_not_told_to_a_process_that_has_ended() -> None:
    """uvloop's transports refuse what is written to them once they are closed, and a run ends by that."""

    async def told() -> None:
        capture = CaptureProcess(parse("postgresql://nobody@127.0.0.1:1/none", Path()))
        await capture.connect()
        os.kill(capture.pid, signal.SIGKILL)
        assert isinstance(await capture.next(), Failed)
        await capture.stop()
        capture.tell_stored(Position("1/1", 1))

    uvloop.run(told())


@pytest.mark.parametrize("heard", [True, False], ids=["its end was heard", "it was not"])
def test_a_process_that_ends_before_it_has_its_order_is_told_of_as_one_that_may_be_started_again(heard: bool) -> None:
    """Amid a start it has no order yet; what it is sent is lost with it, and no error of the run."""

    async def told() -> None:
        capture = CaptureProcess(parse("postgresql://nobody@127.0.0.1:1/none", Path()))
        await capture.connect()
        os.kill(capture.pid, signal.SIGKILL)
        assert heard is False or isinstance(await capture.next(), Failed)
        until(lambda: not capture.running, "its end")
        for _ in range(3):
            await capture.send(Stored(Position("1/1", 1)))
            await asyncio.sleep(0)
        said = await capture.next()
        assert isinstance(said, Failed) and said.retryable
        await capture.stop()

    uvloop.run(told())
