"""Edits the rules of a feed's YAML as text, so that comments and everything else stay as they are.

Only a list in block style is edited, a rule on lines of its own.  What comes out is read again: it must be the rules of
before and the one more, or without the one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from tidelock.adapters.config.document import DocumentError, parse

_PLAIN: Final = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_$.-]*")


class NotEdited(Exception):
    """The list cannot be edited as text; `args[0]` says why, `hint` what to do by hand."""

    exit_code = 1

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


def with_rule(text: str, rule: Mapping[str, Any]) -> str:
    """Returns the text with a rule more, the last one.  Raises NotEdited, DocumentError."""
    written = lines_of(rule)
    hint = "Add these lines to `tables`, then `tidelock edit`:\n" + "\n".join(f"  {line}" for line in written)
    try:
        rules = _block_list(text)
    except NotEdited as problem:
        raise NotEdited(str(problem), hint) from None
    lines = text.splitlines()
    indent = " " * rules.start_mark.column
    at = _last_line(rules, lines) + 1
    made = _joined(text, [*lines[:at], *(indent + line for line in written), *lines[at:]])
    return _proven(text, made, lambda before: [*before, dict(rule)], hint)


def without_rule(text: str, source: str) -> str:
    """Returns the text without the rule whose `source` is this.  Raises NotEdited, DocumentError."""
    hint = f"Take the rule with `source: {source}` out of `tables`, then `tidelock edit`"
    try:
        rules = _block_list(text)
    except NotEdited as problem:
        raise NotEdited(str(problem), hint) from None
    before = parse(text)[0]["tables"]
    number = next(n for n, rule in enumerate(before) if rule.get("source") == source)
    lines = text.splitlines()
    node = rules.value[number]
    first = node.start_mark.line
    while first > rules.start_mark.line and not _begins(lines[first], rules.start_mark.column):
        first -= 1
    made = _joined(text, [*lines[:first], *lines[_last_line(node, lines) + 1 :]])
    return _proven(text, made, lambda rules: [rule for n, rule in enumerate(rules) if n != number], hint)


def lines_of(rule: Mapping[str, Any]) -> list[str]:
    """Returns a rule as an item of a list in block style."""
    lines = list[str]()
    for key, value in rule.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:")
            lines += [f"  {name}: {_scalar(one)}" for name, one in value.items()]
        else:
            lines.append(f"{key}: {_scalar(value)}")
    return [f"{'- ' if n == 0 else '  '}{line}" for n, line in enumerate(lines)]


def _scalar(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_scalar, value))}]"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _block_list(text: str) -> yaml.SequenceNode:
    """Returns the list of rules with the places of its parts.  Raises NotEdited, DocumentError."""
    parse(text)  # tells what is wrong with it as a document
    root = yaml.compose(text, Loader=yaml.BaseLoader)
    assert isinstance(root, yaml.MappingNode), "it is a feed"
    rules = next(value for key, value in root.value if key.value == "tables")
    if not isinstance(rules, yaml.SequenceNode) or rules.flow_style:
        raise NotEdited("`tables` is not a list with a rule on lines of its own (`- source: …`)", "")
    return rules


def _last_line(node: yaml.Node, lines: Sequence[str]) -> int:
    """Returns the line on which a node ends; PyYAML ends blocks where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(node, yaml.MappingNode) else last, lines)
    first, end = node.start_mark.line, node.end_mark
    line = end.line - 1 if end.column == 0 and end.line > first else end.line
    while line > first and not lines[line].strip():
        line -= 1
    return int(line)


def _begins(line: str, column: int) -> bool:
    return line[column : column + 1] == "-" and not line[:column].strip()


def _joined(text: str, lines: Sequence[str]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    return end.join(lines) + end


def _proven(text: str, made: str, expected: Any, hint: str) -> str:
    """Returns what was made, where it says what it should.  Raises NotEdited."""
    before = parse(text)[0]
    try:
        after = parse(made)[0]
    except DocumentError:
        after = None
    if after != {**before, "tables": expected(before["tables"])}:
        raise NotEdited("`tables` is written in a way that is not edited as text", hint)
    return made
