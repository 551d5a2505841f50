"""A feed's tables as the rules that its log is mapped by."""

from __future__ import annotations

from tidelock.adapters.config.feed import Feed
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.capture.row_filter import Condition


def rules_of(feed: Feed) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            source=rule.source,
            target=rule.target or rule.source,
            include=rule.columns.include,
            exclude=rule.columns.exclude,
            rename=rule.columns.rename,
            where=_where(rule.where),
        )
        for rule in feed.tables
    )


def _where(text: str) -> Condition | None:
    if not text:
        return None
    from tidelock.adapters.config.row_filter import parse_where

    return parse_where(text)
