"""The rules of a feed's tables for the way back: what is the source's name there is the target's here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CannotTurn(Exception):
    """A rule cannot be read the other way round; `number`: its place among the rules."""

    def __init__(self, words: str, number: int) -> None:
        super().__init__(words)
        self.number = number


def turned(rules: Any) -> Any:
    """Returns the rules of the way back, as plain data; what is no list of rules as it is, for the loader to refuse.

    Raises CannotTurn.
    """
    if not isinstance(rules, Sequence) or isinstance(rules, str):
        return rules
    return [_turned(rule, number) if isinstance(rule, dict) else rule for number, rule in enumerate(rules)]


def _turned(rule: dict[str, Any], number: int) -> dict[str, Any]:
    result = dict(rule)
    if "target" in rule:
        if isinstance(rule["target"], str) and rule["target"].count("*") < str(rule.get("source", "")).count("*"):
            raise CannotTurn(f"several tables would become {rule['target']}, and could not be told apart back", number)
        result["source"], result["target"] = rule["target"], rule.get("source")
    columns = rule.get("columns")
    if isinstance(columns, dict):
        result["columns"] = _columns(columns)
    return result


def _columns(columns: dict[str, Any]) -> dict[str, Any]:
    result = dict(columns)
    rename = columns.get("rename")
    names = rename if isinstance(rename, dict) else {}
    if names:
        result["rename"] = {target: source for source, target in names.items()}
    if isinstance(columns.get("include"), list):
        result["include"] = [names.get(name, name) for name in columns["include"]]
    return result
