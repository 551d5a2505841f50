"""Places of PostgreSQL's log over a promotion, which begins a timeline at the fork.  Without a server."""

from tidelock.adapters.postgres.logical.history import difference
from tidelock.adapters.postgres.logical.positions import Identity
from tidelock.engine.model.records import Position

BEFORE, AFTER = (Identity("7001", timeline, "shop", 900) for timeline in (1, 2))
FORKS = {1: 500}


def test_a_place_behind_the_fork_is_one_of_another_log() -> None:
    assert difference(AFTER, FORKS, Position("7001/1", 500)) == ""
    assert "which left timeline 1 at 0/1F4, before that place" in difference(AFTER, FORKS, Position("7001/1", 501))
    assert "which does not come from timeline 1" in difference(AFTER, {}, Position("7001/1", 400))
    assert difference(AFTER, FORKS, Position("7001/2", 900)) == ""
    assert "a log that ends at 0/384" in difference(AFTER, FORKS, Position("7001/2", 901))


def test_a_failover_leaves_the_source_of_transactions_as_it_is() -> None:
    assert BEFORE.source == AFTER.source
