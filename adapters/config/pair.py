"""Reads the YAML of a pair, a star or a tree of sites, and makes of it the feeds of each edge.

Each feed is a document of its own, which the feeds' loader reads: what it finds wrong is told with the place in the
pair's file.  Keys that the two know alike are the feeds' own, and `feeds` holds those of one feed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from tidelock.adapters.config.document import Path as KeyPath
from tidelock.adapters.config.edges import Edge, Tree, TreeError
from tidelock.adapters.config.feed import FEED_NAME, ConfigError, Feed, yaml_keys
from tidelock.adapters.config.loader import Reading, parsed, text_of
from tidelock.adapters.config.sites import SITE_NAME
from tidelock.adapters.config.turned_tables import CannotTurn, turned

OWN_KEYS: Final = ("pair", "sites", "edges", "feeds")
MADE_KEYS: Final = ("feed", "source", "target", "sites", "start")
"""Keys of a feed that follow from its edge."""
SINGLE_KEYS: Final = ("http", "journal", "server_id")
"""Keys that two feeds cannot have alike."""
REFUSED_KEYS: Final = {"log": "feeds of workers cannot name sites yet", "hive": "nothing comes back from Hive"}


class PairFeed(msgspec.Struct, frozen=True):
    """A feed of a pair.  `document`: its YAML as plain data, secrets not looked up.  `edge`: the two sites; `back`: it
    goes from the child to the parent."""

    edge: Edge
    back: bool
    document: dict[str, Any]
    feed: Feed

    @property
    def name(self) -> str:
        """Its name in the bookkeeping."""
        return self.feed.name

    @property
    def ends(self) -> tuple[str, str]:
        """The sites of its source and its target."""
        return self.edge.ways[self.back]


class Pair(msgspec.Struct, frozen=True):
    """Sites, the edges between them, and the feeds of each edge.  `path`: of the file."""

    name: str
    path: Path
    tree: Tree
    feeds: tuple[PairFeed, ...]

    def feed(self, name: str) -> Feed:
        """Returns the feed of that name; the pair's own name before it may be left out.  Raises ConfigError."""
        return self.chosen(name).feed

    def chosen(self, name: str) -> PairFeed:
        """Returns the feed of that name, as `feed` does.  Raises ConfigError."""
        for one in self.feeds:
            if name in (one.name, one.name.removeprefix(f"{self.name}-")):
                return one
        known = ", ".join(one.name for one in self.feeds)
        raise ConfigError(f"{self.path}: the pair has no feed {name!r}; it has {known}", "pair")

    def way(self, source: str, target: str) -> PairFeed | None:
        """Returns the feed from one site to another; None where there is none."""
        return next((one for one in self.feeds if one.ends == (source, target)), None)

    def feeds_of(self, site: str) -> list[PairFeed]:
        """Returns the feeds that begin or end at a site."""
        return [one for one in self.feeds if site in one.edge.ends]


def load(path: Path | str) -> Pair:
    """Reads the pair of a YAML file.  Raises ConfigError."""
    path = Path(path)
    data, lines = parsed(text_of(path), path)
    return _PairReading(path, data, lines).pair()


