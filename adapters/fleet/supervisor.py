"""`tidelock serve`: keeps every feed of a folder running, each in a process of its own.

Everything happens in one thread: what processes say, how they end, signals and the clock come through one queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Final, Literal, TypeAlias

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.fleet.folder import FeedFile, Folder
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.restarts import HALTED
from tidelock.adapters.fleet.screen import Screen
from tidelock.adapters.operator import feed_control
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.own_folder import own_folder
from tidelock.adapters.process.service_manager import ServiceManager

TURN_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 5.0
"""How often the folder is looked at, and the target of a feed that has halted."""
STOP_SECONDS: Final = 25.0
OK: Final = 0
Wish: TypeAlias = Literal["start", "stop", "restart"]


class Supervisor:
    """The fleet of one folder.  `members`: its feeds, by their files.  `begun`: the folder was read once."""

    def __init__(
        self, folder: Path, screen: Screen, *, terminal: bool, manager: ServiceManager | None = None
    ) -> None:
        """`terminal`: it is one's foreground command, and SIGHUP says that this was closed.  `manager`: is told how the
        fleet is."""
        self.members: dict[Path, Member] = {}
        self.begun = False
        self._manager = manager or ServiceManager({})
        self._folder = Folder(folder)
        self._screen, self._terminal = screen, terminal
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = 0.0
        self._looked = 0.0
        self._halts: dict[Path, HaltWatch] = {}
        self._tried: dict[Path, str] = {}  # the halt behind which a feed was started again last, in its words
        self._sockets = Path()
        self._made = 0
        self._pool = ThreadPoolExecutor(4)

    def run(self) -> int:
        """Runs until told to stop; returns the exit code.  Raises OSError where the folder cannot be read at first."""
        with own_folder("sockets") as self._sockets, self._pool, self._heard():
            self._look()
            self.begun = True
            self._manager.ready()
            try:
                while not self._over():
                    self._turn()
                    self._manager.alive()
            finally:
                for one in self.members.values():
                    one.kill()
                self._screen.show(self.members.values())
        return OK

    def _over(self) -> bool:
        return bool(self._stopping) and not any(one.running for one in self.members.values())

    def _turn(self) -> None:
        with contextlib.suppress(queue.Empty):
            self._events.get(timeout=TURN_SECONDS)()
            while True:
                self._events.get_nowait()()
        if self._stopping:
            if time.monotonic() - self._stopping > STOP_SECONDS:
                for one in self.members.values():
                    one.kill()
        else:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._look_again()
            for one in self.members.values():
                if one.due is not None and one.due <= time.monotonic():
                    one.start()
            kill_overdue(self.members.values(), time.monotonic())
        self._screen.show(self.members.values())

    # ------------------------------------------------------------------ the folder

    def _look_again(self) -> None:
        """Looks at the folder; while that cannot be read, all stays as it is."""
        try:
            self._look()
        except OSError as error:
            self._looked = time.monotonic()
            self._screen.say("", f"the folder cannot be read: {error.strerror or error}; all feeds stay as they are")

    def _look(self) -> None:
        files = self._folder.look()
        self._looked = time.monotonic()
        for path, file in files.items():
            one = self.members.get(path)
            if one is None:
                self._add(path, file)
            elif one.file.stamp != file.stamp and not one.changing_to(file):
                self._say(file, "its file has changed" if file.feed is not None else file.problem)
                self._halts.pop(path, None)
                one.change(file)
        for path in [path for path in self.members if path not in files]:
            self._drop(path)
        for path, watch in list(self._halts.items()):
            if watch.over():
                del self._halts[path]
                self._tried[path] = self.members[path].words
                self._screen.say(self.members[path].name, "its halt is over: started again")
                self.members[path].start()

    def _add(self, path: Path, file: FeedFile) -> None:
        self._made += 1
        socket = self._sockets / f"{self._made}.socket"
        self.members[path] = Member(file, socket, self._ended, self._said)
        if file.problem:
            self._say(file, file.problem)
        self.members[path].start()

    def _drop(self, path: Path) -> None:
        one = self.members[path]
        self._halts.pop(path, None)
        self._tried.pop(path, None)
        if not one.leaving:
            self._screen.say(one.name, "its file is gone: it ends")
            one.stop()
        if not one.running:
            del self.members[path]

    def _say(self, file: FeedFile, text: str) -> None:
        self._screen.say("" if file.problem else file.name, text)

    # ------------------------------------------------------------------ what processes say

    def _said(self, path: Path, line: str) -> None:
        self._events.put(lambda: self._hear(path, line))

    def _hear(self, path: Path, line: str) -> None:
        one = self.members.get(path)
        if one is not None and (text := one.hear(line)):
            self._screen.say(one.name, text)

    def _ended(self, path: Path, code: int) -> None:
        self._events.put(lambda: self._judge(path, code))

    def _judge(self, path: Path, code: int) -> None:
        one = self.members[path]
        self._screen.say(one.name, one.end(code))
        if one.leaving and not self._stopping:
            del self.members[path]
        elif one.state == "needs an operator" and one.file.feed is not None:
            fresh = code == HALTED and self._tried.get(path) != one.words
            self._halts[path] = HaltWatch(one.file.feed, self._pool, fresh=fresh)

    # ------------------------------------------------------------------ what operators want

    @property
    def stopping(self) -> bool:
        """Tells whether it was told to stop."""
        return bool(self._stopping)

    def tell(self, text: str) -> None:
        """Shows a line about all feeds, from any thread."""
        self._events.put(lambda: self._screen.say("", text))

    def want(self, path: Path, wish: Wish) -> Future[bool]:
        """Starts, stops or restarts the process of one feed, from any thread.

        The result: whether there was such a feed, and feeds are not being ended.  Nothing comes of a wish that is
        cancelled before its turn.
        """
        done: Future[bool] = Future()

        def turn() -> None:
            if done.set_running_or_notify_cancel():
                done.set_result(self._carry_out(path, wish))

        self._events.put(turn)
        return done

    def _carry_out(self, path: Path, wish: Wish) -> bool:
        one = self.members.get(path)
        if one is None or one.leaving or self._stopping:
            return False
        self._halts.pop(path, None)
        match wish:
            case "start":
                one.take_up()
            case "stop":
                one.hold()
            case "restart":
                one.begin_anew()
        return True

    # ------------------------------------------------------------------ signals

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """Stops at SIGTERM and Ctrl-C inside the block, and looks at the folder at SIGHUP."""

        def told(number: int, frame: FrameType | None) -> None:
            looks = number == signal.SIGHUP and not self._terminal
            self._events.put(self._look_at_once if looks else self._stop)

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, told) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = time.monotonic()
            self._manager.stopping()
            self._screen.say("", "told to stop: all feeds end in order")
            for one in self.members.values():
                one.stop()

    def _look_at_once(self) -> None:
        """Looks at the folder, and starts what waits for its next try."""
        if self._stopping:
            return
        self._look_again()
        for path, one in self.members.items():
            if not one.running and not one.leaving and not one.held:
                self._halts.pop(path, None)
                one.start()


def kill_overdue(members: Iterable[Member], now: float) -> None:
    """Ends processes at once that were asked to end long ago.  `now`: by the monotonic clock."""
    for one in members:
        if one.asked is not None and now - one.asked > STOP_SECONDS:
            one.kill()


class HaltWatch:
    """Asks the target of a feed that has halted whether an operator has ended its halt (`tidelock ddl done`).

    `fresh`: the feed was not started again behind this halt.  Where the first look finds none, an operator has ended it
    before, or no command ends it: the feed is tried once more, and says the same again if it is the latter.
    """

    def __init__(self, feed: Feed, pool: ThreadPoolExecutor, *, fresh: bool) -> None:
        self._feed, self._pool = feed, pool
        self._asked: Future[bool | None] | None = None
        self._was_halted = fresh

    def over(self) -> bool:
        """Returns whether its halt is over.  What a look in another thread found is taken the next time."""
        if self._asked is not None and self._asked.done():
            halted, self._asked = self._asked.result(), None
            if halted is False and self._was_halted:
                return True
            self._was_halted = self._was_halted or halted is True
        if self._asked is None and self._feed.target_url.scheme != "hive":
            self._asked = self._pool.submit(_halted, self._feed)
        return False


def _halted(feed: Feed) -> bool | None:
    """Returns whether a feed is halted; None where its target does not say."""
    try:
        return asyncio.run(feed_control.any_halted(feed))
    except TargetError:
        return None
