"""A way through the chunk model, told line by line."""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.simulations.explore.chunks import ChunkModel
from tidelock.simulations.explore.search import Move

WORDS = {
    "write": "the source commits change {written}",
    "show": "readers see {visible} changes",
    "take": "the stream takes change {taken}",
    "commit": "change {0} is committed at the target",
    "ask": "a chunk is asked for",
    "row": "row {1} of chunk {0} is read",
    "stage": "chunk {0} is staged, up to {written}",
    "merge": "the chunk that is due is merged at {taken}",
    "die": "the owner dies, another goes on behind {0}",
}


def told(model: ChunkModel, way: Sequence[Move]) -> list[str]:
    """`model`: at the beginning.  The last line is what broke."""
    lines = [f"before: {sorted(model.story.after[0].values())}"]
    lines += [f"change {n}: {before} to {after}" for n, (before, after) in enumerate(model.story.drafts, 1)]
    error = ""
    for verb, *of in way:
        try:
            model.take((verb, *of))
        except AssertionError as broken:
            error = str(broken)
        figures = {"written": model.written, "visible": model.visible, "taken": model.taken}
        lines.append(WORDS[verb].format(*of, **figures))
    if not error:
        try:
            model.moves()
        except AssertionError as broken:
            error = str(broken)
    return [*lines, f"  ✗ {error}"]
