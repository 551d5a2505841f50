"""Tells what became of each change: it stands, somebody has overwritten it who had seen it, or it is told as lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bench.harness.network import Network
from bench.sites.written import Written


def lost_tokens(network: Network) -> set[str]:
    """Tokens of rows that `tidelock_conflicts` of any site tells as lost, and of failed rows."""
    return {str(row["token"]) for row in _lost_rows(network) if row and "token" in row}


def _lost_rows(network: Network) -> Iterator[dict[str, Any]]:
    for node in network.nodes.values():
        for (lost,) in node.rows(f"SELECT lost FROM {network.books}.tidelock_conflicts WHERE lost IS NOT NULL"):
            yield msgspec.msgpack.decode(lost)


def conflicts(network: Network) -> dict[str, int]:
    """How many of each type, with what came of them."""
    found: dict[str, int] = {}
    for node in network.nodes.values():
        told = f"SELECT type, outcome, CONCAT(count(*), '') FROM {network.books}.tidelock_conflicts"
        for kind, outcome, count in node.rows(f"{told} GROUP BY type, outcome"):
            name = f"{kind}, {outcome}"
            found[name] = found.get(name, 0) + int(count)
    return dict(sorted(found.items()))


def unaccounted(written: Iterable[Written], standing: set[str], lost: set[str]) -> list[str]:
    """Returns tokens of changes of which nobody knows what became of them."""
    tokens, overwritten = list[str](), set[str]()
    for change in written:
        if change.token:
            tokens.append(change.token)
        overwritten.add(change.before)
    return [token for token in tokens if token not in overwritten and token not in standing and token not in lost]
