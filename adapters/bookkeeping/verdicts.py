"""Verdicts: rows that an arbiter stands by, as it tells them to the spoke in its own log.

At MySQL and MariaDB a verdict is an inserted row of `tidelock_verdicts`, at PostgreSQL a message with the prefix PREFIX
and JSON of the same fields.  An image is msgpack of `{column: value}`, by the names at the arbiter, with values as a
copy of the table would read them from the server: numbers, text, bytes or nil.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

PREFIX: Final = "tidelock.verdict"
"""Prefix of the message."""


class Verdict(msgspec.Struct, frozen=True):
    """A verdict, its fields in the order of the table's columns.

    `feed`, `grp`, `epoch`, `batch`: of the receipt that it is committed with; `ordinal`: its number in it.
    `row_key`: image of the key's columns.  `image`: of the row that stands; None: none does.
    """

    feed: str
    grp: int
    epoch: int
    batch: int
    ordinal: int
    table_schema: str
    table_name: str
    row_key: bytes
    image: bytes | None = None


def content(verdict: Verdict) -> str:
    """Returns the content of the message; bytes are base64 in it."""
    return _JSON.encode(verdict).decode()


def read(told: bytes) -> Verdict:
    """Reads the content of a message.  Raises msgspec.MsgspecError."""
    return _READ.decode(told)


def image(values: Mapping[str, Any]) -> bytes:
    """Spells an image."""
    return _IMAGE.encode(values)


def values(spelled: bytes) -> dict[str, Any]:
    """Reads an image.  Raises msgspec.MsgspecError."""
    return _VALUES.decode(spelled)


_JSON: Final = msgspec.json.Encoder()
_READ: Final = msgspec.json.Decoder(Verdict)
_IMAGE: Final = msgspec.msgpack.Encoder()
_VALUES: Final = msgspec.msgpack.Decoder(dict[str, Any])
