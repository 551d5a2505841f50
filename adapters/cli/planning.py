"""`tidelock ddl plan`: prints what a feed would make of the statements in a file."""

from __future__ import annotations

from pathlib import Path

from tidelock.adapters.app.ddl_plan import PlannedStatement
from tidelock.adapters.app.ddl_plan import ddl_plan as plan_of
from tidelock.adapters.cli.failure import OK, OPERATOR, CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.loader import load
from tidelock.adapters.ddl.lexer import NotPlain


def ddl_plan(file: str, path: str, json: bool) -> int:
    """Prints the outcome of each statement, and what runs at the target; returns the exit code."""
    feed = load(path)
    if feed.source_url.dialect == "postgres":
        raise CommandError(
            "PostgreSQL's log has no statements, so there is nothing to plan",
            "docs/reference/schema-changes.md says what becomes of changes that its rows tell",
        )
    if feed.target_url.scheme == "hive":
        raise CommandError("Hive runs no statements of the source", "docs/how-to/hive.md says what it follows")
    try:
        planned = plan_of(_text(file), feed)
    except NotPlain as error:
        raise CommandError(f"{file} cannot be taken apart into statements, at {error}") from None
    if json:
        print_json(planned)
    else:
        print("\n\n".join(map(_told, planned)))
    return OPERATOR if any(one.outcome == "halts" for one in planned) else OK


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None


def _told(planned: PlannedStatement) -> str:
    lines = [f"{planned.outcome}: {planned.statement}", *(f"    {sql};" for sql in planned.runs)]
    return "\n".join([*lines, f"    ({planned.why})"] if planned.why else lines)
