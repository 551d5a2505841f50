"""Tables of a PostgreSQL source are copied exactly while they change, whatever their keys and what the log tells."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres, Server
from bench.harness.session import connect

COPY_SECONDS = 150.0
ROWS = 12_000
# A row gets another key, which is free.
MOVE = "UPDATE {table} SET {set} WHERE {old} AND NOT EXISTS (SELECT FROM {table} WHERE {new})"
OLD, NEW = "u = md5('{n}')::uuid", "u = md5('x{n}')::uuid"
TWO = "ctid IN (SELECT ctid FROM heap WHERE a = {n} % 20 LIMIT 2)"
# name → (columns, values of the row s at first, a random change of rows, identity)
TABLES: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "ids": (
        "u uuid PRIMARY KEY, v int, e varchar(40) UNIQUE",
        "md5(s::text)::uuid, s, 'e' || s",
        (
            "UPDATE ids SET v = v + 1 WHERE u = md5('{n}')::uuid",
            "DELETE FROM ids WHERE u = md5('{n}')::uuid",
            "INSERT INTO ids VALUES (md5('{n}')::uuid, -1, 'e{n}') ON CONFLICT DO NOTHING",
            MOVE.format(table="ids", set="u = md5('x{n}')::uuid, e = NULL", old=OLD, new=NEW),
        ),
        "FULL",
    ),
    "words": (
        "w varchar(40) PRIMARY KEY, v int",
        "'Wört ' || s, s",
        (
            "UPDATE words SET v = v + 1 WHERE w = 'Wört {n}'",
            "DELETE FROM words WHERE w = 'Wört {n}'",
            "INSERT INTO words VALUES ('Wört {n}', -1) ON CONFLICT DO NOTHING",
            MOVE.format(table="words", set="w = w || '!'", old="w = 'Wört {n}'", new="w = 'Wört {n}!'"),
        ),
        "DEFAULT",
    ),
    "long": (
        "id int PRIMARY KEY, v int, body text",
        "s, s, CASE WHEN s % 8 = 0 THEN (SELECT string_agg(md5(s::text || i), '') FROM generate_series(1, 90) i) END",
        (
            "UPDATE long SET v = v + 1 WHERE id BETWEEN {n} AND {n} + 9",
            "UPDATE long SET body = repeat('{n} ', 900) WHERE id = {n}",
            "DELETE FROM long WHERE id = {n}",
        ),
        "DEFAULT",
    ),
    "heap": (
        "a int, b varchar(9), d double precision",
        "s % 20, CASE WHEN s % 3 > 0 THEN 'x' END, s % 2",
        (
            "INSERT INTO heap VALUES ({n} % 20, 'x', 1), ({n} % 20, 'x', 1)",
            f"DELETE FROM heap WHERE {TWO}",
            f"UPDATE heap SET a = ({{n}} + 1) % 20, d = -d WHERE {TWO}",
        ),
        "FULL",
    ),
}


@contextmanager
def busy(rig: Rig) -> Iterator[list[int]]:
    """Rows of all tables change all the time, some in a transaction that stays open a while; yields the statements."""
    over, done = threading.Event(), [0]

    def work() -> None:
        session, chance = connect(rig.source.url(rig.schema)), Random(4)
        while not over.wait(0.003):
            session.send("BEGIN")
            for _ in range(chance.randint(1, 4)):
                changes = TABLES[chance.choice(list(TABLES))][2]
                session.send(chance.choice(changes).format(n=chance.randrange(ROWS + 99)))
                done.append(done[-1] + 1)
            session.send("COMMIT")
        session.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def copies(rig: Rig) -> dict[str, dict[str, Any]]:
    found = json.loads(rig.command("status", "@", "--json").out or "{}").get("copies", [])
    return {copy["table"].rpartition(".")[2]: copy for copy in found}


def merged(rig: Rig) -> bool:
    seen = copies(rig)
    return len(seen) == len(TABLES) and all(copy["chunks"] == copy["merged"] > 0 for copy in seen.values())


def counted(server: Server, rig: Rig, table: str) -> Counter[tuple[Any, ...]]:
    database = rig.schema if server is rig.source and isinstance(server, Postgres) else None
    rows = server.execute(f"SELECT * FROM {rig.schema}.{table}", database=database)
    return Counter(tuple(map(_told, row)) for row in rows)


def _told(value: Any) -> str | None:
    """A value as text; MySQL has no minus zero."""
    if value is None:
        return None
    return str(value + 0.0) if isinstance(value, float) else str(value)


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mariadb"])
def test_tables_are_copied_while_they_change(
    target: str, make_rig: Callable[..., Rig], postgres: Server, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(postgres, request.getfixturevalue(target), "copied", copy={"chunk_rows": 1000}, lanes=2)
    for table, (columns, values, _, identity) in TABLES.items():
        rig.at_source(f"CREATE TABLE {table} ({columns})", f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
        rig.at_source(f"INSERT INTO {table} SELECT {values} FROM generate_series(1, {ROWS}) s", f"ANALYZE {table}")
    rig.start_at = "copy"
    made = rig.command("init", "--apply")
    assert made.code == 0, made.err or made.out
    with busy(rig) as done:
        process = rig.run()
        until(lambda: merged(rig), "the copy", COPY_SECONDS)
        seen = done[-1]
        until(lambda: done[-1] > seen + 50, "changes behind it")
    process.check()
    process.stop()
    assert done[-1] > 200
    chunks = {name: copy["chunks"] for name, copy in copies(rig).items()}
    assert chunks["ids"] > 5 and chunks["words"] == 2 and chunks["long"] > 5 and chunks["heap"] == 1
    rig.catch_up()
    assert rig.parked() == 0, rig.said()[-2000:]
    for table in TABLES:
        ours, theirs = counted(rig.source, rig, table), counted(rig.target, rig, table)
        assert ours == theirs, (table, list((ours - theirs).items())[:3], list((theirs - ours).items())[:3])
    left = postgres.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'tidelock_view%'")
    assert left == []
