"""Tells which run has a feed, and whether it is alive.  The fence of design 6, not this, keeps rows exact.

A run that begins leaves its name in `tidelock_runs` in the very transaction that takes the feed over, and says every
few seconds, by the target's clock, that it is alive (`adapters.app.pulse`).  Another run that begins looks there first
(`Lookout`), and leaves a live one alone.  A dead one is not waited for.  What proves what:

| what is seen                                                  | then the run is                         |
|---------------------------------------------------------------|-----------------------------------------|
| it took its name away as it ended                             | over                                    |
| its last sign of life is older than its lease                 | dead, or hung                           |
| same boot and pid namespace: its process is there, or is not  | alive, or dead                          |
| elsewhere: a new sign of life while we watch                  | alive                                   |
| elsewhere: no sign while we watch, and its session is gone    | dead                                    |
| elsewhere: no sign, but its session is there                  | unknown: we watch until its lease ends  |

A process is known by its pid *and* the moment it started, in one boot of one kernel and one namespace of pids: in
containers all hosts may be called alike and every run may be process 1.  That a session is gone proves nothing at
once, since a target that was restarted, or a network, may have ended it; its run comes back within a heartbeat.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.bookkeeping.lease import Claim, lock_name, lock_of, place_of
from tidelock.adapters.bookkeeping.permits import PermitWord, read_word
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.wiring.session import TargetSession

BEAT_SECONDS: Final = 3.0
WATCH_SECONDS: Final = 6.0
"""How long we wait for a sign of life before a session that is gone counts: two heartbeats."""
LOOK_SECONDS: Final = 0.3

RunVerdict: TypeAlias = Literal["free", "alive", "unknown"]
_UNANSWERED: Final = msgspec.json.Decoder(Unanswered)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `tidelock_runs`.

    `since`: seconds since 1970.  `silent_seconds`: None: it ended in order.  `beat`: its last sign of life, as a number
    that only differs from others.  `session`: whether its session is at the target.  `prepared`: the transaction that
    the source has prepared for long and not decided.  `permit`: what it says of its permit; None: it has none.
    `lag_seconds`: how far it is behind, as it says; None: it does not say.
    """

    token: str
    host: str
    pid: int
    place: str
    since: float
    silent_seconds: float | None
    beat: float
    lease_seconds: int
    session: bool
    prepared: Unanswered = Unanswered()
    permit: PermitWord | None = None
    lag_seconds: float | None = None

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"on {self.host} as process {self.pid} since {since}"

    @property
    def alive(self) -> bool:
        """Tells whether the run is alive, as far as one look can tell."""
        return judge(self) == "alive" or (judge(self) == "unknown" and self.session)


class RunsAlready(Exception):
    """A live run has the feed."""

    exit_code = 1
    hint = "End that one first, or take the feed over from it with --take-over"

    def __init__(self, feed: str, run: Run) -> None:
        super().__init__(
            f"The feed {feed} runs already, {run}; it showed a sign of life {run.silent_seconds or 0:.0f} s ago"
        )


def judge(run: Run | None) -> RunVerdict:
    """Judges a run by one look from this machine."""
    if run is None or run.silent_seconds is None or run.silent_seconds > run.lease_seconds:
        return "free"
    ours = place_of(os.getpid())
    if not ours or ours.split()[:2] != run.place.split()[:2]:
        return "unknown"
    return "alive" if place_of(run.pid) == run.place else "free"


class Lookout:
    """Decides by several looks.  `step` gives a verdict other than `unknown` once there is proof."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: Run | None = None
        self._began = 0.0

    def step(self, run: Run | None) -> RunVerdict:
        """Takes one more look and returns the verdict."""
        verdict = judge(run)
        if verdict != "unknown" or run is None:
            return verdict
        if self._first is None or self._first.token != run.token:
            self._first, self._began = run, self._clock()
            return "unknown"
        if run.beat != self._first.beat:
            return "alive"
        if run.session:
            self._began = self._clock()
        return "free" if self._clock() - self._began > WATCH_SECONDS else "unknown"


async def admitted(target: TargetSession, claim: Claim, tell: Callable[[str], None]) -> str:
    """Returns once no live run but ours has the feed: the token of the run that is over, or ''.

    Raises RunsAlready, TargetError.
    """
    lookout = Lookout()
    told = False
    while True:
        run = await read(target, claim.schema, claim.feed)
        if run is None or run.token == claim.token:
            return run.token if run else ""
        match lookout.step(run):
            case "free":
                return run.token
            case "alive":
                raise RunsAlready(claim.feed, run)
        if not told:
            told = True
            tell(f"the last run was {run}: waiting to see whether it is alive")
        await asyncio.sleep(LOOK_SECONDS)


async def read(target: TargetSession, schema: str, feed: str) -> Run | None:
    """Reads the last run of the feed.  Raises TargetError."""
    if target.dialect == "postgres":
        moment, now = "cast(extract(epoch FROM {}) AS double precision)", "clock_timestamp()"
    else:
        moment, now = "unix_timestamp({})", "now(6)"
    columns = f"{moment.format('since')}, {moment.format('beat_at')}, {moment.format(now)}, lag_us"
    rows = await target.fetch(
        f"SELECT token, host, pid, place, lease_seconds, {columns}, prepared, permit "
        f"FROM {quote(target.dialect, schema)}.tidelock_runs WHERE feed = %s AND grp = 0",
        feed,
    )
    if not rows:
        return None
    token, host, pid, place, lease, since, beat, at, lag, prepared, permit = rows[0]
    return Run(
        token=token,
        host=host,
        pid=int(pid),
        place=place,
        since=float(since),
        silent_seconds=None if beat is None else max(0.0, float(at) - float(beat)),
        beat=float(beat or 0),
        lease_seconds=int(lease),
        session=await _has_session(target, lock_of(schema, feed, token)),
        prepared=_UNANSWERED.decode(prepared) if prepared else Unanswered(),
        permit=read_word(permit),
        lag_seconds=None if lag is None else int(lag) / 1e6,
    )


async def _has_session(target: TargetSession, lock: int) -> bool:
    if target.dialect == "postgres":
        held = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
            f"AND classid = {lock >> 32} AND objid = {lock & 0xFFFFFFFF} "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    else:
        held = f"SELECT is_used_lock('{lock_name(lock)}') IS NOT NULL"
    return bool(int((await target.fetch(held))[0][0]))
