"""Words the advice of a halt where it differs from that of `tidelock run`: workers over Kafka, and Hive."""

from __future__ import annotations

from typing import Final

from tidelock.engine.model.errors import RESYNC

COPY_ANEW: Final = (
    "end all its workers, `tidelock resync FEED`, and start them again: it begins its log anew and copies its tables"
)
"""`its`: of the feed that has halted."""
FILL_ANEW: Final = "let a feed of a new name with `start: copy` fill its tables anew"


def of_workers(hint: str) -> str:
    """Returns the advice for workers: they are still there, and begin anew as soon as they are told to."""
    begun = hint.replace(f". {RESYNC}", f". {COPY_ANEW[0].upper()}{COPY_ANEW[1:]}")
    return begun.replace(RESYNC, COPY_ANEW).replace("`tidelock run FEED`", "`tidelock resume FEED`")


def of_hive(hint: str) -> str:
    """Returns the advice for a Hive target, which `tidelock resync` does not move."""
    return hint.replace(f". {RESYNC}", f". {FILL_ANEW[0].upper()}{FILL_ANEW[1:]}").replace(RESYNC, FILL_ANEW)
