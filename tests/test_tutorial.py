"""The tutorial, run as it stands: its commands in a fresh copy of the tree, and what the page says that they show."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.harness.rig import until
from bench.harness.servers.place import cache

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/tutorial/first-feed.md"
BLOCK = re.compile(r"(?:^<!-- (first terminal|run|run: exit code (\d)|shows) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
NOT_COPIED = (".*", "site", "playground", "__pycache__")
SECONDS = 300.0


class Step(NamedTuple):
    """A block of commands, the exit code of its last one, and the lines that it shows."""

    terminal: int
    commands: str
    code: int
    shows: list[str]


def steps(text: str) -> list[Step]:
    """Reads a page.  Raises AssertionError where a block of commands says not what a reader does with it."""
    found: list[Step] = []
    for mark, code, language, body in BLOCK.findall(text):
        if mark == "shows":
            found[-1].shows.extend(line.rstrip() for line in body.splitlines() if line.strip())
        elif mark or language == "sh":
            assert mark, f"nothing says what is done with:\n{body}"
            found.append(Step(1 if mark == "first terminal" else 2, body, int(code or 0), []))
    return found


def lacking(promised: list[str], output: str) -> list[str]:
    """Returns the promised lines that do not come in their order; … stands for any text."""
    lines = iter(line.rstrip() for line in output.splitlines())
    patterns = [(line, ".*".join(map(re.escape, line.split("…")))) for line in promised]
    return [line for line, pattern in patterns if not any(re.fullmatch(pattern, shown) for shown in lines)]


def script(commands: list[Step]) -> str:
    """Returns all blocks as one shell, which ends each with a line that tells its exit code."""
    parts = [f"{step.commands}\nprintf '\\n@@ {number} %s\\n' $?\n" for number, step in enumerate(commands)]
    return "".join(parts)


@contextmanager
def terminal(commands: str, folder: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs commands in a shell; it and all that it has begun are ended with the block."""
    environment = {**os.environ, "TIDELOCK_CACHE": str(cache())}
    with output.open("wb") as said:
        process = subprocess.Popen(
            ["bash", "-c", commands],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh folder of the tree, with the environment that there is."""
    folder = tmp_path / "tidelock"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    asked = subprocess.run(["make", "-n", "setup"], cwd=folder, capture_output=True, encoding="utf-8", check=True)
    assert "pip install" not in asked.stdout, "the environment is not that of this tree: make setup"
    return folder


@pytest.mark.proof
def test_the_tutorial_shows_what_it_promises(clone: Path, tmp_path: Path) -> None:
    servers, *commands = steps(PAGE.read_text(encoding="utf-8"))
    assert servers.terminal == 1 and len(commands) > 6
    first, second = tmp_path / "first", tmp_path / "second"
    with terminal(servers.commands, clone, first):
        until(lambda: not lacking(servers.shows, first.read_text()), "the servers", SECONDS)
        with terminal(script(commands), clone, second) as shell:
            assert shell.wait(SECONDS) == 0, second.read_text()
    output = re.split(r"^@@ (\d+) (\d+)$", second.read_text(), flags=re.M)
    assert [int(code) for code in output[2::3]] == [step.code for step in commands], second.read_text()
    for step, said in zip(commands, output[::3], strict=False):
        assert lacking(step.shows, said) == [], f"{step.commands}\nshowed\n{said}"
    until(lambda: not (clone / "playground").exists(), "the end of the servers", SECONDS)


def test_each_block_of_the_tutorial_says_what_is_done_with_it() -> None:
    found = steps(PAGE.read_text(encoding="utf-8"))
    assert [step.terminal for step in found] == [1] + [2] * (len(found) - 1)
    assert sum(bool(step.shows) for step in found) > 5
    with pytest.raises(AssertionError, match="nothing says"):
        steps("```sh\nrm -rf /\n```\n")


def test_what_a_page_promises_is_compared_line_by_line() -> None:
    assert lacking(["a … c", "d"], "a b c  \nnoise\nd\n") == []
    assert lacking(["d", "a"], "a\nd\n") == ["a"]
    assert lacking(["a"], "ab\n") == ["a"]
