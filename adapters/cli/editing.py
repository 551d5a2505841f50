"""`tidelock edit`, `add-table` and `drop-table`: change the file of a feed that runs or is stopped."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidelock.adapters.cli.failure import OK, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json, print_table
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.config.rule_text import with_rule, without_rule
from tidelock.engine.capture.pattern import Pattern, PatternError
from tidelock.engine.model.records import TableName

if TYPE_CHECKING:
    from tidelock.adapters.app.feed_edit import FeedEdit


class Wanted(msgspec.Struct, frozen=True):
    """The wishes for a change.  `copies`, `keep`: as in `feed_change.difference`."""

    apply: bool
    copies: bool = True
    keep: bool = False
    json: bool = False


def edit(path: str, other: str, wanted: Wanted) -> int:
    """Shows what a new file means for a feed, and with `apply` replaces the feed's file by it; returns the exit code.
    """
    _own_file(path)
    return _changed(path, loader.text_of(Path(other)), other, wanted)


def add_table(
    path: str, table: str, target: str, where: str, columns: Sequence[str], without: Sequence[str], wanted: Wanted
) -> int:
    """Adds a rule for a table to a feed's file; returns the exit code."""
    feed = _own_file(path)
    name = _table(table)
    if rule := feed.select(name):
        hint = f"`tidelock copy {path} --table {table}` copies its rows anew; `tidelock edit` changes the rule"
        raise CommandError(f"{path}: the rule {rule.source} takes {table} already", hint, REFUSED)
    chosen = {"include": list(columns), "exclude": list(without)}
    rule_words: dict[str, Any] = {"source": table, "target": target, "where": where}
    rule_words = {key: value for key, value in rule_words.items() if value}
    if any(chosen.values()):
        rule_words["columns"] = {key: value for key, value in chosen.items() if value}
    return _changed(path, with_rule(loader.text_of(Path(path)), rule_words), f"{path} with the new rule", wanted)


def drop_table(path: str, table: str, wanted: Wanted) -> int:
    """Takes the rule for a table out of a feed's file; returns the exit code."""
    feed = _own_file(path)
    name = _table(table)
    rule = feed.select(name)
    if rule is None:
        raise CommandError(f"{path}: no rule takes {table}", exit_code=REFUSED)
    if rule.source != table:
        hint = f"Name its tables one by one in the place of {rule.source}, without {table}, and `tidelock edit`"
        raise CommandError(f"{path}: {table} is taken by the rule {rule.source}, with others", hint, REFUSED)
    rules = [one for one in feed.tables if one is not rule]
    if not rules:
        raise CommandError(f"{path}: {table} is the feed's only table", f"`tidelock remove {path}`", REFUSED)
    if other := next((one for one in rules if one.matches(name)), None):
        hint = f"Name the tables of {other.source} one by one, without {table}, and `tidelock edit`"
        raise CommandError(f"{path}: without its rule, {table} is taken by the rule {other.source}", hint, REFUSED)
    return _changed(path, without_rule(loader.text_of(Path(path)), table), f"{path} without the rule", wanted)


def _own_file(path: str) -> Feed:
    """Reads the feed.  Raises CommandError where it is one of a pair, which has no file of its own."""
    feed = load(path)
    if not Path(path).exists():
        raise CommandError(f"{path}: a feed of a pair has no file of its own", "Change the pair's: docs/how-to/pair.md")
    return feed


def _table(text: str) -> TableName:
    try:
        pattern = Pattern.of(text)
    except PatternError as problem:
        raise CommandError(str(problem)) from None
    if "*" in text:
        raise CommandError(f"{text} is a pattern", "Name one table; `tidelock edit` takes a file with any rules")
    return TableName(pattern.schema, pattern.table)


def _changed(path: str, text: str, named: str, wanted: Wanted) -> int:
    """Shows, or carries out, the change of a file to this text, which errors call `named`; returns the exit code."""
    from tidelock.adapters.app.feed_edit import carry_out, plan
    from tidelock.adapters.ports.target_inspection import CannotRun

    try:
        planned = asyncio.run(plan(Path(path), text, named, copies=wanted.copies, keep=wanted.keep))
        if wanted.apply:
            asyncio.run(carry_out(planned))
    except CannotRun as refused:
        raise CommandError(refused.finding.message, refused.finding.hint, REFUSED) from None
    if not wanted.json:
        _show(planned, wanted.apply)
    if not wanted.apply:
        if wanted.json:
            _print(planned, "preview")
        return REFUSED if planned.change.refused else OK
    return _take(path, planned, wanted)


# ---------------------------------------------------------------------- what is said


def _show(planned: FeedEdit, applied: bool) -> None:
    name, change = planned.former.name, planned.change
    if not change:
        print(f"{name}: the new file means the same")
        return
    if change.tables:
        tables = [(one.what, _names(one.table, one.target), one.before, one.after, one.means) for one in change.tables]
        print_table(("change", "table", "now", "then", "means"), tables)
    if change.keys:
        keys = [("refused: " + o.key if o.refused else o.key, o.before, o.after, o.means) for o in change.keys]
        print_table(("key", "now", "then", "means"), keys)
    for one in change.refused:
        print(f"{name}: {one.key} cannot be changed. {one.hint}")
    for pattern in change.unmatched:
        print(f"{name}: no table at {planned.new.source_url} matches {pattern} now")
    for statement in planned.statements:
        if not applied or statement.administrator:
            who = ", by an administrator" if statement.administrator else ""
            print(f"-- {statement.side}{who}: {' '.join(statement.why.split())}\n{statement.sql};")
    if not applied and not change.refused:
        print(f"{name}: nothing is changed yet: --apply does it")


def _names(source: str, target: str) -> str:
    return source if source == target else f"{source} as {target}"


def _take(path: str, planned: FeedEdit, wanted: Wanted) -> int:
    """Says from when on the new file holds, and returns the exit code."""
    from tidelock.adapters.app.file_taken import taken

    name, code, state = planned.new.name, OK, "written"
    if not planned.change:
        said = "no run needs to take it"
    elif planned.run is not None:
        tell = (lambda text: print(f"{name}: {text}", file=sys.stderr)) if not wanted.json else (lambda _: None)
        state, run = asyncio.run(taken(planned.new, planned.run, tell))
        code = OK if state == "taken" else REFUSED
        said = {
            "taken": f"the run {run} has the new file",
            "not taken": f"the run {run} still has the file as it was: end it (SIGTERM), then `tidelock run {path}`",
            "ended": f"the run has ended and none has begun: `tidelock run {path}`",
        }[state]
    else:
        said = "nobody runs the feed, so the next run has the new file"
    if wanted.json:
        _print(planned, state)
        return code
    print(f"{name}: {path} is written: {said}")
    if planned.change.copies:
        print(f"{name}: that run begins the copies before all else: `tidelock copy {path} --watch` shows them")
    return code


def _print(planned: FeedEdit, state: str) -> None:
    change = planned.change
    print_json(
        {
            "state": state,
            "tables": change.tables,
            "keys": change.keys,
            "unmatched": change.unmatched,
            "statements": planned.statements,
        }
    )
