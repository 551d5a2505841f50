"""Changes of tables' forms that no reader saw: told to the next one, by its rows or by the catalogue, and once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.harness.logical import Log, Message, behind
from tidelock.adapters.ports.table_form import TableForm, in_force
from tidelock.adapters.postgres.form_messages import tell
from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.form_notices import NOTICES, Look
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.table_forms import former, kept, read_forms
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, ToldChange

T, U = TableName("public", "t"), TableName("public", "u")
NAMES = (T, U, TableName("public", "u2"))


class Reader:
    """A reader of the log that begins at a place with what is kept of tables, as `LogicalReader` does."""

    def __init__(
        self, shop_log: Log, start: Position, forms: Sequence[TableForm], *, rows: int = 500, compiled: bool = True
    ) -> None:
        self.relations = Relations(shop_log.catalogue, former(in_force(forms, start)))
        source, wanted = "7012345678901234567/shop", NAMES.__contains__
        self.assembly = Assembly(source, start, self.relations, wanted, lambda _: False, rows, compiled=compiled)
        self._made, self._start = shop_log, start

    def look(self) -> int:
        """Looks at the catalogue, as it is now; returns the end of the log."""
        forms = read_forms(self._made.ask, NAMES, self.relations.forms)
        end = lsn_of(self._made.ask("SELECT pg_current_wal_insert_lsn()::text", ())[0][0])
        self.assembly.notices.look = Look(end, forms, dict(self.relations.forms))
        return end

    def read(self, messages: Sequence[Message], end: int = 0) -> list[SourceChunk]:
        """Reads these, and hears that the log ends there."""
        for message in behind(messages, self._start):
            self.assembly.take(memoryview(message.data), message.lsn)
            self.assembly.notices.settle()
        if end:
            self.assembly.keepalive(end, 0)
        self.assembly.flush()
        chunks = list(self.assembly.ready)
        self.assembly.ready.clear()
        return chunks

    @property
    def learned(self) -> list[TableForm]:
        return self.assembly.notices.learned


def begun(shop_log: Log) -> list[TableForm]:
    """Forms that are kept where the feed begins."""
    return [kept(form, shop_log.start) for form in read_forms(shop_log.ask, NAMES)]


def statements(chunks: Sequence[SourceChunk]) -> list[Ddl]:
    return [one.ddl for chunk in chunks for one in chunk.transactions if one.ddl is not None]


ROW = "INSERT INTO t (id, v) VALUES (1, 'one')"
COMPUTED = "ALTER TABLE t ADD g int GENERATED ALWAYS AS (id + 1) STORED"
CHANGES: dict[str, tuple[list[str], bool, str]] = {
    "another type": (["ALTER TABLE t ALTER v TYPE int USING length(v)"], True, "column v was text, and is integer"),
    "a type's size": (["ALTER TABLE t ALTER v TYPE varchar(2) USING 'x'"], True, "is character varying(2)"),
    "made anew": (["ALTER TABLE t DROP v", "ALTER TABLE t ADD v text"], True, "v was dropped and made anew"),
    "made anew with a value": (["ALTER TABLE t DROP v, ADD v text DEFAULT 'x'"], True, "v was dropped and made anew"),
    "another table": (["DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v text)"], True, "is another table"),
    "a default of each row's own": (["ALTER TABLE t ADD c float DEFAULT random()"], True, "must be copied anew"),
    "two columns of each other's names": (
        ["ALTER TABLE t RENAME v TO x", "ALTER TABLE t RENAME id TO v", "ALTER TABLE t RENAME x TO id"],
        True,
        "column id was integer, and is text",
    ),
    "another key": (["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)"], False, "primary key was id"),
    "not computed any more": (
        ["ALTER TABLE t ALTER g DROP EXPRESSION"],
        True,
        "was computed, and is not any more",
    ),
    "computed otherwise": (["ALTER TABLE t DROP g", COMPUTED.replace("+ 1", "+ 2")], True, "was computed by (id + 1)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_while_nobody_read_is_told(shop_log: Log, name: str) -> None:
    """The first row tells, and where none comes the catalogue: the same statement, which an operator passes once."""
    changes, untold, words = CHANGES[name]
    shop_log.run([COMPUTED] if "computed" in name else [])
    forms = begun(shop_log)
    shop_log.run([ROW, *changes])
    reader = Reader(shop_log, shop_log.start, forms)
    end = reader.look()
    silent = reader.read(shop_log.messages(keep=True), end)
    (told,) = statements(silent)
    assert (told.kind, told.untold) == (DdlKind.OTHER, untold) and words in told.statement, told
    assert silent[-1].last.offset >= end
    shop_log.run(["INSERT INTO t (id) VALUES (2)" if name == "another table" else "DELETE FROM t"])
    by_row = statements(Reader(shop_log, shop_log.start, forms).read(shop_log.messages(keep=True)))
    same = [] if name == "computed otherwise" else [(told.source, told.number)]  # a row says nothing of such a column
    assert [(ddl.source, ddl.number) for ddl in by_row] == same
    later = Reader(shop_log, silent[-1].last, [*forms, *reader.learned])
    assert statements(later.read(shop_log.messages(), later.look() + (1 << 20))) == [], "told once"


def test_a_column_with_a_constant_is_added_without_a_row(shop_log: Log) -> None:
    forms = begun(shop_log)
    shop_log.run([ROW, "ALTER TABLE t ADD c int DEFAULT 7"])
    reader = Reader(shop_log, shop_log.start, forms)
    chunks = reader.read(shop_log.messages(), reader.look())
    (told,) = statements(chunks)
    assert told.kind is DdlKind.ADD_COLUMN and told.added[0].fill == 7
    shop_log.run(["INSERT INTO t VALUES (2, 'two', 8)"])
    assert statements(reader.read(shop_log.messages())) == [], "its row says nothing new"


def test_a_look_is_compared_where_the_log_is_read_up_to_it(shop_log: Log) -> None:
    """A reader that is far behind knows by it what was changed since, and reads rows of the former form first."""
    forms = begun(shop_log)
    shop_log.run([ROW, "ALTER TABLE t DROP v", "UPDATE u SET v = 1", "INSERT INTO u VALUES (1, 'u')"])
    reader = Reader(shop_log, shop_log.start, forms)
    chunks = reader.read(shop_log.messages(), reader.look())
    (told,) = statements(chunks)
    order = [one.ddl is not None for chunk in chunks for one in chunk.transactions]
    assert told.tables == (T,) and order == [False, False, True], "behind both rows"


UNSURE = [("DROP v, ADD w int", True), ("DROP v", False), ("ADD w int", False), ("RENAME v TO w", False)]


@pytest.mark.parametrize(("change", "is_unsure"), UNSURE)
def test_columns_whose_numbers_are_not_certain_are_looked_at_at_once(
    shop_log: Log, change: str, is_unsure: bool
) -> None:
    """Until then nothing that follows is certain either, and a rename would halt."""
    forms = begun(shop_log)
    shop_log.run([ROW, f"ALTER TABLE t {change}", "DELETE FROM t"])
    reader = Reader(shop_log, shop_log.start, forms)
    assert len(statements(reader.read(shop_log.messages(keep=True)))) == 1
    assert reader.assembly.notices.outrun is is_unsure
    end = reader.look()
    reader.assembly.notices.outrun = False
    reader.read([], end)
    assert all(column.number for form in reader.relations.forms.values() for column in form.columns)
    assert all(form.ever for form in reader.relations.forms.values())


def test_a_look_that_a_row_has_outrun_says_nothing_of_its_table(shop_log: Log) -> None:
    forms = begun(shop_log)
    reader = Reader(shop_log, shop_log.start, forms)
    reader.look()
    shop_log.run(["ALTER TABLE t DROP v", "INSERT INTO t VALUES (1)"])
    assert len(statements(reader.read(shop_log.messages()))) == 1
    assert reader.assembly.notices.outrun and reader.assembly.notices.looked is None, "another one is needed"


def test_tables_that_are_gone_are_told(shop_log: Log) -> None:
    forms = begun(shop_log)
    shop_log.run([ROW, "DROP TABLE t", "ALTER TABLE u RENAME TO other"])
    reader = Reader(shop_log, shop_log.start, forms)
    chunks = reader.read(shop_log.messages(), reader.look())
    assert sorted(ddl.statement for ddl in statements(chunks)) == [
        'DROP TABLE "public"."t"',
        "public.other: it was public.u",
    ]
    later = Reader(shop_log, chunks[-1].last, [*forms, *reader.learned])
    assert statements(later.read([], later.look() + (1 << 20))) == []


FOLLOWED: dict[str, tuple[list[str], list[str], ToldChange]] = {
    "a column less": (["ALTER TABLE t DROP v"], [], ToldChange(dropped=("v",))),
    "another name": (["ALTER TABLE t RENAME v TO w"], [], ToldChange(renamed=(("v", "w"),))),
    "other names again": (
        ["ALTER TABLE t RENAME v TO x", "INSERT INTO t VALUES (3, 'x')", "ALTER TABLE t RENAME x TO w"],
        [],
        ToldChange(renamed=(("v", "x"),)),
    ),
    "another name, and one more": (
        ["ALTER TABLE t RENAME v TO w", "ALTER TABLE t ADD v int DEFAULT 5"],
        ["v"],
        ToldChange(renamed=(("v", "w"),)),
    ),
    "another name of the key": (["ALTER TABLE t RENAME id TO number"], [], ToldChange(renamed=(("id", "number"),))),
    "another name of the table": (["ALTER TABLE t RENAME TO u2"], [], ToldChange(name=TableName("public", "u2"))),
}


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("name", FOLLOWED)
def test_columns_are_followed_by_their_numbers(shop_log: Log, name: str, by_row: bool) -> None:
    """Changes are told by rows, and by the catalogue where none comes; the rows before come in the former form."""
    changes, added, wanted = FOLLOWED[name]
    shop_log.run(["CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v text)"])
    forms = begun(shop_log)
    key = "number" if "of the key" in name else "id"
    table = "u2" if "of the table" in name else "t"
    shop_log.run([ROW, *changes, *([f"INSERT INTO {table} ({key}) VALUES (9)"] if by_row else [])])
    reader = Reader(shop_log, shop_log.start, forms)
    chunks = reader.read(shop_log.messages(), 0 if by_row else reader.look())
    first, *_ = statements(chunks)
    assert (first.kind, [one.column.name for one in first.added]) == (DdlKind.ALTERED, added), first
    assert first.told == wanted and not first.untold
    rows = [row for chunk in chunks for one in chunk.transactions for row in one.rows]
    assert rows[0].after == (1, "one"), "before the change"


def test_a_column_that_may_be_another_one_by_now_is_not_followed(shop_log: Log) -> None:
    """`w` was `v`, or `v` was dropped and `w` is new: the message of the row in between is the same."""
    forms = begun(shop_log)
    shop_log.run(["ALTER TABLE t RENAME v TO w", ROW.replace("v)", "w)")])
    shop_log.run(["ALTER TABLE t DROP w", "ALTER TABLE t ADD w text"])
    (told,) = statements(Reader(shop_log, shop_log.start, forms).read(shop_log.messages()))
    assert (told.kind, told.told) == (DdlKind.OTHER, None) and "column v is gone" in told.statement


def test_a_column_that_was_made_anew_since_is_not_added_as_it_is_now(shop_log: Log) -> None:
    """Its rows in between have values that the table has not any more."""
    forms = begun(shop_log)
    shop_log.run(["ALTER TABLE t ADD c int", "INSERT INTO t VALUES (2, 'b', 5)"])
    shop_log.run(["ALTER TABLE t DROP c", "ALTER TABLE t ADD c int DEFAULT 7"])
    (told,) = statements(Reader(shop_log, shop_log.start, forms).read(shop_log.messages()))
    assert told.kind is DdlKind.OTHER and "was changed again since" in told.statement and told.untold


def test_what_leaves_the_form_as_it_is_is_not_told(shop_log: Log) -> None:
    forms = begun(shop_log)
    shop_log.run(
        [ROW, "VACUUM FULL t", "CLUSTER t USING t_pkey", "TRUNCATE t",
         "CREATE INDEX ON t (v)", "ALTER TABLE t REPLICA IDENTITY FULL", "ALTER TABLE t ALTER v SET DEFAULT 'x'",
         "ALTER TABLE t ALTER v SET NOT NULL", "ALTER TABLE t ADD CHECK (id > 0)"]
    )  # fmt: skip
    reader = Reader(shop_log, shop_log.start, forms)
    told = statements(reader.read(shop_log.messages(), reader.look()))
    assert [ddl.kind for ddl in told] == [DdlKind.TRUNCATE]
    known = {oid: form.parts for oid, form in former(reader.learned).items()}
    assert known.items() <= {oid: form.parts for oid, form in former(forms).items()}.items(), "but for its file"


HISTORY = [
    "INSERT INTO t VALUES (1, 'a')",
    "BEGIN; INSERT INTO u VALUES (1, 'u'); INSERT INTO t VALUES (2, 'b'); COMMIT",
    "ALTER TABLE t ADD c int DEFAULT 7",
    "ALTER TABLE u ALTER v TYPE varchar(9)",
    "BEGIN; INSERT INTO t VALUES (3, 'c', 8); INSERT INTO u VALUES (2, 'v'); UPDATE t SET v = 'd'; COMMIT",
    (
        "BEGIN; INSERT INTO t VALUES (4, 'd', 8); ALTER TABLE t ADD d int; "
        "INSERT INTO t SELECT n, 'many', 1, 1 FROM generate_series(10, 30) n; COMMIT"
    ),
    "ALTER TABLE t DROP d",
    "INSERT INTO t VALUES (6, 'f', 8)",
]


@pytest.mark.parametrize("compiled", [True, False])
def test_wherever_a_reader_begins_anew_it_is_told_what_is_behind_and_no_more(shop_log: Log, compiled: bool) -> None:
    """A kill between any two places that a checkpoint may have; what is kept may be ahead of it by any number."""
    forms = begun(shop_log)
    first = Reader(shop_log, shop_log.start, forms, rows=5, compiled=compiled)
    shop_log.run(HISTORY)
    messages = shop_log.messages()
    chunks = first.read(messages)
    told = [(ddl.source, ddl.number) for ddl in statements(chunks)]
    assert len(told) == 4 and len(chunks) > 8
    everything = [*forms, *first.learned]
    for start in {chunk.last for chunk in chunks}:
        again = Reader(shop_log, start, everything, compiled=compiled)
        found = [(ddl.source, ddl.number) for ddl in statements(again.read(messages))]
        # One inside a transaction takes no ordinal: whoever begins there meets it again, and passes it by its number.
        least = start.order if start.rows >= NOTICES else (*start.order[:2], start.rows + 1)
        behind_it = [chunk for chunk in chunks if chunk.last.order >= least]
        assert found == [(ddl.source, ddl.number) for ddl in statements(behind_it)], start
        assert set(again.learned) <= set(everything)


def by_feed(statement: str, path: tuple[str, ...] = ("eu",)) -> str:
    """A transaction in which a feed runs a statement."""
    before, behind = (tell(T, told, lambda text: f"$told${text}$told$") for told in ((), path))
    return f"BEGIN; {before}; {statement}; {behind}; COMMIT"


@pytest.mark.parametrize("compiled", [True, False])
def test_a_change_that_a_feed_made_is_told_at_its_place_with_its_path(shop_log: Log, compiled: bool) -> None:
    """And not again: by the row that follows, by the catalogue, or to a reader that begins in the middle."""
    forms = begun(shop_log)
    shop_log.run([ROW, by_feed("ALTER TABLE t ADD c int"), ROW.replace("(1", "(2")])
    messages = shop_log.messages()
    reader = Reader(shop_log, shop_log.start, forms, compiled=compiled)
    chunks = reader.read(messages, reader.look())
    (told,) = statements(chunks)
    assert (told.kind, told.path, told.tables) == (DdlKind.ADD_COLUMN, ("eu",), (T,))
    (place,) = [chunk.last for chunk in chunks if any(one.ddl is not None for one in chunk.transactions)]
    later = Reader(shop_log, place, [*forms, *reader.learned], compiled=compiled)
    rows = [row for chunk in later.read(messages, later.look()) for one in chunk.transactions for row in one.rows]
    assert [row.after for row in rows] == [(2, "one", None)], "what is behind it, in the new form"
    assert later.learned == []


def test_somebody_else_s_change_is_told_apart_from_a_feed_s(shop_log: Log) -> None:
    forms = begun(shop_log)
    shop_log.run(["ALTER TABLE t ADD own int", by_feed("ALTER TABLE t ADD c int")])
    own, fed = statements(Reader(shop_log, shop_log.start, forms).read(shop_log.messages()))
    assert (own.path, [one.column.name for one in own.added]) == ((), ["own"])
    assert (fed.path, [one.column.name for one in fed.added]) == (("eu",), ["c"])


def test_a_feed_s_statement_is_told_where_it_changed_nothing(shop_log: Log) -> None:
    forms = begun(shop_log)
    shop_log.run([by_feed("ALTER TABLE t ADD IF NOT EXISTS v text")])
    (told,) = statements(Reader(shop_log, shop_log.start, forms).read(shop_log.messages()))
    assert (told.kind, told.path, told.tables) == (DdlKind.UNRELATED, ("eu",), (T,))
