"""Words for an operator: what a log is known by, and what another has in its place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tidelock.engine.model.lineage import Ending, Here, Proof, Sought
from tidelock.engine.model.records import Position

LOSS_UNTOLD: Final = (
    "Let nobody write at the site. `tidelock verify PAIR.yaml#FEED` of the feed to it shows what it has and the arbiter"
    " has not. `tidelock pair rewound PAIR.yaml SITE --arbiters-rows` gives that up, and says how the site gets the"
    " arbiter's rows"
)
"""Hint where nobody can tell what is left of a spoke's log."""
OF_A_SPOKE: Final = "of a spoke of an arbiter, `tidelock pair rewound PAIR.yaml SITE` instead"
"""Hint beside the one to resync."""


def told(place: Position, proof: Proof) -> str:
    """Returns whose log the place is of."""
    begun = f", whose {place.file} was begun {time(proof.begun * 1_000_000)}" if proof.begun else ""
    last = proof.last
    inside = ""
    if proof.opened is not None:
        source, number, moment = proof.opened
        inside = f" and a part of transaction {source}:{number} of {time(moment)}"
    if last is None:
        return f"{_who(proof.server)}{begun}{inside}"
    what = f"transaction {last.gtid}" if last.gtid else "a transaction"
    when = time(last.moment_us or last.when * 1_000_000)
    return f"{_who(proof.server)}{begun}, with {what} of {when} up to {last.file}:{last.end}{inside}"


def found(place: Position, proof: Proof, here: Here, sought: Sought | None = None) -> str:
    """Says what the log here has in the place of the proof."""
    parts = [_who(here.server)]
    last = proof.last
    if here.begun is None:
        parts.append(f"without a file {place.file}")
    elif here.begun != proof.begun:
        parts.append(f"whose {place.file} was begun {time(here.begun * 1_000_000)}")
    elif last is not None and here.ending is not None:
        ends = f"an event of {time(here.ending.when * 1_000_000)} ends" if here.ending.size else "no event ends"
        parts.append(f"where {ends} at {last.file}:{last.end}")
    if last is not None and sought is not None and last.source:
        if sought.moment_us:
            parts.append(f"with a transaction {last.gtid} of {time(sought.moment_us)}")
        else:
            parts.append(f"where transaction {last.gtid} " + ("is purged" if sought.purged else "is not in the log"))
    return ", ".join(parts)


def found_open(proof: Proof, here: Here, found: tuple[str, int, int] | None, part: Ending | None = None) -> str:
    """Says what it has in the place of the transaction that was read in part."""
    assert proof.opened is not None
    source, number, _ = proof.opened
    if found == proof.opened and proof.part is not None and part is not None:
        ends = f"an event of {time(part.when * 1_000_000)} ends" if part.size else "no event ends"
        return f"{_who(here.server)}, where {ends} at byte {proof.part[0]} of {source}:{number}, which was read in part"
    what = f"transaction {found[0]}:{found[1]} of {time(found[2])}" if found else "no transaction"
    return f"{_who(here.server)}, where {what} is in the place of {source}:{number}, which was read in part"


def _who(name: str) -> str:
    return name if name.startswith("server_id") else f"server {name}"


def time(moment_us: int) -> str:
    seconds, fraction = divmod(moment_us, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}.{fraction:06} UTC" if fraction else f"{at} UTC"
