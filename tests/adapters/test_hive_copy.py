"""Rows that were there before a Hive feed: copied while they change, and byte for byte as their changes come."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.harness.lake import Lake
from bench.harness.postgres_values import HELD, TYPES, UNHELD
from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres, Server
from bench.harness.session import Flavor, connect
from bench.harness.value_tables import Keyed, Long
from bench.harness.values import ZONE, column_values
from bench.harness.workload.mix import Mix
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.hive.copying import HiveCopying
from tidelock.adapters.hive.manifest import Pending
from tidelock.adapters.hive.merger import Broken, Merger
from tidelock.adapters.hive.opening import opened
from tidelock.adapters.hive.ownership import Foreign
from tidelock.adapters.hive.run import FirstRunRefused
from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS
from tidelock.adapters.postgres.logical.last_read import kept_from
from tidelock.adapters.postgres.logical.positions import lsn_of

STATEMENTS = 200
HIVE = {"merge_seconds": 1, "buckets": 2}
OPTIONS = {
    "start": "copy",
    "spark": {"master": "local[2]", "piece_rows": 1000, "settings": {"spark.sql.shuffle.partitions": "2"}},
}
MADE = (
    "CREATE TABLE made (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED, "
    "price DECIMAL(6,2) ZEROFILL, hidden INT DEFAULT 7 INVISIBLE)"
)
MADE_ROWS = "INSERT INTO made (id, a, price) VALUES (1, 2, 3.4), (5, 6, 0)"
COLUMNS = "id, email, balance, updated_at, payload, version"
IN_POSTGRES = "id::text, email, balance::text, to_char(updated_at, 'YYYY-MM-DD HH24:MI:SS.US'), payload, version::text"
IN_HIVE = (
    "cast(id AS string), email, cast(balance AS string), date_format(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), "
    "payload, cast(version AS string)"
)


@pytest.fixture
def make(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, lake: Lake) -> Callable[..., Rig]:
    def made(source: Server = mariadb, **options: Any) -> Rig:
        rig = make_rig(source, postgres, "copy", **{**OPTIONS, "hive": HIVE, **options})
        rig.target_url = f"hive://{lake.folder}/warehouse"
        return rig

    return made


def cut(*_: Any) -> None:
    raise RuntimeError("cut")


# ---------------------------------------------------------------------- values


@pytest.mark.proof
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_values_are_the_streams(
    server: str, make: Callable[..., Rig], lake: Lake, request: pytest.FixtureRequest
) -> None:
    """One feed follows the log from before the first row, the other copies the rows when all are there."""
    rig = make(request.getfixturevalue(server), zero_dates="null")
    keyed = Keyed(column_values(Flavor(server)), Flavor.POSTGRES)
    rig.at_source(f"SET sql_mode = '', time_zone = '{ZONE}'", *keyed.ddl, MADE, *Long().ddl, "DROP TABLE thousand")
    rig.options["start"] = rig.start_at = rig.here()
    long = (statement for statement in Long().before() if " thousand" not in statement)  # Spark plans them for long
    statements = itertools.chain([MADE_ROWS], keyed.before(), long)
    while packet := list(itertools.islice(statements, STATEMENTS)):
        rig.at_source(";".join(packet))
    lake.follow(rig)
    rig.name += "_copied"
    rig.options["start"] = "copy"
    rig.rules = [{"source": f"{rig.schema}.*", "target": f"{rig.name}.*"}]
    lake.follow(rig)
    for table in ("keyed", "made", "longest", "longest_latin1", "large"):
        streamed, copied = (lake.spark.table(f"{schema}.{table}") for schema in (rig.schema, rig.name))
        assert copied.schema == streamed.schema
        assert rows_of(copied) == rows_of(streamed)


def rows_of(frame: Any) -> list[str]:
    """Spells all values of the rows, -0.0 too."""
    return sorted(repr(row) for row in frame.collect())


def test_a_value_that_hive_cannot_hold_is_told(make: Callable[..., Rig], lake: Lake) -> None:
    rig = make()
    rig.at_source("SET sql_mode = ''", "CREATE TABLE item (id INT PRIMARY KEY, day DATE)")
    rig.at_source("INSERT INTO item VALUES (1, '2024-02-29'), (7, '2024-02-00')")
    with pytest.raises(Broken, match=rf"{rig.schema}.item, row id=7, day: 2024-02-00 cannot be held by Hive"):
        lake.follow(rig)


def test_a_document_that_the_source_cannot_write_is_told(make: Callable[..., Rig], lake: Lake, mysql: Server) -> None:
    """MySQL writes nothing at all, without an error."""
    rig = make(mysql)
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, j JSON)")
    rig.at_source("INSERT INTO item VALUES (1, JSON_ARRAY(REPEAT('a', 2000000)))")
    rig.at_source("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with pytest.raises(Broken, match=r"item cannot be copied: j: a JSON document is longer"):
            lake.follow(rig)
    finally:
        rig.at_source("SET GLOBAL max_allowed_packet = 67108864")


# ---------------------------------------------------------------------- PostgreSQL as the source

TYPED = list(HELD)
ENDS = {
    "numeric(10,2)": ["-12.30", "99999999.99", "None"],
    "date": ["2024-02-29", "0001-01-01", "9999-12-31", *["None"] * 6],
    "double precision": ["0.30000000000000004", "1.7976931348623157e+308", "-1e-300", "nan", "inf", "-inf"],
    "timestamptz": ["2024-02-29 04:41:12.500000", "2200-01-01 00:00:00", "None", "None", "None"],
    "bit(64)": ["18446744073709551615"],
    "boolean": ["True", "False"],
}


@pytest.mark.proof
def test_postgres_values_are_the_streams(make: Callable[..., Rig], lake: Lake, postgres_source: Postgres) -> None:
    """All types of PostgreSQL's: one feed follows the log from before the first row, the other copies the rows.  What
    Hive has no type for is PostgreSQL's own text."""
    rig = make(postgres_source, zero_dates="null")
    columns = ", ".join(f"c{n} {type}" for n, type in enumerate(TYPED))
    postgres_source.execute_script(TYPES, database=rig.schema)
    rig.at_source(f"CREATE TABLE typed (id int PRIMARY KEY, {columns})", "ALTER TABLE typed REPLICA IDENTITY FULL")
    rig.options["start"] = "now"
    lake.follow(rig)
    values = [[*HELD[type][1], *UNHELD.get(type, ())] for type in TYPED]
    for number, row in enumerate(itertools.zip_longest(*values)):
        texts = ", ".join("NULL" if v is None else "'" + v.replace("'", "''") + "'" for v in row)
        rig.at_source(f"INSERT INTO typed VALUES ({number}, {texts})")
    lake.follow(rig)
    rig.name += "_copied"
    rig.options["start"] = "copy"
    rig.rules = [{"source": f"{rig.schema}.*", "target": f"{rig.name}.*"}]
    lake.follow(rig)
    streamed, copied = (lake.spark.table(f"{schema}.typed") for schema in (rig.schema, rig.name))
    assert copied.schema == streamed.schema
    rows = sorted(copied.collect(), key=lambda row: row["id"])
    assert rows_of(streamed) == sorted(map(repr, rows))
    for type, ends in ENDS.items():
        assert [str(row[f"c{TYPED.index(type)}"]) for row in rows][: len(ends)] == ends, type
    own = [n for n in range(len(TYPED)) if copied.schema[f"c{n}"].dataType.simpleString() == "string"]
    assert len(own) > 40
    theirs = spelled(rig, [f"c{n}" for n in own])
    for n, texts in zip(own, zip(*theirs, strict=True), strict=True):
        if not re.fullmatch(r"time(\(\d\))?", TYPED[n]):  # these have all digits
            ours = [row[f"c{n}"] for row in rows]
            assert [text and text.rstrip() for text in ours] == [text and text.rstrip() for text in texts], TYPED[n]


