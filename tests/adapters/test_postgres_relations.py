"""Relation messages of a real PostgreSQL: what is told of changed tables, and where the barrier stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.harness.logical import Log, Replica, decoded
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.logical.assembly import NOTICES, Assembly
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import UNKNOWN, TableName
from tidelock.engine.model.schema_change import DdlKind

T = TableName("public", "t")
U = TableName("public", "u")


def read(shop_log: Log, statements: Sequence[str], **options: object) -> list[SourceChunk]:
    former = shop_log.forms()
    shop_log.run(statements)
    messages = shop_log.messages(keep=True)

    def made(*, compiled: bool) -> list[SourceChunk]:
        given = {"former": dict(former), "compiled": compiled, **options}
        return decoded(messages, shop_log.start, shop_log.catalogue, **given)[0]  # type: ignore[arg-type]

    plain = made(compiled=False)
    assert made(compiled=True) == plain
    return plain


def told(chunks: Sequence[SourceChunk]) -> list[tuple[DdlKind, str]]:
    ddl = [transaction.ddl for chunk in chunks for transaction in chunk.transactions if transaction.ddl is not None]
    return [(one.kind, one.statement) for one in ddl]


def said_of(shop_log: Log, statements: Sequence[str]) -> list[tuple[DdlKind, str]]:
    """What is told where each transaction is read before the next one is committed."""
    relations = Relations(shop_log.catalogue, shop_log.forms())
    assembly = Assembly("7012345678901234567/shop", shop_log.start, relations, lambda _: True, lambda _: False)
    for statement in statements:
        shop_log.run([statement])
        for message in shop_log.messages():
            assembly.take(message.data, message.lsn)
    return told(assembly.ready)


FIRST = "INSERT INTO t VALUES (1, 'a')"
THEN = "INSERT INTO t (id) VALUES (2)"

ADDED = {
    "one that may be NULL": ("ADD c numeric(10,2)", 'ADD COLUMN "c" numeric(10,2)'),
    "a constant": ("ADD c int DEFAULT 7", "ADD COLUMN \"c\" integer DEFAULT '7'"),
    "a constant that is never NULL": ("ADD c int NOT NULL DEFAULT 7", "ADD COLUMN \"c\" integer DEFAULT '7'"),
    "a constant with quotes": (
        "ADD c text DEFAULT 'it''s \\ {\"x\",NULL}'",
        "ADD COLUMN \"c\" text DEFAULT E'it''s \\\\ {\"x\",NULL}'",
    ),
    "an array": ("ADD c int[] DEFAULT '{1,NULL,3}'", "ADD COLUMN \"c\" integer[] DEFAULT '{1,NULL,3}'"),
    "bytes": ("ADD c bytea DEFAULT '\\x00ff'", "ADD COLUMN \"c\" bytea DEFAULT E'\\\\x00ff'"),
    "two, of which one": (
        "ADD c int DEFAULT 7, ADD d text",
        'ADD COLUMN "c" integer DEFAULT \'7\', ADD COLUMN "d" text',
    ),
    "a name in need of quotes": ('ADD "Order" int', 'ADD COLUMN "Order" integer'),
    "a boolean": ("ADD c bool DEFAULT true", "ADD COLUMN \"c\" boolean DEFAULT 't'"),
}


@pytest.mark.parametrize("name", ADDED)
def test_a_column_that_is_added_at_the_end_is_carried_over(shop_log: Log, name: str) -> None:
    action, statement = ADDED[name]
    chunks = read(shop_log, [FIRST, f"ALTER TABLE t {action}", THEN])
    assert told(chunks) == [(DdlKind.ADD_COLUMN, f'ALTER TABLE "public"."t" {statement}')]
    same_rows(shop_log, chunks, T)


def test_a_default_that_is_constant_for_one_statement_fills_old_rows(shop_log: Log) -> None:
    """now() is read once, and what it said is in the catalogue."""
    chunks = read(shop_log, [FIRST, "ALTER TABLE t ADD c timestamptz DEFAULT now()", THEN])
    ((kind, _),) = told(chunks)
    assert kind is DdlKind.ADD_COLUMN
    same_rows(shop_log, chunks, T)


OTHERS = {
    "a default of each row's own": (["ALTER TABLE t ADD c float DEFAULT random()"], "must be copied anew"),
    "a sequence": (["ALTER TABLE t ADD c serial"], "must be copied anew"),
    "an identity": (["ALTER TABLE t ADD c int GENERATED ALWAYS AS IDENTITY"], "must be copied anew"),
    "a default that is gone by now": (
        ["ALTER TABLE t ADD c text DEFAULT random()::text", "ALTER TABLE t ALTER c DROP DEFAULT"], "written anew since"
    ),
    "a constant that is gone by now": (
        ["ALTER TABLE t ADD c int DEFAULT 7", "VACUUM FULL t", "ALTER TABLE t ALTER c DROP DEFAULT"],
        "written anew since",
    ),
    "a default that came later": (["ALTER TABLE t ADD c int", "ALTER TABLE t ALTER c SET DEFAULT 7"], "set later"),
    "another type": (
        ["ALTER TABLE t ALTER v TYPE varchar(9)"],
        "column v was text, and is character varying(9)",
    ),
    "another size": (
        ["ALTER TABLE t ADD c numeric(6,2)", "INSERT INTO t VALUES (7)", "ALTER TABLE t ALTER c TYPE numeric(8,2)"],
        "column c was numeric(6,2), and is numeric(8,2)",
    ),
    "dropped and made anew": (["ALTER TABLE t DROP v, ADD v text"], "column v was dropped and made anew"),
    "dropped, and another added": (["ALTER TABLE t DROP v, ADD w text"], "column w text is new"),
    "another primary key": (
        ["ALTER TABLE t ADD k int NOT NULL DEFAULT 5", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, k)"],
        "its primary key was id, and is id, k",
    ),
    "never NULL": (
        ["DELETE FROM t", "ALTER TABLE t ADD c int NOT NULL", "INSERT INTO t (id, c) VALUES (5, 5)"],
        "never NULL, without a default",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_change_is_told_in_words(shop_log: Log, name: str) -> None:
    """Each is read as it comes, as what the catalogue says is what it says then."""
    statements, words = OTHERS[name]
    kind, said = said_of(shop_log, [FIRST, *statements, "DELETE FROM t"])[-1]
    assert kind is DdlKind.OTHER and words in said


def test_what_leaves_rows_as_they_are_is_not_told(shop_log: Log) -> None:
    chunks = read(
        shop_log,
        [
            FIRST,
            "CREATE INDEX ON t (v)",
            "ANALYZE t",
            "VACUUM t",
            "ALTER TABLE t ALTER v SET DEFAULT 'x'",
            "ALTER TABLE t REPLICA IDENTITY FULL",
            "UPDATE t SET v = 'b'",
            "ALTER TABLE t REPLICA IDENTITY DEFAULT",
            "UPDATE t SET v = 'c'",
        ],
    )
    assert told(chunks) == []
    shapes = {number: shape for chunk in chunks for number, shape in chunk.shapes.items()}
    assert [(shape.identity, shape.primary_key) for shape in shapes.values()] == [
        ("key", ("id",)),
        ("full", ("id",)),
        ("key", ("id",)),
    ]
    befores = [row.before for row in rows(chunks) if row.before is not None]
    assert befores == [(1, "a"), (1, UNKNOWN)]


def test_a_table_under_the_name_of_another_is_told(shop_log: Log) -> None:
    anew = ["DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (5)"]
    chunks = read(shop_log, [FIRST, *anew])
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.OTHER and "public.t is another table than before" in words


def test_tables_that_change_names_are_told(shop_log: Log) -> None:
    """Their rows go by the oid: under its new name each is known, and told."""
    chunks = read(
        shop_log,
        [
            FIRST,
            "INSERT INTO u VALUES (1, 'u')",
            "BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u; COMMIT",
            "INSERT INTO t VALUES (2, 'that was u')",
        ],
    )
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.ALTERED and words == 'ALTER TABLE "public"."u" RENAME TO "t"'


def test_a_table_that_loses_the_name_by_which_it_is_wanted_is_told(shop_log: Log) -> None:
    chunks = read(
        shop_log,
        [FIRST, "ALTER TABLE t RENAME TO archived", "INSERT INTO archived VALUES (2, 'b')"],
        wanted=lambda table: table == T,
    )
    assert told(chunks) == [(DdlKind.OTHER, "public.archived: it was public.t")]
    assert len(rows(chunks)) == 1


def test_the_barrier_stands_before_the_transaction_that_shows_a_change(shop_log: Log) -> None:
    both = "BEGIN; INSERT INTO u VALUES (1, 'u'); INSERT INTO t VALUES (2, 'b', 3); COMMIT"
    chunks = read(shop_log, [FIRST, "ALTER TABLE t ADD c int", both])
    before, barrier, behind = chunks
    (statement,) = barrier.transactions
    assert statement.ddl is not None and statement.ddl.tables == (T,)
    assert (before.last.offset, before.last.rows) == (barrier.last.offset, 0)
    assert barrier.last.rows == 1, "a place behind the statement and before the transaction"
    (whole,) = behind.transactions
    assert whole.complete and [row.ordinal for row in whole.rows] == [NOTICES, NOTICES + 1]


def test_two_tables_changed_before_one_transaction_are_two_statements(shop_log: Log) -> None:
    chunks = read(
        shop_log,
        [
            FIRST,
            "INSERT INTO u VALUES (1, 'u')",
            "ALTER TABLE t ADD c int",
            "ALTER TABLE u DROP v",
            "BEGIN; INSERT INTO t VALUES (2, 'b', 3); INSERT INTO u VALUES (2); COMMIT",
        ],
    )
    statements = [(chunk.last.rows, one.ddl) for chunk in chunks for one in chunk.transactions if one.ddl is not None]
    assert [(at, ddl.kind, ddl.tables) for at, ddl in statements] == [
        (1, DdlKind.ADD_COLUMN, (T,)),
        (2, DdlKind.ALTERED, (U,)),
    ]
    assert len({(ddl.source, ddl.number) for _, ddl in statements}) == 2, "one passed is not the other"


def test_statements_at_one_place_of_the_log_have_identities_of_their_own(shop_log: Log) -> None:
    """One TRUNCATE tells of both tables that were changed before, at its own place."""
    chunks = read(
        shop_log,
        [
            "INSERT INTO t VALUES (1, 'a')",
            "INSERT INTO u VALUES (1, 'u')",
            "ALTER TABLE t ADD c int; ALTER TABLE u ADD c int",
            "TRUNCATE t, u",
        ],
    )
    found = [one.ddl for chunk in chunks for one in chunk.transactions if one.ddl is not None]
    assert [ddl.kind for ddl in found] == [DdlKind.ADD_COLUMN, DdlKind.ADD_COLUMN, DdlKind.TRUNCATE]
    assert len({(ddl.source, ddl.number) for ddl in found}) == 3


def test_a_table_changed_between_its_rows_in_one_transaction(shop_log: Log) -> None:
    """Rows of the old form come before the statement, those of the new one behind, and it is not applied by itself."""
    between = "ALTER TABLE t ADD c int DEFAULT 1"
    chunks = read(
        shop_log, [FIRST, f"BEGIN; INSERT INTO t VALUES (2, 'b'); {between}; INSERT INTO t VALUES (3, 'c', 2); COMMIT"]
    )
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.OTHER and "inside a transaction" in words
    assert [(row.after, row.ordinal) for row in rows(chunks)] == [
        ((1, "a"), NOTICES),
        ((2, "b"), NOTICES),
        ((3, "c", 2), NOTICES + 1),
    ]


def test_a_change_that_shows_when_part_of_its_transaction_is_handed_out(shop_log: Log) -> None:
    chunks = read(
        shop_log,
        [
            FIRST,
            "ALTER TABLE t ADD c int",
            "BEGIN; INSERT INTO u SELECT i, 'u' FROM generate_series(1, 9) i; INSERT INTO t VALUES (2, 'b', 3); COMMIT",
        ],
        chunk_rows=4,
    )
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.OTHER and words.startswith('ALTER TABLE "public"."t" ADD COLUMN "c" integer')
    assert [row.ordinal for row in rows(chunks)[1:]] == list(range(NOTICES, NOTICES + 10)), "it takes no ordinal"


def test_a_type_that_was_dropped_since_has_the_name_that_the_stream_told(shop_log: Log) -> None:
    shop_log.run(
        [
            "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            "CREATE TABLE m (id int PRIMARY KEY, m mood)",
            "INSERT INTO m VALUES (1, 'happy')",
            "ALTER TABLE m DROP m",
            "DROP TYPE mood",
        ]
    )
    chunks = read(shop_log, [])
    (shape,) = chunks[0].shapes.values()
    assert shape.columns[1].type == "public.mood" and rows(chunks)[0].after == (1, "happy")


def test_forms_are_compared_over_a_connection_and_nothing_else_is_kept(shop_log: Log) -> None:
    shop_log.run([FIRST])
    former = shop_log.forms()
    first, relations = decoded(shop_log.messages(), shop_log.start, shop_log.catalogue, former=former)
    shop_log.run(["ALTER TABLE t ADD c int DEFAULT 7", THEN])
    start, messages = first[-1].last, shop_log.messages()
    untold, _ = decoded(messages, start, shop_log.catalogue)
    assert told(untold) == [], "nobody knows what it was"
    then, behind = decoded(messages, start, shop_log.catalogue, former=dict(relations.forms))
    ((kind, _),) = told(then)
    assert kind is DdlKind.ADD_COLUMN
    assert rows(then) == rows(untold), "ordinals and numbers are the same, whoever sees the change"
    (barrier,) = [chunk.last for chunk in then if any(one.ddl for one in chunk.transactions)]
    again, _ = decoded(messages, barrier, shop_log.catalogue, former=dict(behind.forms))
    assert told(again) == [] and rows(again) == rows(then), "behind the statement it has passed"


def test_partitions_whose_identities_have_other_columns_are_refused(shop_log: Log) -> None:
    shop_log.run(
        [
            "CREATE TABLE p (a int PRIMARY KEY, b int NOT NULL) PARTITION BY LIST (a)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
            "CREATE UNIQUE INDEX p1_b ON p1 (b); ALTER TABLE p1 REPLICA IDENTITY USING INDEX p1_b",
            "INSERT INTO p VALUES (1, 1), (2, 2)",
        ]
    )
    with pytest.raises(UnsuitableLog, match="replica identities of different columns"):
        read(shop_log, [])


def test_a_key_of_a_table_with_partitions_may_have_another_name_by_now(shop_log: Log) -> None:
    shop_log.run(
        [
            "CREATE TABLE p (a int PRIMARY KEY, b int NOT NULL) PARTITION BY LIST (a)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        ]
    )
    changes = ["INSERT INTO p VALUES (1, 1), (2, 2)", "ALTER TABLE p RENAME a TO c", "UPDATE p SET b = 3"]
    chunks = read(shop_log, changes)
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.ALTERED and words == 'ALTER TABLE "public"."p" RENAME COLUMN "a" TO "c"'
    assert [row.after for row in rows(chunks)] == [(1, 1), (2, 2), (1, 3), (2, 3)]


def test_partitions_that_all_log_whole_rows_under_a_root_that_does_not(shop_log: Log) -> None:
    """They come marked as keys, in which NULL may be a value or none."""
    chunks = read(
        shop_log,
        [
            "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); ALTER TABLE p1 REPLICA IDENTITY FULL",
            "INSERT INTO p VALUES (1, 'a')",
            "UPDATE p SET b = NULL",
            "UPDATE p SET b = 'b'",
        ],
    )
    (shape,) = chunks[0].shapes.values()
    assert (shape.identity, shape.primary_key) == ("key", ("a",))
    assert [row.before for row in rows(chunks)] == [None, (1, "a"), (1, UNKNOWN)]


def test_a_root_that_seems_to_log_more_than_its_partitions_do_is_refused(shop_log: Log) -> None:
    """Deletes come marked as whole rows, and have the key alone: NULL would be taken for a value."""
    shop_log.run(
        [
            "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
            "ALTER TABLE p REPLICA IDENTITY FULL",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
            "INSERT INTO p VALUES (1, 'a')",
            "DELETE FROM p",
        ]
    )
    with pytest.raises(UnsuitableLog, match="FULL, and a partition of it has not"):
        read(shop_log, [])


def test_a_root_that_becomes_full_between_two_rows(shop_log: Log) -> None:
    """Its rows come marked as whole ones without another relation message, and have what their partitions log."""
    chunks = read(
        shop_log,
        [
            "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
            "INSERT INTO p VALUES (1, 'a'), (2, 'b')",
            "ALTER TABLE p REPLICA IDENTITY FULL",
            "DELETE FROM p WHERE a = 1",
            "UPDATE p SET a = 1, b = NULL WHERE a = 2",
        ],
    )
    assert [row.before for row in rows(chunks)] == [None, None, (1, UNKNOWN), (2, UNKNOWN), None]


def test_a_partition_whose_identity_was_mended_before_its_rows_were_read(shop_log: Log) -> None:
    """The catalogue says that all log whole rows, and they come marked so; that one has its key alone."""
    made = [
        "CREATE TABLE p (a int PRIMARY KEY, b text NOT NULL) PARTITION BY LIST (a)",
        "ALTER TABLE p REPLICA IDENTITY FULL",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        "INSERT INTO p VALUES (1, 'a'), (2, 'b')",
    ]
    whole = ["ALTER TABLE p1 REPLICA IDENTITY FULL; ALTER TABLE p2 REPLICA IDENTITY FULL", "DELETE FROM p WHERE a = 2"]
    chunks = read(shop_log, [*made, *whole])
    assert [row.before for row in rows(chunks)] == [None, None, (2, "b")]
    shop_log.run(["ALTER TABLE p1 REPLICA IDENTITY DEFAULT", "DELETE FROM p", "ALTER TABLE p1 REPLICA IDENTITY FULL"])
    for compiled in (True, False):
        with pytest.raises(UnsuitableLog, match="without the row before"):
            decoded(shop_log.messages(keep=True), shop_log.start, shop_log.catalogue, compiled=compiled)


def test_partitions_are_told_of_and_asked_for_only_where_rows_come_as_their_own(shop_log: Log) -> None:
    """Columns added to a partitioned table are one change, and not one of each partition."""
    shop_log.run(
        [
            "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY LIST (a)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
            "INSERT INTO p VALUES (1, 'a'), (2, 'b')",
        ]
    )
    chunks = read(shop_log, ["ALTER TABLE p ADD c int DEFAULT 7", "UPDATE p SET b = 'c'"])
    ((kind, words),) = told(chunks)
    assert kind is DdlKind.ADD_COLUMN and words.startswith('ALTER TABLE "public"."p" ADD')
    assert {shape.name.table for chunk in chunks for shape in chunk.shapes.values()} == {"p"}


def rows(chunks: Sequence[SourceChunk]) -> list:  # type: ignore[type-arg]
    return [row for chunk in chunks for transaction in chunk.transactions for row in transaction.rows]


def same_rows(shop_log: Log, chunks: Sequence[SourceChunk], table: TableName) -> None:
    replica = Replica()
    replica.apply(chunks)
    shape = [shape for chunk in chunks for shape in chunk.shapes.values() if shape.name == table][-1]
    assert sorted(replica.rows(table)) == sorted(shop_log.rows(table, shape))
