"""Stamp of a row: when and where it was written last, so that sites without an arbiter keep the same row.

Stamps are in one order at every site: by time, then by the site's name (history 18).  A row that is written where it
stands gets a stamp above the one that it writes over, whatever the clock says (history 19); so a site never refuses
elsewhere what it did itself.  Each row keeps its own stamp on its way: a forwarder's time, or a batch's, would make an
older row the newer one (history 22).

Where an insert does not look at what was deleted before, a change must wait until the clock here has *passed* its
stamp: then whatever is inserted after it is later.  Until the clock has only reached it is too early, since the site's
name may decide the tie for the delete.
"""

from __future__ import annotations

from typing import NamedTuple


class Stamp(NamedTuple):
    """Microseconds since the epoch, and the site's name."""

    time: int
    site: str


def local_stamp(clock: int, site: str, over: Stamp | None, floor: int) -> Stamp:
    """Returns the stamp of a write at a site.

    `over`: of the row or the tombstone that it writes over, the greater one.  `floor`: the latest time of which a
    tombstone was purged here.
    """
    return Stamp(max(clock, floor + 1, 0 if over is None else over.time + 1), site)


def stands(incoming: Stamp, row: Stamp | None, tombstone: Stamp | None) -> bool:
    """Tells whether a change from elsewhere is later than what is here, a row or what is left of one."""
    return (row is None or incoming > row) and (tombstone is None or incoming > tombstone)


def must_wait(incoming: Stamp, clock: int) -> bool:
    """Tells whether a change is not yet past for this site's clock."""
    return incoming.time >= clock
