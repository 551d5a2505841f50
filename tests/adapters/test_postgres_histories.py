"""Histories of a real PostgreSQL: its changes, decoded and applied by key, leave what a SELECT finds.

The histories follow those of PostgreSQL's own subscription tests, in words of ours.  Each is read by both forms of the
decoder, whole and in small chunks, and again from every place that a chunk ends at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from bench.harness.logical import Log, Message, Replica, decoded, log
from bench.harness.servers import Postgres
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.logical.messages import MESSAGE
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Shape, TableName
from tidelock.engine.model.schema_change import DdlKind


class History(NamedTuple):
    """`begin`: what is there before the log begins.  `statements`: each in a transaction of its own.

    `statements_seen`: kinds of what the barrier is raised for.  `keyless`: tables that are not compared.
    """

    begin: str
    statements: Sequence[str]
    publication: str = "FOR ALL TABLES"
    statements_seen: Sequence[DdlKind] = ()


def one(*statements: str) -> str:
    """A transaction of several statements."""
    return "; ".join(("BEGIN", *statements, "COMMIT"))


LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"  # 12,800 characters that do not compress

HISTORIES = {
    # 001_rep_changes
    "rows of tables with keys of all sorts": History(
        """
        CREATE TABLE plain (a int PRIMARY KEY);
        CREATE TABLE two (a int, b text, c int, PRIMARY KEY (b, a));
        CREATE TABLE included (id int, a text, CONSTRAINT k PRIMARY KEY (id) INCLUDE (a));
        CREATE TABLE whole (a text, b int);
        ALTER TABLE whole REPLICA IDENTITY FULL;
        CREATE TABLE indexed (a int, b int NOT NULL, c text);
        CREATE UNIQUE INDEX indexed_b ON indexed (b);
        ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b;
        CREATE TABLE unchangeable (a int, b text);
        ALTER TABLE unchangeable REPLICA IDENTITY NOTHING;
        """,
        [
            "INSERT INTO plain SELECT generate_series(1, 20)",
            "DELETE FROM plain WHERE a > 15",
            "UPDATE plain SET a = -a",
            "INSERT INTO two VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', NULL)",
            "UPDATE two SET c = 5 WHERE a = 1",
            "UPDATE two SET b = 'z', c = NULL WHERE a = 2",
            "DELETE FROM two WHERE b = 'b'",
            "INSERT INTO included VALUES (1, 'x'), (2, 'y')",
            "UPDATE included SET a = 'new' WHERE id = 2",
            "DELETE FROM included WHERE id = 1",
            "INSERT INTO whole VALUES ('one', 1), ('two', NULL), (NULL, 3), ('two', NULL), (NULL, NULL)",
            "UPDATE whole SET a = 'three' WHERE b = 3",
            "UPDATE whole SET b = b",
            "DELETE FROM whole WHERE a IS NULL",
            "INSERT INTO indexed VALUES (1, 1, 'a'), (2, 2, 'b'), (NULL, 3, NULL)",
            "UPDATE indexed SET a = 10 WHERE b = 1",
            "UPDATE indexed SET b = 20 WHERE b = 2",
            "DELETE FROM indexed WHERE b = 3",
            "INSERT INTO unchangeable VALUES (1, 'only inserts')",
        ],
    ),
    "an update within the row, between keys and back": History(
        "CREATE TABLE t (id int PRIMARY KEY, v text);",
        [
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            one(*(f"UPDATE t SET id = {now} WHERE id = {was}" for was, now in ((1, 3), (2, 1), (3, 2)))),
            "BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'again'); COMMIT",
            "INSERT INTO t VALUES (1, 'clash') ON CONFLICT (id) DO UPDATE SET v = 'merged'",
        ],
    ),
    "savepoints that are rolled back": History(
        "CREATE TABLE t (id int PRIMARY KEY, v text);",
        [
            one(
                "INSERT INTO t VALUES (1, 'a'); SAVEPOINT s; INSERT INTO t VALUES (2, 'gone'); UPDATE t SET v = 'gone'",
                "ROLLBACK TO s; INSERT INTO t VALUES (3, 'c'); SAVEPOINT u; DELETE FROM t WHERE id = 3; RELEASE u",
            ),
            "BEGIN; INSERT INTO t VALUES (9, 'gone'); ROLLBACK",
        ],
    ),
    "long values": History(
        f"""
        CREATE TABLE by_key (id int PRIMARY KEY, n int, long text, other text);
        CREATE TABLE whole (id int PRIMARY KEY, n int, long text, other text);
        ALTER TABLE whole REPLICA IDENTITY FULL;
        CREATE TABLE long_key (k text PRIMARY KEY, n int);
        ALTER TABLE long_key ALTER k SET STORAGE EXTERNAL;
        INSERT INTO by_key VALUES (0, 0, {LONG}, 'before the log');
        DELETE FROM by_key;
        """,
        [
            f"INSERT INTO by_key SELECT i, i, {LONG} || i, 'x' FROM generate_series(1, 4) i",
            "INSERT INTO whole SELECT * FROM by_key",
            "UPDATE by_key SET n = n + 1",
            "UPDATE whole SET n = n + 1",
            "UPDATE by_key SET id = 10 WHERE id = 1",
            "UPDATE whole SET id = 10 WHERE id = 1",
            "UPDATE by_key SET long = 'short' WHERE id = 2",
            "UPDATE whole SET long = NULL WHERE id = 2",
            "UPDATE by_key SET other = long WHERE id = 3",
            "DELETE FROM by_key WHERE id = 4",
            "DELETE FROM whole WHERE id = 4",
            "UPDATE whole SET n = n",
            "INSERT INTO long_key SELECT left(long, 2500), 1 FROM by_key WHERE id = 3",
            "UPDATE long_key SET n = 2",
            "DELETE FROM long_key",
        ],
    ),
    # 010_truncate
    "tables that are emptied": History(
        """
        CREATE TABLE one (a int PRIMARY KEY);
        CREATE TABLE two (a int PRIMARY KEY);
        CREATE TABLE three (a int PRIMARY KEY);
        CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
        """,
        [
            "INSERT INTO one VALUES (1), (2)",
            "TRUNCATE one",
            "INSERT INTO one VALUES (3)",
            "BEGIN; INSERT INTO two VALUES (1); INSERT INTO three VALUES (1); COMMIT",
            "TRUNCATE one, two, three RESTART IDENTITY",
            "INSERT INTO two VALUES (7)",
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (1, 1), (2, 2)",
            "TRUNCATE parent CASCADE",
            "INSERT INTO parent VALUES (5)",
            "BEGIN; INSERT INTO three VALUES (1), (2); TRUNCATE three; INSERT INTO three VALUES (3); COMMIT",
            "BEGIN; TRUNCATE two; ROLLBACK",
            "BEGIN; INSERT INTO one VALUES (4); SAVEPOINT s; TRUNCATE one; ROLLBACK TO s; COMMIT",
        ],
        statements_seen=[DdlKind.TRUNCATE] * 4,
    ),
    # 011_generated
    "columns that the server computes": History(
        """
        CREATE TABLE t (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, c text);
        CREATE TABLE u (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v serial, w text);
        """,
        [
            "INSERT INTO t (a, c) VALUES (1, 'x'), (2, NULL)",
            "UPDATE t SET a = 5 WHERE a = 2",
            "INSERT INTO u (w) VALUES ('a'), ('b')",
            "UPDATE u SET w = 'c' WHERE id = 2",
        ],
    ),
    # 013_partition
    "partitions, by way of their root": History(
        """
        CREATE TABLE p (a int, b text, PRIMARY KEY (a)) PARTITION BY LIST (a);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1, 2, 3);
        CREATE TABLE p2 (b text, a int NOT NULL, gone int);
        ALTER TABLE p2 DROP gone;
        ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (4, 5, 6);
        CREATE TABLE p3 PARTITION OF p DEFAULT PARTITION BY RANGE (a);
        CREATE TABLE p3a PARTITION OF p3 FOR VALUES FROM (7) TO (100);
        CREATE TABLE p3b PARTITION OF p3 DEFAULT;
        """,
        [
            "INSERT INTO p VALUES (1, 'one'), (4, 'four'), (8, 'eight'), (1000, 'many')",
            "UPDATE p SET b = b || '!'",
            "UPDATE p SET a = 5 WHERE a = 1",
            "UPDATE p SET a = 2 WHERE a = 1000",
            "DELETE FROM p WHERE a = 8",
            "INSERT INTO p2 (a, b) VALUES (6, 'into the partition itself')",
            "TRUNCATE p",
            "INSERT INTO p VALUES (3, 'three')",
        ],
        statements_seen=[DdlKind.TRUNCATE],
    ),
    "partitions that log whole rows, under a root that does not": History(
        """
        CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
        CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
        CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
        ALTER TABLE p1 REPLICA IDENTITY FULL;
        """,
        [
            "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (11, 'c')",
            "UPDATE p SET b = 'x'",
            "UPDATE p SET a = 12 WHERE a = 2",
            "DELETE FROM p WHERE a = 1",
        ],
    ),
    # 015 to 018: without streaming all comes after the commit
    "a large transaction with many savepoints and schema changes": History(
        "CREATE TABLE t (a int PRIMARY KEY, b text, c int);",
        [
            "INSERT INTO t VALUES (0, 'before', 0)",
            one(
                "INSERT INTO t SELECT i, md5(i::text), i FROM generate_series(1, 700) i",
                "UPDATE t SET b = md5(b) WHERE a % 2 = 0; DELETE FROM t WHERE a % 3 = 0; SAVEPOINT s1",
                "INSERT INTO t SELECT i, 'gone', i FROM generate_series(1000, 1500) i; ROLLBACK TO s1",
                "INSERT INTO t SELECT i, 'kept', i FROM generate_series(2000, 2300) i; SAVEPOINT s2",
                "UPDATE t SET c = -c WHERE a > 2000; RELEASE s2",
            ),
            "UPDATE t SET c = 1 WHERE a = 2001",
        ],
    ),
    # 020_messages
    "messages that somebody writes into the log": History(
        "CREATE TABLE t (a int PRIMARY KEY);",
        [
            "SELECT pg_logical_emit_message(true, 'test', 'in a transaction')",
            "SELECT pg_logical_emit_message(false, 'test', 'in none')",
            one(
                "INSERT INTO t VALUES (1); SELECT pg_logical_emit_message(true, 'test', '\\x00ff'::bytea)",
                "INSERT INTO t VALUES (2); SELECT pg_logical_emit_message(false, 'tidelock', '')",
                "INSERT INTO t VALUES (3)",
            ),
            "BEGIN; SELECT pg_logical_emit_message(true, 'test', 'gone'); ROLLBACK",
        ],
    ),
    # 021 to 023
    "prepared transactions": History(
        "CREATE TABLE t (a int PRIMARY KEY, b text);",
        [
            "INSERT INTO t VALUES (1, 'a')",
            "BEGIN; INSERT INTO t VALUES (2, 'b'); UPDATE t SET b = 'c' WHERE a = 1; PREPARE TRANSACTION 'x'",
            "INSERT INTO t VALUES (3, 'meanwhile')",
            "COMMIT PREPARED 'x'",
            "BEGIN; INSERT INTO t VALUES (4, 'gone'); PREPARE TRANSACTION 'y'",
            "ROLLBACK PREPARED 'y'",
            "BEGIN; INSERT INTO t VALUES (5, 'e'); SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; PREPARE TRANSACTION 'z'",
            "COMMIT PREPARED 'z'",
        ],
    ),
    # 100_bugs
    "old rows with columns that were dropped, computed or are NULL": History(
        """
        CREATE TABLE dropped (a int, b_drop int, c int);
        ALTER TABLE dropped REPLICA IDENTITY FULL;
        INSERT INTO dropped VALUES (1, 1, 1), (2, 2, 2);
        ALTER TABLE dropped DROP b_drop;
        DELETE FROM dropped WHERE a = 1;
        CREATE TABLE computed (a int, b int GENERATED ALWAYS AS (5 * a) STORED, c int);
        ALTER TABLE computed REPLICA IDENTITY FULL;
        CREATE TABLE empty ();
        ALTER TABLE empty REPLICA IDENTITY FULL;
        """,
        [
            "DELETE FROM dropped",
            "INSERT INTO dropped VALUES (5, NULL), (5, NULL), (NULL, NULL)",
            "UPDATE dropped SET a = 6 WHERE ctid = (SELECT min(ctid) FROM dropped)",
            "DELETE FROM dropped WHERE a IS NULL",
            "INSERT INTO computed (a, c) VALUES (1, 1), (2, NULL)",
            "UPDATE computed SET c = 7 WHERE a = 2",
            "DELETE FROM computed WHERE a = 1",
            "INSERT INTO empty DEFAULT VALUES",
        ],
    ),
    "tables and indexes of functions made in between, and temporary tables": History(
        """
        CREATE FUNCTION twice(x int) RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT x * 2 $$;
        CREATE TABLE t (a int PRIMARY KEY, b int);
        CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
        """,
        [
            "CREATE INDEX ON t (twice(b))",
            "BEGIN; CREATE TEMP TABLE x (a int); INSERT INTO x VALUES (1); INSERT INTO t VALUES (1, 1); COMMIT",
            "INSERT INTO unlogged VALUES (1)",
            "CREATE TABLE late (a int PRIMARY KEY, b text)",
            "INSERT INTO late VALUES (1, 'x')",
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
            "REFRESH MATERIALIZED VIEW m",
            "BEGIN; CREATE TABLE short (a int PRIMARY KEY); INSERT INTO short VALUES (1); DROP TABLE short; COMMIT",
        ],
    ),
    "a table that is written anew as a whole": History(
        "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (0, 'x'); DELETE FROM t;",
        [
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "VACUUM FULL t",
            "CLUSTER t USING t_pkey",
            "UPDATE t SET b = 'c' WHERE a = 1",
            "ANALYZE t",
            "DELETE FROM t WHERE a = 2",
        ],
    ),
    # 028_row_filter: the server turns an update into an insert or a delete
    "rows that the publication leaves out": History(
        "CREATE TABLE t (a int PRIMARY KEY, b text);",
        [
            "INSERT INTO t VALUES (1, 'a'), (2000, 'b')",
            "UPDATE t SET a = 1500 WHERE a = 1",
            "UPDATE t SET a = 3 WHERE a = 2000",
            "UPDATE t SET b = 'c'",
            "DELETE FROM t WHERE a = 3",
            "INSERT INTO t VALUES (1001, 'd')",
            "DELETE FROM t WHERE a < 1000",
        ],
        publication="FOR TABLE t WHERE (a > 1000)",
    ),
}
FILTERED = {"rows that the publication leaves out": "a > 1000"}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(extra=["--max-prepared-transactions=5"]) as made:
        yield made


@pytest.fixture
def database(server: Postgres) -> str:
    return server.database("shop")


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_leaves_what_a_select_finds(server: Postgres, database: str, name: str) -> None:
    history = HISTORIES[name]
    server.execute_script(history.begin, database=database)
    with log(server, database, history.publication) as made:
        before = made.texts()
        made.run(history.statements)
        messages = made.messages()
        there = made.texts()
        for chunk_rows in (500, 7, 1):
            plain = read(made, messages, chunk_rows=chunk_rows, compiled=False)
            assert read(made, messages, chunk_rows=chunk_rows) == plain, "both forms make the same chunks"
            replica = Replica(before)
            replica.apply(plain)
            assert [kind for kind, _ in replica.statements] == list(history.statements_seen)
            assert shapes(plain), "something was logged"
            for shape in [shape for shape in shapes(plain) if shape.name in there]:
                agree(made, replica, shape, FILTERED.get(name, ""))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] * (at % 2)) for at, name in enumerate(HISTORIES)]
)
def test_a_history_goes_on_from_each_place_that_was_told(server: Postgres, database: str, name: str) -> None:
    history = HISTORIES[name]
    server.execute_script(history.begin, database=database)
    with log(server, database, history.publication) as made:
        made.run(history.statements)
        messages = made.messages()
        for compiled in (False, True):
            whole = read(made, messages, chunk_rows=3, compiled=compiled)
            places = [chunk.last for chunk in whole]
            assert places == sorted(places, key=lambda place: (place.offset, place.rows)), "places go on"
            for index in range(0, len(whole), max(1, len(whole) // 25)):
                rest, _ = decoded(messages, places[index], made.catalogue, chunk_rows=3, compiled=compiled)
                assert flat(whole[: index + 1]) + flat(rest) == flat(whole)


def test_logical_messages_move_no_row(server: Postgres, database: str) -> None:
    """A reader may ask for them or not: rows have the same identities, and places the same names."""
    history = HISTORIES["messages that somebody writes into the log"]
    server.execute_script(history.begin, database=database)
    with log(server, database) as made:
        made.run(history.statements)
        messages = made.messages()
        without = [message for message in messages if message.data[0] != MESSAGE]
        assert len(without) == len(messages) - 4
        for chunk_rows in (1, 500):
            one, other = (read(made, logged, chunk_rows=chunk_rows) for logged in (messages, without))
            assert flat(one) == flat(other) and one[-1].last == other[-1].last


# 004_sync
def test_rows_of_a_table_are_in_the_log_from_where_it_was_published(server: Postgres, database: str) -> None:
    """What it held before is to be copied."""
    server.execute_script(
        "CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY); INSERT INTO t VALUES (0)",
        database=database,
    )
    with log(server, database, "FOR TABLE t") as made:
        made.run(["INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)"])
        made.run([f"ALTER PUBLICATION tidelock_{database} ADD TABLE u", "INSERT INTO u VALUES (2)"])
        chunks = read(made, made.messages())
        found = {shape.name.table: shape for shape in shapes(chunks)}
        replica = Replica()
        replica.apply(chunks)
        assert {name: replica.rows(shape.name) for name, shape in found.items()} == {"t": [(1,)], "u": [(2,)]}


# 030_origin
def test_a_transaction_of_a_subscription_says_where_it_comes_from(server: Postgres, database: str) -> None:
    server.execute_script("CREATE TABLE t (a int PRIMARY KEY)", database=database)
    server.execute("SELECT pg_replication_origin_create($1)", f"upstream_{database}", database=database)
    with log(server, database) as made:
        made.run(["INSERT INTO t VALUES (1)", f"SELECT pg_replication_origin_session_setup('upstream_{database}')"])
        made.run([one("SELECT pg_replication_origin_xact_setup('0/A0', now())", "INSERT INTO t VALUES (2)")])
        messages = made.messages()
        for compiled in (False, True):
            with pytest.raises(UnsuitableLog, match=f"from its origin upstream_{database}"):
                read(made, messages, compiled=compiled)
            chunks, _ = decoded(messages, made.start, made.catalogue, compiled=compiled, origins=True)
            assert [row.after for chunk in chunks for one_ in chunk.transactions for row in one_.rows] == [(1,), (2,)]


def test_rows_that_go_with_a_partition_are_in_no_message(server: Postgres, database: str) -> None:
    """A trap: one partition is emptied, detached or dropped, and the log does not say so.  `verify` finds the rows."""
    server.execute_script(
        """
        CREATE TABLE p (a int PRIMARY KEY) PARTITION BY LIST (a);
        CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
        CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
        CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3);
        """,
        database=database,
    )
    with log(server, database) as made:
        made.run(["INSERT INTO p VALUES (1), (2), (3)"])
        made.run(["TRUNCATE p1", "ALTER TABLE p DETACH PARTITION p2", "DROP TABLE p3"])
        chunks = read(made, made.messages())
        replica = Replica()
        replica.apply(chunks)
        (shape,) = shapes(chunks)
        assert replica.statements == [] and len(replica.rows(shape.name)) == 3 and made.rows(shape.name, shape) == []


def read(made: Log, messages: Sequence[Message], *, chunk_rows: int = 500, compiled: bool = True) -> list[SourceChunk]:
    return decoded(messages, made.start, made.catalogue, chunk_rows=chunk_rows, compiled=compiled)[0]


def shapes(chunks: Sequence[SourceChunk]) -> list[Shape]:
    """The shape of each table that rows came of."""
    return list({shape.name: shape for chunk in chunks for shape in chunk.shapes.values()}.values())


def agree(made: Log, replica: Replica, shape: Shape, where: str) -> None:
    found = made.rows(shape.name, shape, where)
    assert sorted(replica.rows(shape.name), key=repr) == sorted(found, key=repr), shape.name


def flat(chunks: Sequence[SourceChunk]) -> list[object]:
    """Rows and statements by their identities, with the table's name in place of its number."""
    names: dict[int, TableName] = {}
    found: list[object] = []
    for chunk in chunks:
        names |= {number: shape.name for number, shape in chunk.shapes.items()}
        for transaction in chunk.transactions:
            who = transaction.source, transaction.number
            if transaction.ddl is not None:
                found.append((*who, transaction.ddl.kind, transaction.ddl.tables, transaction.ddl.number))
            found += [(*who, row.ordinal, names[row.table], row.before, row.after) for row in transaction.rows]
    return found
