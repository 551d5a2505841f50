"""Commands that a feed's event trigger tells in PostgreSQL's log: each at its place among the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bench.harness.logical import Log, Message, behind, log
from bench.harness.servers import Postgres
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.ports.table_form import TableForm, in_force
from tidelock.adapters.postgres.ddl_trigger import CommandTrigger, message_prefix
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.command_messages import read_command
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.table_forms import former, is_there, kept, read_forms
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

PLACE = 'ALTER TABLE "public"."t"'
MADE = 'CREATE TABLE "public"."made"'
ANEW = "halts: public.t: its rows were written anew, and that no USING computed other values is certain only of"
T, U = TableName("public", "t"), TableName("public", "u")


class Told:
    """A log whose commands an event trigger tells, and a reader of it that begins where the feed does."""

    def __init__(self, shop_log: Log) -> None:
        self.log = shop_log
        self.slot = shop_log._slot
        shop_log.run(CommandTrigger(self.slot, (("public", "*"),)).made())
        ask = shop_log.ask
        forms = read_forms(ask, (T, U), told=is_there(ask, self.slot))
        self.forms = [kept(form, shop_log.start) for form in forms]

    def read(
        self, start: Position | None = None, forms: Sequence[TableForm] = (), *, doubted: bool = False
    ) -> Assembly:
        """Reads what was logged so far; the catalogue is as it is by now.  `doubted`: nobody tells changes by now."""
        start = start or self.log.start
        relations = Relations(self.log.catalogue, former(in_force([*self.forms, *forms], start)))
        if doubted:
            relations.doubt()
        made = Assembly(
            "7012345678901234567/shop",
            start,
            relations,
            lambda name: name.schema == "public" and not name.table.startswith("left"),
            lambda _: False,
            commands=message_prefix(self.slot),
        )
        for message in behind(self.messages, start):
            made.take(memoryview(message.data), message.lsn)
        made.flush()
        return made

    @property
    def messages(self) -> list[Message]:
        return self.log.messages(keep=True)

    def of(self, *statements: str) -> list[str | int]:
        """Runs statements and returns what is read of them: statements of the feed, and how many rows lie between."""
        self.log.messages()
        self.log.run(statements)
        found = self.read()
        told = [(ddl.source, ddl.number) for ddl in ddls(found)]
        assert len({*told}) == len(told), "each is told from all others"
        return brief(found)


def brief(assembly: Assembly) -> list[str | int]:
    found: list[str | int] = []
    for one in transactions(assembly):
        if one.rows:
            found.append(len(one.rows))
        if one.ddl is not None:
            found.append(one.ddl.statement if one.ddl.kind is not DdlKind.OTHER else f"halts: {one.ddl.statement}")
    return found


def transactions(assembly: Assembly) -> list[SourceTransaction]:
    return [one for chunk in assembly.ready for one in chunk.transactions]


def ddls(assembly: Assembly) -> list[Ddl]:
    return [one.ddl for one in transactions(assembly) if one.ddl is not None]


@pytest.fixture
def told(postgres_source: Postgres) -> Iterator[Told]:
    database = postgres_source.database("shop")
    tables = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text)"
    postgres_source.execute_script(tables, database=database)
    with log(postgres_source, database, "FOR TABLE t, u") as made:
        yield Told(made)


def test_changes_stand_where_they_were_made(told: Told) -> None:
    """The catalogue is ahead of all of it."""
    found = told.of(
        "INSERT INTO t VALUES (1, 'one')",
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t ADD v int DEFAULT 7",
        "INSERT INTO t VALUES (2, 'two', 8)",
        "ALTER TABLE t RENAME w TO x",
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t RENAME x TO v",
        "UPDATE t SET w = 9",
        "ALTER TABLE t DROP v",
        "ALTER TABLE t ADD v text",
        "ALTER TABLE t ALTER w TYPE bigint",
        "INSERT INTO t VALUES (4, 2)",
    )
    assert found == [
        1,
        f'{PLACE} RENAME COLUMN "v" TO "w"',
        f"{PLACE} ADD COLUMN \"v\" integer DEFAULT '7'",
        1,
        f'{PLACE} RENAME COLUMN "w" TO "x"',
        f'{PLACE} RENAME COLUMN "v" TO "w"',
        f'{PLACE} RENAME COLUMN "x" TO "v"',
        2,
        f'{PLACE} DROP COLUMN "v"',
        f'{PLACE} ADD COLUMN "v" text',
        f'{PLACE} ALTER COLUMN "w" TYPE bigint',
        1,
    ]


ALTER = "ALTER TABLE t"
ONCE = 'CONSTRAINT "{}" UNIQUE ("v")'
CHANGES: dict[str, tuple[list[str], list[str | int]]] = {
    "keys": (
        [
            f"{ALTER} DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)",
            f"{ALTER} ADD CONSTRAINT once UNIQUE (v)",
            "ALTER INDEX once RENAME TO twice",
            "CREATE UNIQUE INDEX part ON t (v) WHERE id > 3",
            "DROP INDEX part",
            f"{ALTER} DROP CONSTRAINT twice",
            "CREATE UNIQUE INDEX by_v ON t (v)",
            "DROP INDEX by_v",
            f"{ALTER} DROP CONSTRAINT t_pkey, ALTER id TYPE bigint",
            f"{ALTER} ALTER v DROP NOT NULL",
        ],
        [
            f'{PLACE} DROP PRIMARY KEY, ADD PRIMARY KEY ("id", "v")',
            f"{PLACE} ADD {ONCE.format('once')}",
            f'{PLACE} RENAME CONSTRAINT "once" TO "twice"',
            f'{PLACE} DROP CONSTRAINT "twice"',
            f"{PLACE} ADD {ONCE.format('by_v')}",
            f'{PLACE} DROP CONSTRAINT "by_v"',
            f'{PLACE} ALTER COLUMN "id" TYPE bigint, DROP PRIMARY KEY',
            f'{PLACE} ALTER COLUMN "v" DROP NOT NULL',
        ],
    ),
    "types": (
        [
            f"{ALTER} ADD n int",
            f"{ALTER} ALTER n TYPE bigint",
            f"{ALTER} ALTER n TYPE smallint",
            "DO $$ BEGIN ALTER TABLE t ALTER n TYPE int; END $$",
            f"{ALTER} ALTER v TYPE varchar(9)",
            "DO $$ BEGIN ALTER TABLE t ALTER v TYPE varchar(19); END $$",
            f"{ALTER} ALTER v TYPE text USING v || '!'",
            f"{ALTER} ALTER v TYPE text USING v || '?'",
            f"{ALTER} ALTER id TYPE bigint USING id * 2",
            f"{ALTER} ALTER n TYPE bigint; SELECT 1",
        ],
        [
            f'{PLACE} ADD COLUMN "n" integer',
            f'{PLACE} ALTER COLUMN "n" TYPE bigint',
            f'{PLACE} ALTER COLUMN "n" TYPE smallint',
            ANEW,
            "halts: public.t: column v was text, and is character varying(9): texts may be longer",
            f'{PLACE} ALTER COLUMN "v" TYPE character varying(19)',  # and nothing was written anew
            ANEW,
            ANEW,
            ANEW,
            ANEW,
        ],
    ),
    "tables": (
        [
            "CREATE TABLE made (id int PRIMARY KEY, w int GENERATED ALWAYS AS (id) STORED)",
            "INSERT INTO made VALUES (1)",
            "CREATE TABLE filled AS SELECT 1 AS one",
            "CREATE TABLE left_out (id int)",
            "CREATE TEMP TABLE passing (id int)",
            "DROP TABLE made, u",
            "CREATE TABLE u (id int PRIMARY KEY)",
            "INSERT INTO u VALUES (1)",
            "CREATE SCHEMA other",
            "ALTER TABLE u SET SCHEMA other",
            "ALTER TABLE left_out RENAME TO taken",
        ],
        [
            f'{MADE} ("id" integer NOT NULL, "w" integer GENERATED ALWAYS AS (id) STORED, PRIMARY KEY ("id"))',
            1,
            "halts: public.filled was made by CREATE TABLE AS, with rows that the log does not tell",
            'DROP TABLE "public"."u"',
            'DROP TABLE "public"."made"',
            'CREATE TABLE "public"."u" ("id" integer NOT NULL, PRIMARY KEY ("id"))',
            1,
            "halts: other.u: it was public.u",
            "halts: public.taken is a table that was not the feed's before",
        ],
    ),
    "partitions": (
        [
            "CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9)",
            "INSERT INTO p VALUES (1, 1)",
            "CREATE TABLE left_p2 (LIKE p INCLUDING ALL)",
            "ALTER TABLE p ATTACH PARTITION left_p2 FOR VALUES FROM (9) TO (19)",
            "CREATE TABLE left_p3 AS SELECT 20 AS id, 1 AS v",
            "ALTER TABLE left_p3 ADD PRIMARY KEY (id)",
            "ALTER TABLE p ATTACH PARTITION left_p3 FOR VALUES FROM (19) TO (29)",
            "ALTER TABLE p ALTER v TYPE bigint",
            "ALTER TABLE p DETACH PARTITION left_p2",
            "DROP TABLE p1",
            "CREATE TABLE q (v int) PARTITION BY RANGE (v)",
            "CREATE TABLE left_q1 PARTITION OF q FOR VALUES FROM (0) TO (9)",
            "INSERT INTO q VALUES (1)",
            "UPDATE q SET v = 2",
        ],
        [
            'CREATE TABLE "public"."p" ("id" integer NOT NULL, "v" integer, PRIMARY KEY ("id"))',
            1,
            "halts: public.p: a partition was attached, and the log does not tell the rows that it had",
            'ALTER TABLE "public"."p" ALTER COLUMN "v" TYPE bigint',
            "halts: public.p: a partition was detached or dropped, and the log does not tell its rows",
            "halts: public.p: a partition was detached or dropped, and the log does not tell its rows",
            'CREATE TABLE "public"."q" ("v" integer)',
            1,
            1,
        ],
    ),
    "others": (
        [
            "CREATE TYPE mood AS ENUM ('a')",
            f"{ALTER} ADD m mood",
            "DROP TYPE mood CASCADE",
            f"{ALTER} ADD r float DEFAULT random()",
            f"{ALTER} ADD c int CHECK (c > 0), ALTER c SET DEFAULT 3",
            "VACUUM FULL t",
            "CREATE INDEX plain ON t (v)",
            "COMMENT ON TABLE t IS 'x'",
            "CREATE UNLOGGED TABLE beside (id int PRIMARY KEY)",
            "INSERT INTO beside VALUES (1)",
            "INSERT INTO t (id) VALUES (1)",
            "ALTER TABLE beside SET LOGGED",
        ],
        [
            f'{PLACE} ADD COLUMN "m" public.mood',
            f'{PLACE} DROP COLUMN "m"',
            "halts: public.t: column r double precision is new with a default that is not constant, or was set later",
            "halts: public.t: column c integer is new with a default that is not constant, or was set later",
            1,
            "halts: public.beside is a table that was not the feed's before",
        ],
    ),
}


@pytest.mark.parametrize("name", [*CHANGES])
def test_what_commands_become(told: Told, name: str) -> None:
    statements, words = CHANGES[name]
    found = told.of(*statements)
    assert len(found) == len(words), found
    for one, expected in zip(found, words, strict=True):
        assert one == expected or (str(expected).startswith("halts") and str(one).startswith(str(expected))), one


IN_ONE = [
    "INSERT INTO t VALUES (1, 'one')",
    "ALTER TABLE t RENAME v TO w",
    "INSERT INTO t VALUES (2, 'two')",
    "DROP TABLE u",
    "CREATE TABLE u (id int PRIMARY KEY)",
    "INSERT INTO u VALUES (1)",
]


def test_a_reader_goes_on_behind_each_of_them(told: Told) -> None:
    """Whoever begins at a place, with what was kept up to there, is told what is behind it and nothing else."""
    told.log.messages()
    told.log.run(
        [
            f"BEGIN; {'; '.join(IN_ONE)}; COMMIT",
            "ALTER TABLE t ADD UNIQUE (w)",
            "DROP INDEX IF EXISTS none",
        ]
    )
    whole = told.read()
    expected, learned = brief(whole), whole.notices.learned
    assert [isinstance(one, str) for one in expected] == [False, True, False, True, True, False, True]
    seen: list[str | int] = []
    for chunk in whole.ready:
        seen += [len(one.rows) or one.ddl.statement for one in chunk.transactions if one.rows or one.ddl is not None]
        assert seen + brief(told.read(chunk.last, learned)) == expected, chunk.last


def test_where_nobody_tells_changes_forms_are_not_believed(told: Told) -> None:
    """A look that finds no event triggers says so; then a column that was made anew shows with the first row."""
    told.log.run([f'DROP EVENT TRIGGER "{name}"' for name in CommandTrigger(told.slot, ()).names])
    told.log.messages()
    told.log.run(["ALTER TABLE t DROP v", "ALTER TABLE t ADD v text", "INSERT INTO t VALUES (1, 'x')"])
    assert brief(told.read()) == [1], "which the next look at the catalogue would find"
    first, rows = brief(told.read(doubted=True))
    assert "column v was dropped and made anew" in str(first) and rows == 1


def test_another_version_is_not_read_on() -> None:
    with pytest.raises(UnsuitableLog, match="is of version 2, and this one reads 1"):
        read_command(b'{"version":2,"what":"nobody knows"}')
    with pytest.raises(UnsuitableLog, match="is not understood"):
        read_command(b'{"version":1,"forms":7}')
