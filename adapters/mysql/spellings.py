"""Types that MariaDB keeps as bytes and shows as text: uuid, inet4, inet6.  Its log and a plain read give the bytes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final

from tidelock.engine.model.records import Kind


def _spell_uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _spell_inet4(raw: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET, raw)


def _spell_inet6(raw: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, raw)


SPELLINGS: Final[Mapping[Kind, Callable[[bytes], str]]] = {
    Kind.UUID: _spell_uuid,
    Kind.INET4: _spell_inet4,
    Kind.INET6: _spell_inet6,
}
