"""A table that is altered, renamed or dropped while its rows are being copied: the copy goes on, and is exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until

PROOF = pytest.mark.proof
ROWS, CHUNK_ROWS, MERGED = 30_000, 1000, 2
# Tables by their names behind the statement.
TABLES = {"t": "t", "u": "u", "v": "v"}
COLUMNS = "id int PRIMARY KEY, v int NOT NULL, d int NOT NULL DEFAULT 3, w varchar(9)"


def begin(rig: Rig) -> None:
    """A copy of three tables, killed when some chunks of the first are merged, but not all."""
    for name in TABLES:
        rig.table(name, COLUMNS)
        for first in range(1, ROWS if name == "t" else 900, 3000):
            values = ",".join(f"({n},{n})" for n in range(first, min(first + 3000, ROWS if name == "t" else 900)))
            rig.at_source(f"INSERT INTO {name} (id, v) VALUES {values}")
    rig.start_at = "copy"
    process = rig.run()

    def is_amid() -> bool:
        process.check()
        return merged(rig) >= MERGED

    until(is_amid, "chunks that are merged", 90)
    process.kill()
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


def rows_of(rig: Rig, table: str, new: int = -5) -> None:
    """Changes of rows in chunks that are merged, and in others; of what is there, and of what is not."""
    rig.at_source(
        f"UPDATE {table} SET v = -v WHERE id % 97 = 1",
        f"DELETE FROM {table} WHERE id % 101 = 2",
        f"INSERT INTO {table} (id, v) VALUES ({new}, 5), ({90_000 + new}, 1)",
    )


@pytest.fixture
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param.split("-"))
    return make_rig(source, target, "altered", lanes=2, copy={"chunk_rows": CHUNK_ROWS}, spark={"small_rows": 10**6})


def at(*pairs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rig", pairs, indirect=True)


@at("mysql-postgres", pytest.param("mysql-mariadb", marks=PROOF), pytest.param("mariadb-mysql", marks=PROOF))
def test_tables_have_other_names_or_none(rig: Rig) -> None:
    begin(rig)
    rows_of(rig, "t")
    rig.at_source("RENAME TABLE t TO n, u TO t")
    rows_of(rig, "n", -6)
    rig.at_source("UPDATE t SET v = 1 WHERE id < 9", "DROP TABLE v")
    rig.catch_up()
    rig.tables = ["n", "t"]
    rig.assert_exact()
    assert copied(rig) == {"n", "t"}
