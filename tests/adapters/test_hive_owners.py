"""A table of the metastore has one feed: others end before they alter it, and a feed sees to what somebody took away.

Without that a second feed would show its few rows in place of all, or the first one move the second's partitions back.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.lake import HIVE, Lake
from bench.harness.rig import Rig
from bench.harness.servers import Server
from tests.adapters.test_hive_altered import is_equal
from tidelock.adapters.hive import warehouse
from tidelock.adapters.hive.manifest import Unreadable
from tidelock.adapters.hive.opening import OpenedHive
from tidelock.adapters.hive.ownership import OfAnother

MOMENT = "2026-01-01 00:00:00"


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, left: Rig, lake: Lake) -> Rig:
    """Fifty rows, which the feed has in Hive."""
    made = make_rig(mariadb, postgres, "owned", hive=HIVE)
    made.target_url = left.target_url
    made.at_source(
        "CREATE TABLE item (id bigint PRIMARY KEY, v varchar(50))", "INSERT INTO item SELECT seq, seq FROM seq_1_to_50"
    )
    return made


def books(rig: Rig, lake: Lake) -> Path:
    return lake.folder / "warehouse" / "_tidelock" / rig.name


def successor(rig: Rig) -> Rig:
    """Another feed with a copy of the same tables."""
    made = copy.copy(rig)
    made.name, made.start_at, made.rules = f"{rig.name}_next", "copy", [{"source": f"{rig.schema}.*"}]
    return made


def truncated(hive: OpenedHive, rig: Rig) -> None:
    """Lets the feed, which has gone on so far, empty its table."""
    manifest = hive.manifests.latest()
    assert manifest is not None
    hive.merger.truncate(manifest, manifest.position, [f"{rig.schema}.item"], MOMENT)


def test_a_feed_whose_tables_another_has_taken_over_leaves_them(rig: Rig, lake: Lake) -> None:
    """Whether it ran meanwhile or begins again; the other one's rows and files stay."""
    running = lake.follow(rig)
    after = successor(rig)
    rig.at_source("UPDATE item SET v = 'later' WHERE id = 7")
    lake.follow(after)
    with pytest.raises(OfAnother, match=f"feed {after.name}: feed {rig.name} leaves it"):
        truncated(running, rig)
    is_equal(rig, lake)
    with pytest.raises(OfAnother, match="leaves it as it is"):
        lake.follow(rig)
    rig.at_source("DELETE FROM item WHERE id = 8", "UPDATE item SET v = 'last' WHERE id = 9")
    lake.follow(after)
    is_equal(rig, lake)


@pytest.mark.proof
def test_a_feed_whose_books_are_gone_leaves_its_tables(rig: Rig, lake: Lake) -> None:
    """It would begin anew from now on, and show what changes in place of all rows."""
    lake.follow(rig)
    kept = shutil.move(books(rig, lake), lake.folder / "kept")
    rig.start_at = "now"
    lake.follow(rig)
    rig.at_source("UPDATE item SET v = 'x' WHERE id = 3")
    with pytest.raises(OfAnother, match="keeps other books") as refused:
        lake.follow(rig)
    assert "put that back as it was" in refused.value.hint
    assert lake.sql(f"SELECT count(*) FROM {rig.schema}.item") == [(50,)]
    shutil.rmtree(books(rig, lake))
    shutil.move(kept, books(rig, lake))
    lake.follow(rig)
    is_equal(rig, lake)
    shutil.rmtree(books(rig, lake))
    lake.follow(successor(rig))
    is_equal(rig, lake)


@pytest.mark.proof
def test_names_that_are_not_the_feeds_and_a_manifest_that_is_damaged(rig: Rig, lake: Lake) -> None:
    lake.follow(rig)
    foreign = [lake.folder / "warehouse" / f"{rig.schema}.db" / "item" / name for name in ("metadata", "m1", "mine")]
    for folder in foreign:
        folder.mkdir()
    manifests = books(rig, lake) / "manifests"
    last = max(manifests.glob("*.json"))
    shutil.copy(last, manifests / f"{last.stem} (copy).json")
    rig.at_source("UPDATE item SET v = 'x' WHERE id = 3")
    lake.follow(rig)
    assert all(folder.exists() for folder in foreign)
    last = max(manifests.glob("0*[0-9].json"))
    last.write_bytes(last.read_bytes()[:100])
    with pytest.raises(Unreadable, match=last.name) as refused:
        lake.follow(rig)
    assert "take it away, with its `.crc`" in refused.value.hint
    for command in ("status", "check"):
        said = rig.command(command)
        assert said.code == Unreadable.exit_code and "cannot be read" in said.err and "Traceback" not in said.err, said
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    lake.follow(rig)
    is_equal(rig, lake)


@pytest.mark.proof
@pytest.mark.parametrize("harm", ["DROP TABLE {}", "ALTER TABLE {} DROP PARTITION (tidelock_bucket=0)"])
def test_what_somebody_takes_out_of_the_metastore_amid_a_run_comes_back(harm: str, rig: Rig, lake: Lake) -> None:
    running = lake.follow(rig)
    lake.spark.sql(harm.format(f"{rig.schema}.item"))
    truncated(running, rig)
    assert lake.sql(f"SELECT * FROM {rig.schema}.item") == []
    assert lake.sql(f"SELECT count(*) FROM {rig.schema}.item_history WHERE valid_to = '{MOMENT}'") == [(50,)]


@pytest.mark.proof
def test_partitions_that_somebody_adds_or_moves_amid_a_run_are_put_right(
    rig: Rig, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a metastore that was put back to an older state; the look at all of them comes every ten minutes."""
    lake.follow(rig)
    item = f"{rig.schema}.item"
    older = lake.folder / "older"
    shutil.copytree(next((lake.folder / "warehouse" / f"{rig.schema}.db" / "item").glob("m*/tidelock_bucket=0")), older)
    lake.spark.sql(f"ALTER TABLE {item} ADD PARTITION (tidelock_bucket=77) LOCATION '{older}'")
    rig.at_source("UPDATE item SET v = 'x' WHERE id < 40")
    running = lake.follow(rig)
    is_equal(rig, lake)
    lake.spark.sql(f"ALTER TABLE {item} PARTITION (tidelock_bucket=0) SET LOCATION '{older}'")
    lake.spark.sql(f"ALTER TABLE {item} ADD PARTITION (tidelock_bucket=77) LOCATION '{older}'")
    manifest = running.manifests.latest()
    assert manifest is not None
    manifest = running.merger.widen(manifest, manifest.position, "nothing", ())
    added = lake.sql(f"SELECT * FROM {item} WHERE tidelock_bucket = 77")
    assert added, "there is no look before its time"
    monkeypatch.setattr(warehouse, "LOOK_SECONDS", -1.0)
    running.merger.widen(manifest, manifest.position, "nothing", ())
    is_equal(rig, lake)
