"""The place in a PostgreSQL server's log behind which it has lost what it had committed.

A standby that is promoted, and a backup that is recovered by `recovery.signal`, begin a timeline, and its history says
where it left the one before: that is the place.  The slot must have kept the log from there on, else what was written
since is in the log no more.  A copy of the disk that is started as it is goes on in the old timeline, by the same
places: where the copy ended, nothing says.
"""

from __future__ import annotations

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.history_words import LOSS_UNTOLD
from tidelock.adapters.ports.source import Loss
from tidelock.adapters.ports.source_errors import LossUntold, PurgedPosition
from tidelock.adapters.postgres.logical.history import difference, forks, identify, primary, require_slot
from tidelock.adapters.postgres.logical.positions import system_of, timeline_of
from tidelock.adapters.postgres.logical.session import session, whole
from tidelock.engine.model.records import Position, spelled_lsn


def loss_before(server: Endpoint, lost: Position) -> Loss:
    """Returns what is left of the log in which `lost` was read.  Raises LossUntold where that cannot be told, and
    SourceError."""
    with session(server, replication=True) as opened:
        identity = identify(opened)
        primary(opened)
        ends = forks(opened, identity.timeline)
        fork = ends.get(timeline_of(lost)) if system_of(lost) == identity.system else None
        if fork is None or fork >= lost.offset:
            found = difference(identity, ends, lost) or "one that uses the same places again"
            raise LossUntold(f"the log of {server} is not the one that {lost} is of: here is {found}", LOSS_UNTOLD)
        try:
            require_slot(opened, identity.place(fork))
        except PurgedPosition as error:
            since = f"so what was written since the loss, behind {spelled_lsn(fork)}, cannot be read"
            raise LossUntold(f"{error.message}, {since}", LOSS_UNTOLD) from None
        ((began,),) = opened.rows("SELECT floor(extract(epoch FROM pg_postmaster_start_time()))::bigint")
        return Loss(identity.place(fork), whole(began), identity.source, fork - 1)
