"""`tidelock status`, `pause`, `resume`, `rows` and `ddl`: what an operator sees of a feed and asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from tidelock.adapters.cli.failure import OK, OPERATOR, REFUSED, CommandError
from tidelock.adapters.cli.output import print_facts, print_json, print_table, span
from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.operator import feed_control
from tidelock.adapters.operator.copies import CopiedTable
from tidelock.adapters.operator.feed_control import SILENT_SECONDS, Activity, Status
from tidelock.adapters.operator.scale_out import GroupStatus, ScaleOut
from tidelock.adapters.operator.slot import slot_state
from tidelock.adapters.operator.store import FailedRowDetail
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.runtime.progress import one_line
from tidelock.engine.model.schema_change import Ddl

CODES: dict[Activity, int] = {"running": OK, "not running": REFUSED, "halted": OPERATOR}


def status(path: str, json: bool) -> int:
    """Prints the state of a feed; returns the exit code."""
    feed = load(path)
    if feed.target_url.scheme == "hive":
        from tidelock.adapters.cli.lake import status as status_of_lake

        return status_of_lake(feed, json)
    try:
        seen = msgspec.structs.replace(asyncio.run(feed_control.status(feed)), forms=compiled_forms.forms())
    except TargetError:
        if not json and (slot := asyncio.run(slot_state(feed))) is not None:
            print_facts([("slot", str(slot))])  # its log grows while the target is away
        raise
    if json:
        waits = seen.unanswered
        prepared = {"prepared": waits.xid, "prepared_seconds": waits.seconds}
        print_json({"activity": seen.activity, **msgspec.structs.asdict(seen), **prepared, "warnings": seen.warnings})
    else:
        print_facts(_facts(seen))
        if seen.scale_out:
            print()
            print_table(_GROUP_COLUMNS, [_group_cells(group) for group in seen.scale_out.groups])
        if seen.copies:
            print()
            print_table(("copy", "chunks", "rows", "state"), [copy_cells(copy) for copy in seen.copies])
        if seen.left_over:
            names = ", ".join(f"{feed.schema}.{name}" for name in seen.left_over)
            print(f"\nleft over by a run that was killed, and dropped by the next `tidelock run`: {names}")
        if seen.failed_rows:
            print()
            rows = [
                (t.table, f"{t.rows:,}", str(t.queued_retry), str(t.queued_skip), span(t.oldest_seconds))
                for t in seen.failed_rows
            ]
            print_table(("failed rows of", "rows", "queued for retry", "queued for skip", "oldest"), rows)
        if seen.conflicts:
            print()
            decided = [(one.type, one.outcome, f"{one.rows:,}") for one in seen.conflicts]
            print_table(("lost in a conflict", "outcome", "rows"), decided)
        for warning in seen.warnings:
            print(f"\nwarning: {warning}")
    return OPERATOR if seen.needs_operator else CODES[seen.activity]


def copy_cells(copy: CopiedTable) -> tuple[str, ...]:
    """Returns the cells of a table's copy: name, chunks, rows, state."""
    age = "" if copy.seconds is None else f", {span(copy.seconds)} ago"
    queued = "waits for a run with the new file" if copy.held else "queued"
    state = copy.refused or (queued if copy.queued else f"copied{age}" if copy.done else f"being copied{age}")
    return copy.table, f"{copy.merged:,} of {copy.chunks:,}" if copy.chunks else "", f"{copy.rows:,}", state


_GROUP_COLUMNS = (
    "group",
    "worker",
    "state",
    "position",
    "checkpoint",
    "lag",
    "rows",
    "failed rows",
    "fenced",
    "waits before",
)


def _group_cells(group: GroupStatus) -> tuple[str, ...]:
    age = "" if group.checkpoint_seconds is None else f"{span(group.checkpoint_seconds)} ago"
    silent = group.report_seconds is not None and group.report_seconds > SILENT_SECONDS
    waits = f"{group.state}, waits for {group.hindrance}" if group.hindrance else group.state
    state = f"{group.state}, silent for {span(group.report_seconds or 0)}" if silent else waits
    return (
        str(group.group),
        group.worker,
        "halted" if group.halted else state,
        str(group.resolved or ""),
        age,
        "" if group.lag_seconds is None else f"{group.lag_seconds:.1f} s",
        f"{group.rows:,}",
        str(group.failed_rows),
        str(group.fenced),
        group.vote,
    )


