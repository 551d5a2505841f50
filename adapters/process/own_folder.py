"""Makes a temporary folder of one process, which goes with it; of a process that was killed, with the next of its kind.

The owner holds a lock on its folder.  The kernel lets go of that however the owner ends, so nobody is misled by the
number of a process that was given again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def own_folder(kind: str) -> Iterator[Path]:
    """Gives a folder `tidelock-KIND-…` that is there inside the block; those of the kind whose owners are gone are
    removed first.  Raises OSError."""
    _remove_orphans(f"tidelock-{kind}-")
    folder, held = _made(f"tidelock-{kind}-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _made(prefix: str) -> tuple[Path, int]:
    """Returns a folder and the descriptor that holds it.  Before it is held, another process may take it for an orphan:
    then there is another one."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        held = _opened(folder)
        if held is None:
            continue
        with contextlib.suppress(OSError):  # a file system without locks: then nobody can take it for an orphan
            fcntl.flock(held, fcntl.LOCK_EX)
        if folder.exists():
            return folder, held
        os.close(held)


def _remove_orphans(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        held = _opened(folder)
        if held is None:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner lives
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)


def _opened(folder: Path) -> int | None:
    """Returns a descriptor of a folder of ours; None where it is gone, or not ours."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(held).st_uid == os.geteuid():
        return held
    os.close(held)
    return None
