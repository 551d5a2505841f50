"""Cases of other systems' tests with three nodes: what goes on, what does not, and when that is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from bench.harness.network import Network, Node
from bench.harness.servers import MariaDb, MySql, Postgres, Server

pytestmark = pytest.mark.proof
Made = Callable[[Mapping[str, Server], Sequence[str]], Network]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Made]:
    made: list[Network] = []

    def make(servers: Mapping[str, Server], edges: Sequence[str]) -> Network:
        made.append(Network(tmp_path, servers, edges))
        for node in made[-1].nodes.values():
            _table(node, "tab")
        return made[-1]

    yield make
    for one in made:
        one.close()


def _table(node: Node, name: str) -> None:
    node.send(f"CREATE TABLE {name} (a int PRIMARY KEY, b int)")
    if isinstance(node.server, Postgres):
        node.send(f"ALTER TABLE {name} REPLICA IDENTITY FULL")


def keys(node: Node, table: str = "tab") -> list[int]:
    return [int(a) for (a,) in node.rows(f"SELECT CONCAT(a, '') FROM {table} ORDER BY a")]


def catch_up(network: Network, *edges: str) -> None:
    for edge in edges or network.feeds:
        said = network.feeds[edge].command("run", "--until-caught-up")
        assert said.code == 0, f"{said.out}\n{said.err}"


def test_a_third_node_changes_what_another_has_brought(
    postgres_source: Postgres, mariadb: MariaDb, postgres: Postgres, network: Made
) -> None:
    """PostgreSQL 030, its three nodes: there a and b end unequal, as b hands on nothing that it did not make."""
    tree = network({"a": postgres_source, "b": mariadb, "c": postgres}, ["a>b", "b>a", "c>b"])
    a, b, c = tree.nodes.values()
    catch_up(tree)
    turn = ("c>b", "b>a", "a>b")
    c.send("INSERT INTO tab VALUES (32, 1)")
    catch_up(tree, *turn)
    assert keys(a) == keys(b) == [32], "what c has made goes on, by its path"
    b.send("DELETE FROM tab")
    catch_up(tree, *turn)
    a.send("INSERT INTO tab VALUES (32, 1)")
    catch_up(tree, "a>b")
    c.send("UPDATE tab SET a = 33")
    catch_up(tree, *turn)
    assert keys(a) == keys(b) == [33]
    b.send("DELETE FROM tab")
    catch_up(tree, *turn)
    a.send("INSERT INTO tab VALUES (33, 1)")
    catch_up(tree, "a>b")
    c.send("DELETE FROM tab")
    catch_up(tree, *turn)
    assert keys(a) == keys(b) == []


def test_what_goes_on_is_changed(mysql: MySql, mariadb: MariaDb, postgres: Postgres, network: Made) -> None:
    """Spock 018_forward_origins; and 030's `origin = none`, which is `forward: own`."""
    chain = network({"n1": mysql, "n2": mariadb, "n3": postgres}, ["n1>n2", "n2>n3"])
    n1, n2, n3 = chain.nodes.values()
    chain.feeds["n2>n3"].sites["forward"] = "own"
    catch_up(chain)
    n1.send("INSERT INTO tab VALUES (1, 1)")
    catch_up(chain)
    n2.send("INSERT INTO tab VALUES (2, 1)")
    catch_up(chain)
    assert (keys(n2), keys(n3)) == ([1, 2], [2])
    del chain.feeds["n2>n3"].sites["forward"]
    n1.send("INSERT INTO tab VALUES (3, 1)")
    catch_up(chain)
    assert keys(n3) == [2, 3], "what was left out stays out"


def test_each_feed_of_a_chain_has_its_tables(
    postgres_source: Postgres, mysql: MySql, postgres: Postgres, network: Made
) -> None:
    """Spock 003_cascade_replication and node_origin_cascade, where sets of tables do it; and a TRUNCATE goes as far."""
    chain = network({"a": postgres_source, "b": mysql, "c": postgres}, ["a>b", "b>c"])
    a, b, c = chain.nodes.values()
    for table, nodes in (("a2b", (a, b, c)), ("b2c", (b, c))):
        for node in nodes:
            _table(node, table)
    for edge, table in (("a>b", "a2b"), ("b>c", "b2c")):
        chain.feeds[edge].tables = [{"source": f"{chain.schema}.{table}"}]
    catch_up(chain)
    a.send("INSERT INTO a2b VALUES (1, 1)")
    b.send("INSERT INTO b2c VALUES (1, 1)")
    c.send("INSERT INTO a2b VALUES (1, 1)")
    catch_up(chain)
    assert [keys(node, "a2b") for node in (a, b, c)] == [[1]] * 3
    a.send("TRUNCATE TABLE a2b")
    catch_up(chain)
    assert [keys(node, "a2b") for node in (a, b, c)] == [[], [], [1]]
    assert keys(c, "b2c") == [1]


def test_a_node_that_is_reached_another_way_from_then_on(
    postgres_source: Postgres, mariadb: MariaDb, postgres: Postgres, network: Made
) -> None:
    """Spock 015_forward_origin_advance: there a place that was forwarded is kept for a way that is opened later.  Here
    the new feed begins at its own first run, so the old way must go on until that has begun."""
    net = network({"n1": mariadb, "n2": postgres_source, "n3": postgres}, ["n2>n1", "n1>n3", "n2>n3"])
    _, n2, n3 = net.nodes.values()
    catch_up(net, "n2>n1", "n1>n3")
    n2.send("INSERT INTO tab VALUES (1, 1)", "INSERT INTO tab VALUES (2, 1)")
    catch_up(net, "n2>n1", "n1>n3")
    n2.send("INSERT INTO tab VALUES (3, 1)")
    assert keys(n3) == [1, 2]
    catch_up(net, "n2>n3")
    n2.send("INSERT INTO tab VALUES (4, 1)")
    catch_up(net, "n2>n1", "n1>n3")
    assert keys(n3) == [1, 2, 3, 4]
    n2.send("UPDATE tab SET b = 2", "INSERT INTO tab VALUES (5, 1)")
    catch_up(net, "n2>n3")
    found = n3.rows("SELECT CONCAT(a, ''), CONCAT(b, '') FROM tab ORDER BY a")
    assert [tuple(map(int, row)) for row in found] == [(1, 2), (2, 2), (3, 2), (4, 2), (5, 1)]
