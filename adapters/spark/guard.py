"""The guard of one Spark session: ends what the session started once the process that opened it is gone.

Started as `python guard.py MARK`.  Its standard input is a pipe from that process, which nobody else holds, so it ends
with it, however it ended.  Then every process of this machine that carries MARK in its environment is killed: Java, and
the Python workers that Java starts and that outlive it for seconds.  Java alone would stop its context first, which
waits for tasks.

It is a process of its own, because a thread dies with its process, and because Linux' signal for a parent's death
comes when the *thread* that started the child ends.  It imports nothing of ours, to be small and there at once.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator

_SECONDS = 10.0
_AGAIN_SECONDS = 0.05


def marked(mark: bytes) -> Iterator[int]:
    """Yields the processes that carry the mark, but this one; the oldest first, which starts the others."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid != os.getpid():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read()
            except OSError:  # gone, or another user's
                continue
            if mark in environment.split(b"\0"):
                yield pid


def main() -> None:
    """Waits for the end of the pipe, then kills until nothing is left that could start another."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mark = sys.argv[1].encode()
    while os.read(0, 1):
        pass
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        left = False
        for pid in marked(mark):  # each at once: a machine that is busy looks long through its processes
            left = True
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        if not left:
            return
        time.sleep(_AGAIN_SECONDS)


if __name__ == "__main__":
    main()
