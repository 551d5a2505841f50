"""Rows of PARTIAL_UPDATE_ROWS events: of JSON documents they hold what changed, and the before-image has the whole.

    options · a bit for each JSON column of the table: is it a part? · bits of NULLs · values

The rows are written anew, as those of an ordinary update whose documents are texts, and read as such: they cost more
than others, and change nothing in how others are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tidelock.adapters.mysql.binlog import codecs
from tidelock.adapters.mysql.binlog.codecs import Codec, Fixed, Varying
from tidelock.adapters.mysql.binlog.json_binary import json_text
from tidelock.adapters.mysql.binlog.json_diff import patched
from tidelock.adapters.mysql.binlog.row_compiler import UPDATE, Add, RowOverrun, RowReaders, compile_rows
from tidelock.adapters.mysql.binlog.row_layout import Columns
from tidelock.adapters.mysql.binlog.table_map import lenenc

_PARTS: Final = 1  # of the options; none other is known
_LENGTH: Final = 4  # bytes before a document

Image: TypeAlias = list[bytes | None]
"""The bytes of each column, its length before them included."""


class PartialRows:
    """Reads such rows of one table.  `number`: of its Shape."""

    def __init__(self, columns: Columns, number: int) -> None:
        self._columns = columns
        self._number = number
        self._codecs: list[Codec] = [
            codecs.codec(wire, kind, True) if wire.type != codecs.JSON else Varying(wire.meta) for wire, kind in columns
        ]
        self._documents = [index for index, (wire, _) in enumerate(columns) if wire.type == codecs.JSON]
        self._readers: dict[bool, RowReaders] = {}

    def read(self, b: bytes, p: int, end: int, ordinal: int, add: Add, *, lenient: bool) -> int:
        """Read rows as an update's reader in `row_compiler` does, from the first row on, whose images are full."""
        rows = b"".join(self._whole(before, after, parts) for before, after, parts in self._rows(b, p, end, None))
        return self._reader(lenient)[UPDATE](rows, 0, len(rows), ordinal, add)

    def count(self, b: bytes, p: int, end: int, present: tuple[int, int]) -> int:
        """Count rows; `present`: the columns that the before- and after-images have, as bits."""
        return sum(1 for _ in self._rows(b, p, end, present))

    def _reader(self, lenient: bool) -> RowReaders:
        if lenient not in self._readers:
            texts = [
                Varying(_LENGTH, "RAW.decode()") if wire.type == codecs.JSON else codecs.codec(wire, kind, lenient)
                for wire, kind in self._columns
            ]
            self._readers[lenient] = compile_rows(texts, self._number)
        return self._readers[lenient]

    def _rows(
        self, b: bytes, p: int, end: int, present: tuple[int, int] | None
    ) -> Iterator[tuple[Image, Image, int]]:
        """Both images of each row, and which JSON columns are parts, as bits in the order of those columns."""
        every = list(range(len(self._codecs)))
        first, second = (every, every) if present is None else ([i for i in every if bits >> i & 1] for bits in present)
        while p < end:
            before, p = self._image(b, p, first)
            options, p = lenenc(b, p)
            parts = 0
            if options & ~_PARTS:
                raise ValueError(f"options {options} of a partial update")
            if options:
                width = (len(self._documents) + 7) // 8
                parts, p = int.from_bytes(b[p : p + width], "little"), p + width
            after, p = self._image(b, p, second)
            yield before, after, parts
        if p != end:
            raise RowOverrun(f"the last row ends {p - end} bytes after its event")

    def _image(self, b: bytes, p: int, columns: list[int]) -> tuple[Image, int]:
        width = (len(columns) + 7) // 8
        nulls, p = int.from_bytes(b[p : p + width], "little"), p + width
        image: Image = []
        for place, column in enumerate(columns):
            start, codec = p, self._codecs[column]
            if nulls >> place & 1:
                image.append(None)
                continue
            if isinstance(codec, Fixed):
                p += codec.size
            else:
                p += codec.prefix + int.from_bytes(b[p : p + codec.prefix], "little")
            if p > len(b):
                raise RowOverrun("a row ends after its event")
            image.append(b[start:p])
        return image, p

    def _whole(self, before: Image, after: Image, parts: int) -> bytes:
        """One row of an ordinary update."""
        for place, column in enumerate(self._documents):
            old, new = before[column], after[column]
            text = None if old is None else json_text(old[_LENGTH:])
            before[column] = _prefixed(text)
            if parts >> place & 1 and new is not None:
                if text is None:
                    raise ValueError("a part of a JSON document that is NULL")
                after[column] = _prefixed(patched(text, new[_LENGTH:]))
            else:
                after[column] = _prefixed(None if new is None else json_text(new[_LENGTH:]))
        return self._bytes(before) + self._bytes(after)

    def _bytes(self, image: Image) -> bytes:
        nulls = sum(1 << place for place, value in enumerate(image) if value is None)
        return nulls.to_bytes((len(image) + 7) // 8, "little") + b"".join(value for value in image if value is not None)


def _prefixed(text: str | None) -> bytes | None:
    if text is None:
        return None
    raw = text.encode()
    return len(raw).to_bytes(_LENGTH, "little") + raw