class _PairReading(Reading):
    """Reads one document as a `Pair`.  Every method raises ConfigError."""

    def pair(self) -> Pair:
        """Returns the pair, checked, each of its feeds too."""
        self._check_keys()
        name = self._name()
        tree = self._tree(self._sites())
        self._check_ddl(tree.sites)
        known = {self._feed_name(name, *ends): ends for edge in tree.edges for ends in edge.ways}
        self._check_singles(known)
        feeds = [self._feed(name, tree, edge, back) for edge in tree.edges for back in ((False, True)[: edge.count])]
        if len({one.name for one in feeds}) < len(feeds):
            self._fail(("sites",), "two feeds would have one name: give the sites names that stay apart with - between")
        return Pair(name, self.path, tree, tuple(feeds))

    def _check_keys(self) -> None:
        if not isinstance(self.data, dict):
            self._fail((), "expected keys and values here")
        common = [key for key in yaml_keys(Feed) if key not in (*MADE_KEYS, *SINGLE_KEYS, *REFUSED_KEYS)]
        for key in self.data:
            if key in SINGLE_KEYS:
                self._fail((key,), f"each feed has its own: `feeds: {{NAME: {{{key}: …}}}}`")
            if key in REFUSED_KEYS:
                self._fail((key,), REFUSED_KEYS[key])
            if key in MADE_KEYS and key != "sites":
                self._fail((key,), "this follows from `pair`, `sites` and `edges`")
            if key not in (*OWN_KEYS, *common):
                self._fail((key,), f"unknown key; known: {', '.join((*OWN_KEYS, *common))}")
        for key in ("pair", "sites", "tables"):
            if key not in self.data:
                self._fail((key,), "missing")

    def _name(self) -> str:
        name = self.data["pair"]
        if not isinstance(name, str) or not re.fullmatch(FEED_NAME, name):
            self._fail(("pair",), "expected a name of a-z, 0-9, _ and -, at most 64 long")
        return name

    def _sites(self) -> tuple[str, ...]:
        sites = self.data["sites"]
        if not isinstance(sites, dict) or len(sites) < 2:
            self._fail(("sites",), "expected two sites or more, each with its URL: {eu: mysql://…, us: postgresql://…}")
        for site, url in sites.items():
            if not re.fullmatch(SITE_NAME, site):
                self._fail(("sites", site), "expected a name of a-z, 0-9, _ and -, at most 64 long")
            if not isinstance(url, str):
                self._fail(("sites", site), "expected a URL")
        return tuple(sites)

    def _tree(self, sites: tuple[str, ...]) -> Tree:
        edges = self.data.get("edges", [f"{sites[0]}-{sites[1]}"] if len(sites) == 2 else None)
        if not isinstance(edges, list) or not all(isinstance(edge, str) for edge in edges):
            self._fail(("edges",), "expected a list of edges, as [eu-us, eu-asia], or eu>us for one way")
        conflicts = self.data.get("conflicts")
        rule = conflicts if isinstance(conflicts, dict) else {}
        try:
            return Tree.of(sites, edges, str(rule.get("arbiter", "")), circles="stamp" in rule)
        except TreeError as error:
            self._fail(("edges", error.number) if error.number is not None else ("edges",), str(error))

    def _check_ddl(self, sites: Sequence[str]) -> None:
        ddl = self.data.get("ddl")
        made_at = ddl.get("from") if isinstance(ddl, dict) else None
        if isinstance(made_at, str) and made_at not in sites:
            self._fail(("ddl", "from"), f"the pair has no site {made_at!r}; it has {', '.join(sites)}")

    def _check_singles(self, known: Mapping[str, Any]) -> None:
        singles = self.data.get("feeds", {})
        if not isinstance(singles, dict):
            self._fail(("feeds",), "expected feeds by their names, each with its keys")
        for name, keys in singles.items():
            if name not in known:
                self._fail(("feeds", name), f"the pair has no such feed; it has {', '.join(known)}")
            if not isinstance(keys, dict):
                self._fail(("feeds", name), "expected keys and values here")
            for key in keys:
                if key in (*MADE_KEYS, *REFUSED_KEYS, "schema", "tables"):
                    self._fail(("feeds", name, key), "this is the same for all feeds of the pair")

    @staticmethod
    def _feed_name(pair: str, source: str, target: str) -> str:
        return f"{pair}-{source}-{target}"

    def _feed(self, pair: str, tree: Tree, edge: Edge, back: bool) -> PairFeed:
        source, target = edge.ways[back]
        name, sister = (self._feed_name(pair, *ends) for ends in ((source, target), (target, source)))
        common = {key: value for key, value in self.data.items() if key not in OWN_KEYS}
        ends = {"source": source, "target": target}
        document = {
            "feed": name,
            "source": self.data["sites"][source],
            "target": self.data["sites"][target],
            **common,
            "sites": {**ends, "sister": sister} if edge.two_way else ends,
            **self.data.get("feeds", {}).get(name, {}),
        }
        if isinstance(document.get("conflicts"), dict) and "arbiter" in document["conflicts"]:
            document["conflicts"] = {**document["conflicts"], "arbiter": edge.parent}
        if not edge.two_way:
            document.pop("permit", None)
            if not tree.circles:
                document.pop("conflicts", None)
        if edge.two_way:
            self._check_filters()
        if back:
            try:
                document["tables"] = turned(document["tables"])
            except CannotTurn as error:
                self._fail(("tables", error.number), str(error))
        reading = _FeedReading(self, document, {"source": source, "target": target}, tree.edges.index(edge))
        return PairFeed(edge, back, document, reading.feed())

    def _check_filters(self) -> None:
        for number, rule in enumerate(self.data["tables"]) if isinstance(self.data["tables"], list) else ():
            if isinstance(rule, dict) and "where" in rule:
                words = "a row filter goes one way alone: a row that leaves it at one site would stay at the other"
                self._fail(("tables", number, "where"), words)

    def place_of(self, path: KeyPath, name: str) -> KeyPath:
        """Returns the place in the pair's file of a key of a feed's document."""
        if path[:1] and path[0] in self.data.get("feeds", {}).get(name, {}):
            return ("feeds", name, *path)
        return path


class _FeedReading(Reading):
    """Reads one feed's document, and tells its errors by the places of the pair's file."""

    def __init__(self, pair: _PairReading, document: dict[str, Any], ends: Mapping[str, str], edge: int) -> None:
        super().__init__(pair.path, document, {})
        self._pair = pair
        self._ends = ends
        self._edge = edge

    def _fail(self, path: KeyPath, problem: str) -> NoReturn:
        match path:
            case ("source" | "target" as end, *_):
                path = ("sites", self._ends[end])
            case ("feed", *_):
                path, problem = ("pair",), f"{problem} ({self.data['feed']})"
            case ("sites", *_):
                path = ("edges", self._edge)
        self._pair._fail(self._pair.place_of(path, self.data["feed"]), problem)


def texts(pair: Pair, folder: Path) -> Mapping[str, str]:
    """Returns the YAML of each feed, by its name, for files in `folder`: what is relative in a secret's path counts
    from the pair's file."""
    import yaml

    return {
        one.name: yaml.safe_dump(_moved(one.document, pair.path.parent, folder), sort_keys=False, allow_unicode=True)
        for one in pair.feeds
    }


def _moved(data: Any, old: Path, new: Path) -> Any:
    if old.resolve() == new.resolve():
        return data
    if isinstance(data, dict):
        return {key: _moved(value, old, new) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_moved(value, old, new) for value in data]
    if not isinstance(data, str):
        return data
    return re.sub(r"\$\{file:([^{}]+)\}", lambda found: f"${{file:{(old / found[1].strip()).resolve()}}}", data)
