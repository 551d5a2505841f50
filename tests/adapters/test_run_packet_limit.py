"""A target that takes no statement as long as a row: a failed row cannot be kept there either, and the feed halts."""

import contextlib
import random
from pathlib import Path

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql

LONG = random.Random(7).randbytes(150_000).hex()  # what is kept of a failed row is compressed


@pytest.mark.parametrize("kind", [MariaDb, pytest.param(MySql, marks=pytest.mark.proof)])
def test_a_row_that_is_too_long_for_the_targets_packets(
    kind: type[MariaDb | MySql], mariadb: MariaDb, tmp_path: Path
) -> None:
    with kind() as target, contextlib.closing(Rig(mariadb, target, tmp_path, "packets")) as rig:
        rig.table("t", "id bigint PRIMARY KEY, note mediumtext")
        rig.at_source("INSERT INTO t VALUES (1, 'x')")
        rig.catch_up()
        target.execute("SET GLOBAL max_allowed_packet = 65536")
        rig.at_source(f"INSERT INTO t VALUES (2, '{LONG}'), (3, 'z')")
        assert rig.catch_up_code() == 4
        said = rig.said()
        assert "cannot be kept as a failed row either" in said and "SET GLOBAL max_allowed_packet" in said
        assert "Traceback" not in said
        target.execute("SET GLOBAL max_allowed_packet = 67108864")
        rig.catch_up()
        rig.assert_exact()
