"""A process that has imported the product and forks for each command that a test starts.

`python -m bench.harness.fork_server FD`: FD is its end of a socket pair (`bench.harness.forking` holds the other).  A
message is a `Request` with three file descriptors: stdout, stderr, and a pipe which the new process tells its id and
this one its exit code.  The new process leads a session of its own and runs `python -m tidelock`: from there on it is
what it would be in an interpreter of its own, but for the imports.  When the socket closes the server ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import tidelock.adapters
import tidelock.engine
import tidelock.simulations
from bench.harness.forked import Forked
from tidelock.adapters.process.child import Child, Started, in_new_interpreter

TOLD: Final = struct.Struct("<q")
MESSAGE_BYTES: Final = 1 << 20
DESCRIPTORS: Final = 3
# What only builds or documents.
NOT_NEEDED: Final = tuple(f"tidelock.adapters.{name}" for name in ("compiled.build", "compiled.wheel", "reference"))
# What libraries import when they are first used, and what a command imports once it has begun; not the event loop.
LATE: Final = ("pydantic.type_adapter", "rich.console", "rich.table", "typer._adapters")


@dataclasses.dataclass(frozen=True)
class Request:
    """`arguments`: of `tidelock`.  `folder`: where it is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str


def main() -> None:
    owner = socket.socket(fileno=int(sys.argv[1]))
    import_product()
    gc.collect()
    gc.freeze()
    request = serve(owner)
    with whole_life():
        become(request)
        runpy.run_module("tidelock", run_name="__main__", alter_sys=True)


def import_product() -> None:
    """Imports all that any command imports, also late."""
    for package in (tidelock.adapters, tidelock.engine, tidelock.simulations):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(NOT_NEEDED):
                importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)


def serve(owner: socket.socket) -> Request:
    """Forks for each request; returns only in a process that was forked.  Raises SystemExit when the owner is gone."""
    with selectors.DefaultSelector() as selector:
        selector.register(owner, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data()
                    continue
                body, handed, _, _ = socket.recv_fds(owner, MESSAGE_BYTES, DESCRIPTORS)
                if not body:
                    sys.exit()
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    begin(*handed)
                    return Request(**json.loads(body))
                out, error, told = handed
                os.close(out)
                os.close(error)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, teller(pid, told))


def teller(pid: int, told: int) -> Callable[[], None]:
    """Makes the function that tells the exit code of a process that has ended."""

    def tell() -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it
            os.write(told, TOLD.pack(code))
        os.close(told)

    return tell


def begin(out: int, error: int, told: int) -> None:
    """Takes the output, and what makes a session; all else that the server has open is not for this process."""
    os.setsid()
    os.dup2(out, 1)
    os.dup2(error, 2)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, TOLD.pack(os.getpid()))
    close_all_but(0, 1, 2)


def close_all_but(*kept: int) -> None:
    """Closes file descriptors, whoever opened them: objects that hold them are not used any more."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def become(request: Request) -> None:
    """Has the environment, the folder and the arguments that were asked for."""
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.folder)
    sys.path[0] = request.folder
    sys.argv = ["tidelock", *request.arguments]
    Child.start = staticmethod(forked)


def forked(module: str, arguments: Sequence[str], handed: socket.socket) -> Started:
    """Starts `python -m module argument …` by a fork, where this process has one thread and no event loop runs, which
    has its signals; else as the product does.
    """
    if threading.active_count() > 1 or asyncio._get_running_loop() is not None:
        return in_new_interpreter(module, arguments, handed)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        with whole_life():
            keep = handed.fileno()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            close_all_but(0, 1, 2, keep)
            sys.argv = [module, *arguments]
            sys.modules.pop(module, None)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    return Forked(module, pid, os.pidfd_open(pid), lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


@contextlib.contextmanager
def whole_life() -> Iterator[None]:
    """Ends this process behind the block as Python ends one, but takes no module apart: that costs more than all else,
    since every page that is touched is copied.
    """
    code = 1
    try:
        yield
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    main()