def spelled(rig: Rig, columns: list[str]) -> list[tuple[Any, ...]]:
    """The rows as PostgreSQL writes them into its log."""
    session = connect(rig.source.url(rig.schema))
    try:
        for name, value in OUTPUT_SETTINGS.items():
            if name != "search_path":
                session.send(f"SET {name} = '{value}'")
        texts = ", ".join(f"CASE WHEN {c} IS DISTINCT FROM NULL THEN format('%s', {c}) END" for c in columns)
        return session.rows(f"SELECT {texts} FROM typed ORDER BY id")
    finally:
        session.close()


def confirmed(rig: Rig) -> int:
    sql = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot_name(rig.name)}'"
    return lsn_of(str(rig.source.execute(sql)[0][0]))


@pytest.mark.proof
def test_a_postgres_source_is_followed(make: Callable[..., Rig], lake: Lake, postgres_source: Postgres) -> None:
    """Rows that are there, changes, a key that moves, a TRUNCATE of two tables amid a transaction, a new column; the
    slot keeps the log from what the warehouse holds."""
    rig = make(postgres_source, hive={**HIVE, "history": True})
    rig.at_source(
        "CREATE TABLE item (b int, a int, name varchar(20), PRIMARY KEY (a, b))",
        "CREATE TABLE child (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a, b) REFERENCES item (a, b))",
        "INSERT INTO item SELECT n, -n, 'of ' || n FROM generate_series(1, 2500) n",
        "INSERT INTO child SELECT n, -n, n FROM generate_series(1, 20) n",
    )
    assert rig.command("check", "@").code == 0
    lake.follow(rig)
    item, child = f"{rig.schema}.item", f"{rig.schema}.child"
    counts = f"SELECT count(*), count(DISTINCT a), sum(b) FROM {item}"
    assert lake.sql(counts) == [(2500, 2500, 2500 * 2501 // 2)]
    first = confirmed(rig)
    rig.at_source(
        "UPDATE item SET name = 'other' WHERE b = 2100",
        "UPDATE item SET b = 9000 WHERE b = 2200",
        "DELETE FROM item WHERE b > 2400 AND b < 9000",
        "ALTER TABLE item ADD COLUMN extra int",
        "INSERT INTO item VALUES (3000, 3, 'new', 7)",
    )
    place = lake.follow(rig).manifests.latest()
    assert place is not None
    assert lake.sql(f"SELECT b, name, extra FROM {item} WHERE b IN (2100, 2200, 2500, 3000, 9000)") == [
        (2100, "other", None), (3000, "new", 7), (9000, "of 2200", None)
    ]  # fmt: skip
    assert first <= confirmed(rig) <= kept_from(place.position)
    rig.at_source(
        "BEGIN; INSERT INTO item VALUES (1, 5, 'gone'); INSERT INTO child VALUES (99, 5, 1); TRUNCATE item CASCADE; "
        "INSERT INTO item VALUES (1, 6, 'kept'); INSERT INTO child VALUES (100, 6, 1); COMMIT"
    )
    lake.follow(rig)
    assert confirmed(rig) >= kept_from(place.position), "the run before has not told its last place"
    assert lake.sql(f"SELECT a, b, name FROM {item}") == [(6, 1, "kept")]
    assert lake.sql(f"SELECT id, a, b FROM {child}") == [(100, 6, 1)]
    assert lake.sql(f"SELECT a, b FROM {item}_history WHERE valid_to IS NULL") == [(6, 1)]
    assert lake.sql(f"SELECT count(*) FROM {item}_history WHERE valid_to < valid_from") == [(0,)]
    assert lake.sql(f"SELECT name, op FROM {item}_history WHERE b = 2100 AND op <> 'copy'") == [("other", "update")]
    assert "merge" in rig.command("status", "@", "--json").json
    removed = rig.command("remove", "--apply", "@")
    assert removed.code == 0, removed
    assert rig.source.execute(f"SELECT FROM pg_replication_slots WHERE slot_name = '{slot_name(rig.name)}'") == []


@pytest.mark.proof
def test_what_a_postgres_source_does_not_tell_halts(
    make: Callable[..., Rig], lake: Lake, postgres_source: Postgres
) -> None:
    """A long value that an update leaves alone; changes of a table that no run saw; a slot that was made anew."""
    rig = make(postgres_source, start="now")
    rig.at_source(
        "CREATE TABLE page (id int PRIMARY KEY, body text, seen int)",
        "ALTER TABLE page ALTER body SET STORAGE EXTERNAL",
        "CREATE TABLE wider (id int PRIMARY KEY)",
    )
    found = rig.command("check", "@", "--json").json["findings"]
    (told,) = [finding for finding in found if finding["kind"] == "long-values"]
    rig.at_source(told["hint"].rstrip(";"))
    assert rig.command("init", "--apply", "@").code == 0
    assert rig.command("init", "@", "--json").json["statements"] == [], "the first run makes the slot"
    lake.follow(rig)
    rig.at_source("INSERT INTO page VALUES (1, repeat('x', 9000), 1)", "INSERT INTO wider VALUES (1)")
    rig.at_source("UPDATE page SET seen = 2")
    lake.follow(rig)
    assert lake.sql(f"SELECT length(body), seen FROM {rig.schema}.page") == [(9000, 2)]
    rig.at_source("ALTER TABLE wider ADD COLUMN more int", "INSERT INTO wider VALUES (2, 3)")
    lake.follow(rig)
    assert lake.sql(f"SELECT id, more FROM {rig.schema}.wider ORDER BY id") == [(1, None), (2, 3)]
    rig.at_source("ALTER TABLE wider ALTER more TYPE int USING -more", "ALTER TABLE wider ALTER more TYPE bigint")
    with pytest.raises(Broken, match=r"wider.* more .*bigint"):  # no row comes
        lake.follow(rig)
    rig.rules = [{"source": f"{rig.schema}.page"}]
    lake.follow(rig)
    rig.at_source("ALTER TABLE page REPLICA IDENTITY DEFAULT", "UPDATE page SET seen = 3")
    with pytest.raises(Broken, match=r"page, .* left body as it was") as raised:
        lake.follow(rig)
    assert "REPLICA IDENTITY FULL" in raised.value.hint
    name = slot_name(rig.name)
    active = f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}' AND active"
    until(lambda: rig.source.execute(active) == [], "the end of the reader")
    rig.at_source(f"SELECT pg_drop_replication_slot('{name}')")
    rig.at_source(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    with pytest.raises(Broken, match=r"was made anew") as raised:
        lake.follow(rig)
    assert "a feed of a new name" in raised.value.hint


# ---------------------------------------------------------------------- rows that change meanwhile


@pytest.mark.parametrize("server", ["mariadb", pytest.param("postgres_source", marks=pytest.mark.proof)])
def test_rows_that_change_while_they_are_copied(
    server: str,
    make: Callable[..., Rig],
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Behind each piece rows of all pieces come, change, move and go; what follows the copy is history."""
    source = request.getfixturevalue(server)
    rig = make(source, hive={**HIVE, "history": True})
    work = rig.make(Mix())
    if isinstance(source, Postgres):
        rig.at_source("ALTER TABLE account REPLICA IDENTITY FULL")
    rig.load(work, 6000)
    piece = HiveCopying._piece
    numbers = itertools.count(2)

    def and_changes(self: HiveCopying, name: str, pending: Pending, number: int) -> int:
        rows = piece(self, name, pending, number)
        with lock:
            rig.load(work, 300, seed=next(numbers))
            rig.at_source(f"UPDATE account SET id = id + {number + 1}000000 WHERE id % 7 = {number}")
            rig.at_source(f"DELETE FROM account WHERE id % 11 = {number}")
        return rows

    lock = threading.Lock()
    monkeypatch.setattr(HiveCopying, "_piece", and_changes)
    lake.follow(rig)
    assert next(numbers) > 4, "too few pieces"
    table = f"{rig.schema}.account"
    is_equal(rig, lake)
    assert lake.sql(f"SELECT DISTINCT op, valid_to FROM {table}_history") == [("copy", None)]
    copied = at_source(rig)
    moment = lake.sql(f"SELECT DISTINCT cast(valid_from AS string) FROM {table}_history")
    assert len(moment) == 1
    rig.load(work, 500, seed=next(numbers))
    lake.follow(rig)
    is_equal(rig, lake)
    assert lake.sql(f"SELECT {IN_HIVE} FROM {table}_history WHERE op = 'copy'") == copied


@pytest.mark.proof
def test_a_copy_that_was_cut_short_goes_on(
    make: Callable[..., Rig], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a piece, at the commit of a table, and behind the last one; no piece that is there is read again."""
    rig = make()
    work = rig.make(Mix())
    rig.load(work, 6000)
    rig.at_source("CREATE TABLE empty (a VARCHAR(9), b INT, PRIMARY KEY (b, a))")
    piece = HiveCopying._piece
    read: list[tuple[str, int]] = []

    def third(self: HiveCopying, name: str, pending: Pending, number: int) -> int:
        if len(read) >= 2:
            cut()
        read.append((name, number))
        return piece(self, name, pending, number)

    def counted(self: HiveCopying, name: str, pending: Pending, number: int) -> int:
        read.append((name, number))
        return piece(self, name, pending, number)

    for owner, name, failing in (
        (HiveCopying, "_piece", third), (Merger, "load", cut), (Merger, "loaded", cut), (Merger, "merge", cut)
    ):  # fmt: skip
        monkeypatch.setattr(HiveCopying, "_piece", counted)
        monkeypatch.setattr(owner, name, failing)
        with pytest.raises(RuntimeError, match="cut"):
            lake.follow(rig)
        monkeypatch.undo()
        rig.load(work, 100, seed=len(read) + 7)
        assert not lake.spark.catalog.tableExists(f"{rig.schema}.account")
    lake.follow(rig)
    assert len(read) == len(set(read)) > 4
    assert lake.sql(f"SELECT {IN_HIVE} FROM {rig.schema}.account") == at_source(rig)
    assert lake.sql(f"SELECT * FROM {rig.schema}.empty") == []


@pytest.mark.proof
def test_a_run_that_is_to_stop_keeps_what_it_has_read(
    make: Callable[..., Rig], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make()
    rig.load(rig.make(Mix()), 12_000)
    piece = HiveCopying._piece
    read: list[int] = []

    def then_stop(self: HiveCopying, name: str, pending: Pending, number: int) -> int:
        read.append(number)
        os.kill(os.getpid(), signal.SIGTERM)
        return piece(self, name, pending, number)

    monkeypatch.setattr(HiveCopying, "_piece", then_stop)
    lake.follow(rig)
    assert 0 < len(read) < 6
    assert not lake.spark.catalog.tableExists(f"{rig.schema}.account")
    lake.follow(rig)
    monkeypatch.undo()
    lake.follow(rig)
    assert len(read) == len(set(read))
    assert lake.sql(f"SELECT {IN_HIVE} FROM {rig.schema}.account") == at_source(rig)


@pytest.mark.proof
def test_a_feed_of_a_new_name_fills_tables_anew(
    make: Callable[..., Rig], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the form that they have now; a table that no feed made stays as it is."""
    rig = make()
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, note TEXT, extra INT)", "INSERT INTO item VALUES (1, 'a', 2)")
    lake.follow(rig)
    rig.at_source("ALTER TABLE item DROP COLUMN note", "INSERT INTO item VALUES (3, 4)")
    rig.name += "_anew"
    monkeypatch.setattr(Merger, "merge", cut)
    with pytest.raises(RuntimeError, match="cut"):
        lake.follow(rig)
    monkeypatch.undo()
    assert lake.sql(f"SELECT id, note, extra FROM {rig.schema}.item") == [(1, "a", 2)]
    lake.follow(rig)
    assert lake.sql(f"SELECT * FROM {rig.schema}.item WHERE tidelock_bucket >= 0") == [
        (1, 2, bucket(lake, rig, 1)),
        (3, 4, bucket(lake, rig, 3)),
    ]
    lake.spark.sql(f"CREATE TABLE {rig.schema}.own (id INT)")
    rig.at_source("CREATE TABLE own (id INT PRIMARY KEY)", "INSERT INTO own VALUES (5)")
    with pytest.raises(Foreign, match=r"own. that no feed made"):
        lake.follow(rig)
    assert lake.sql(f"SELECT * FROM {rig.schema}.own") == []


def bucket(lake: Lake, rig: Rig, id: int) -> int:
    return int(lake.sql(f"SELECT tidelock_bucket FROM {rig.schema}.item WHERE id = {id}")[0][0])


@pytest.mark.proof
def test_tables_that_go_into_one_and_a_filter(make: Callable[..., Rig], lake: Lake) -> None:
    rig = make()
    for n in (1, 2):
        rig.at_source(f"CREATE TABLE part{n} (id INT PRIMARY KEY, Note TEXT, secret INT, `odd, name` DATE)")
        rig.at_source(f"INSERT INTO part{n} VALUES ({n}, 'a', 1, '2024-02-29'), ({n + 10}, 'b', 1, NULL)")
    rig.rules = [
        {
            "source": f"{rig.schema}.part*",
            "target": f"{rig.schema}.whole",
            "columns": {"exclude": ["secret"], "rename": {"Note": "text"}},
            "where": "Note <> 'b' OR id = 12",
        }
    ]
    lake.follow(rig)
    rows = f"SELECT id, text, cast(`odd, name` AS string) FROM {rig.schema}.whole"
    assert lake.sql(rows) == [(1, "a", "2024-02-29"), (2, "a", "2024-02-29"), (12, "b", None)]
    rig.at_source("UPDATE part1 SET Note = 'aa'", "DELETE FROM part2 WHERE id = 12")
    lake.follow(rig)
    assert lake.sql(rows) == [(1, "aa", "2024-02-29"), (2, "a", "2024-02-29"), (11, "aa", None)]


def test_tables_that_are_refused(make: Callable[..., Rig], lake: Lake) -> None:
    rig = make()
    rig.options["hive"] = {"format": "orc"}
    rig.at_source("CREATE TABLE loose (id INT)")
    rig.at_source("CREATE TABLE ticked (`a``b` INT PRIMARY KEY)")
    with pytest.raises(FirstRunRefused, match=r"(?s)loose has no primary key.*ORC loses a column of the name a`b"):
        lake.follow(rig)


def is_equal(rig: Rig, lake: Lake) -> None:
    table = f"{rig.schema}.account"
    assert lake.sql(f"SELECT {IN_HIVE} FROM {table}") == at_source(rig)
    assert lake.sql(f"SELECT {IN_HIVE} FROM {table}_history WHERE valid_to IS NULL") == at_source(rig)


def at_source(rig: Rig) -> list[tuple[Any, ...]]:
    is_postgres = isinstance(rig.source, Postgres)
    session = connect(rig.source.url(rig.schema if is_postgres else ""))
    try:
        return sorted(session.rows(f"SELECT {IN_POSTGRES if is_postgres else COLUMNS} FROM {rig.schema}.account"))
    finally:
        session.close()


@pytest.mark.proof
@pytest.mark.usefixtures("room_for_spark")
def test_a_million_rows_and_changes_meanwhile(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """The command: killed among the pieces, while it loads, and while it merges; no piece is read twice."""
    hive = {"merge_seconds": 15, "history": True}
    rig = make_rig(mariadb, postgres, "lake", start="copy", hive=hive, spark={"piece_rows": 100_000, "memory": "2g"})
    rig.target_url = f"hive://{tmp_path}/warehouse"
    work = rig.make(Mix())
    rig.load(work, 2_000_000)
    writing = rig.work(work, 130_000, seed=2, rate=1000.0)
    for words in (r"[3-9] of \d+ pieces", r"(\d+) of \1 pieces", r"goes on from", r"merge \d+: [1-9]"):
        run, seen = rig.run(), len(rig.said())
        until(lambda seen=seen, words=words: re.search(words, rig.said()[seen:]) is not None, words, 600.0)
        os.kill(run.pid, signal.SIGKILL)
        run.code(30.0)
    writing.join()
    rig.load(work, 100_000, seed=3)
    rig.catch_up(1800.0)
    pieces = [int(count) for count in re.findall(r"(\d+) of \d+ pieces, [\d,]+ rows, ", rig.said())]
    assert pieces == sorted(set(pieces)), "a piece was read twice"
    with opened(load(rig.feed)) as hive_:
        is_equal(rig, Lake(hive_.spark, tmp_path))
