"""Settings that a feed with a Hive target may have, and which commands know it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench.harness.rig import Rig, tidelock
from bench.harness.servers import Server
from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.url import UrlError, parse
from tidelock.adapters.hive.manifest import CopyState, Manifest, Pending, Stored, TableState
from tidelock.engine.model.records import Position

FEED = """
feed: lake
source: mariadb://u:p@127.0.0.1:1
target: hive:///srv/ware-house/
tables: [{source: shop.*}]
"""


@pytest.mark.parametrize(
    ("url", "told", "host", "database"),
    [
        ("hive:///srv/ware-house/", "hive:///srv/ware-house", "", "/srv/ware-house"),
        ("hive://meta/lake", "hive://meta:9083/lake", "meta", "lake"),
    ],
)
def test_urls(url: str, told: str, host: str, database: str) -> None:
    endpoint = parse(url, Path())
    assert (str(endpoint), endpoint.host, endpoint.database) == (told, host, database)


@pytest.mark.parametrize(
    "url",
    [
        "hive://",
        "hive:///",
        "hive://meta",
        "hive://u:p@meta/lake",
        "hive:///a;create=true",
        "hive:///srv/ware%20house",
        "hive:///srv/haus-für-alles",
    ],
)
def test_no_urls(url: str) -> None:
    with pytest.raises(UrlError):
        parse(url, Path())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("feed: lake", "feed: lake\nlog: kafka://k:1", "a Hive target is filled by one process"),
        ("feed: lake", "feed: lake\nhive: {merge_second: 5}", "unknown key; did you mean 'merge_seconds'"),
        ("hive:///srv/ware-house/", "mysql://u:p@h\nhive: {history: true}", "these keys are for a target hive://"),
        ("mariadb://u:p@127.0.0.1:1", "hive:///a", "can only be a target"),
    ],
)
def test_feeds_that_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(FEED.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load(path)


@pytest.mark.parametrize("command", ["init", "pause", "copy"])
def test_other_commands_say_that_they_do_not_know_it(command: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(FEED)
    said = tidelock(command, str(path))
    assert said.code in (1, 2)
    assert "Hive" in said.out + said.err
    assert "Traceback" not in said.err


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path) -> Rig:
    """Its PostgreSQL end is not used."""
    made = make_rig(mariadb, postgres, "lake")
    made.target_url = f"hive://{tmp_path}/warehouse"
    return made


def test_status_of_a_feed(rig: Rig, tmp_path: Path) -> None:
    """As its manifest says; nothing runs, neither the feed nor Spark."""
    said = rig.command("status")
    assert said.code == 0
    assert "has never run" in said.out
    place = position(rig)
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY)")
    folder = tmp_path / "warehouse" / "_tidelock" / rig.name / "manifests"
    folder.mkdir(parents=True)
    now = time.time_ns() // 1000
    told = {"changes": 5000, "last": 700, "made_us": now - 300_000_000, "end_us": now - 4 * 3_600_000_000}
    stored = Stored((("id", "int"),), "tidelock_bucket", "orc")
    tables = {f"{rig.schema}.item": TableState(("id",), 4, stored)}
    copy = CopyState("copy", {f"{rig.schema}.other": Pending((), (), (), 0)}, (f"{rig.schema}.item",))
    for manifest in (Manifest(0, place), Manifest(12, place, tables, copy, **told)):
        (folder / f"{manifest.number:09}.json").write_bytes(msgspec.json.encode(manifest))
    said = rig.command("status")
    assert said.code == 0, said.err
    for words in (
        "1 tables loaded, 1 to be read",
        "number 12, 5 min ago, 700 changes",
        "5,000 merged in all",
        str(place),
        "is 4 h old",
        f"its log ends at {rig.here()}",
        f"{rig.schema}.item",
    ):
        assert words in said.out
    caught_up = msgspec.structs.replace(manifest, number=13, position=position(rig), copy=None)
    (folder / f"{13:09}.json").write_bytes(msgspec.json.encode(caught_up))
    seen = rig.command("status", "@", "--json").json
    assert (seen["merge"], seen["lag_seconds"], seen["copy"]) == (13, 0.0, None)


def position(rig: Rig) -> Position:
    file, _, offset = rig.here().partition(":")
    return Position(file, int(offset))


def test_a_feed_that_can_run(rig: Rig) -> None:
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY, day DATE)")
    said = rig.command("check", "@", "--json")
    assert said.code == 0, said.out
    assert [finding["kind"] for finding in said.json["findings"]] == ["zero-dates"]


def test_what_check_finds(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.options["hive"] = {"history": True, "format": "orc"}
    rig.at_source(
        "CREATE TABLE loose (a INT)",
        "CREATE TABLE taken (id INT PRIMARY KEY, Valid_To INT, tidelock_part INT, `a``b` INT)",
        "CREATE TABLE `odd name` (id INT PRIMARY KEY)",
        "CREATE TABLE item (id INT PRIMARY KEY)",
        "CREATE TABLE ITEM (id INT PRIMARY KEY)",
    )
    (tmp_path / "warehouse").write_text("no folder")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("TIDELOCK_CACHE", str(tmp_path))
    said = rig.command("check", "@", "--json")
    assert said.code == 1
    kinds = sorted(finding["kind"] for finding in said.json["findings"])
    assert kinds == [
        "column-name", "column-name", "column-name", "drivers-missing", "java-missing", "name", "name-case", "no-key",
        "target-folder",
    ]  # fmt: skip
    rig.target_url = "hive://127.0.0.1:1/lake"
    assert "target-unreachable" in [f["kind"] for f in rig.command("check", "@", "--json").json["findings"]]


def test_a_folder_of_this_machine_is_no_warehouse_of_a_cluster(rig: Rig) -> None:
    """Each executor would write into a folder of its own machine; a first run does not begin either."""
    rig.at_source("CREATE TABLE item (id INT PRIMARY KEY)")
    rig.options["spark"] = {"master": "spark://127.0.0.1:1", "settings": {"spark.authenticate.secret": "s"}}
    said = rig.command("check", "@", "--json")
    assert (said.code, [f["kind"] for f in said.json["findings"]]) == (1, ["target-folder"])
    run = rig.command("run", "--until-caught-up", "@")
    assert run.code == 1
    assert "the executors of spark://127.0.0.1:1 would each write into one of their own" in run.err + run.out
    rig.options["spark"] = {"master": "local-cluster[2,1,1024]"}
    assert rig.command("check", "@").code == 0
