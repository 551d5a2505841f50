"""Notes which modules of Tidelock are handed one row: Python imports this by itself at the start of every process.

The row is known by a text in it (`WALK_NEEDLE`).  A module is on the row's way if one of its functions gets the row as
an argument, or returns it: as text, as bytes of the log or of SQL, or inside of plain data.  `self` does not count:
what an object holds is no hand-over.  Nor do local variables: a loop that takes a batch here and gives it there is seen
where it takes and where it gives.  Functions that were made at run time, of a table's columns, belong to no module, and
compiled ones are not seen: the page names their modules by hand.  Each process writes to a file of its own, `WALK_TO`
and its number.
"""

import os
import sys
import threading
from collections import deque
from types import FrameType
from typing import Any

NEEDLE = os.environ.get("WALK_NEEDLE", "")
DEPTH = 7
# Classes of these modules are data; others hold much else besides.
DATA = ("engine.model", "engine.protocol", "segments", "bound_batch", "in_flight_batch", "ports", "batch_frames")
# Compiled classes that hold rows as bytes.  A `Layout` of the same module is a table's columns: no row is in it.
IMAGES = ("RowImage", "PackedRows", "Pile")
seen: set[str] = set()


def holds(value: Any, depth: int = DEPTH) -> bool:
    kind = type(value)
    if isinstance(value, type) or kind in (int, float, bool, type(None)):
        return False
    if kind is str:
        return NEEDLE in value
    if kind in (bytes, bytearray, memoryview):
        return NEEDLE.encode() in bytes(value)
    if not depth:
        return False
    if kind in (list, tuple, set, frozenset, deque):
        return any(holds(one, depth - 1) for one in value)
    if kind is dict:
        return any(holds(one, depth - 1) for one in value.values())
    module = getattr(kind, "__module__", "") or ""
    if "row_image" in module and kind.__name__ in IMAGES:
        return True  # bytes that Python cannot look into; there is one row
    fields = getattr(kind, "__struct_fields__", None)
    if not isinstance(fields, tuple):
        if not any(name in module for name in DATA):
            return False
        fields = tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
    return any(holds(getattr(value, name, None), depth - 1) for name in fields)


def watch(frame: FrameType, event: str, result: Any) -> None:
    code = frame.f_code
    _, ours, module = code.co_filename.rpartition("/tidelock/")
    if not ours or event not in ("call", "return") or module in seen:
        return
    sys.setprofile(None)  # what is called here is none of the row's way
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [frame.f_locals.get(name) for name in names if name not in ("self", "cls")]
    if holds(given if event == "call" else result):
        seen.add(module)
        with open(f"{os.environ['WALK_TO']}.{os.getpid()}", "a", encoding="utf-8") as out:
            out.write(f"{module}\n")
    sys.setprofile(watch)


if NEEDLE:
    threading.setprofile(watch)
    sys.setprofile(watch)
