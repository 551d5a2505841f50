"""Parts of JSON documents, as MySQL logs them with binlog_row_value_options=PARTIAL_JSON, put into the whole.

A part is an operation (REPLACE, INSERT or REMOVE), a path (`$.a."b c"[3]`), and the new value in binary JSON.  The
document is MySQL's own text of it; so is what comes out: members in the order of their keys' lengths, then bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.encoder import encode_basestring as quoted
from typing import Any, Final, TypeAlias

from tidelock.adapters.mysql.binlog.json_binary import json_text
from tidelock.adapters.mysql.binlog.table_map import lenenc

_REPLACE, _INSERT, _REMOVE = range(3)
_LEG: Final = re.compile(r'\[(?:(\d+)|last(?:-(\d+))?)\]|\.(?:"((?:[^"\\]|\\.)*)"|([^."\[\]\s]+))', re.DOTALL)


class _Number(str):
    """A number's text, which is not to be changed."""

    __slots__ = ()


_LITERALS: Final = {None: "null", True: "true", False: "false"}
_Leg: TypeAlias = int | str
"""A place in an array, from its end where it is negative, or a member's key."""
_ABSENT: Final = object()


def patched(document: str, parts: bytes) -> str:
    """Apply parts to a document.

    Raises ValueError where a part does not fit the document, ValueError or IndexError where it is none.
    """
    root = _parsed(document)
    for operation, path, value in _parts(parts):
        root = _applied(root, operation, path, value)
    return _text(root)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _text(node: Any) -> str:
    if isinstance(node, _Number):
        return str(node)
    if isinstance(node, str):
        return quoted(node)
    if isinstance(node, dict):
        keys = sorted((len(raw := key.encode()), raw, key) for key in node)
        return f"{{{', '.join(f'{quoted(key)}: {_text(node[key])}' for _, _, key in keys)}}}"
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    return _LITERALS[node]


def _parts(b: bytes) -> Iterator[tuple[int, list[_Leg], Any]]:
    p = 0
    while p < len(b):
        operation = b[p]
        if operation > _REMOVE:
            raise ValueError(f"operation {operation} on a part of a JSON document")
        path, p = _string(b, p + 1)
        value: Any = None
        if operation != _REMOVE:
            raw, p = _string(b, p)
            value = _parsed(json_text(raw))
        yield operation, _legs(path.decode()), value


def _string(b: bytes, p: int) -> tuple[bytes, int]:
    length, p = lenenc(b, p)
    if p + length > len(b):
        raise ValueError("a part of a JSON document ends too early")
    return b[p : p + length], p + length


def _legs(path: str) -> list[_Leg]:
    legs: list[_Leg] = []
    at = 1
    while at < len(path):
        found = _LEG.match(path, at)
        if found is None:
            break
        cell, from_end, name, word = found.groups()
        if found[0].startswith("["):
            legs.append(int(cell) if cell else -1 - int(from_end or 0))
        else:
            legs.append(word if name is None else json.loads(f'"{name}"'))
        at = found.end()
    if not path.startswith("$") or at != len(path):
        raise ValueError(f"the path {path!r} of a part of a JSON document")
    return legs


def _applied(root: Any, operation: int, path: list[_Leg], value: Any) -> Any:
    """The document after one part of it changed."""
    if not path:
        if operation != _REPLACE:
            raise ValueError("a whole JSON document is only replaced")
        return value
    parent = root
    for leg in path[:-1]:
        parent = _child(parent, leg)
    leg = path[-1]
    if operation == _INSERT:
        _insert(parent, leg, value)
        return root
    _child(parent, leg)
    if operation == _REPLACE:
        parent[leg] = value
    else:
        del parent[leg]
    return root


def _child(node: Any, leg: _Leg) -> Any:
    found = _ABSENT
    if isinstance(node, dict) and isinstance(leg, str):
        found = node.get(leg, _ABSENT)
    elif isinstance(node, list) and isinstance(leg, int) and -len(node) <= leg < len(node):
        found = node[leg]
    if found is _ABSENT:
        raise ValueError(f"a JSON document has no value at {leg!r}, where the log changes one")
    return found


def _insert(node: Any, leg: _Leg, value: Any) -> None:
    if isinstance(node, dict) and isinstance(leg, str) and leg not in node:
        node[leg] = value
    elif isinstance(node, list) and isinstance(leg, int):
        node.insert(max(leg, 0), value)  # from its end there is one before all that is there
    else:
        raise ValueError(f"a JSON document has no room at {leg!r}, where the log inserts a value")
