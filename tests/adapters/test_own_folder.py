"""Temporary folders that go with their process, or with the next of its kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidelock.adapters.process import own_folder as module
from tidelock.adapters.process.own_folder import own_folder

OWNER = """\
import sys
from tidelock.adapters.process.own_folder import own_folder
with own_folder("test") as folder:
    (folder / "rows").write_text("of somebody")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_goes_with_its_owner_and_only_that_one_s(place: Path) -> None:
    with own_folder("test") as one:
        (one / "inside").mkdir()
        with own_folder("test") as two:
            assert {one, two} == set(place.iterdir())
        assert one.exists()
    assert not list(place.iterdir())


def test_what_a_killed_owner_left_goes_with_the_next_of_its_kind(place: Path) -> None:
    killed, left = owner()
    lives, kept = owner()
    foreign = place / "tidelock-other-1"
    foreign.mkdir()
    (place / "tidelock-test-link").symlink_to(foreign)
    (place / "tidelock-test-file").touch()
    with killed, lives:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "rows").exists(), "nobody was there to remove it"
        with own_folder("test"):
            assert not left.exists()
            assert (kept / "rows").exists(), "its owner lives"
        assert lives.stdin is not None
        lives.stdin.close()
        lives.wait()
    assert not kept.exists()
    assert {one.name for one in place.iterdir()} == {"tidelock-other-1", "tidelock-test-link", "tidelock-test-file"}


@pytest.mark.parametrize("opens", [False, True], ids=["before it is opened", "before it is held"])
def test_one_that_is_taken_for_an_orphan_before_it_is_held_is_made_again(
    opens: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = module._opened
    swept: list[Path] = []

    def opened_and_swept(folder: Path) -> int | None:
        if swept:
            return opened(folder)
        swept.append(folder)
        held = opened(folder) if opens else None
        module._remove_orphans("tidelock-test-")
        return held if opens else opened(folder)

    monkeypatch.setattr(module, "_opened", opened_and_swept)
    made, held = module._made("tidelock-test-")
    assert made.exists() and [made] != swept and not swept[0].exists()
    os.close(held)
