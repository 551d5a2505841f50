"""Commands that are forked: processes with an id, a session, output, an environment and an end of their own."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness.fork_server import forked
from bench.harness.forked import Forked
from bench.harness.forking import COMMAND, Started, interpreters, start, use_fork_server
from bench.harness.rig import tidelock, until

SECONDS = 20.0
OWNER = """
import pathlib, sys
from bench.harness.forking import start, use_fork_server
with use_fork_server(), open("owner.log", "wb") as out:
    process = start(["status", "feed.yaml"], out, out)
    print(process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    with use_fork_server():
        yield


def started(out: Path, *arguments: str, environment: dict[str, str] | None = None) -> Started:
    with out.open("wb") as file:
        return start(arguments, file, file, environment=environment, cwd=out.parent)


@pytest.fixture
def waits(tmp_path: Path) -> Iterator[Started]:
    """A command that waits for its feed's file, which nobody writes."""
    os.mkfifo(tmp_path / "feed.yaml", 0o600)
    command = started(tmp_path / "out", "status", "feed.yaml")
    yield command
    command.kill()
    command.wait(SECONDS)


def status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def ignores(pid: int, number: signal.Signals) -> bool:
    found = re.search(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def holds(pid: int) -> set[str]:
    """What its file descriptors are."""
    return {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}


@pytest.mark.parametrize("arguments", [["--version"], ["status", "not-there.yaml"], ["no-such-command"]])
def test_it_says_and_ends_as_one_with_an_interpreter(tmp_path: Path, arguments: list[str]) -> None:
    forked = started(tmp_path / "forked", *arguments)
    with interpreters():
        executed = started(tmp_path / "executed", *arguments)
    assert not isinstance(forked, subprocess.Popen)
    assert isinstance(executed, subprocess.Popen)
    assert forked.wait(SECONDS) == executed.wait(SECONDS)
    assert (tmp_path / "forked").read_text() == (tmp_path / "executed").read_text() != ""


def test_it_has_the_environment_and_the_folder_that_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "feed.yaml").write_text("feed: f\nsource: mysql://u:${env:WORD}@h/\ntarget: mysql://h/${file:there}\n")
    (tmp_path / "feed.yaml").chmod(0o600)
    started(tmp_path / "out", "status", "feed.yaml").wait(SECONDS)
    assert "WORD is not set" in (tmp_path / "out").read_text()
    started(tmp_path / "out", "status", "feed.yaml", environment={"WORD": "secret"}).wait(SECONDS)
    assert "WORD" not in (tmp_path / "out").read_text()
    assert tidelock("status", str(tmp_path / "feed.yaml")).err


def test_what_python_reads_at_its_start_asks_for_an_interpreter(tmp_path: Path) -> None:
    process = started(tmp_path / "out", "--version", environment={"PYTHONHASHSEED": "7"})
    assert isinstance(process, subprocess.Popen)
    process.wait(SECONDS)
    with (tmp_path / "out").open("wb") as file:
        process = start(["--version"], file, file, [*COMMAND[:1], "-u", *COMMAND[1:]])
    assert isinstance(process, subprocess.Popen)
    assert process.wait(SECONDS) == 0


def test_an_ignored_signal_is_handed_on(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = started(tmp_path / "out", "--version")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(SECONDS) == 0


def test_a_signal_to_it_or_to_its_group_ends_it_and_is_told(tmp_path: Path, waits: Started) -> None:
    assert os.getpgid(waits.pid) == os.getsid(waits.pid) == waits.pid
    assert waits.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(0.01)
    os.killpg(waits.pid, signal.SIGKILL)
    assert waits.wait(SECONDS) == -signal.SIGKILL == waits.poll()
    assert not Path(f"/proc/{waits.pid}").exists()
    other = started(tmp_path / "out", "status", "feed.yaml")
    other.terminate()
    assert other.wait(SECONDS) == -signal.SIGTERM


def test_it_holds_nothing_of_the_servers_nor_of_others(tmp_path: Path, waits: Started) -> None:
    """Else a pipe or a socket would stay open when its owner is gone."""
    other = started(tmp_path / "other", "status", "feed.yaml")
    try:
        until(lambda: status(other.pid)[0] == "S", "a command that waits")
        assert holds(other.pid) <= {os.devnull, str(tmp_path / "other"), str(tmp_path / "feed.yaml")}
    finally:
        other.kill()
        other.wait(SECONDS)


def test_the_server_ends_with_its_owner(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "feed.yaml", 0o600)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    with owner:
        assert owner.stdout is not None
        command = int(owner.stdout.readline())
        server = int(status(command)[1])
        owner.kill()
    until(lambda: not Path(f"/proc/{server}").exists(), "the server's end")
    os.kill(command, signal.SIGKILL)


def test_a_child_is_forked_too_and_knows_when_its_parent_is_gone(tmp_path: Path) -> None:
    """The log's process of a run: a child of the run, in its group, without the parent's end of their socket."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (tmp_path / "feed.yaml").write_text(
            textwrap.dedent(f"""
                feed: silent
                source: mysql://root@127.0.0.1:{port}/
                target: mysql://root@127.0.0.1:{port}/
                tables: [{{source: shop.*}}]
                start: now
            """)
        )
        (tmp_path / "feed.yaml").chmod(0o600)
        run = started(tmp_path / "out", "run", "feed.yaml")
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        until(lambda: children.read_text() != "", "the log's process")
        (child,) = map(int, children.read_text().split())
        until(lambda: ignores(child, signal.SIGINT), "a child that runs what it was forked for")
        assert os.getpgid(child) == run.pid
        assert Path(f"/proc/{child}/cmdline").read_text() == Path(f"/proc/{run.pid}/cmdline").read_text(), "forked"
        os.kill(run.pid, signal.SIGKILL)
        assert run.wait(SECONDS) == -signal.SIGKILL
        until(lambda: not Path(f"/proc/{child}").exists() or status(child)[0] == "Z", "the child's end")


def test_what_tells_the_end_is_nobody_elses_while_threads_may_wait_for_it(tmp_path: Path) -> None:
    """A thread that is about to wait would else wait for a file that never tells anything."""
    process = started(tmp_path / "out", "--version")
    assert isinstance(process, Forked)
    assert process.wait(SECONDS) == 0
    with (tmp_path / "out").open() as one, (tmp_path / "out").open() as other:
        assert process._over not in (one.fileno(), other.fileno())
        assert process._readable(SECONDS)  # the server closes its end a moment behind the code


async def test_a_child_that_an_event_loop_starts_has_an_interpreter() -> None:
    """The loop has the signals, and what a fork would inherit of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = forked("tidelock.adapters.mysql.binlog.capture_process", [str(theirs.fileno())], theirs)
        assert isinstance(child, subprocess.Popen)
        child.kill()
        child.wait(SECONDS)
