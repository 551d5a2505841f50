"""Copies of templates: the same files, without their zeros."""

import filecmp
from pathlib import Path

import pytest

from bench.harness.servers.sparse import BLOCK, copy, dig

DATA, ZEROS = b"row" * BLOCK, bytes(16 * BLOCK)
FILES = {
    "empty": b"",
    "short": b"a word",
    "short zeros": bytes(100),
    "zeros": ZEROS,
    "amid": ZEROS + DATA + ZEROS + DATA[:1000],
    "at the end": DATA + ZEROS,
    "at the beginning": ZEROS + DATA,
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    (folder / "below").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / "below" / name).write_bytes(content)
    (folder / "link").symlink_to("below/short")
    (folder / "below" / "short").chmod(0o640)
    folder.chmod(0o700)
    return folder


def test_a_copy_of_a_template_holds_the_same(made: Path, tmp_path: Path) -> None:
    dig(made, tmp_path / "template")
    copy(tmp_path / "template", tmp_path / "copy")
    found = tmp_path / "copy"
    assert filecmp.cmpfiles(made / "below", found / "below", FILES, shallow=False) == (list(FILES), [], [])
    assert (found / "link").readlink() == Path("below/short")
    for path in (".", "below/short"):
        assert (found / path).stat().st_mode == (made / path).stat().st_mode


def test_zeros_take_no_room(made: Path, tmp_path: Path) -> None:
    dig(made, tmp_path / "template")
    copy(tmp_path / "template", tmp_path / "copy")
    for name in ("template", "copy"):
        used = {path.name: path.stat().st_blocks * 512 for path in (tmp_path / name / "below").iterdir()}
        assert used["zeros"] == 0
        assert used["amid"] < len(ZEROS)
