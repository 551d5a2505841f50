"""A small disk of its own, to be filled and freed while others write to it: a tmpfs, which root may mount.

By the system call, for the command `mount` asks who we are, and not what we may do (`bench.harness.namespace`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.servers.guard import guard

MEGABYTES: Final = 512  # more than the journals of a long life and of the runs before
PIECE_BYTES: Final = 1 << 16
LIBC: Final = ctypes.CDLL(None, use_errno=True)
DETACH: Final = 2


class SmallDisk:
    """Context manager over `folder`, which is made.  `missing`: why there is none here, or ''."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing = ""

    def __enter__(self) -> Self:
        self.folder.mkdir()
        options = f"size={MEGABYTES}m,mode=0700"
        if LIBC.mount(b"tidelock-chaos", bytes(self.folder), b"tmpfs", 0, options.encode()):
            reason = os.strerror(ctypes.get_errno())
            self.missing = f"a tmpfs cannot be mounted (root and CAP_SYS_ADMIN are needed): {reason}"
        else:
            guard.mounted(str(self.folder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.missing:
            if LIBC.umount2(bytes(self.folder), DETACH):
                raise OSError(ctypes.get_errno(), "the small disk cannot be unmounted", str(self.folder))
            guard.unmounted(str(self.folder))

    def fill(self) -> None:
        """To the last byte."""
        piece = bytes(PIECE_BYTES)
        with self._ballast.open("ab", buffering=0) as file:
            while piece:
                try:
                    if file.write(piece) < len(piece):
                        piece = piece[: len(piece) // 2]
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise
                    piece = piece[: len(piece) // 2]

    def free(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"
