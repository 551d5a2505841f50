"""The equality that a collation's name tells (`engine.model.schema.Equality`).

Only the collations of `_FOLDS` fold printable ASCII exactly as `str.lower` does, each letter by itself; the tests ask
live servers for every pair of characters.  Languages have rules of their own (Danish `aa`, Swedish `w`, Spanish `ch`),
so all other collations are opaque.  The pad attribute follows from the name as well: MySQL's `_0900_` and MariaDB's
`_nopad_` collations do not pad, all others do.
"""

from __future__ import annotations

import re

from tidelock.engine.model.schema import Equality

_UNICODE = r"(utf8|utf8mb3|utf8mb4|ucs2|utf16|utf16le|utf32)"
_FOLDS = re.compile(
    rf"{_UNICODE}_(general|unicode|unicode_520)_(nopad_)?ci"
    rf"|utf8mb4_0900_a[is]_ci|{_UNICODE}_uca1400_(nopad_)?a[is]_ci"
    r"|(ascii_general|latin1_general|latin1_swedish)_(nopad_)?ci"
)
_NO_PAD = re.compile(r"_0900_|_nopad_|^binary$")


def equality(collation: str, fixed_length: bool) -> tuple[Equality, str]:
    """Tell how an index over text compares it, and why that cannot be computed ('' where it can).

    `fixed_length`: a CHAR, whose trailing spaces are never stored.
    """
    padded = fixed_length or not _NO_PAD.search(collation)
    if not collation or collation == "binary":
        return Equality.EXACT, ""
    if collation.endswith("_bin"):
        return (Equality.PADDED if padded else Equality.EXACT), ""
    folded = Equality.FOLDED_PADDED if padded else Equality.FOLDED
    return folded, "" if _FOLDS.fullmatch(collation) else f"the collation {collation} has rules of its own"
