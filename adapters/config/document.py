"""A YAML text as plain data plus the line of every key, without YAML's guesses.

Every scalar stays the text that was written (`off` is not False, `null` is not None, `1:30` is not 90); the model it
is converted to says what is a number.  A key written twice is an error instead of the last one winning.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml

Path: TypeAlias = tuple[str | int, ...]


class DocumentError(Exception):
    """The text is no usable YAML: `args[0]` says what is wrong, `line` (from 1, 0 unknown) where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> tuple[Any, dict[Path, int]]:
    """Returns the data as dicts, lists and strs, and the line of each path.  Raises DocumentError."""
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable as YAML"
        raise DocumentError(str(problem), mark.line + 1 if mark else 0) from None
    lines: dict[Path, int] = {}
    try:
        return (_value(node, (), lines) if node is not None else {}), lines
    except RecursionError:
        raise DocumentError("an alias (*name) that contains itself", 0) from None


_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, i), lines) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    result: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("a key must be a word", line)
        if key.value in result:
            raise DocumentError(f"the key {key.value!r} is written twice", line)
        lines[(*path, key.value)] = line
        result[key.value] = _value(value, (*path, key.value), lines)
    return result
