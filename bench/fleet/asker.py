"""Somebody who asks the API anything, and holds feeds up for moments; each whole request must have an answer."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from bench.fleet.requests import HELD, STATUSES, Request, Requests
from bench.fleet.serving import Serving

ANSWER_SECONDS: Final = 330.0
PART_SECONDS: Final = 0.5
MOST_BYTES: Final = 4 << 20
COSTLY_SECONDS: Final = 4.0
"""A request that may run a command comes so often, at most: each costs some tenths of a second of a processor."""
HOLD_SECONDS: Final = 40.0
SHOWN: Final = 400


class Asker(threading.Thread):
    """`statuses`: how many answers of each; `wrong`: requests whose answer should not be, or that had none."""

    def __init__(self, serving: Serving, feeds: Mapping[str, bool], tables: list[str], seed: int, rate: float) -> None:
        """`feeds`: by name, whether each is calm.  `rate`: requests a second."""
        super().__init__(name="asker", daemon=True)
        self.statuses: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.failure = ""
        self._serving, self._feeds, self._rate = serving, feeds, rate
        self._rng = random.Random(f"{seed} asker")
        self._requests = Requests(self._rng, serving.served.address, feeds, tables)
        self._ended = threading.Event()
        self._costly = self._held = time.monotonic()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._ended.wait(1.0 / self._rate):
                if self._serving.up.wait(1.0):
                    self._turn()
        except Exception as error:
            self.failure = f"the asker ended: {error!r}"
            raise

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._held > HOLD_SECONDS:
            self._hold()
            self._held = time.monotonic()
            return
        request = self._requests.draw()
        while request.costly and now - self._costly < COSTLY_SECONDS:
            request = self._requests.draw()
        if request.costly:
            self._costly = now
        self._ask(request)

    def _ask(self, request: Request) -> None:
        serve = self._serving.generation
        status = self._status(request)
        if serve != self._serving.generation:  # it was killed meanwhile
            return
        self.statuses[status] += 1
        if status not in STATUSES and (status or request.whole):
            self.wrong.append(f"status {status} of {request.data[:SHOWN]!r}")

    def _status(self, request: Request) -> int:
        """Returns the status of the answer; 0 where there is none.  What is not whole may have none."""
        host, _, port = self._serving.served.address.partition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
                if not request.whole:
                    connection.settimeout(PART_SECONDS)
                with contextlib.suppress(ConnectionError):  # it may answer, and close, before it has read all
                    connection.sendall(request.data)
                return self._read(connection, request)
        except OSError:
            return 0

    def _read(self, connection: socket.socket, request: Request) -> int:
        """Reads the answer to its end; of a stream without one only the beginning."""
        answer = connection.recv(1 << 16)
        found = re.match(rb"HTTP/1\.[01] (\d+) ", answer)
        read = len(answer)
        stream = request.route.does == "events" or not request.whole
        while not stream and read < MOST_BYTES and (piece := connection.recv(1 << 16)):
            read += len(piece)
        return int(found[1]) if found else 0

    def _hold(self) -> None:
        """Holds one feed up for some seconds; all is taken back, whatever befalls `serve` meanwhile."""
        feed = self._rng.choice(list(self._feeds))
        path = "pause" if self._feeds[feed] else self._rng.choice(list(HELD))
        api = self._serving.served.api()
        if api.ask(f"/feeds/{feed}/{path}", {})[0] not in (200, 0, 404, 409, 503):
            self.wrong.append(f"{path} of {feed} was refused")
        self._ended.wait(self._rng.uniform(0.5, 6.0))
        while api.ask(f"/feeds/{feed}/{HELD[path]}", {})[0] not in (200, 404) and not self._ended.is_set():
            time.sleep(1.0)
