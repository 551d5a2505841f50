"""The copies of tables that a statement renames or drops: which they are, and what the bookkeeping says of them."""

from __future__ import annotations

import msgspec
import pytest

from tidelock.adapters.bookkeeping.moved_copies import MovedCopiesSql
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.moved import moved
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl


def at_target(name: TableName) -> TableName:
    return TableName("pool", name.table)


def named(statement: str, **ddl: str) -> dict[str, str]:
    """The feed takes tables whose names do not begin with `_`."""
    rules = DdlRules(FeedDdl(**ddl), lambda name: None)  # type: ignore[arg-type]
    read = classify(Ddl("shop", statement, "0-1", 7), "mysql")
    tables = tuple(table for table in read.tables if not table.table.startswith("_"))
    found = moved(msgspec.structs.replace(read, tables=tables), at_target, rules)
    return {name.table: to.table if to is not None else "" for name, to in found.items()}


@pytest.mark.parametrize(
    ("statement", "moves"),
    [
        ("RENAME TABLE t TO n", {"t": "n"}),
        ("ALTER TABLE t RENAME TO n", {"t": "n"}),
        ("RENAME TABLE t TO old, n TO t", {"t": "old", "n": "t"}),
        ("RENAME TABLE t TO x, u TO t, x TO u", {"t": "u", "u": "t"}),
        ("RENAME TABLE t TO _t_del, _t_gho TO t", {}),
        ("RENAME TABLE t TO _away", {"t": ""}),
        ("RENAME TABLE _new TO t", {}),
        ("DROP TABLE t, u", {"t": "", "u": ""}),
        ("CREATE OR REPLACE TABLE t (id int PRIMARY KEY)", {"t": ""}),
        ("ALTER TABLE t DROP COLUMN a", {}),
        ("TRUNCATE TABLE t", {}),
        ("DROP DATABASE shop", {}),
    ],
)
def test_what_becomes_of_a_table_s_name(statement: str, moves: dict[str, str]) -> None:
    assert named(statement) == moves


def test_a_name_that_the_target_keeps_is_not_the_source_s_any_more() -> None:
    assert named("RENAME TABLE t TO n", rename_table="skip") == {"t": ""}
    assert named("DROP TABLE t", drop_table="lenient") == {"t": ""}


def test_chunks_and_requests_get_the_names_and_others_stay() -> None:
    t, old, new = (TableName("pool", name) for name in ("t", "old", "new"))
    split = ChunkSplit(t, By.NUMBERS, ("id",), ((5,),))
    packed = msgspec.msgpack.encode(split)
    chunks = [
        (0, "pool", "t", 0, packed, 7), (0, "pool", "t", 1, None, None),
        (0, "pool", "gone", 0, packed, 7), (0, "pool", "stays", 0, packed, 7),
    ]  # fmt: skip
    queued = [(0, 11, "pool", "t"), (0, 12, "pool", "gone"), (0, 13, "pool", "stays")]
    sql = MovedCopiesSql("mysql", lambda name: name, "feed")
    made = sql.moved({t: old, new: t, TableName("pool", "gone"): None}, chunks, queued)
    spelled = made
    for name in ("pool", "old", "gone", "feed", "t"):
        spelled = [words.replace(f"_utf8mb4 x'{name.encode().hex()}'", name) for words in spelled]
    renamed = msgspec.msgpack.encode(msgspec.structs.replace(split, table=old)).hex()
    insert = "INSERT INTO tidelock_chunks (feed, grp, table_schema, table_name, chunk, split, rows_merged) VALUES"
    this = "WHERE feed = feed AND grp = 0 AND ordinal = "
    chunk = "feed = feed AND table_schema = pool AND table_name"
    assert sorted(spelled[:2]) == [f"DELETE FROM tidelock_chunks WHERE {chunk} = {name}" for name in ("gone", "t")]
    assert spelled[2:] == [
        f"{insert} (feed, 0, pool, old, 0, x'{renamed}', 7), (feed, 0, pool, old, 1, NULL, NULL)",
        f"UPDATE tidelock_wanted SET table_schema = pool, table_name = old {this}11",
        f"DELETE FROM tidelock_wanted {this}12",
    ]
