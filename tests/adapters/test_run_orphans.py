"""Children that the log has before their parents, as an import with `foreign_key_checks=0` writes them."""

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server

PARENT = "id int PRIMARY KEY, code varchar(9) UNIQUE"
CHILD = "id int PRIMARY KEY, parent int, code varchar(9), FOREIGN KEY (parent) REFERENCES parent (id), FOREIGN KEY (code) REFERENCES parent (code)"  # noqa: E501
GRANDCHILD = "id int PRIMARY KEY, child int, FOREIGN KEY (child) REFERENCES child (id)"


@pytest.fixture(params=["postgres", "mysql"])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mariadb: Server) -> Rig:
    rig = make_rig(mariadb, request.getfixturevalue(request.param), "orphans", lanes=2, batch_rows=20)
    rig.table("parent", PARENT)
    rig.table("child", CHILD)
    rig.table("grandchild", GRANDCHILD)
    rig.at_source("SET foreign_key_checks=0")
    return rig


def test_an_import_of_children_before_their_parents(rig: Rig) -> None:
    """Within one transaction, and over many; two parents that come one after the other; later changes of a child."""
    rig.at_source("BEGIN", "INSERT INTO child VALUES (1, 1, NULL)", "INSERT INTO parent VALUES (1, 'a')", "COMMIT")
    rig.at_source("INSERT INTO grandchild SELECT seq, seq FROM seq_10_to_60")
    rig.at_source("INSERT INTO child SELECT seq, seq, CONCAT('c', seq + 100) FROM seq_10_to_60")
    rig.at_source("UPDATE child SET parent = parent + 1 WHERE id = 10", "DELETE FROM grandchild WHERE id = 20")
    rig.at_source("INSERT INTO parent SELECT seq, CONCAT('c', seq) FROM seq_10_to_61")
    rig.at_source("INSERT INTO parent SELECT seq, CONCAT('c', seq) FROM seq_110_to_160")
    assert rig.catch_up_code() == 0, rig.said()
    assert rig.parked() == 0
    rig.assert_exact()


@pytest.mark.parametrize("rig", ["postgres", pytest.param("mysql", marks=pytest.mark.proof)], indirect=True)
def test_a_child_whose_parent_never_comes_stays_parked(rig: Rig) -> None:
    rig.at_source("INSERT INTO child VALUES (1, 1, NULL), (2, 2, NULL)", "INSERT INTO parent VALUES (2, 'a')")
    assert rig.catch_up_code() == 4
    assert rig.parked() == 1
    rig.at_source("INSERT INTO parent VALUES (1, 'b')")
    assert rig.catch_up_code() == 0, "it comes while another run watches"
    rig.assert_exact()


@pytest.mark.parametrize("rig", ["mysql", pytest.param("postgres", marks=pytest.mark.proof)], indirect=True)
def test_a_parent_that_came_while_nobody_watched(rig: Rig) -> None:
    rig.at_source("INSERT INTO child VALUES (1, 1, NULL)")
    assert rig.catch_up_code() == 4
    rig.at_target(f"INSERT INTO {rig.schema}.parent VALUES (1, 'b')")
    process = rig.run()
    until(lambda: rig.parked() == 0, "no parked rows")
    process.stop()
