"""Problems of the rules of a feed's tables, each as a path of keys and the words for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tidelock.adapters.config.document import Path as KeyPath
from tidelock.adapters.config.feed import Columns, Feed, TableRule
from tidelock.engine.capture.pattern import Pattern, PatternError

Problem: TypeAlias = tuple[KeyPath, str]


def rule_problems(feed: Feed) -> Iterator[Problem]:
    """Yields the problems, rule by rule."""
    seen: set[str] = set()
    for i, rule in enumerate(feed.tables):
        yield from _names(rule, ("tables", i))
        if rule.source in seen:
            yield ("tables", i, "source"), f"{rule.source} has a rule already; the first one would always win"
        seen.add(rule.source)
        yield from _columns(rule.columns, ("tables", i, "columns"))
        yield from _where(rule.where, ("tables", i, "where"))
        if rule.version and feed.verify != "version":
            yield ("tables", i, "version"), "a version column is for `verify: version`"
        if feed.verify == "version" and not rule.version:
            yield ("tables", i), "`verify: version` needs a version column of each table: `version: COLUMN`"


def _names(rule: TableRule, path: KeyPath) -> Iterator[Problem]:
    for key, text in (("source", rule.source), ("target", rule.target)):
        try:
            pattern = Pattern.of(text) if text else None
        except PatternError as error:
            yield (*path, key), str(error)
            return
    if pattern and not pattern.fits(Pattern.of(rule.source)):
        yield (*path, "target"), f"each part of {rule.target} needs no * or as many as {rule.source} has there"


def _columns(columns: Columns, path: KeyPath) -> Iterator[Problem]:
    if columns.include and columns.exclude:
        yield (*path, "exclude"), "include names the columns already; use one of the two"
    targets: set[str] = set()
    for source, target in columns.rename.items():
        if target in targets:
            yield (*path, "rename", source), f"two columns would become {target}"
        if source in columns.exclude or (columns.include and source not in columns.include):
            yield (*path, "rename", source), f"{source} is not among the replicated columns"
        targets.add(target)


def _where(where: str, path: KeyPath) -> Iterator[Problem]:
    if not where:
        return
    from tidelock.adapters.config.row_filter import (  # sqlglot is slow to import, and few feeds filter
        WhereError,
        parse_where,
    )

    try:
        parse_where(where)
    except WhereError as error:
        yield path, str(error).removeprefix("where: ")
