"""A warehouse whose files somebody else has touched: the feed halts, and what it says makes the tables whole again.

Until then nothing is merged: a part that is written anew from what is left would lack the rows that are gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.harness.lake import HIVE, Lake
from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.session import connect
from tidelock.adapters.hive.merger import Broken

Harm = Callable[[Path, Path], object]


def cut(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


HARMS: dict[str, Harm] = {
    "a file is deleted": lambda file, other: file.unlink(),
    "a file is cut short": cut,
    "a file is another one": lambda file, other: file.write_bytes(other.read_bytes()),
    "a foreign file": lambda file, other: shutil.copy(other, file.with_name("part-99999-foreign.parquet")),
    "a folder is deleted": lambda file, other: shutil.rmtree(file.parent),
}


def files(rig: Rig, folder: Path) -> list[Path]:
    return sorted((folder / "warehouse" / f"{rig.schema}.db" / "item").rglob("*.parquet"))


def is_equal(rig: Rig, lake: Lake) -> None:
    session = connect(rig.source.url())
    try:
        rows = session.rows(f"SELECT CONCAT(id, ''), v FROM {rig.schema}.item")
    finally:
        session.close()
    assert lake.sql(f"SELECT cast(id AS string), v FROM {rig.schema}.item") == sorted(rows)


@pytest.mark.parametrize("harm", [next(iter(HARMS)), *(pytest.param(h, marks=pytest.mark.proof) for h in [*HARMS][1:])])
def test_files_that_somebody_else_has_touched(
    harm: str, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, left: Rig, lake: Lake
) -> None:
    rig = make_rig(mariadb, postgres, "touched", hive=HIVE)
    rig.target_url = left.target_url
    rig.at_source(
        "CREATE TABLE item (id bigint PRIMARY KEY, v varchar(50))", "INSERT INTO item SELECT seq, seq FROM seq_1_to_50"
    )
    lake.follow(rig)
    first = files(rig, lake.folder)[0]
    older = shutil.copy(first, lake.folder / "older")
    rig.at_source("UPDATE item SET v = CONCAT(v, ' and more') WHERE id < 40")
    lake.follow(rig)
    file = files(rig, lake.folder)[-1]
    whole = file.read_bytes()
    HARMS[harm](file, older)
    rig.at_source("UPDATE item SET v = 'x' WHERE id = 7", "DELETE FROM item WHERE id = 8")
    with pytest.raises(Broken, match="are not as the feed has left them") as halted:
        lake.follow(rig)
    assert "Put them back" in halted.value.hint and "a feed of a new name with `start: copy`" in halted.value.hint
    if "foreign" in harm:
        file.with_name("part-99999-foreign.parquet").unlink()
    else:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(whole)
    lake.follow(rig)
    is_equal(rig, lake)


@pytest.mark.proof
def test_a_feed_of_a_new_name_fills_what_is_damaged(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, left: Rig, lake: Lake
) -> None:
    rig = make_rig(mariadb, postgres, "damaged", hive=HIVE)
    rig.target_url = left.target_url
    rig.at_source(
        "CREATE TABLE item (id bigint PRIMARY KEY, v varchar(50))", "INSERT INTO item SELECT seq, seq FROM seq_1_to_50"
    )
    lake.follow(rig)
    files(rig, lake.folder)[0].unlink()
    with pytest.raises(Broken, match=r"is gone|instead of"):
        lake.follow(rig)
    rig.name, rig.start_at = f"{rig.name}_new", "copy"
    kept: Any = {"source": f"{rig.schema}.*"}
    rig.rules = [kept]
    lake.follow(rig)
    is_equal(rig, lake)
