"""The guard of one Spark session: ends what the session started once the process that opened it is gone.

Started as `python guard.py MARK`.  Its standard input is a pipe from that process, which nobody else holds, so it ends
with it, however it ended.  Then every process of this machine that carries MARK in its environment is killed: Java, and
the Python workers that Java starts and that outlive it for seconds.  Java alone would stop its context first, which
waits for tasks.

It is a process of its own, because a thread dies with its process, and because Linux' signal for a parent's death
comes when the *thread* that started the child ends.  It imports nothing of ours, to be small and there at once.
"""

import os
import pathlib
import signal
import sys
import time

_SECONDS = 10.0
_AGAIN_SECONDS = 0.05


def marked(mark: bytes) -> list[int]:
    """Returns the processes that carry the mark, but this one."""
    found = list[int]()
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:  # gone, or another user's
                continue
            if mark in environment.split(b"\0"):
                found.append(int(folder.name))
    return found


def main() -> None:
    """Waits for the end of the pipe, then kills until nothing is left that could start another."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mark = sys.argv[1].encode()
    while os.read(0, 1):
        pass
    until = time.monotonic() + _SECONDS
    while (found := marked(mark)) and time.monotonic() < until:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(_AGAIN_SECONDS)


if __name__ == "__main__":
    main()
