"""The feed files of a folder, and what has changed there since the last look.

A file counts as changed where its time or its size is another, so `touch` is enough to have a feed started anew.
"""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG
from typing import Final, TypeAlias

import msgspec

from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.config.feed_file import load

_ENDINGS: Final = (".yaml", ".yml")
Stamp: TypeAlias = tuple[int, int, int]
"""Time, size and number of a file."""
_NEVER: Final[Stamp] = (0, 0, 0)


class FeedFile(msgspec.Struct, frozen=True):
    """One file.  `feed`: None where it cannot be read as one, as `problem` says."""

    path: Path
    stamp: Stamp
    feed: Feed | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """The feed's name; that of the file where it holds none."""
        return self.feed.name if self.feed is not None else self.path.name


class Folder:
    """The feed files right below a folder; hidden ones are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Path, FeedFile] = {}

    def look(self) -> dict[Path, FeedFile]:
        """Returns all files, each read anew where it has changed.  Raises OSError where the folder cannot be read."""
        found: dict[Path, FeedFile] = {}
        for path in sorted(self._path.iterdir()):
            if path.suffix not in _ENDINGS or path.name.startswith("."):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:  # since we have listed it
                continue
            except OSError as error:  # such as a link to itself
                found[path] = FeedFile(path, _NEVER, problem=f"{path}: {error.strerror or error}")
                continue
            if not S_ISREG(status.st_mode):  # to read a pipe may take for ever
                found[path] = FeedFile(path, _NEVER, problem=f"{path} is no file")
                continue
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._known.get(path)
            found[path] = known if known is not None and known.stamp == stamp else _read(path, stamp)
        self._known = _without_twins(found)
        return self._known


def _read(path: Path, stamp: Stamp) -> FeedFile:
    try:
        return FeedFile(path, stamp, load(path))
    except ConfigError as error:
        return FeedFile(path, stamp, problem=str(error))


def _without_twins(files: dict[Path, FeedFile]) -> dict[Path, FeedFile]:
    """Refuses a file whose feed another, earlier one has."""
    first: dict[str, Path] = {}
    for path, one in files.items():
        if one.feed is not None and first.setdefault(one.feed.name, path) != path:
            problem = f"{path}: the feed {one.feed.name} is in {first[one.feed.name].name} already"
            files[path] = FeedFile(path, _NEVER, problem=problem)
    return files
