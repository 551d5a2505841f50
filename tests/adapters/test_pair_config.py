"""The YAML of a pair: the feeds that it stands for, and what it says where it is wrong."""

from pathlib import Path

import pytest
import yaml

from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.pairing import init
from tidelock.adapters.config import loader, pair
from tidelock.adapters.config.edges import Tree, TreeError
from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.pair.leaving import NotAtTheEnd, edges_of
from tidelock.adapters.pair.numbers import Numbers
from tidelock.adapters.pair.running import worst
from tidelock.engine.two_way.permit import Limits

TEXT = """\
pair: shop
sites:
  eu: mariadb://repl:${file:secret}@db1:3306
  us: postgresql://tide@db2:5432/shop
  asia: mysql://tide@db3
edges: [eu-us, us>asia]
permit: {lag: 5m}
lanes: 4
tables:
  - {source: shop.*}
  - source: crm.person
    target: shop.customer
    columns: {rename: {mail: email}, include: [id, mail]}
feeds:
  shop-us-eu: {http: "127.0.0.1:8470"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("pass/word")
    path = tmp_path / "pair.yaml"
    path.write_text(TEXT)
    return path


def test_each_direction_is_a_feed(file: Path) -> None:
    made = pair.load(file)
    assert [one.name for one in made.feeds] == ["shop-eu-us", "shop-us-eu", "shop-us-asia"]
    there, back, on = (load(f"{file}#{one.name}") for one in made.feeds)
    assert (there.source_url.host, there.target_url.host, there.source_url.password) == ("db1", "db2", "pass/word")
    assert there.sites is not None and back.sites is not None and on.sites is not None
    assert (there.sites.sister, back.sites.sister, on.sites.sister) == ("shop-us-eu", "shop-eu-us", "")
    assert there.permit is not None and there.permit.limits == Limits(300_000_000, 10_000_000)
    assert on.permit is None
    assert [(feed.lanes, feed.http) for feed in (there, back)] == [(4, ""), (4, "127.0.0.1:8470")]
    rule = back.tables[1]
    assert (rule.source, rule.target) == ("shop.customer", "crm.person")
    assert (rule.columns.rename, rule.columns.include) == ({"email": "mail"}, ("id", "email"))
    assert load(f"{file}#us-eu") == back


def test_written_feeds_are_the_same_elsewhere(file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    made = pair.load(file)
    for name, text in pair.texts(made, elsewhere).items():
        assert loader.read(text, elsewhere / name) == made.feed(name)


def test_the_arbiter_of_an_edge_is_its_end_nearer_to_the_root(file: Path) -> None:
    text = TEXT.replace("us>asia", "us-asia").replace("permit: {lag: 5m}", "conflicts: {arbiter: us}")
    file.write_text(text)
    made = pair.load(file)
    arbiters = {one.name: one.feed.conflicts.arbiter for one in made.feeds if one.feed.conflicts is not None}
    assert arbiters == dict.fromkeys(("shop-us-eu", "shop-eu-us", "shop-us-asia", "shop-asia-us"), "us")
    file.write_text(text.replace("arbiter: us", "arbiter: eu"))
    assert {one.name: one.feed.conflicts.arbiter for one in pair.load(file).feeds if one.feed.conflicts} == {
        "shop-eu-us": "eu", "shop-us-eu": "eu", "shop-us-asia": "us", "shop-asia-us": "us"
    }  # fmt: skip


def test_two_sites_need_no_edges(file: Path) -> None:
    data = yaml.safe_load(TEXT)
    del data["edges"], data["sites"]["asia"]
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    assert pair.load(file).tree == Tree.of(["eu", "us"], ["eu-us"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("db2:5432/shop", "db2:5432", "line 4: sites.us: a PostgreSQL URL names its database"),
        ("${file:secret}", "${file:none}", "line 3: sites.eu: the file none cannot be read"),
        ("lanes: 4", "lanes: 0", "line 8: lanes: expected int >= 1"),
        ("lag: 5m", "lag: 5", "line 7: permit.lag: expected a length of time"),
        ("lag: 5m", "after: 1s", "line 7: permit.after: a feed tells of itself once a second"),
        ("eu-us, us>asia", "eu-us", "line 6: edges: no edge ties asia to eu"),
        ("eu-us, us>asia", "eu-us, eu-us", "line 6: edges[1]: eu and us are tied already, so there is a circle"),
        ("us>asia", "us-asia, asia-eu", "a circle"),
        ("us>asia", "asia>us", "line 6: edges[1]: asia>us goes towards eu"),
        ("us>asia", "us-africa", "line 6: edges[1]: 'us-africa' is not SITE-SITE"),
        ("lanes: 4", "http: 127.0.0.1:1", "line 8: http: each feed has its own"),
        ("lanes: 4", "start: copy", "line 8: start: this follows from"),
        ("lanes: 4", "log: kafka://k", "line 8: log: feeds of workers cannot name sites"),
        ("lanes: 4", "lans: 4", "line 8: lans: unknown key"),
        ("{source: shop.*}", "{source: shop.*, where: a = 1}", "line 10: tables[0].where: a row filter goes one way"),
        ("{source: shop.*}", "{source: shop.*, target: all.rows}", "line 10: tables[0]: several tables would become"),
        ("shop-us-eu: {", "shop-us-africa: {", "line 15: feeds.shop-us-africa: the pair has no such feed"),
        ('http: "127', 'htp: "127', "line 15: feeds.shop-us-eu.htp: unknown key"),
        ('{http: "127.0.0.1:8470"}', "{schema: x}", "line 15: feeds.shop-us-eu.schema: this is the same for all"),
        ("pair: shop", "pair: Shop", "line 1: pair: expected a name"),
        ("  eu:", "  EU:", "line 3: sites.EU: expected a name"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, said: str, file: Path) -> None:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        pair.load(file)
    assert said in str(refused.value)


def test_a_pair_is_no_feed_and_a_feed_is_one_of_its(file: Path) -> None:
    with pytest.raises(ConfigError, match="one of its feeds"):
        load(file)
    with pytest.raises(ConfigError, match="it has shop-eu-us, shop-us-eu, shop-us-asia"):
        load(f"{file}#eu-asia")


def test_a_tree_is_rooted_where_rows_come_from() -> None:
    tree = Tree.of(["eu", "us", "a-b"], ["eu-us", "us-a-b"])
    assert [edge.ends for edge in tree.edges] == [("eu", "us"), ("us", "a-b")]
    assert [edge.ends for edge in tree.rooted("a-b").edges] == [("us", "eu"), ("a-b", "us")][::-1]
    assert tree.without("us").cut_off() == ("eu", "a-b") and tree.without("a-b").cut_off() is None


RING = """\
pair: shop
sites: {eu: mariadb://tide@db1, us: postgresql://tide@db2/shop, asia: mysql://tide@db3}
edges: [EDGES]
conflicts: {stamp: {time: tl_time, site: tl_site}}
tables: [{source: shop.*}]
"""


@pytest.mark.parametrize(
    ("edges", "taken", "refused"),
    [
        ("eu-us, us-asia, asia-eu", ["us-asia", "asia-eu"], ""),
        ("eu-us, us-asia", ["us-asia"], ""),
        ("eu-us, asia-eu, us>asia", ["asia-eu", "us>asia"], ""),
        ("eu>us, us>asia, asia>eu", [], "without asia nothing would come from us to eu"),
        ("eu-asia, us-asia", [], "without asia nothing would come from eu to us"),
    ],
)
def test_a_site_leaves_a_ring_whose_other_sites_still_reach_each_other(
    edges: str, taken: list[str], refused: str, tmp_path: Path
) -> None:
    path = tmp_path / "pair.yaml"
    path.write_text(RING.replace("EDGES", edges))
    ring = pair.load(path)
    if refused:
        with pytest.raises(NotAtTheEnd, match=refused) as told:
            edges_of(ring, "asia")
        assert "--equal --apply" in told.value.hint
        return
    found = {f"{e.parent}{'-' if e.two_way else '>'}{e.child}" for e in edges_of(ring, "asia")}
    turned = {"-".join(reversed(text.split("-"))) for text in found if "-" in text}
    assert {*taken} <= found | turned and len(found) == len(taken)


def test_a_site_that_ties_others_does_not_leave_a_tree(file: Path) -> None:
    with pytest.raises(NotAtTheEnd, match="us ties several sites"):
        edges_of(pair.load(file), "us")
    with pytest.raises(NotAtTheEnd, match="africa is none of the sites"):
        edges_of(pair.load(file), "africa")


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        (["eu-us", "us-asia", "asia-eu"], [("eu", "us", False), ("us", "asia", False), ("asia", "eu", True)]),
        (["asia-eu", "us-asia", "eu-us"], [("eu", "asia", False), ("asia", "us", False), ("eu", "us", True)]),
        (["asia>eu", "us>asia", "eu>us"], [("eu", "us", False), ("us", "asia", False), ("asia", "eu", True)]),
    ],
)
def test_edges_that_close_circles_come_last(edges: list[str], found: list[tuple[str, str, bool]]) -> None:
    tree = Tree.of(["eu", "us", "asia"], edges, circles=True)
    assert [(*edge.ends, edge.closing) for edge in tree.edges] == found
    assert sum(edge.closing for edge in tree.rooted("asia").edges) == 1
    with pytest.raises(TreeError, match=r"circle|goes towards"):
        Tree.of(["eu", "us", "asia"], edges)


def test_every_feed_of_a_ring_compares_stamps(file: Path) -> None:
    ring = TEXT.replace("us>asia", "us>asia, asia>eu").replace("lanes: 4", "conflicts: {stamp: {time: t, site: s}}")
    file.write_text(ring.replace("    columns: {rename: {mail: email}, include: [id, mail]}\n", ""))
    assert all(one.feed.conflicts is not None and one.feed.conflicts.stamp for one in pair.load(file).feeds)


def test_rows_are_replaced_or_compared_and_not_both() -> None:
    with pytest.raises(CommandError, match="one of them"):
        init("pair.yaml", "eu", apply=True, replace=True, equal=True, wait=0)


@pytest.mark.parametrize(("site", "said"), [("asia", ""), ("africa", "the pair has no site 'africa'")])
def test_statements_are_made_at_one_of_the_sites(site: str, said: str, file: Path) -> None:
    file.write_text(TEXT.replace("lanes: 4", f"ddl: {{from: {site}}}"))
    if said:
        with pytest.raises(ConfigError, match=said):
            pair.load(file)
    else:
        assert {one.feed.ddl.made_at for one in pair.load(file).feeds} == {site}


@pytest.mark.parametrize(
    ("one", "other", "meet"), [((1, 1), (1, 1), True), ((2, 1), (2, 2), False), ((10, 1), (5, 6), True),
                               ((10, 1), (10, 11), True), ((1, 7), (10, 2), True)],
)  # fmt: skip
def test_numbers_of_two_sites(one: tuple[int, int], other: tuple[int, int], meet: bool) -> None:
    assert Numbers("id", *one).meets(Numbers("id", *other)) is meet


def test_the_worst_exit_code() -> None:
    assert [worst(codes) for codes in ([0, 0], [0, 4, 1], [0, -9], [])] == [0, 4, 1, 0]