def _scale_out_facts(scaled: ScaleOut) -> list[tuple[str, str]]:
    if scaled.unread:
        return [("log", scaled.unread)]
    if scaled.vacant:
        return [("coordinator", f"none, {span(scaled.vacant_seconds or 0)} ago: {scaled.vacant}")]
    if not scaled.coordinator:
        return [("coordinator", "none has begun yet")]
    facts = [("coordinator", f"{scaled.coordinator}: {scaled.state}, {span(scaled.state_seconds or 0)} ago")]
    facts += [("resolved", str(scaled.resolved)), ("published", str(scaled.published))]
    facts += [] if scaled.lag_seconds is None else [("lag", f"{scaled.lag_seconds:.1f} s")]
    facts += [("plan", f"version {scaled.plan}, {len(scaled.groups)} groups")]
    facts += [("publishing", f"waits for {scaled.hindrance}")] if scaled.hindrance else []
    return facts + ([("refused", scaled.refusal)] if scaled.refusal else [])


def _facts(seen: Status) -> list[tuple[str, str]]:
    facts = [("feed", seen.feed), ("source", seen.source), ("target", seen.target)]
    facts.append(("forms", ", ".join(f"{name} {form}" for name, form in seen.forms.items())))
    slot = [("slot", str(seen.slot))] if seen.slot else []
    if not seen.epoch:
        return [*facts, ("state", "NOT RUNNING: it has never run"), *slot]
    facts += [("state", _state(seen)), *slot]
    if seen.live:
        facts.append(("live", one_line(seen.live)))
    if seen.checkpoint is not None and seen.checkpoint_seconds is not None:
        facts.append(("checkpoint", f"{seen.checkpoint}, saved {span(seen.checkpoint_seconds)} ago"))
        facts += [("gtids", seen.checkpoint.gtids)] if seen.checkpoint.gtids else []
    facts += _scale_out_facts(seen.scale_out) if seen.scale_out else []
    facts += [("prepared", str(seen.unanswered))] if seen.unanswered.xid else []
    facts += [("permit", permit_words(seen))] if permit_words(seen) else []
    facts += [("epoch", str(seen.epoch)), ("receipts", f"{seen.receipts:,}")]
    if seen.halted:
        facts.append(("alarm", str(seen.halted.alarm)))
        facts += [("ddl", seen.halted.ddl.statement)] if seen.halted.ddl else []
    return facts


def _state(seen: Status) -> str:
    paused = ", paused" if seen.desired_state == "paused" else ""
    word = f"{seen.activity.upper()}{paused}"
    run = seen.run
    if seen.activity == "halted" or seen.scale_out is not None or run is None:
        return word
    if seen.activity == "running":
        return f"{word} {run}"
    ended = "in order" if run.silent_seconds is None else f"without a word {span(run.silent_seconds)} ago"
    return f"{word}: the last run was {run}, and ended {ended}"


def permit_words(seen: Status) -> str:
    """Returns what the run says of its permit; '' where it has none, or nobody runs."""
    word = seen.run.permit if seen.run is not None else None
    if word is None or seen.activity != "running":
        return ""
    return f"closed: {word.held}" if word.held else "open" if word.ready else "closed: paused"


def set_state(path: str, state: Literal["running", "paused"], json: bool) -> int:
    """Sets the desired state; returns the exit code."""
    feed = load(path)
    asyncio.run(feed_control.set_state(feed, state))
    text = f"{feed.name}: the desired state is {state}; {_by(feed)}"
    return _said({"feed": feed.name, "desired_state": state}, text, json)


