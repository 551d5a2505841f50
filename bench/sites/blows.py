"""Blows that fall on a network of sites: on its feeds, its servers, the lines between; each returns when it is over."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Final

from bench.harness.network import Direction, Network, Node
from bench.harness.rig import until
from bench.sites.kept import Kept

KINDS: Final = ("feed killed", "all feeds killed", "server restart", "server killed", "line cut", "pause")
CUT: Final = "long cut"
SHORT_SECONDS: Final = (5.0, 20.0)
COMMAND_SECONDS: Final = 60.0


def deck(rng: random.Random) -> Iterator[str]:
    """Without an end."""
    while True:
        yield from rng.sample(KINDS, len(KINDS))


class Blows:
    """`long`: seconds of the one long cut of all lines."""

    def __init__(self, network: Network, kept: Kept, rng: random.Random, long: float) -> None:
        self._network, self._kept, self._rng, self._long = network, kept, rng, long

    def strike(self, kind: str) -> str:
        """Returns what was struck."""
        rng = self._rng
        match kind:
            case "feed killed":
                feed = rng.choice(self._feeds)
                self._kept.kill(feed)
                return feed.name
            case "all feeds killed":
                for feed in self._feeds:
                    self._kept.kill(feed)
                return "all"
            case "server restart" | "server killed":
                return self._restart(rng.choice(list(self._network.nodes.values())), killed=kind == "server killed")
            case "line cut":
                return self._cut(rng.uniform(*SHORT_SECONDS))
            case "long cut":
                return self._cut(self._long)
            case "pause":
                return self._pause(rng.choice(self._feeds))
            case _:
                raise ValueError(f"no such blow: {kind}")

    @property
    def _feeds(self) -> Sequence[Direction]:
        return list(self._network.feeds.values())

    def _restart(self, node: Node, *, killed: bool) -> str:
        (node.server.kill if killed else node.server.stop)()
        node.server.start()
        node.reconnect()
        return node.site

    def _cut(self, seconds: float) -> str:
        links = [feed.link for feed in self._feeds if feed.link is not None]
        for link in links:
            link.part()
        time.sleep(seconds)  # it is what lasts
        for link in links:
            link.mend()
        return f"all, {seconds:.0f} s"

    def _pause(self, feed: Direction) -> str:
        until(lambda: feed.command("pause").code == 0, "a pause", COMMAND_SECONDS)
        time.sleep(self._rng.uniform(*SHORT_SECONDS))
        until(lambda: feed.command("resume").code == 0, "the end of a pause", COMMAND_SECONDS)
        return feed.name
