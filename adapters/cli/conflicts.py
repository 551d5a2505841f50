"""`tidelock conflicts`: rows that lost in conflicts of two sites, and how they are written after all."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelock.adapters.cli.options import FeedPath, Json

conflicts = typer.Typer(no_args_is_help=True, help="Look at rows that lost in conflicts of two sites, or write them.")

_Id = Annotated[str, typer.Argument(metavar="ID", help="As `conflicts list` shows it.", show_default=False)]


@conflicts.command("list")
def list_lost(
    feed: FeedPath,
    table: Annotated[str, typer.Option("--table", metavar="DB.TABLE", help="Of one table of the target.")] = "",
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
    json: Json = False,
) -> int:
    """List what was meant and does not stand, newest first."""
    from tidelock.adapters.cli.lost_rows import list_lost

    return list_lost(feed, table, limit, json)


@conflicts.command("show")
def show_lost(feed: FeedPath, row_id: _Id, json: Json = False) -> int:
    """Show a row that lost, and the row that stood when it was decided."""
    from tidelock.adapters.cli.lost_rows import show_lost

    return show_lost(feed, row_id, json)


@conflicts.command("apply")
def apply_lost(feed: FeedPath, row_id: _Id, json: Json = False) -> int:
    """Write a row that lost, at the feed's target, as a change of today; its failed row, if there is one, ends."""
    from tidelock.adapters.cli.lost_rows import apply_lost

    return apply_lost(feed, row_id, json)
