"""The options of `tidelock rows` and its commands; bodies are in `cli.watching` and `cli.repairing`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelock.adapters.cli.options import FeedPath, Json, Patience, Yes

RowIds: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="As `rows list` shows them.", show_default=False)
]
OfTable: TypeAlias = Annotated[str, typer.Option("--table", metavar="DB.TABLE", help="All failed rows of a table.")]
Everything: TypeAlias = Annotated[bool, typer.Option("--all", help="All failed rows of the feed.")]

rows = typer.Typer(no_args_is_help=True, help="Look at failed rows (dead letters) and decide about them.")


@rows.command("list")
def list_rows(
    feed: FeedPath,
    table: OfTable = "",
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
    json: Json = False,
) -> int:
    """List failed rows, oldest first (exit code 4 if there are any)."""
    from tidelock.adapters.cli.watching import list_rows

    return list_rows(feed, table, limit, json)


@rows.command("show")
def show_row(
    feed: FeedPath,
    row_id: Annotated[str, typer.Argument(metavar="ID", help="As `rows list` shows it.", show_default=False)],
    json: Json = False,
) -> int:
    """Show a failed row, before and after its change."""
    from tidelock.adapters.cli.watching import show_row

    return show_row(feed, row_id, json)


@rows.command("retry")
def retry_rows(
    feed: FeedPath, ids: RowIds = None, table: OfTable = "", everything: Everything = False, json: Json = False
) -> int:
    """Apply failed rows again, always all of a table together: an ID stands for its table."""
    from tidelock.adapters.cli.watching import queue

    return queue(feed, "retry", ids or [], table, everything, json)


@rows.command("skip")
def skip_rows(
    feed: FeedPath, ids: RowIds = None, table: OfTable = "", everything: Everything = False, json: Json = False
) -> int:
    """Drop failed rows: their changes are never applied."""
    from tidelock.adapters.cli.watching import queue

    return queue(feed, "skip", ids or [], table, everything, json)


@rows.command("take-source")
def take_source(
    feed: FeedPath,
    ids: RowIds = None,
    table: OfTable = "",
    everything: Everything = False,
    yes: Yes = False,
    wait: Patience = 120,
    json: Json = False,
) -> int:
    """Have the feed write what the source has now of failed rows, and end them (exit code 4 if some are left)."""
    from tidelock.adapters.cli.repairing import take_source

    return take_source(feed, ids or [], table, everything, yes, wait, json)
