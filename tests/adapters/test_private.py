"""Files that hold rows."""

import os
import stat
from pathlib import Path

import pytest

from tidelock.adapters.process import private_files


def test_only_its_owner_can_read_it_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        private_files.write(path, b"new")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    opened = os.open

    def on_a_full_disk(new: Path, flags: int, mode: int) -> int:
        os.close(opened(new, flags, mode))
        return opened("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", on_a_full_disk)
    with pytest.raises(OSError, match="No space left"):
        private_files.write(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    private_files.write("/dev/null", b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
