"""A table that is altered, renamed or dropped while its rows are being copied: the copy goes on, and is exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.tidelock import Process

PROOF = pytest.mark.proof
ROWS, CHUNK_ROWS, MERGED = 30_000, 1000, 2
SMALL_ROWS = 900
TABLES = ("t", "u", "v")
COLUMNS = "id int PRIMARY KEY, v int NOT NULL, d int NOT NULL DEFAULT 3, w varchar(9)"


def begin(rig: Rig) -> Process:
    """A copy of three tables, of which the first has some chunks merged, and not all."""
    for name in TABLES:
        rig.table(name, COLUMNS)
        rows = ROWS if name == "t" else SMALL_ROWS
        for first in range(1, rows, ROWS // 3):
            values = ",".join(f"({n},{n})" for n in range(first, min(first + ROWS // 3, rows)))
            rig.at_source(f"INSERT INTO {name} (id, v) VALUES {values}")
    rig.start_at = "copy"
    process = rig.run()

    def is_amid() -> bool:
        process.check()
        return merged(rig) >= MERGED

    until(is_amid, "chunks that are merged", 90)
    return process


def killed_amid(rig: Rig) -> None:
    begin(rig).kill()
    assert merged(rig) < ROWS // CHUNK_ROWS, "the copy is over"


def merged(rig: Rig) -> int:
    place = "information_schema.tables WHERE table_schema = 'tidelock' AND table_name = 'tidelock_chunks'"
    if not rig.rows(f"SELECT 1 FROM {place}"):
        return 0
    mine = f"feed = '{rig.name}' AND table_name = 't' AND rows_merged IS NOT NULL"
    return int(rig.rows(f"SELECT CONCAT(count(*), '') FROM tidelock.tidelock_chunks WHERE {mine}")[0][0])


def copied(rig: Rig) -> set[str]:
    """Names of the tables of which the feed has chunks."""
    mine = f"feed = '{rig.name}'"
    return {str(row[0]) for row in rig.rows(f"SELECT DISTINCT table_name FROM tidelock.tidelock_chunks WHERE {mine}")}


def change_rows(rig: Rig, table: str, new: int = -5) -> None:
    """Changes of rows in chunks that are merged, and in others; of what is there, and of what is not."""
    rig.at_source(
        f"UPDATE {table} SET v = -v WHERE id % 97 = 1",
        f"DELETE FROM {table} WHERE id % 101 = 2",
        f"INSERT INTO {table} (id, v) VALUES ({new}, {200_000 + new}), ({90_000 + new}, {100_000 + new})",
    )


@pytest.fixture
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param.split("-"))
    return make_rig(source, target, "altered", lanes=2, copy={"chunk_rows": CHUNK_ROWS}, spark={"small_rows": 10**6})


def at(*pairs: str, proof: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    given = [*pairs, *(pytest.param(pair, marks=PROOF) for pair in proof)]
    return pytest.mark.parametrize("rig", given, indirect=True)


RENAME = "ALTER TABLE {} RENAME TO {}"  # in words of all three
FROM_POSTGRES = ("postgres_source-postgres", "postgres_source-mysql")


@pytest.mark.proof
@at("mysql-postgres", proof=("mysql-mariadb", "mariadb-mysql", *FROM_POSTGRES))
def test_tables_have_other_names_or_none(rig: Rig) -> None:
    killed_amid(rig)
    change_rows(rig, "t")
    rig.at_source(RENAME.format("t", "n"), RENAME.format("u", "t"))
    change_rows(rig, "n", -6)
    rig.at_source("UPDATE t SET v = 1 WHERE id < 9", "DROP TABLE v")
    rig.catch_up()
    rig.tables = ["n", "t"]
    rig.assert_exact()
    assert copied(rig) == {"n", "t"}


ALTERS = {
    "add": "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 7",
    "drop": "ALTER TABLE t DROP COLUMN d",
    "rename column": "ALTER TABLE t RENAME COLUMN w TO x",
    "truncate": "TRUNCATE TABLE t",
    "modify": "ALTER TABLE t MODIFY d bigint NOT NULL DEFAULT 3",
    "key": "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
    "unique": "ALTER TABLE t ADD UNIQUE KEY by_v (v)",
    "exchange": "RENAME TABLE t TO old, u TO t",
}
TOLD = ("add", "drop", "rename column", "truncate")


@PROOF
@pytest.mark.parametrize("going_on", [False, True], ids=["killed", "going on"])
@pytest.mark.parametrize(
    ("rig", "alter"),
    [
        *((pair, alter) for alter in ALTERS for pair in ("mysql-postgres", "mysql-mariadb")),
        *((pair, alter) for alter in TOLD for pair in FROM_POSTGRES),
    ],
    indirect=["rig"],
)
def test_a_table_is_altered_amid_its_copy(rig: Rig, alter: str, going_on: bool) -> None:
    process = begin(rig)
    if not going_on:
        process.kill()
    change_rows(rig, "t")
    rig.at_source(ALTERS[alter])
    change_rows(rig, "t", -6)
    if going_on:
        until(rig.equal, "equal tables", 120)
        process.stop()
    rig.catch_up()
    rig.tables += ["old"] if alter == "exchange" else []
    if alter == "exchange":
        rig.tables.remove("u")
    rig.assert_exact()


@at(proof=("mysql-postgres", "mysql-mariadb"))
def test_a_column_that_tells_chunks_apart_gets_another_name(rig: Rig) -> None:
    halts_amid(rig, "ALTER TABLE t RENAME COLUMN id TO ident", "UPDATE t SET v = -v WHERE ident % 97 = 1")


@at(proof=("mysql-postgres", "mysql-mariadb"))
def test_a_table_loses_its_key(rig: Rig) -> None:
    """Without one it is read in one view, which is one chunk."""
    halts_amid(rig, "ALTER TABLE t DROP PRIMARY KEY", "UPDATE t SET v = -v WHERE id % 97 = 1")


def halts_amid(rig: Rig, *statements: str) -> None:
    """The feed halts, and what it says to do helps."""
    killed_amid(rig)
    rig.at_source(*statements)
    assert rig.catch_up_code() == 4
    assert "in chunks of id" in rig.said() and "`tidelock copy FEED --table" in rig.said()
    done = rig.command("copy", "@", "--table", f"{rig.schema}.t", "--yes")
    assert "is halted" not in done.err
    rig.catch_up()
    rig.assert_exact()


@at(proof=("mysql-postgres", "mysql-mariadb"))
def test_a_table_that_the_operator_drops_is_copied_no_more(rig: Rig) -> None:
    rig.options["ddl"] = {"drop_table": "halt"}
    killed_amid(rig)
    rig.at_source("DROP TABLE t", "UPDATE u SET v = -v WHERE id < 9")
    assert rig.catch_up_code() == 4
    rig.at_target(f"DROP TABLE {rig.schema}.t")
    assert rig.command("ddl", "done").code == 0
    rig.catch_up()
    rig.tables.remove("t")
    rig.assert_exact()
    assert copied(rig) == {"u", "v"}
