"""Compiles the columns of a table into functions that read its rows: the place where speed is made.

A generated function reads all rows of one event: `inserts(b, p, end, n, add)` reads row images from `p` to `end`,
calls `add(RowChange)` for each, with ordinals from `n`, and returns the next ordinal.  For `id int, name varchar(9),
age int` (table number 3) the compiler writes

    def inserts(b, p, end, n, add):
        while p < end:
            nulls = b[p] & 7; p += 1
            if not nulls:
                c0, q1 = read0(b, p); p += 5; q = p; p += q1; c1 = b[q:p]
                c2, = read2(b, p); p += 4
                row = (c0, c1.decode(), c2)
            else:
                ...                                   # column by column
            add(RowChange(3, None, row, n)); n += 1
        return finish(p, end, n)

so that a run of fixed-size columns, with the length of the string after it, costs one `struct` call.  A row with NULLs
takes the slower branch.  `skipper` compiles the same walk without values, for tables whose rows only count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, NoReturn, TypeAlias

from tidelock.adapters.mysql.binlog.codecs import Codec, Fixed
from tidelock.engine.model.records import RowChange

Add: TypeAlias = Callable[[RowChange], object]
Rows: TypeAlias = Callable[[bytes, int, int, int, Add], int]
Skip: TypeAlias = Callable[[bytes, int, int, int], int]

_LENGTH_FORMAT = {1: "B", 2: "H", 4: "I"}


# Readers of inserted, updated and deleted rows; the numbers are their places.
RowReaders: TypeAlias = tuple[Rows, Rows, Rows]
INSERT, UPDATE, DELETE = range(3)


class RowOverrun(ValueError):
    """The rows do not end where their event ends: the columns are not what the table map said."""


def compile_rows(codecs: Sequence[Codec], number: int) -> RowReaders:
    """Readers for the three row events of a table; `number` is its Shape's.

    They raise UnicodeDecodeError for undecodable text, and RowOverrun, struct.error, IndexError or ValueError for
    bytes that are not rows of this table.
    """
    image = _image(codecs)
    names: dict[str, Any] = {"from_bytes": int.from_bytes, "RowChange": RowChange, "finish": _finish}
    for index, codec in enumerate(codecs):
        names |= codec.names
        names |= _readers(codecs, index)
    source = "\n".join(
        (
            _function("inserts", number, [(image, "row")], "None, row"),
            _function("updates", number, [(image, "before"), (image, "row")], "before, row"),
            _function("deletes", number, [(image, "row")], "row, None"),
        )
    )
    exec(compile(source, f"<rows of table {number}>", "exec"), names)
    return names["inserts"], names["updates"], names["deletes"]


def compile_skip(*images: Sequence[Codec]) -> Skip:
    """Make a function that counts rows: `skip(b, p, end, n)` returns `n` plus the number of rows.

    An update's event has two `images` a row.
    """
    names: dict[str, Any] = {"from_bytes": int.from_bytes, "finish": _finish}
    body = [f"  {line}" for codecs in images for line in _skip_image(codecs)]
    lines = ["def skip(b, p, end, n):", " while p < end:", *body, "  n += 1", " return finish(p, end, n)"]
    exec(compile("\n".join(lines), "<skip>", "exec"), names)
    skip: Skip = names["skip"]
    return skip


def _finish(position: int, end: int, ordinal: int) -> int:
    return ordinal if position == end else _overrun(position - end)


def _overrun(surplus: int) -> NoReturn:
    raise RowOverrun(f"the last row ends {surplus} bytes after its event")


def _function(name: str, number: int, images: Iterable[tuple[list[str], str]], change: str) -> str:
    body = [f"  {line.replace('ROW', target)}" for image, target in images for line in image]
    return "\n".join(
        [
            f"def {name}(b, p, end, n, add):",
            " while p < end:",
            *body,
            f"  add(RowChange({number}, {change}, n)); n += 1",
            " return finish(p, end, n)",
        ]
    )


def _image(codecs: Sequence[Codec]) -> list[str]:
    """The statements that read one row image into `ROW`."""
    values = ", ".join(_value(codec, index) for index, codec in enumerate(codecs))
    plain = ", ".join(f"c{index}" for index in range(len(codecs)))
    lines = [_nulls(len(codecs)), "if not nulls:", *(f" {line}" for line in _whole(codecs)), f" ROW = ({values},)"]
    lines.append("else:")
    for index, codec in enumerate(codecs):
        lines.append(f" if nulls & {1 << index}: c{index} = None")
        lines.append(f" else: {_single(codec, index)}; c{index} = {_value(codec, index)}")
    lines.append(f" ROW = ({plain},)")
    return lines


def _nulls(columns: int) -> str:
    """MariaDB sets the unused bits of the bitmap, MySQL does not: they are masked."""
    width = (columns + 7) // 8
    bits = "b[p]" if width == 1 else f'from_bytes(b[p:p + {width}], "little")'
    mask = f" & {(1 << columns) - 1}" if columns % 8 else ""
    return f"nulls = {bits}{mask}; p += {width}"


def _value(codec: Codec, index: int) -> str:
    expression = codec.value.replace("RAW", f"c{index}")
    return expression if codec.value == "RAW" else f"({expression})"


def _runs(codecs: Sequence[Codec]) -> list[tuple[int, int]]:
    """[first, end) of what one struct call reads: fixed columns, and the length of a varying one after them."""
    runs = []
    first = 0
    for index, codec in enumerate(codecs):
        if not isinstance(codec, Fixed):
            runs.append((first, index + 1))
            first = index + 1
    if first < len(codecs):
        runs.append((first, len(codecs)))
    return runs


def _whole(codecs: Sequence[Codec]) -> list[str]:
    """A row image without NULLs."""
    lines = []
    for first, end in _runs(codecs):
        run = codecs[first:end]
        last = run[-1]
        fixed = [codec for codec in run if isinstance(codec, Fixed)]
        size = sum(codec.size for codec in fixed)
        targets = "".join(f"c{first + place}, " for place in range(len(fixed)))
        if isinstance(last, Fixed):
            lines.append(f"{targets}= read{first}(b, p); p += {size}")
        elif fixed and last.prefix in _LENGTH_FORMAT:
            lines.append(f"{targets}p_ = read{first}(b, p); q = p + {size + last.prefix}; p = q + p_")
            lines.append(f"c{end - 1} = b[q:p]")
        else:
            if fixed:
                lines.append(f"{targets}= read{first}(b, p); p += {size}")
            lines.append(_single(last, end - 1))
    return lines


def _single(codec: Codec, index: int) -> str:
    """One column on its own."""
    if isinstance(codec, Fixed):
        return f"c{index}, = one{index}(b, p); p += {codec.size}"
    return f"q = p + {codec.prefix}; p = q + {_length(codec.prefix)}; c{index} = b[q:p]"


def _length(prefix: int) -> str:
    if prefix == 1:
        return "b[p]"
    if prefix == 2:
        return "(b[p] | b[p + 1] << 8)"
    return f'from_bytes(b[p:p + {prefix}], "little")'


def _readers(codecs: Sequence[Codec], index: int) -> dict[str, Any]:
    """The struct readers that begin at column `index`: of its run, and of itself."""
    codec = codecs[index]
    if not isinstance(codec, Fixed):
        return {}
    readers = {f"one{index}": Struct(f"<{codec.format}").unpack_from}
    for first, end in _runs(codecs):
        if first == index:
            layout = "".join(
                codec.format if isinstance(codec, Fixed) else _LENGTH_FORMAT.get(codec.prefix, "")
                for codec in codecs[first:end]
            )
            readers[f"read{index}"] = Struct(f"<{layout}").unpack_from
    return readers


def _skip_image(codecs: Sequence[Codec]) -> list[str]:
    lines = [_nulls(len(codecs)), "if not nulls:"]
    fixed = 0
    for codec in codecs:
        if isinstance(codec, Fixed):
            fixed += codec.size
            continue
        if fixed:
            lines.append(f" p += {fixed}")
            fixed = 0
        lines.append(f" p += {codec.prefix} + {_length(codec.prefix)}")
    lines.append(f" p += {fixed}")
    lines.append("else:")
    for index, codec in enumerate(codecs):
        step = str(codec.size) if isinstance(codec, Fixed) else f"{codec.prefix} + {_length(codec.prefix)}"
        lines.append(f" if not nulls & {1 << index}: p += {step}")
    return [*lines, " pass"]
