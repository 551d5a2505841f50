"""The options of `tidelock ddl` and `tidelock log`, which decide about what halted a feed, or will.

Bodies are in `cli.watching`, `cli.planning`, `cli.preparing` and `cli.log_records`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tidelock.adapters.cli.options import Apply, FeedPath, Json

ddl = typer.Typer(no_args_is_help=True, help="Plan schema changes; decide about the statement that halted a feed.")
log = typer.Typer(no_args_is_help=True, help="Decide about records of the log in Kafka that workers cannot read.")


@ddl.command("show")
def show_ddl(feed: FeedPath, json: Json = False) -> int:
    """Show the statement that halted the feed."""
    from tidelock.adapters.cli.watching import show_ddl

    return show_ddl(feed, json)


@ddl.command("plan")
def ddl_plan(
    file: Annotated[str, typer.Argument(metavar="FILE.sql", help="Statements of the source.", show_default=False)],
    feed: FeedPath,
    json: Json = False,
) -> int:
    """Show what the feed would make of statements, without a server (exit code 4 if one of them halts it)."""
    from tidelock.adapters.cli.planning import ddl_plan

    return ddl_plan(file, feed, json)


@ddl.command("done")
def ddl_done(feed: FeedPath, json: Json = False) -> int:
    """Go on: you have made the statement's change at the target by hand."""
    from tidelock.adapters.cli.watching import pass_ddl

    return pass_ddl(feed, "done", json)


@ddl.command("skip")
def ddl_skip(feed: FeedPath, json: Json = False) -> int:
    """Go on without the statement's change at the target."""
    from tidelock.adapters.cli.watching import pass_ddl

    return pass_ddl(feed, "skipped", json)


@ddl.command("install")
def install_ddl(feed: FeedPath, apply: Apply = False, json: Json = False) -> int:
    """Print the event triggers by which a PostgreSQL source tells the feed of every schema change, or make them."""
    from tidelock.adapters.cli.preparing import tell_ddl

    return tell_ddl(feed, apply, json, wanted=True)


@ddl.command("remove")
def remove_ddl(feed: FeedPath, apply: Apply = False, json: Json = False) -> int:
    """Print what takes these event triggers away, or do it."""
    from tidelock.adapters.cli.preparing import tell_ddl

    return tell_ddl(feed, apply, json, wanted=False)


@log.command("skip")
def log_skip(
    feed: FeedPath,
    partition: Annotated[int, typer.Option(help="The partition, as `status` names it.", show_default=False)],
    offset: Annotated[int, typer.Option(help="The record's offset there.", show_default=False)],
    json: Json = False,
) -> int:
    """Pass over one record that is none of the publisher's, and keep a copy of it."""
    from tidelock.adapters.cli.log_records import skip

    return skip(feed, partition, offset, json)
