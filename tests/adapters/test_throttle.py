"""`throttle`: a bound on rows a second, and a figure of the target's above which nothing is applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import sample
from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.loader import read
from tidelock.adapters.runtime.throttle import Pace


def test_a_pace_rests_until_what_was_too_much_is_made_up_for() -> None:
    pace = Pace(100)
    assert not pace.rests(0, 1.0)
    assert not pace.rests(100, 1.0), "a second's rows may come at once"
    assert pace.rests(350, 1.0)
    assert pace.rests(350, 3.4)
    assert not pace.rests(350, 3.6)


def test_what_is_not_used_is_not_saved_up() -> None:
    pace = Pace(100)
    pace.rests(0, 1.0)
    assert not pace.rests(0, 1000.0)
    assert pace.rests(101, 1000.0)


def test_hive_has_its_own_pace() -> None:
    text = "feed: shop\nsource: mysql://a:b@h:1\ntarget: hive:///x\ntables: [{source: crm.*}]\n"
    with pytest.raises(ConfigError, match="merge_seconds"):
        read(text + "throttle: {max_rate: 5}\n", Path("shop.yaml"))


def test_nothing_is_applied_while_the_targets_figure_is_too_great(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    page = f"127.0.0.1:{free_port()}"
    rig = make_rig(mariadb, postgres, "throttled", lanes=2, http=page)
    rig.options["throttle"] = {"query": f"SELECT busy FROM {rig.schema}.load", "above": 5, "max_rate": 100_000}
    rig.table("t", "id int PRIMARY KEY")
    rig.at_target("CREATE TABLE load (busy int)")

    def told(words: str) -> bool:
        seen = sample(page)
        return seen is not None and seen.state == "held" and words in seen.held

    process = rig.run()
    until(lambda: told("gives no number, but no row"), "no figure")
    rig.at_target("INSERT INTO load VALUES (9)")
    until(lambda: told("gives 9, above 5"), "a figure that is too great")
    rig.at_source("INSERT INTO t VALUES (1)")
    until(lambda: told("gives 9, above 5"), "it holds")
    assert rig.rows("SELECT count(*)::text FROM t") == [("0",)]
    rig.at_target("UPDATE load SET busy = 5")
    until(rig.equal, "equal ends")
    until(lambda: (seen := sample(page)) is not None and seen.state == "running", "it runs")
    process.stop()
