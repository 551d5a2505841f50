"""What a feed with a Hive target may say, and which commands know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.config import ConfigError, load
from adapters.endpoint import UrlError, parse
from bench.rig import tidelock

FEED = """
feed: lake
source: mariadb://u:p@127.0.0.1:1
target: hive:///srv/ware%20house/
tables: [{source: shop.*}]
"""


@pytest.mark.parametrize(
    ("url", "told", "host", "database"),
    [
        ("hive:///srv/ware%20house/", "hive:///srv/ware%20house", "", "/srv/ware house"),
        ("hive://meta/lake", "hive://meta:9083/lake", "meta", "lake"),
    ],
)
def test_urls(url: str, told: str, host: str, database: str) -> None:
    endpoint = parse(url, Path())
    assert (str(endpoint), endpoint.host, endpoint.database) == (told, host, database)


@pytest.mark.parametrize("url", ["hive://", "hive:///", "hive://meta", "hive://u:p@meta/lake", "hive:///a;create=true"])
def test_no_urls(url: str) -> None:
    with pytest.raises(UrlError):
        parse(url, Path())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("feed: lake", "feed: lake\nlog: kafka://k:1", "a Hive target is filled by one process"),
        ("feed: lake", "feed: lake\nhive: {merge_second: 5}", "unknown key; did you mean 'merge_seconds'"),
        ("hive:///srv/ware%20house/", "mysql://u:p@h\nhive: {history: true}", "these keys are for a target hive://"),
        ("mariadb://u:p@127.0.0.1:1", "hive:///a", "can only be a target"),
    ],
)
def test_feeds_that_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(FEED.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load(path)


@pytest.mark.parametrize("command", ["check", "init", "status", "pause"])
def test_other_commands_say_that_they_do_not_know_it(command: str, tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(FEED)
    said = tidelock(command, str(path))
    assert said.code in (1, 2)
    assert "Hive" in said.out + said.err
    assert "Traceback" not in said.err
