"""`tidelock check` and `tidelock init`."""

from __future__ import annotations

from adapters.config import load


def check(path: str, json: bool) -> int:
    load(path)
    return 0


def init(path: str, apply: bool, json: bool) -> int:
    load(path)
    return 0
