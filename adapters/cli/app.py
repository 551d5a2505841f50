"""The commands and their options.  Bodies are imported when a command is chosen, so that help is quick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from typer._completion_classes import completion_init

from tidelock.adapters.cli.conflicts import conflicts
from tidelock.adapters.cli.edit_app import add_table, drop_table, edit
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.halts_app import ddl, log
from tidelock.adapters.cli.options import Apply, FeedPath, Json, Patience, Replace, Socket, SourceTables, Yes
from tidelock.adapters.cli.pair_app import pair
from tidelock.adapters.cli.plugins import EXPECTED, run_plugin
from tidelock.adapters.cli.rows_app import rows

completion_init()  # for the shells' completions in `packages/`; no option edits anybody's start-up files
REST = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Replicate committed row changes between databases, in parallel and exactly.\n\n"
    "Exit codes: 0 ok, 1 unreachable or refused by check, 2 bad YAML or usage, 3 differences found, "
    "4 failed rows or a halt: an operator is needed.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from tidelock.adapters.cli.version import version_line

        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and the compiled forms in use."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def init(
    feed: FeedPath,
    apply: Apply = False,
    indexes: Annotated[
        bool, typer.Option("--indexes", help="Also plain indexes, checks and foreign keys that present tables lack.")
    ] = False,
    json: Json = False,
) -> int:
    """Print (or run) what a feed needs: grants, bookkeeping, missing target tables."""
    from tidelock.adapters.cli.preparing import init

    return init(feed, apply, json, indexes)


@app.command()
def check(feed: FeedPath, json: Json = False) -> int:
    """Look whether a feed can run, and write nothing."""
    from tidelock.adapters.cli.preparing import check

    return check(feed, json)


@app.command()
def remove(feed: FeedPath, apply: Apply = False, json: Json = False) -> int:
    """Print (or run) what takes a feed away: its slot, its publication, its bookkeeping. Replicated rows stay."""
    from tidelock.adapters.cli.preparing import remove

    return remove(feed, apply, json)


for _command in (edit, add_table, drop_table):
    app.command()(_command)


@app.command()
def run(
    feed: FeedPath,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop once everything is applied that the source has now.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the feed over from a run that is alive, which then ends.")
    ] = False,
    without_permit: Annotated[
        bool,
        typer.Option(
            "--without-permit", help="Apply whether its sister does or not (`permit`), as --until-caught-up does too."
        ),
    ] = False,
    socket: Socket = "",
    json: Json = False,
) -> int:
    """Replicate, until stopped; a feed that runs already elsewhere is left alone (exit code 1)."""
    from tidelock.adapters.cli.running import run

    return run(feed, until_caught_up, json, take_over, without_permit, socket)


@app.command()
def serve(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder with feeds' YAML files.", show_default=False)],
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Serve the /metrics of all feeds, and the API.")
    ] = "",
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Lines NAME:TOKEN ROLE, for requests that change something, and all from elsewhere.",
        ),
    ] = "",
    tls_cert: Annotated[
        str, typer.Option("--tls-cert", metavar="FILE", help="Serve with TLS, by this certificate in PEM.")
    ] = "",
    tls_key: Annotated[str, typer.Option("--tls-key", metavar="FILE", help="The certificate's private key.")] = "",
    client_ca: Annotated[
        str,
        typer.Option(
            "--client-ca", metavar="FILE", help="Answer only who shows a certificate that one of these has signed."
        ),
    ] = "",
) -> int:
    """Run every feed whose file is in a folder, each in a process of its own, until stopped.

    A feed that ends is started again, after 1 s, 2 s, … up to 5 min; one that has halted once its halt is over. A file
    that comes, changes or goes starts its feed, starts it anew or ends it, within seconds or at SIGHUP.
    """
    from tidelock.adapters.cli.serving import serve, tls_files

    return serve(folder, http, token_file, tls_files(tls_cert, tls_key, client_ca))


@app.command()
def worker(
    feed: FeedPath,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Keeps its partitions over a restart under the same name.")
    ] = "",
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop once the whole feed has applied what the source has now.")
    ] = False,
    socket: Socket = "",
    json: Json = False,
) -> int:
    """Replicate as one of several workers that share a log in Kafka, until stopped."""
    from tidelock.adapters.cli.running import worker

    return worker(feed, name, until_caught_up, json, socket)


@app.command()
def status(feed: FeedPath, json: Json = False) -> int:
    """Show whether a feed runs, how far it is, which rows failed and why it halted.

    Exit code 0: it runs; 1: nobody runs it (or its target cannot be asked); 4: it has halted, has failed rows, or its
    slot at the source is lost or gone. A warning changes no exit code.
    """
    from tidelock.adapters.cli.watching import status

    return status(feed, json)


@app.command()
def feeds(feed: FeedPath, json: Json = False) -> int:
    """List all feeds that a feed's target knows: state, where each runs, lag, failed rows.

    Exit code 4: one of them has halted or has failed rows.
    """
    from tidelock.adapters.cli.listing import feeds

    return feeds(feed, json)


@app.command()
def pause(feed: FeedPath, json: Json = False) -> int:
    """Ask a feed to stop applying until `resume`."""
    from tidelock.adapters.cli.watching import set_state

    return set_state(feed, "paused", json)


@app.command()
def resume(feed: FeedPath, json: Json = False) -> int:
    """Ask a paused feed to go on."""
    from tidelock.adapters.cli.watching import set_state

    return set_state(feed, "running", json)


@app.command()
def replay(
    journal: Annotated[str, typer.Argument(metavar="JOURNAL", help="A recorded run.", show_default=False)],
    json: Json = False,
) -> int:
    """Replay a recorded run (`journal:` in the feed) step by step, without any database."""
    from tidelock.adapters.cli.running import replay

    return replay(journal, json)


@app.command()
def verify(
    feed: FeedPath,
    table: SourceTables = None,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Only rows that changed since FILE:OFFSET, a time, an age (2h), or the report of an earlier run.",
        ),
    ] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write every difference as JSON.")] = "",
    html: Annotated[str, typer.Option("--html", metavar="FILE", help="Write a page with pictures.")] = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long the feed may take to catch up.")
    ] = 60,
    every: Annotated[
        str, typer.Option("--every", metavar="SPAN", help="Go on until stopped, a share of the rows each 30min, 1h, …")
    ] = "",
    share: Annotated[float, typer.Option("--share", min=0, max=1, help="With --every: of all rows, each time.")] = 0.1,
    http: Annotated[str, typer.Option("--http", metavar="HOST:PORT", help="With --every: serve /metrics.")] = "",
    place: Annotated[
        str, typer.Option("--place", metavar="FILE", help="With --every: keeps how far it is, for the next start.")
    ] = "",
    stop_on_difference: Annotated[
        bool, typer.Option("--stop-on-difference", help="With --every: end with exit code 3 at the first difference.")
    ] = False,
    json: Json = False,
) -> int:
    """Compare source and target row by row, also while they change (exit code 3 if they differ)."""
    if every:
        if since or html:
            raise CommandError("--every goes with neither --since nor --html")
        from tidelock.adapters.cli.scheduling import Schedule, verify_on

        return verify_on(
            feed, table or [], wait, json, Schedule(every, share, place, http, report, stop_on_difference)
        )
    from tidelock.adapters.cli.verifying import verify

    return verify(feed, table or [], report, html, wait, json, since)


@app.command()
def copy(
    feed: FeedPath,
    table: SourceTables = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave rows that the target holds, and pass over source rows that clash.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Queue nothing; show how far copies are.")] = False,
    yes: Replace = False,
    json: Json = False,
) -> int:
    """Copy the rows that exist already, while the feed runs, and show how far it is; Ctrl-C ends only the showing."""
    from tidelock.adapters.cli.copying import copy

    return copy(feed, table or [], keep, watch, yes, json)


@app.command()
def repair(
    feed: FeedPath,
    from_report: Annotated[
        str, typer.Option("--from-report", metavar="FILE", help="What `verify --report` wrote.", show_default=False)
    ],
    table: SourceTables = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print statements that would repair the rows now, and queue nothing.")
    ] = False,
    yes: Yes = False,
    wait: Patience = 120,
    json: Json = False,
) -> int:
    """Have the feed write rows again that verify found to differ (exit code 4 if some are left)."""
    from tidelock.adapters.cli.repairing import repair

    return repair(feed, from_report, table or [], dry_run, yes, wait, json)


@app.command()
def resync(
    feed: FeedPath,
    table: Annotated[list[str] | None, typer.Option("--table", hidden=True)] = None,
    yes: Replace = False,
    json: Json = False,
) -> int:
    """Let a feed that cannot read on go on at the source's present place; its next run copies the tables anew first."""
    from tidelock.adapters.cli.resyncing import resync

    return resync(feed, table or [], yes, json)


@app.command()
def sequences(feed: FeedPath, table: SourceTables = None, apply: Apply = False, json: Json = False) -> int:
    """Print (or run) what sets the target's sequences to where the source's are, for the end of a move."""
    from tidelock.adapters.cli.sequencing import sequences

    return sequences(feed, table or [], apply, json)


@app.command()
def tombstones(
    feeds: Annotated[
        list[str], typer.Argument(metavar="FEED...", help="The files of all feeds of the network.", show_default=False)
    ],
    json: Json = False,
) -> int:
    """Take tombstones of rows with stamps away, once nothing older can come to any site; the feeds run meanwhile."""
    from tidelock.adapters.cli.tombstones import tombstones

    return tombstones(feeds, json)


def _plugin(name: str, text: str) -> None:
    def command(context: typer.Context) -> int:
        return run_plugin(name, context.args)

    group: Callable[[Callable[..., int]], Callable[..., int]] = app.command(name, help=text, context_settings=REST)
    group(command)


app.add_typer(rows, name="rows")
app.add_typer(conflicts, name="conflicts")
app.add_typer(ddl, name="ddl")
app.add_typer(log, name="log")
app.add_typer(pair, name="pair")
for _name, _text in EXPECTED.items():
    _plugin(_name, _text)
