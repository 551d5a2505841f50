"""Wired sources: the configuration takes the same schemes, and a source is loaded when it is asked for."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.loader import read
from tidelock.adapters.config.url import Scheme
from tidelock.adapters.wiring import sources

FEED = """\
feed: shop
source: {scheme}://repl:secret@db1/shop
target: postgresql://tide:secret@db2/shop
tables: [{{source: shop.*}}]
"""
LOADED = """
import sys
from tidelock.adapters.wiring import sources
before = [name for name in sys.modules if name.startswith("tidelock.adapters.mysql")]
sources.load_reader("mysql")
print(before, "tidelock.adapters.mysql.binlog.captured_log" in sys.modules)
"""


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_a_feed_may_have_those_sources_that_are_wired(scheme: str) -> None:
    text = FEED.format(scheme=scheme)
    if scheme in sources.SCHEMES:
        assert read(text, Path("shop.yaml")).source_url.scheme == scheme
    else:
        with pytest.raises(ConfigError, match=r"shop\.yaml, line 2: source"):
            read(text, Path("shop.yaml"))


def test_a_source_is_loaded_when_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[] True\n"
