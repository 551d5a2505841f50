"""Writes files that hold rows: only their owner can read them, and they appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def write(path: Path | str, content: bytes) -> None:
    """Replaces a file; a pipe or a device is written to.  Raises OSError."""
    place = Path(path)
    if place.exists() and not stat.S_ISREG(place.stat().st_mode):
        place.write_bytes(content)
        return
    new = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as stream:
            stream.write(content)
        new.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
