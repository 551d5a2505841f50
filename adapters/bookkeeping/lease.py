"""The lease of a run on its feed: its name, what a takeover leaves, and the lock that its session holds."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import Final

import msgspec

LEASE_SECONDS: Final = 30


class Claim(msgspec.Struct, frozen=True):
    """The name of this process for one life of `tidelock run`.

    `place`: boot, pid namespace and start time of the process, where the kernel tells them.  `schema`, `feed`: identify
    the row of `tidelock_runs`; its group is 0.
    """

    schema: str
    feed: str
    token: str
    host: str
    pid: int
    place: str

    @classmethod
    def new(cls, schema: str, feed: str) -> Claim:
        """Makes a claim for this process."""
        return cls(schema, feed, secrets.token_hex(8), socket.gethostname(), os.getpid(), place_of(os.getpid()))

    @property
    def lock(self) -> int:
        """The number of the advisory lock that goes with this claim."""
        return lock_of(self.schema, self.feed, self.token)


class Entry(msgspec.Struct, frozen=True):
    """The state that a takeover expects and the claim that it writes.

    `over`: the token of the run that was seen to be over, '' where there was none; None: take over from any run.
    """

    claim: Claim
    over: str | None

    def check(self, found: str) -> None:
        """Compares with `found`, the token that is there in the takeover's transaction.  Raises Overtaken."""
        if self.over is not None and found not in (self.over, self.claim.token):
            raise Overtaken


class Overtaken(Exception):
    """Another run took the feed over since we looked."""


def place_of(pid: int) -> str:
    """Returns boot, pid namespace and start time of a process of this machine; '' where it is gone or the kernel does
    not tell.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else f"{boot} {namespace} {fields[18]}"


def lock_of(schema: str, feed: str, token: str) -> int:
    """Returns the advisory lock that a run's session holds while it is connected; it fits into PostgreSQL's bigint."""
    digest = hashlib.blake2b(f"{schema}/{feed}/{token}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def lock_name(lock: int) -> str:
    """Returns the name of that lock at MySQL and MariaDB."""
    return f"tidelock:run:{lock:016x}"
