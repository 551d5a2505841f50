"""Words to the service manager, with a datagram socket in place of systemd's."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.runtime.service_watch import ServiceWatch

SECONDS = 60.0


class Systemd:
    """The other end.  `environment`: of a service with a watchdog of so many microseconds."""

    def __init__(self, path: Path | str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(SECONDS)
        self.address = str(path).replace("\0", "@")

    def environment(self, microseconds: int = 0) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address, **({"WATCHDOG_USEC": str(microseconds)} if microseconds else {})}

    def next(self) -> str:
        return self._socket.recv(4096).decode()

    def until(self, line: str) -> list[str]:
        """Returns what is told up to this line."""
        told = [self.next()]
        while told[-1] != line:
            told.append(self.next())
        return told

    def told(self) -> list[str]:
        """Returns what has been told already."""
        told = []
        self._socket.setblocking(False)
        try:
            while True:
                told.append(self.next())
        except BlockingIOError:
            return told
        finally:
            self._socket.settimeout(SECONDS)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a path", "an abstract name"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    yield from told_at(tmp_path / "notify" if request.param == "a path" else f"\0{tmp_path}")


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[Systemd]:
    yield from told_at(tmp_path / "notify")


def told_at(address: Path | str) -> Iterator[Systemd]:
    found = Systemd(address)
    yield found
    found.close()


def test_each_word_is_told_once_and_the_variables_go(systemd: Systemd) -> None:
    environment = {**systemd.environment(40_000_000), "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}
    manager = ServiceManager(environment)
    assert environment == {"PATH": "/bin"}, "a child would speak for the service"
    assert (manager.watchdog_seconds, manager.beat_seconds) == (40.0, 10.0)
    for tell in (manager.ready, manager.alive, manager.stopping) * 2:
        tell()
    assert systemd.told() == ["READY=1", "WATCHDOG=1", "STOPPING=1"]


def test_a_watchdog_of_another_process_is_not_ours(notified: Systemd) -> None:
    manager = ServiceManager({**notified.environment(40_000_000), "WATCHDOG_PID": "1"})
    manager.alive()
    manager.ready()
    assert manager.watchdog_seconds is None and notified.told() == ["READY=1"]


@pytest.mark.parametrize("address", ["", "vsock:2:9999", "/nowhere/notify"])
def test_nobody_who_listens_is_no_error(address: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address} if address else {})
    for tell in (manager.ready, manager.alive, manager.stopping):
        tell()


@dataclass
class Loop:
    turns: int = 0
    turning: bool = True


def test_a_loop_that_makes_no_turn_ends_the_signs_of_life(notified: Systemd) -> None:
    loops = [Loop(), Loop()]
    watch = ServiceWatch(ServiceManager(notified.environment(4)), lambda: loops)

    def look() -> int:
        watch.look()
        return len(notified.told())

    assert look() == 1
    for loop in loops:
        loop.turns += 1
    assert look() == 1
    loops[0].turns += 1
    assert look() == 0, "the second made none"
    loops[1].turning = False
    loops[0].turns += 1
    assert look() == 1, "it has ended"
    loops.clear()
    assert look() == look() == 1, "servers are waited for"


def test_a_fleet_tells_its_start_its_life_and_its_end(notified: Systemd, tmp_path: Path) -> None:
    folder = tmp_path / "feeds"
    folder.mkdir()
    process = Process(["serve", str(folder)], tmp_path / "said", environment=notified.environment(200_000))
    try:
        assert notified.next() == "READY=1"
        assert notified.until("WATCHDOG=1") == ["WATCHDOG=1"]
        process.stop()
        assert "STOPPING=1" in notified.told()
    finally:
        process.kill()


def test_a_feed_tells_its_start_its_life_and_its_end(
    notified: Systemd, mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    """It is ready once it owns the feed, and alive while its apply loop makes turns."""
    rig = make_rig(mariadb, postgres, "notified")
    rig.table("t", "id int PRIMARY KEY")
    process = rig.run(environment=notified.environment(200_000))
    assert "READY=1" in notified.until("READY=1")
    for _ in range(3):
        notified.until("WATCHDOG=1")
    process.stop()
    told = notified.told()
    assert told.count("STOPPING=1") == 1 and "READY=1" not in told


@pytest.mark.proof
def test_a_worker_tells_its_start_its_life_and_its_end(
    notified: Systemd, mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "notifying", log=kafka.url())
    rig.table("t", "id int PRIMARY KEY")
    environment, said = notified.environment(200_000), rig.folder / "said"
    process = Process(["worker", str(rig.feed), "--name", "w1"], said, environment=environment)
    try:
        assert "READY=1" in notified.until("READY=1")
        rig.at_source("INSERT INTO t VALUES (1)")
        until(rig.equal, "the row", SECONDS)
        notified.told()
        for _ in range(3):
            notified.until("WATCHDOG=1")
        process.stop()
    finally:
        process.kill()
    assert notified.told().count("STOPPING=1") == 1, said.read_text()
