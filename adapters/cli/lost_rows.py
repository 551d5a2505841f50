"""Prints what `tidelock conflicts` lists and shows."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tidelock.adapters.app import lost_rows as applying
from tidelock.adapters.cli.failure import OK
from tidelock.adapters.cli.output import print_facts, print_json, print_table, span
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load
from tidelock.adapters.operator import feed_control, lost_rows
from tidelock.adapters.operator.lost_rows import LostRow, LostRowDetail


def list_lost(path: str, table: str, limit: int, json: bool) -> int:
    """Prints rows that lost; returns the exit code."""
    rows = asyncio.run(_rows(load(path), table, limit))
    if json:
        print_json(rows)
    elif rows:
        cells = [(r.id, r.table, r.key, r.type, r.outcome, r.meant_by, span(r.seconds)) for r in rows]
        print_table(("id", "table", "key", "type", "outcome", "meant by", "age"), cells)
        if len(rows) == limit:
            print(f"The first {limit}; `--limit` shows more.")
    else:
        print("Nothing has lost.")
    return OK


def show_lost(path: str, id: str, json: bool) -> int:
    """Prints one row that lost; returns the exit code."""
    detail = asyncio.run(_row(load(path), id))
    if json:
        print_json(msgspec.structs.replace(detail, lost=_readable(detail.lost), stands=_readable(detail.stands)))
        return OK
    row = detail.row
    print_facts(
        [
            ("id", row.id), ("table", row.table), ("key", row.key), ("conflict", row.type), ("outcome", row.outcome),
            ("meant by", row.meant_by), ("sites", row.path), ("decided", f"{span(row.seconds)} ago"),
        ]
    )  # fmt: skip
    print()
    lost, stands = detail.lost or {}, detail.stands or {}
    shown = [(name, _value(lost, name), _value(stands, name)) for name in lost | stands]
    print_table(("column", "lost" if detail.lost is not None else "lost: a delete", "stands"), shown)
    return OK


def apply_lost(path: str, id: str, json: bool) -> int:
    """Writes a row that lost; returns the exit code."""
    feed = load(path)
    done = asyncio.run(applying.apply_lost(feed, id))
    if json:
        print_json({"feed": feed.name, "id": id, "done": done})
    else:
        print(f"{feed.name}: {id}: {done}.")
    return OK


async def _rows(feed: Feed, table: str, limit: int) -> list[LostRow]:
    async with feed_control.books(feed) as book:
        return await lost_rows.lost_rows(book, table, limit)


async def _row(feed: Feed, id: str) -> LostRowDetail:
    async with feed_control.books(feed) as book:
        return await lost_rows.lost_row(book, id)


def _value(row: dict[str, Any], name: str) -> str:
    match row.get(name, ""):
        case None:
            return "NULL"
        case bytes() as value:
            return _text(value)
        case value:
            return str(value)


def _readable(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """The values of a row, texts as texts; bytes would become base64."""
    if row is None:
        return None
    return {name: _text(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _text(value: bytes) -> str:
    """A text as its server keeps it, or bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
