"""DECIMAL as the log stores it: groups of nine digits in four bytes, left-over digits in fewer, sign in the top bit.

A negative number has every bit inverted.  Read as one big-endian integer `v` less the top bit, a negative number is
therefore `~v`, and each digit group is a shift and a mask.
"""

from __future__ import annotations

from typing import Final

_BYTES_FOR_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _groups(digits: int, leftover_first: bool) -> list[tuple[int, int]]:
    """(bytes, digits) of each group, in stored order."""
    whole = [(4, 9)] * (digits // 9)
    rest = digits % 9
    leftover = [(_BYTES_FOR_DIGITS[rest], rest)] if rest else []
    return leftover + whole if leftover_first else whole + leftover


def decimal_size(precision: int, scale: int) -> int:
    """Bytes that DECIMAL(precision, scale) takes."""
    return sum(size for size, _ in _groups(precision - scale, True) + _groups(scale, False))


def _number(variable: str, groups: list[tuple[int, int]], shift: int) -> str:
    """An expression for the integer that `groups` hold, the last of which ends `shift` bits above the lowest."""
    terms = []
    weight = 1
    for size, digits in reversed(groups):
        part = f"({variable} >> {shift} & {(1 << 8 * size) - 1})"
        terms.append(f"{part} * {weight}" if weight > 1 else part)
        shift += 8 * size
        weight *= 10**digits
    return " + ".join(reversed(terms)) or "0"


def decimal_expression(raw: str, precision: int, scale: int) -> str:
    """A Python expression for the text of the DECIMAL whose bytes `raw` names; it uses the scratch name `v`."""
    whole, fraction = _groups(precision - scale, True), _groups(scale, False)
    fraction_bits = 8 * sum(size for size, _ in fraction)
    top = 1 << 8 * decimal_size(precision, scale) - 1
    digits = f"{{{_number('v', whole, fraction_bits)}}}"
    if scale:
        digits += f".{{{_number('v', fraction, 0)}:0{scale}d}}"
    zero = "0." + "0" * scale if scale else "0"
    return f'(f"{digits}" if (v := from_bytes({raw}, "big") - {top}) >= 0 else f"-{digits}" if (v := ~v) else "{zero}")'


def decimal_text(raw: bytes, precision: int, scale: int) -> str:
    """The same for one value, as in binary JSON."""
    size = decimal_size(precision, scale)
    number = int.from_bytes(raw[:size], "big") - (1 << 8 * size - 1)
    negative = number < 0
    number = ~number if negative else number
    digits = ""
    for length, width in reversed(_groups(precision - scale, True) + _groups(scale, False)):
        digits = f"{number & (1 << 8 * length) - 1:0{width}d}{digits}"
        number >>= 8 * length
    whole = digits[: precision - scale].lstrip("0") or "0"
    text = f"{whole}.{digits[precision - scale :]}" if scale else whole
    return f"-{text}" if negative and text.strip("0.") else text
