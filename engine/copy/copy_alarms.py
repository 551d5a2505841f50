"""Alarms of copies and repairs that are refused, in the operator's words."""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position


def copy_refused(splits: Sequence[ChunkSplit], why: str, position: Position) -> Alarm:
    """Tells that tables are not copied; the feed goes on."""
    hint = "Correct that, then `tidelock copy FEED` again; the feed goes on as before"
    names = ", ".join(str(split.table) for split in splits)
    return Alarm("copy", f"tables are not copied: {why}", hint, str(position), names)


def repair_refused(split: ChunkSplit, why: str, position: Position) -> Alarm:
    """Tells that a repair's rows stay as they are; the feed goes on."""
    message = f"rows of {split.table} are not repaired: {why}"
    hint = "Mend that, then run `tidelock verify` and `tidelock repair` again; the feed goes on as before"
    return Alarm("repair", message, hint, str(position), str(split.table))


def split_lost(split: ChunkSplit, position: Position) -> Alarm:
    """Tells why the feed halts: a table lacks a column by which its chunks are told apart, or its key."""
    names = ", ".join(split.columns)
    return Alarm(
        "copy",
        f"{split.table} is being copied in chunks of {names}, and lacks one of these columns now, or its key",
        "`tidelock copy FEED --table DB.TABLE` begins its copy anew (`--yes`: in the place of what is there), then "
        "`tidelock run FEED`",
        str(position),
        str(split.table),
    )


def chunk_refused(split: ChunkSplit, chunk: int, why: str, position: Position) -> Alarm:
    """Tells why the feed halts: the target refuses the merge of a chunk, and nobody can say which row is the cause."""
    return Alarm(
        "copy",
        f"the target refused rows of chunk {chunk} of {split.table}: {why}",
        "Correct the target (a type too narrow, a constraint that the source does not have, failed rows or rows that "
        "others wrote), then `tidelock run FEED`; what is merged stays",
        str(position),
        str(split.table),
    )
