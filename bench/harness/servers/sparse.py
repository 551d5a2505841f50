"""Copies of folders without their zeros: most of a fresh server's files are room that it has not used yet.

A template keeps blocks of zeros as holes, and a copy of it copies what is between them: 8 of MariaDB's 114 MB, 53 of
MySQL's 190.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

BLOCK: Final = 64 << 10
ZEROS: Final = bytes(BLOCK)
MOST_AT_ONCE: Final = 1 << 30


def dig(source: Path, target: Path) -> None:
    """Copy a folder; blocks of zeros become holes."""
    shutil.copytree(source, target, symlinks=True, copy_function=_dug)


def copy(source: Path, target: Path) -> None:
    """Copy a folder, and holes as holes."""
    shutil.copytree(source, target, symlinks=True, copy_function=_copied)


def _dug(source: str, target: str) -> None:
    with open(source, "rb") as old, open(target, "wb") as new:
        size = 0
        while block := old.read(BLOCK):
            if block != ZEROS[: len(block)]:
                new.seek(size)
                new.write(block)
            size += len(block)
        new.truncate(size)
    shutil.copymode(source, target)


def _copied(source: str, target: str) -> None:
    old = os.open(source, os.O_RDONLY)
    try:
        there = os.fstat(old)
        new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.fchmod(new, there.st_mode & 0o777)
            _fill(old, new, there.st_size)
        finally:
            os.close(new)
    finally:
        os.close(old)


def _fill(old: int, new: int, size: int) -> None:
    """Write what is between the holes, at its places."""
    end = 0
    while end < size:
        try:
            start = os.lseek(old, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            os.ftruncate(new, size)  # nothing but a hole is left
            return
        end = os.lseek(old, start, os.SEEK_HOLE)
        os.lseek(old, start, os.SEEK_SET)
        os.lseek(new, start, os.SEEK_SET)
        while start < end:
            start += os.sendfile(new, old, None, min(end - start, MOST_AT_ONCE))
