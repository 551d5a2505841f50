"""Sites of a topology, with their tables and feeds; a line to each source can be cut.  No feed runs yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.harness.link import Link
from bench.harness.network import Network
from bench.harness.servers import Server
from bench.sites.topology import PERMIT, Topology
from bench.sites.written import make_tables


@contextlib.contextmanager
def tied(topology: Topology, folder: Path, servers: Mapping[str, Server]) -> Iterator[Network]:
    """`servers`: by site."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(contextlib.closing(Network(folder, servers, topology.edges)))
        make_tables(network, unique=bool(topology.arbiter))
        for feed in network.feeds.values():
            feed.options |= {"conflicts": topology.conflicts, "journal": ""}
            feed.tables = topology.tables(network.schema)
            feed.link = stack.enter_context(Link(feed.source.host, feed.source.server.port))
            if feed.sites.get("sister"):
                feed.options["permit"] = PERMIT
        if not topology.arbiter:
            _make_stamps(network)
        yield network


def _make_stamps(network: Network) -> None:
    """Columns and triggers, as `init` makes them; a feed begins where both its sites have them."""
    for _ in range(2):
        for feed in network.feeds.values():
            said = feed.command("init", "--apply")
            assert said.code == 0, said.out + said.err
