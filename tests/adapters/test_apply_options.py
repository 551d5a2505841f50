"""From a feed's YAML to the engine's options."""

from pathlib import Path

import pytest

from tidelock.adapters.config.apply_options import options_of
from tidelock.adapters.config.loader import read

FEED = """\
feed: shop
source: mysql://repl:secret@db1/
target: postgresql://tide:secret@db2/shop
tables: [{source: shop.*}]
"""


@pytest.mark.parametrize(
    ("said", "rows", "filled"),
    [
        ("", 4000, 3600),
        ("consistency: transaction\n", 1000, 900),
        ("batch_rows: 50\n", 50, 45),
        ("batch_rows: 1\nconsistency: transaction\n", 1, 1),
    ],
)
def test_a_batch_has_as_many_rows_as_said_or_as_the_consistency_allows(said: str, rows: int, filled: int) -> None:
    options = options_of(read(FEED + said, Path("shop.yaml")), [])
    assert (options.batch_rows, options.min_rows_per_lane) == (rows, filled)
    assert options.atomic == ("transaction" in said)


def test_feeds_with_sites_do_not_wake_each_other_and_keep_paths_apart() -> None:
    options = options_of(read(FEED + "sites: {source: eu, target: us}\n", Path("shop.yaml")), [])
    assert (options.coalesce_rows, options.idle_checkpoint_us) == (0, 60_000_000)
    assert options_of(read(FEED, Path("shop.yaml")), []).coalesce_rows > 0
