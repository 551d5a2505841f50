"""The advice of a halt about a replica identity that was changed, followed to its end."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.rig import Rig
from bench.harness.servers import Postgres

OPERATOR = 4


def test_an_identity_by_another_index_amid_the_log(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """No key at the target would find both the rows before and those after: such advice would go round."""
    rig = make_rig(postgres_source, postgres, "identity", lanes=2)
    rig.table("item", "id int PRIMARY KEY, u int NOT NULL UNIQUE, v text")
    rig.begin_here()
    rig.at_source("INSERT INTO item SELECT n, n + 100, 'first' FROM generate_series(1, 20) n")
    rig.catch_up()
    rig.at_source(
        "UPDATE item SET v = 'by id' WHERE id = 1",
        "ALTER TABLE item REPLICA IDENTITY USING INDEX item_u_key",
        "UPDATE item SET id = 99 WHERE id = 3",
        "DELETE FROM item WHERE id = 5",
    )
    assert rig.catch_up_code() == OPERATOR, rig.said()
    assert "the source logs u alone, and at the target its key is id; run ALTER TABLE" in rig.said()
    rig.at_source("ALTER TABLE item REPLICA IDENTITY FULL")
    assert rig.command("resync", "@", "--yes").code == 0
    rig.catch_up()
    rig.at_source("UPDATE item SET u = 999 WHERE id = 99", "DELETE FROM item WHERE id = 7")
    rig.catch_up()
    rig.assert_exact()
