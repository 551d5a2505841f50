"""Acts of operators on the feeds of a fleet, by the command line and by the API, and the kills that fall beside it.

An act is done once its command says so.  What another act, a kill or a request holds up is tried again, as an operator
would; what is refused for long is kept as a failure.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.fleet.feeds import FILTERS, GOES, FleetFeed
from bench.fleet.serving import Serving, below
from bench.harness.polling import Polling
from bench.harness.rig import Said, tidelock

COMMAND_SECONDS: Final = 240.0
DONE_SECONDS: Final = 600.0
AGAIN_SECONDS: Final = 2.0
KILL_SECONDS: Final = 12.0
SAID_CHARACTERS: Final = 300
DIFFERENT: Final = 3


class Failed(Exception):
    """An act was refused for long; the text says what was said last."""


class Acts:
    """`verified`: how many comparisons under load have found nothing; `wrong`: what others have found."""

    def __init__(self, serving: Serving, rng: random.Random) -> None:
        self.verified = 0
        self.wrong: list[str] = []
        self._serving, self._rng = serving, rng
        self._acts: Mapping[str, Callable[[FleetFeed], str]] = {
            "table dropped or added": self._drop_or_add,
            "filter edited": self._edit_filter,
            "keys edited": self._edit_keys,
            "edited by hand": self._edit_by_hand,
            "file taken away": self._take_away,
            "paused and resumed": self._pause,
            "stopped and started": self._stop,
            "restarted": self._restart,
            "verified": self._verify,
            "copied": self._copy,
        }

    @property
    def kinds(self) -> Sequence[str]:
        return list(self._acts)

    def do(self, kind: str, feed: FleetFeed) -> str:
        """Does it, and returns what was done in a few words.  Raises Failed."""
        return self._acts[kind](feed)

    # ------------------------------------------------------------------ by the command line

    def _drop_or_add(self, feed: FleetFeed) -> str:
        return self._drop_table(feed) if GOES in feed.filters else self._add_table(feed)

    def _drop_table(self, feed: FleetFeed) -> str:
        until_done(lambda: tidelock("drop-table", str(feed.path), feed.table(GOES), "--apply", seconds=COMMAND_SECONDS),
               lambda: not feed.takes(GOES))  # fmt: skip
        del feed.filters[GOES]
        return f"without {GOES}"

    def _add_table(self, feed: FleetFeed) -> str:
        until_done(lambda: tidelock("add-table", str(feed.path), feed.table(GOES), "--apply", seconds=COMMAND_SECONDS),
               lambda: feed.takes(GOES))  # fmt: skip
        feed.filters[GOES] = ""
        return f"with {GOES}"

    def _edit_filter(self, feed: FleetFeed) -> str:
        """Rows that no longer belong stay at the target, as the command says, until the table is copied."""
        table = self._rng.choice(list(feed.filters))
        before = feed.filters[table]
        feed.filters[table] = after = self._rng.choice([one for one in FILTERS if one != before])
        feed.narrowed |= bool(after)
        self._edit(feed)
        if not before:
            until_done(lambda: tidelock("copy", str(feed.path), "--table", feed.table(table), "--yes",
                                    seconds=COMMAND_SECONDS))  # fmt: skip
        return f"{table}: {before or 'all'} -> {after or 'all'}"

    def _edit_keys(self, feed: FleetFeed) -> str:
        words = feed.draw_options(self._rng)
        self._edit(feed)
        return words

    def _edit(self, feed: FleetFeed) -> None:
        new = str(feed.wanted())
        until_done(lambda: tidelock("edit", str(feed.path), new, "--apply", seconds=COMMAND_SECONDS))

    # ------------------------------------------------------------------ at the folder

    def _edit_by_hand(self, feed: FleetFeed) -> str:
        """As an editor does: a file of other keys in the place of the former."""
        words = feed.draw_options(self._rng)
        beside = feed.path.with_suffix(".new")
        beside.write_text(f"# by hand\n{feed.wanted().read_text()}")
        starts = self._starts(feed)
        os.replace(beside, feed.path)
        self._wait(lambda: self._starts(feed) != starts and self._runs(feed), "a start with the new file")
        return words

    def _take_away(self, feed: FleetFeed) -> str:
        away = feed.path.with_suffix(".away")
        os.replace(feed.path, away)
        self._wait(lambda: self._ask(feed, "")[0] == 404, "the end of a feed whose file is gone")
        os.replace(away, feed.path)
        self._wait(lambda: self._runs(feed), "a feed whose file is back")
        return "and put back"

    # ------------------------------------------------------------------ by the API

    def _pause(self, feed: FleetFeed) -> str:
        self._post(feed, "pause")
        time.sleep(self._rng.uniform(1.0, 8.0))  # it is what lasts
        self._post(feed, "resume")
        return ""

    def _stop(self, feed: FleetFeed) -> str:
        self._post(feed, "stop")
        self._wait(lambda: not self._runs(feed), "a stop")
        time.sleep(self._rng.uniform(0.0, 5.0))
        self._post(feed, "start")
        self._wait(lambda: self._runs(feed), "a start")
        return ""

    def _restart(self, feed: FleetFeed) -> str:
        self._post(feed, "restart")
        self._wait(lambda: self._runs(feed), "a start")
        return ""

    def _verify(self, feed: FleetFeed) -> str:
        job = self._job(feed, "verify", {"wait": 60})
        code, told = job.get("exit_code"), str(job.get("report") or job.get("error"))
        if code == 0:
            self.verified += 1
        elif code == DIFFERENT:
            self.wrong.append(f"{feed.name}: verify found differences under load: {told[:SAID_CHARACTERS]}")
        return "nothing found" if code == 0 else f"exit code {code}: {told[:SAID_CHARACTERS]}"

    def _copy(self, feed: FleetFeed) -> str:
        table = self._rng.choice(list(feed.filters))
        job = self._job(feed, "copy", {"tables": [feed.table(table)], "replace": True})
        return f"{table}: {job['state']}"

    def _job(self, feed: FleetFeed, path: str, body: object) -> Mapping[str, object]:
        """Returns a job once it has ended, or was forgotten with the `serve` that had it."""
        found: dict[str, object] = {}

        def ended() -> bool:
            if "id" not in found:
                status, told = self._ask(feed, f"/{path}", body)
                if status == 202:
                    found["id"], found["state"] = told["job"], "runs"  # type: ignore[index]
                return False
            status, told = self._serving.served.api().ask(f"/jobs/{found['id']}")
            if status == 200:
                found.update(told)
            return status == 404 or (status == 200 and found["state"] != "runs")

        self._wait(ended, f"a job of {path}")
        return found

    def _post(self, feed: FleetFeed, path: str) -> None:
        self._wait(lambda: self._ask(feed, f"/{path}", {})[0] == 200, path)

    def _ask(self, feed: FleetFeed, path: str, body: object = None) -> tuple[int, object]:
        return self._serving.served.api().ask(f"/feeds/{feed.name}{path}", body)

    def _starts(self, feed: FleetFeed) -> tuple[int, int]:
        """Returns which `serve` it is, and how often that has started the feed."""
        status, told = self._ask(feed, "")
        return self._serving.generation, told["starts"] if status == 200 else 0  # type: ignore[index]

    def _runs(self, feed: FleetFeed) -> bool:
        return self._serving.served.api(feed.name).goes_on()

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DONE_SECONDS
        while not true():
            if time.monotonic() > deadline or not (self._serving.pid or not self._serving.up.is_set()):
                raise Failed(f"{what}: not within {DONE_SECONDS:.0f} s, or serve has ended")
            time.sleep(AGAIN_SECONDS / 2)


def until_done(command: Callable[[], Said], done: Callable[[], bool] = lambda: False) -> None:
    """Runs a command until it says that it is done, or `done` says so.  Raises Failed."""
    deadline = time.monotonic() + DONE_SECONDS
    while (refused := _refused(command)) and not done():
        if time.monotonic() > deadline:
            raise Failed(refused)
        time.sleep(AGAIN_SECONDS)


def _refused(command: Callable[[], Said]) -> str:
    """Runs a command; returns why it was not done, '' where it was.  One that takes too long was ended."""
    try:
        said = command()
    except subprocess.TimeoutExpired as error:
        return f"it was ended: {error}"
    return f"exit code {said.code}: {(said.err or said.out)[-SAID_CHARACTERS:]}" if said.code else ""


class Kills(Polling):
    """Context manager: inside, feeds that are not calm are killed.  `made`: how many of each kind."""

    def __init__(self, serving: Serving, feeds: Sequence[FleetFeed], rng: random.Random, every: float) -> None:
        super().__init__("kills", every)
        self.made = {"feed": 0, "capture": 0}
        self._serving, self._rng = serving, rng
        self._busy = {feed.name for feed in feeds if not feed.calm}

    def look(self) -> None:
        """Kills one process: mostly a feed, at times the one that reads its log."""
        runs = [child for child in self._serving.children() if child.name == "run" and child.feed in self._busy]
        if not runs:
            return
        run = self._rng.choice(runs)
        capture = [child for child in below(run.pid) if child.name == "capture"]
        kind = "capture" if capture and self._rng.random() < 0.25 else "feed"
        try:
            os.kill((capture[0] if kind == "capture" else run).pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.made[kind] += 1
