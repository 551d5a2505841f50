"""Rows of a real PostgreSQL that change without a message in its log: the next look at the tables tells of them, once,
and of nothing that leaves rows as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest

from bench.harness.logical import Log, behind
from tidelock.adapters.ports.table_form import TableForm, in_force
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.form_notices import Look
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.table_forms import former, kept, read_forms
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

NAMES = tuple(TableName("public", name) for name in ("t", "p", "m"))
TABLES = (
    "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
    "CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (10) TO (20)",
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TABLE m (id int PRIMARY KEY, m mood[])",
    "INSERT INTO t VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO p VALUES (1, 'one'), (11, 'eleven')",
    "INSERT INTO m VALUES (1, '{sad}')",
    "ALTER TABLE m ADD w int DEFAULT 7",
)
LIKE = "CREATE TABLE x (LIKE p INCLUDING ALL)"
HAS = "INSERT INTO x VALUES (31, 'x')"
ATTACH = "ALTER TABLE p ATTACH PARTITION x FOR VALUES FROM (30) TO (40)"
GONE = "was detached or dropped, and the log does not tell its rows"
EMPTIED = "was emptied or written anew by itself"

UNTOLD: dict[str, tuple[list[str], str]] = {
    "a partition detached": (["ALTER TABLE p DETACH PARTITION p1"], f"public.p: its partition p1 {GONE}"),
    "a partition dropped": (["DROP TABLE p1"], f"public.p: its partition p1 {GONE}"),
    "a partition of a partition dropped": (["DROP TABLE p2"], f"public.p: its partition p21 {GONE}"),
    "a partition emptied": (["TRUNCATE p1"], f"public.p: its partition p1 {EMPTIED}"),
    "a partition emptied and filled": (["TRUNCATE p1", "INSERT INTO p VALUES (2, 'two')", "ANALYZE p1"], EMPTIED),
    "partitions emptied by the table in between": (["TRUNCATE p2"], f"public.p: its partition p21 {EMPTIED}"),
    "a partition written anew": (["VACUUM FULL p1"], f"public.p: its partition p1 {EMPTIED}"),
    "a partition attached": ([LIKE, HAS, ATTACH], "public.p: its partition x was attached"),
    "partitions attached": (
        ["CREATE TABLE x (LIKE p) PARTITION BY RANGE (id)", "CREATE TABLE x1 PARTITION OF x DEFAULT", HAS, ATTACH],
        "public.p: its partition x1 was attached",
    ),
    "a partition that was away": (
        ["ALTER TABLE p DETACH PARTITION p1", "UPDATE p1 SET v = 'new'",
         "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)"],
        "public.p: its partition p1 was detached and attached",
    ),
    "USING that keeps the type": (
        ["ALTER TABLE t ALTER v TYPE text USING v || '!'"], "public.t: column v was converted and the table written"
    ),
    "USING of the key, and a row that shows another change": (
        ["ALTER TABLE t ALTER id TYPE int USING id + 5", "ALTER TABLE t RENAME v TO w", "INSERT INTO t VALUES (1)"],
        "public.t: column id was converted and the table written",
    ),
    "USING of a column that has a default": (
        ["ALTER TABLE m ALTER w TYPE int USING w + 1"], "public.m: column w was converted and the table written"
    ),
    "a label of an enum": (
        ["ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"], "public.m: the enum's label sad is blue now"
    ),
    "a partition and a column": (["DROP TABLE p1", "ALTER TABLE p ADD c int"], "it was changed in another way as well"),
}  # fmt: skip
PASSED: dict[str, list[str]] = {
    "a partition made": [
        "CREATE TABLE x PARTITION OF p FOR VALUES FROM (30) TO (40)", "INSERT INTO p VALUES (31, 'x')",
    ],
    "an empty partition attached": [LIKE, ATTACH],
    "a partition made and attached at once": [f"{LIKE}; {ATTACH}", "INSERT INTO p VALUES (31, 'x')"],
    "all partitions emptied": ["TRUNCATE p", "INSERT INTO p VALUES (1, 'new')"],
    "a partition with another name": ["ALTER TABLE p1 RENAME TO p9", "ALTER TABLE p9 OWNER TO CURRENT_USER"],
    "a table written anew": ["VACUUM FULL t", "CLUSTER t USING t_pkey"],
    "a table written anew whose rows had a value of before": ["VACUUM FULL m"],
    "that, without its default": ["ALTER TABLE m ALTER w DROP DEFAULT", "CLUSTER m USING m_pkey"],
    "a table emptied": ["TRUNCATE t", "INSERT INTO t VALUES (1, 'new')"],
    "defaults and NOT NULL": [
        "ALTER TABLE t ALTER v SET DEFAULT 'x'", "VACUUM FULL t", "ALTER TABLE t ALTER v SET NOT NULL", "ANALYZE t",
    ],
    "a new label": ["ALTER TYPE mood ADD VALUE 'calm' BEFORE 'sad'"],
}  # fmt: skip


class Reader:
    """A reader that begins where the feed does, or at a place with what is kept."""

    def __init__(self, shop_log: Log, start: Position, forms: Sequence[TableForm]) -> None:
        self._log, self._start, self._taken = shop_log, start, 0
        self._relations = Relations(shop_log.catalogue, former(in_force(forms, start)))
        wanted = NAMES.__contains__
        self.assembly = Assembly("7012345678901234567/shop", start, self._relations, wanted, lambda _: False, 500)

    def read(self) -> list[Ddl]:
        """Looks at the catalogue, reads the log up to there, and returns the statements that it tells."""
        forms = read_forms(self._log.ask, NAMES, self._relations.forms)
        end = lsn_of(self._log.ask("SELECT pg_current_wal_insert_lsn()::text", ())[0][0])
        notices = self.assembly.notices
        notices.look = Look(end, forms, dict(self._relations.forms))
        messages = behind(self._log.messages(keep=True), self._start)
        for message in messages[self._taken :]:
            self.assembly.take(memoryview(message.data), message.lsn)
            notices.settle()
        self._taken = len(messages)
        self.assembly.keepalive(end, 0)
        if notices.outrun:
            known = dict(self._relations.forms)
            notices.look = Look(end, read_forms(self._log.ask, NAMES, known), known)
            notices.outrun = False
            self.assembly.keepalive(end, 0)
        self.assembly.flush()
        chunks = list(self.assembly.ready)
        self.assembly.ready.clear()
        return [one.ddl for chunk in chunks for one in chunk.transactions if one.ddl is not None]


def begun(shop_log: Log) -> list[TableForm]:
    """Makes the tables, and returns their forms where a feed begins behind."""
    shop_log.run(TABLES)
    shop_log.messages()
    return [kept(form, shop_log.start) for form in read_forms(shop_log.ask, NAMES)]


@pytest.mark.parametrize("name", UNTOLD)
def test_what_no_message_tells_is_found_and_told_once(shop_log: Log, name: str) -> None:
    statements, words = UNTOLD[name]
    forms = begun(shop_log)
    shop_log.run(statements)
    reader = Reader(shop_log, shop_log.start, forms)
    told = [ddl for ddl in reader.read() if ddl.kind is DdlKind.OTHER]
    assert len(told) == 1 and words in told[0].statement and told[0].untold, told
    (again,) = [ddl for ddl in Reader(shop_log, shop_log.start, forms).read() if ddl.kind is DdlKind.OTHER]
    assert (again.source, again.number) == (told[0].source, told[0].number), "the same wherever it is met"
    assert reader.read() == [], "it is told once"


@pytest.mark.parametrize("name", PASSED)
def test_what_leaves_rows_as_they_are_or_stands_in_the_log_is_not_told(shop_log: Log, name: str) -> None:
    forms = begun(shop_log)
    shop_log.run(PASSED[name])
    assert [ddl for ddl in Reader(shop_log, shop_log.start, forms).read() if ddl.kind is not DdlKind.TRUNCATE] == []


def test_two_partitions_that_go_one_after_the_other_are_two_changes(shop_log: Log) -> None:
    forms = begun(shop_log)
    reader = Reader(shop_log, shop_log.start, forms)
    shop_log.run(["TRUNCATE p1"])
    (first,) = reader.read()
    shop_log.run(["TRUNCATE p1"])
    (second,) = reader.read()
    assert first.number != second.number


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER v TYPE varchar(9) USING v || '!'", "column v was text, and is character varying(9)"),
        ("ADD w text DEFAULT random()::text", "column w text is new with a default that is not constant"),
    ],
)
@pytest.mark.parametrize("table", ["t", "p"])
def test_what_a_row_has_told_is_not_found_once_more(shop_log: Log, table: str, change: str, words: str) -> None:
    forms = begun(shop_log)
    shop_log.run([f"ALTER TABLE {table} {change}", f"INSERT INTO {table} VALUES (5, 'x')"])
    reader = Reader(shop_log, shop_log.start, forms)
    (told,) = reader.read()
    assert words in told.statement
    assert reader.read() == []


def test_forms_that_an_earlier_version_kept_say_nothing_of_files(shop_log: Log) -> None:
    """Its words end before them."""
    forms = begun(shop_log)
    shop_log.run(["TRUNCATE p1", "ALTER TABLE t ALTER v TYPE text USING v || '!'"])
    assert Reader(shop_log, shop_log.start, [earlier(form) for form in forms]).read() == []


def earlier(form: TableForm) -> TableForm:
    """Returns a form as the version before has kept it."""
    words = json.loads(form.words)
    columns, uniques, partitions, *_ = words[6]
    words[6] = [columns, uniques, [one[:2] for one in partitions]]
    return msgspec.structs.replace(form, words=json.dumps(words))
