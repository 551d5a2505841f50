"""The manifest: which files a feed's tables consist of, and up to which position of the source's log.

It is the one truth.  A merge writes new files beside the old ones, and then a new manifest, by a rename that does not
replace: so position and data are committed together, and of two programs that work on one feed the slower one finds its
number taken and stops.  Until then nothing refers to what it wrote.  The metastore follows the manifest
(`adapters.hive.warehouse`); after a crash it is made to follow again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from tidelock.adapters.hive.files import Files
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.model.records import Position

KEPT: Final = 2  # readers may be at work on the files before
_DIGITS: Final = 9
_NAME: Final = re.compile(r"(\d+)\.json")


class Unreadable(OperatorError):
    """A manifest cannot be read; `hint` says what to do."""

    exit_code = 4

    def __init__(self, place: str, why: Exception) -> None:
        super().__init__(
            f"the manifest {place} cannot be read: {why}",
            "Put it back from a backup of the same moment, or take it away, with its `.crc` if it has one, then "
            "`tidelock run FEED`: the feed goes on behind the manifest before it",
        )


class Taken(Exception):
    """Another program has committed this merge: it owns the feed now."""

    exit_code = 4

    def __init__(self, feed: str, number: int) -> None:
        super().__init__(
            f"merge {number} of feed {feed} was committed by another program. Run a feed with a Hive target only once"
        )


class Stored(msgspec.Struct, frozen=True):
    """One table in Hive.  `columns`: (name, type in Spark's words), without the partition column `partition`.
    `format`: `orc` or `parquet`.  `parts`: value of the partition column → folder of the merge that wrote the part.
    `sizes`: bytes of parts, as far as they are known.  `over`: whose table of that name a copy has taken over
    (`adapters.hive.ownership`), '' for nobody's.
    """

    columns: tuple[tuple[str, str], ...]
    partition: str
    format: str
    parts: dict[str, str] = {}
    sizes: dict[str, int] = {}
    over: str = ""

    def without(self, parts: Iterable[str]) -> Stored:
        """Returns the table without these parts."""
        gone = set(parts)
        sizes = {part: size for part, size in self.sizes.items() if part not in gone}
        return replace(self, parts={part: at for part, at in self.parts.items() if part not in gone}, sizes=sizes)

    def having(self, written: Mapping[str, int], folder: str) -> Stored:
        """Returns the table with parts in a merge's folder; `written`: their bytes."""
        parts = {**self.parts, **dict.fromkeys(written, folder)}
        return replace(self, parts=parts, sizes={**self.sizes, **written})


class TableState(msgspec.Struct, frozen=True):
    """The state of a table.  `key`: columns.  `buckets`: partitions over which its rows are spread, by a hash of the
    key.  `history`: None where none is kept.
    """

    key: tuple[str, ...]
    buckets: int
    current: Stored
    history: Stored | None = None


class Pending(msgspec.Struct, frozen=True):
    """A table whose rows are still to be read.  `columns`, `key`: as they will be stored.

    `pieces`: (source table, SQL condition for a part of its rows).  `rows`: about how many there are.
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    pieces: tuple[tuple[str, str], ...]
    rows: int


class CopyState(msgspec.Struct, frozen=True):
    """A copy under way.  `name`: unique, so that the files of an earlier copy are not taken for its own.

    `pending`, `loaded`: tables by name at the target; none of them is shown to readers yet.  `end`: where the log ended
    when the last row had been read, `moment` the time of that (`YYYY-MM-DD HH:MM:SS`, UTC); None: not all rows are
    read.
    """

    name: str
    pending: dict[str, Pending]
    loaded: tuple[str, ...] = ()
    end: Position | None = None
    moment: str = ""

    @property
    def tables(self) -> set[str]:
        """All tables of the copy."""
        return {*self.pending, *self.loaded}

    def ends(self, position: Position) -> bool:
        """Tells whether tables with the log applied up to this place equal the source's."""
        return self.end is not None and position.order >= self.end.order


class Manifest(msgspec.Struct, frozen=True):
    """The state after merge `number`.  `tables`: by name at the target, `schema.table`.

    `changes`: merged in all, `last`: by the last merge of the log.  `end_us`: source time of its end, `made_us`: time
    of the manifest by its maker's clock; microseconds since the epoch, 0 where it is not known.  `forms`: of the
    source's tables at `position`, where its log has no statements.  `id`: of the books that began with the first
    manifest, so that tables of others are not taken for ours; '' where an older version began them.
    """

    number: int
    position: Position
    tables: dict[str, TableState] = {}
    copy: CopyState | None = None
    changes: int = 0
    last: int = 0
    end_us: int = 0
    made_us: int = 0
    forms: tuple[TableForm, ...] = ()
    id: str = ""


_MANIFEST: Final = msgspec.json.Decoder(Manifest)


class Readable(Protocol):
    """Files that can be read, as `adapters.hive.files` has them."""

    def names(self, folder: str) -> list[str]:
        """Lists a folder, sorted."""

    def read(self, place: str) -> bytes:
        """Returns a file's bytes.  Raises OSError."""


class Manifests:
    """The manifests of one feed, in `folder`."""

    def __init__(self, files: Files, folder: str, feed: str) -> None:
        self._files, self._folder, self._feed = files, folder, feed

    def latest(self) -> Manifest | None:
        """Returns the latest manifest; None: the feed has never run.  Raises Unreadable."""
        return latest_in(self._files, self._folder)

    def commit(self, manifest: Manifest) -> None:
        """Commits the next manifest.  Raises Taken."""
        if not self._files.publish(_place(self._folder, manifest.number), msgspec.json.encode(manifest)):
            raise Taken(self._feed, manifest.number)

    def kept(self) -> list[Manifest]:
        """Returns the latest manifests, whose files must stay; removes older ones.  Raises Unreadable."""
        numbers = _numbers(self._files, self._folder)
        for number in numbers[:-KEPT]:
            self._files.remove(_place(self._folder, number))
        return [_read(self._files, self._folder, number) for number in numbers[-KEPT:]]


def latest_in(files: Readable, folder: str) -> Manifest | None:
    """Returns the latest manifest; None: the feed has never run.  Raises Unreadable."""
    numbers = _numbers(files, folder)
    return _read(files, folder, numbers[-1]) if numbers else None


def _numbers(files: Readable, folder: str) -> list[int]:
    return sorted(int(found[1]) for name in files.names(folder) if (found := _NAME.fullmatch(name)))


def _read(files: Readable, folder: str, number: int) -> Manifest:
    place = _place(folder, number)
    try:
        return _MANIFEST.decode(files.read(place))
    except (OSError, msgspec.MsgspecError) as error:
        raise Unreadable(place, error) from error


def _place(folder: str, number: int) -> str:
    return f"{folder}/{number:0{_DIGITS}}.json"
