"""The options of the commands that change a feed's file; bodies are in `cli.editing`, imported when one is chosen."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelock.adapters.cli.options import FeedPath, Json

SourceTable: TypeAlias = Annotated[
    str, typer.Argument(metavar="DB.TABLE", help="A table of the source.", show_default=False)
]
Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Do it instead of showing what it means.")]
NoCopy: TypeAlias = Annotated[
    bool, typer.Option("--no-copy", help="Copy no rows: only changes from where the feed stands on come.")
]
Keep: TypeAlias = Annotated[
    bool, typer.Option("--keep", help="Leave rows that the target holds, and pass over source rows that clash.")
]


def edit(
    feed: FeedPath,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The YAML that is to replace it.", show_default=False)],
    apply: Apply = False,
    no_copy: NoCopy = False,
    keep: Keep = False,
    json: Json = False,
) -> int:
    """Show what a new file means for a feed that runs or is stopped (or replace its file, and copy what comes in).

    The file is replaced as a whole, with the comments of the new one. Exit code 1: it cannot be done, or a run still
    has the file as it was, and is to be ended and started by hand.
    """
    from tidelock.adapters.cli.editing import Wanted, edit

    return edit(feed, new, Wanted(apply, not no_copy, keep, json))


def add_table(
    feed: FeedPath,
    table: SourceTable,
    target: Annotated[str, typer.Option("--target", metavar="SCHEMA.TABLE", help="Its name at the target.")] = "",
    where: Annotated[str, typer.Option("--where", metavar="FILTER", help="Only these rows.")] = "",
    include: Annotated[
        list[str] | None, typer.Option("--include", metavar="COLUMN", help="Only this column; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="COLUMN", help="Not this column; may be repeated.")
    ] = None,
    apply: Apply = False,
    no_copy: NoCopy = False,
    keep: Keep = False,
    json: Json = False,
) -> int:
    """Show what one more table means (or add it to the feed's file, and copy its rows); comments stay."""
    from tidelock.adapters.cli.editing import Wanted, add_table

    wanted = Wanted(apply, not no_copy, keep, json)
    return add_table(feed, table, target, where, include or [], exclude or [], wanted)


def drop_table(feed: FeedPath, table: SourceTable, apply: Apply = False, json: Json = False) -> int:
    """Show what one table less means (or take it out of the feed's file); its rows at the target and comments stay."""
    from tidelock.adapters.cli.editing import Wanted, drop_table

    return drop_table(feed, table, Wanted(apply, json=json))
