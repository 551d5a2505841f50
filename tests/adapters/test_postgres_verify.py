"""`tidelock verify`, `repair`, `copy` and `resync` with a PostgreSQL source: every type, at every target."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from bench.harness.postgres_values import HELD, TYPES
from bench.harness.rig import Rig, Said, tidelock
from bench.harness.servers import Postgres, Server
from bench.harness.session import connect
from tidelock.adapters.config.loader import load
from tidelock.adapters.verify.plan import plan
from tidelock.adapters.verify.report import VerifyReport
from tidelock.adapters.verify.rotation import RotationPlace, share
from tidelock.adapters.verify.verify import VerifyStep, examine

TARGETS = ["postgres", "mariadb", "mysql"]
BROUGHT = ("hstore", "citext", "ltree")  # a database has an extension in one schema only
TYPES_OF = [type_ for type_ in HELD if type_ not in BROUGHT]
SECONDS = 240
REFUSED = 1


class Steps:
    def begin(self, step: VerifyStep) -> None: ...

    def attach(self, spark: object) -> None: ...

    def tell(self, text: str) -> None: ...


def verified(rig: Rig, spark: object = None) -> VerifyReport:
    feed = load(rig.feed)
    return examine(feed, asyncio.run(plan(feed, ())), spark, 60, Steps())  # type: ignore[arg-type]


def said(rig: Rig, command: str, *words: str) -> Said:
    return tidelock(command, str(rig.feed), *words, seconds=SECONDS)


def values_of(type_: str, row: int) -> str:
    held = HELD[type_][1]
    return "'" + held[row % len(held)].replace("'", "''") + "'"


def typed_rig(make_rig: Callable[..., Rig], source: Server, target: Server, small_rows: int = 10_000) -> Rig:
    """A table with a column of each type, and a row for each of them and some more; init has made the target's."""
    rig = make_rig(source, target, "typed", lanes=2, spark={"small_rows": small_rows})
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(TYPES_OF))
    rig.at_source(TYPES.partition("CREATE TYPE")[2].join(["CREATE TYPE", ""]))
    rig.at_source(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", "ALTER TABLE t REPLICA IDENTITY FULL")
    rig.at_source("CREATE TABLE beat (id int PRIMARY KEY, n int)", "INSERT INTO beat VALUES (1, 0)")
    made = rig.command("init", "--apply")
    assert made.code == 0, made.err or made.out
    for row in range(len(TYPES_OF)):
        rig.at_source(f"INSERT INTO t VALUES ({row}, {', '.join(values_of(type_, row) for type_ in TYPES_OF)})")
    rig.at_source("INSERT INTO t (id) VALUES (1000)")
    rig.catch_up()
    return rig


@contextmanager
def beating(rig: Rig) -> Iterator[None]:
    """Inside, a row of another table changes all the time: of an idle source a feed tells its place once a minute."""
    over = threading.Event()

    def work() -> None:
        session = connect(rig.source.url(rig.schema))
        while not over.wait(0.05):
            session.send("UPDATE beat SET n = n + 1")
        session.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def planted(rig: Rig) -> set[tuple[int, str]]:
    """In the row of its own each type's column has no value at the target; in the row of NULLs each has one."""
    for n in range(len(TYPES_OF)):
        rig.at_target(f"UPDATE t SET c{n} = NULL WHERE id = {n}")
    postgres = isinstance(rig.target, Postgres)
    copied = ", ".join(f"{'' if postgres else 'a.'}c{n} = b.c{n}" for n in range(len(TYPES_OF)))
    joined = "t a SET {} FROM t b WHERE" if postgres else "t a JOIN t b SET {} WHERE"
    rig.at_target(f"UPDATE {joined.format(copied)} b.id = {len(TYPES_OF) - 1} AND a.id = 1000")
    last = len(TYPES_OF) - 1
    return {(n, f"c{n}") for n in range(len(TYPES_OF))} | {(1000, f"c{n}") for n in range(last)}


def found(report: VerifyReport) -> set[tuple[int, str]]:
    (table,) = (table for table in report.tables if table.table.endswith(".t"))
    return {(int(d.key["id"]), column) for d in table.differences for column in d.columns}


@pytest.mark.parametrize(
    ("target", "small_rows"),
    [
        *((t, 10_000) for t in TARGETS),
        pytest.param("mariadb", 0, marks=pytest.mark.proof),
        pytest.param("postgres", 0, marks=pytest.mark.proof),
    ],
)
def test_a_difference_in_each_type_is_found_and_repaired_and_nothing_else(
    target: str,
    small_rows: int,
    make_rig: Callable[..., Rig],
    postgres: Server,
    spark: object,
    request: pytest.FixtureRequest,
) -> None:
    rig = typed_rig(make_rig, postgres, request.getfixturevalue(target), small_rows)
    running = rig.run()
    with beating(rig):
        before = verified(rig, spark)
        assert before.equal, before
        expected = planted(rig)
        report = verified(rig, spark)
        assert found(report) == expected and report.settled, report.note
        path = rig.folder / "report.json"
        path.write_bytes(msgspec.json.encode(report))
        done = said(rig, "repair", "--from-report", str(path), "--yes", "--json")
        assert done.code == 0, done.err or done.out
        after = verified(rig, spark)
    assert after.equal and rig.parked() == 0 and running.running, after


def test_since_is_refused_with_what_to_do_instead(make_rig: Callable[..., Rig], postgres: Server) -> None:
    """The server keeps its log for the feed's slot alone."""
    rig = make_rig(postgres, postgres, "since")
    rig.table("t", "id int PRIMARY KEY")
    told = said(rig, "verify", "--since", "1h")
    assert told.code == REFUSED and "the feed's own slot" in told.err and "without --since" in told.err
    assert said(rig, "verify").code == 0


def test_shares_of_a_feed_go_through_all_rows(make_rig: Callable[..., Rig], postgres: Server) -> None:
    """By ranges of an integer key; a table with another key at once."""
    rig = make_rig(postgres, postgres, "shares", spark={"piece_rows": 2000, "small_rows": 10_000})
    for table, key in (("a", "id int"), ("b", "id uuid")):
        rig.table(table, f"{key} PRIMARY KEY, v int")
    rig.table("beat", "id int PRIMARY KEY, n int")
    rig.catch_up()  # the log is kept from here on
    rig.at_source("INSERT INTO a SELECT n * 3, n FROM generate_series(1, 5000) n", "ANALYZE a")
    rig.at_source("INSERT INTO b SELECT md5(n::text)::uuid, n FROM generate_series(1, 900) n", "ANALYZE b")
    rig.at_source("INSERT INTO beat VALUES (1, 0)")
    rig.catch_up()
    rig.at_target("DELETE FROM a WHERE id = 6003", "INSERT INTO a VALUES (-5, 1), (99999, 1)")
    rig.run()
    feed, place, only = load(rig.feed), RotationPlace(), [f"{rig.schema}.a", f"{rig.schema}.b"]
    seen, differences = list[tuple[str, int]](), 0
    with beating(rig):
        while not seen or place != RotationPlace():
            part = asyncio.run(share(feed, only, 0.01, place))
            (at,) = part.ranges
            report = examine(feed, part.plan, None, 60, Steps())
            differences += sum(table.total for table in report.tables)
            seen.append((at.cut.pair.name.table, at.cut.rows))
            place = at.behind
    assert seen == [("a", 2000), ("a", 2000), ("a", 1000), ("b", 900)] and differences == 3


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mariadb"])
def test_statements_of_a_dry_run_would_do(
    target: str, make_rig: Callable[..., Rig], postgres: Server, request: pytest.FixtureRequest
) -> None:
    rig = typed_rig(make_rig, postgres, request.getfixturevalue(target))
    rig.run()
    with beating(rig):
        planted(rig)
        path = rig.folder / "report.json"
        path.write_bytes(msgspec.json.encode(verified(rig)))
        done = said(rig, "repair", "--from-report", str(path), "--dry-run", "--json")
        assert done.code == 0, done.err
        statements = done.json["statements"]
        assert len(statements) == len(TYPES_OF) + 1 and not any(one.startswith("--") for one in statements)
        plain = "SET search_path = pg_catalog" if target == "postgres" else "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"
        rig.at_target(plain, *statements)
        after = verified(rig)
    assert after.equal, after