def list_rows(path: str, table: str, limit: int, json: bool) -> int:
    """Prints failed rows; returns the exit code."""
    rows = asyncio.run(feed_control.failed_rows(load(path), table, limit))
    if json:
        print_json(rows)
    elif rows:
        cells = [(r.id, r.table, r.key, r.error, r.queued, span(r.failed_seconds)) for r in rows]
        print_table(("id", "table", "key", "error", "queued for", "age"), cells)
        if len(rows) == limit:
            print(f"The first {limit}; `--limit` shows more.")
    else:
        print("No failed rows.")
    return OPERATOR if rows else OK


def show_row(path: str, row_id: str, json: bool) -> int:
    """Prints one failed row; returns the exit code."""
    detail = asyncio.run(feed_control.failed_row(load(path), row_id))
    if json:
        print_json(detail)
        return OPERATOR
    change = detail.change
    failed = f"{span(change.failed_seconds)} ago{f', queued for {change.queued}' if change.queued else ''}"
    print_facts([("id", change.id), ("table", change.table), ("error", change.error), ("failed", failed)])
    print()
    print_table(("column", "before", "after"), _images(detail))
    return OPERATOR


def _images(detail: FailedRowDetail) -> list[tuple[str, str, str]]:
    before, after = detail.before or {}, detail.after or {}
    shown = [(name, _value(before, name), _value(after, name)) for name in before | after]
    return [(name + (" *" if before and after and old != new else ""), old, new) for name, old, new in shown]


def _value(row: dict[str, Any], name: str) -> str:
    match row.get(name, ""):
        case None:
            return "NULL"
        case bytes() as value:
            return f"0x{value.hex()}"
        case value:
            return str(value)


def queue(
    path: str, what: Literal["retry", "skip"], ids: Sequence[str], table: str, everything: bool, json: bool
) -> int:
    """Queues failed rows to be retried or skipped; returns the exit code."""
    if bool(ids) + bool(table) + everything != 1:
        raise CommandError(f"Say which rows to {what}: their ids, --table db.table, or --all")
    feed = load(path)
    if what == "retry" and feed.direction == "down":
        raise CommandError(
            f"{feed.name} comes from the arbiter: an old change would be written over what the spoke has written "
            "since. Correct the cause, set `conflicts: {echo: all}`, run the feed, and `tidelock rows take-source` "
            "reads the rows as they are now"
        )
    count = asyncio.run(feed_control.queue(feed, what, ids, table))
    rows = "1 failed row" if count == 1 else f"{count:,} failed rows"
    text = f"{feed.name}: {rows} queued for {what}; {_by(feed)}" if count else f"{feed.name}: no more rows to {what}."
    return _said({"feed": feed.name, "queued": what, "wish": what, "rows": count}, text, json)


def _by(feed: Feed) -> str:
    return asyncio.run(feed_control.nobody_runs(feed)) or "the feed does it within seconds"


def show_ddl(path: str, json: bool) -> int:
    """Prints the statement that halted the feed; returns the exit code."""
    halted = asyncio.run(feed_control.halted(load(path)))
    if halted.ddl is None:
        raise CommandError(f"The feed is halted, but not by a statement: {halted.alarm}", exit_code=OPERATOR)
    if json:
        print_json(halted)
    else:
        print_facts([("alarm", str(halted.alarm)), ("database", halted.ddl.schema), ("log id", _log_id(halted.ddl))])
        print(f"\n{halted.ddl.statement}")
    return OPERATOR


def pass_ddl(path: str, word: Literal["done", "skipped"], json: bool) -> int:
    """Lets the feed go on behind the statement; returns the exit code."""
    feed = load(path)
    ddl = asyncio.run(feed_control.pass_ddl(feed, done=word == "done"))
    text = f"{feed.name}: {_log_id(ddl)} counts as {word}; `tidelock run` goes on behind it."
    return _said({"feed": feed.name, "passed": _log_id(ddl), "as": word}, text, json)


def _log_id(ddl: Ddl) -> str:
    return f"{ddl.source}:{ddl.number}"


def _said(value: Any, text: str, json: bool) -> int:
    if json:
        print_json(value)
    else:
        print(text)
    return OK
