"""Online schema changes: a table is exchanged for its shadow while rows flow, and the feed ends with the same rows.

The statements are those that gh-ost and pt-online-schema-change send; the rows that they copy are written here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server

OPERATOR = 4
ORDERS = "id int PRIMARY KEY, v int, old varchar(20)"
GH_OST = """
CREATE /* gh-ost */ TABLE `orders_x_ghc` (id bigint AUTO_INCREMENT, last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id))
CREATE /* gh-ost */ TABLE `_orders_gho` LIKE `orders`
ALTER /* gh-ost */ TABLE `_orders_gho` ADD COLUMN note varchar(20) NOT NULL DEFAULT 'none', DROP COLUMN old, ADD INDEX (v)
INSERT INTO orders VALUES (3, 30, 'c')
INSERT /* gh-ost */ IGNORE INTO `_orders_gho` (id, v) SELECT id, v FROM orders
UPDATE orders SET v = v + 1 WHERE id = 2
REPLACE /* gh-ost */ INTO `_orders_gho` (id, v) VALUES (2, 21)
CREATE /* gh-ost */ TABLE `_orders_del` (id int AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB COMMENT='ghost-cut-over-sentry'
DROP /* gh-ost */ TABLE IF EXISTS `_orders_del`
RENAME /* gh-ost */ TABLE `orders` TO `_orders_del`, `_orders_gho` TO `orders`
INSERT INTO orders VALUES (4, 40, 'four')
UPDATE orders SET note = 'first' WHERE id = 1
DELETE FROM orders WHERE id = 3
""".strip().splitlines()  # noqa: E501
PT_OSC = """
CREATE TABLE `_items_new` (`id` int NOT NULL, `v` int DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
ALTER TABLE `_items_new` ADD COLUMN w int
CREATE TRIGGER `pt_osc_del` AFTER DELETE ON `items` FOR EACH ROW DELETE IGNORE FROM `_items_new` WHERE `_items_new`.id <=> OLD.id
CREATE TRIGGER `pt_osc_upd` AFTER UPDATE ON `items` FOR EACH ROW REPLACE INTO `_items_new` (id, v) VALUES (NEW.id, NEW.v)
CREATE TRIGGER `pt_osc_ins` AFTER INSERT ON `items` FOR EACH ROW REPLACE INTO `_items_new` (id, v) VALUES (NEW.id, NEW.v)
INSERT LOW_PRIORITY IGNORE INTO `_items_new` (id, v) SELECT id, v FROM items
UPDATE items SET v = v + 1
RENAME TABLE `items` TO `_items_old`, `_items_new` TO `items`
DROP TRIGGER IF EXISTS `pt_osc_del`
DROP TRIGGER IF EXISTS `pt_osc_upd`
DROP TRIGGER IF EXISTS `pt_osc_ins`
DROP TABLE IF EXISTS `_items_old`
UPDATE items SET w = v
INSERT INTO items VALUES (3, 3, 3)
""".strip().splitlines()  # noqa: E501
PAIRS = [("mysql", "postgres"), ("mysql", "mariadb")]


def tables(rig: Rig) -> Rig:
    rig.table("orders", "id int PRIMARY KEY, v int, old varchar(20)")
    rig.table("items", "id int PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.{name}"} for name in rig.tables]
    rig.at_source("INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, 'b')", "INSERT INTO items VALUES (1, 1), (2, 2)")
    return rig


def at_target(rig: Rig) -> set[str]:
    found = rig.rows(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{rig.schema}'")
    return {str(name) for (name,) in found}


@pytest.fixture(params=PAIRS, ids=["-".join(pair) for pair in PAIRS])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param)
    return tables(make_rig(source, target, "shadows", lanes=2))


def test_left_out_by_the_feed(rig: Rig) -> None:
    """A run ends between the statements of a tool: what it has noted is kept.  No row of a shadow is carried."""
    rig.at_source(*GH_OST[:4])
    rig.catch_up()
    rig.at_source(*GH_OST[4:], *PT_OSC)
    rig.catch_up()
    rig.assert_exact()
    assert at_target(rig) == {"orders", "items"}
    assert rig.rows("SELECT count(*) FROM tidelock.tidelock_shadows")[0][0] in (0, "0")


def test_taken_by_the_feed(rig: Rig) -> None:
    """Its rows are copied as those of any table, and the exchange of names is followed."""
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.catch_up()
    rig.at_source(*GH_OST, *PT_OSC)
    rig.catch_up()
    rig.tables.append("_orders_del")
    rig.assert_exact()
    assert at_target(rig) >= {"orders", "items", "_orders_del"}


@pytest.mark.proof
def test_a_shadow_that_was_not_seen_from_its_beginning(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server
) -> None:
    """The feed halts at the exchange, and its advice makes both ends the same."""
    rig = tables(make_rig(mysql, postgres, "shadows", lanes=2))
    rig.at_source(*GH_OST[:3])
    rig.start_at = rig.here()
    rig.at_target("INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, 'b')", "INSERT INTO items VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source(*GH_OST[3:])
    assert rig.catch_up_code() == OPERATOR
    assert "the feed has not seen how it was made" in rig.said()
    rig.at_target("ALTER TABLE orders DROP COLUMN old, ADD COLUMN note varchar(20) NOT NULL DEFAULT 'none'")
    assert rig.command("ddl", "done").code == 0
    process = rig.run()
    assert rig.command("copy", "@", "--table", f"{rig.schema}.orders", "--yes").code == 0
    until(rig.equal, "equal ends", 60)
    process.stop()
    rig.assert_exact()
