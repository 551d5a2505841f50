"""The options of `tidelock pair` and its commands; bodies are in `cli.pairing`, imported when one is chosen."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from tidelock.adapters.cli.options import Json

PairPath: TypeAlias = Annotated[str, typer.Argument(metavar="PAIR", help="The pair's YAML file.", show_default=False)]
SiteName: TypeAlias = Annotated[str, typer.Argument(metavar="SITE", help="Name of a site.", show_default=False)]
FromSite: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="SITE", help="The site whose rows the others begin with.", show_default=False)
]
Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Do it instead of printing what would be done.")]
Replace: TypeAlias = Annotated[
    bool, typer.Option("--replace", help="Tables that hold rows there already are replaced by the copy.")
]
Equal: TypeAlias = Annotated[
    bool, typer.Option("--equal", help="The sites hold equal rows already: compare them, and copy none.")
]
Wait: TypeAlias = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long a feed may take to catch up.")
]

pair = typer.Typer(no_args_is_help=True, help="Sites that all take writes: a pair, a star or a tree of feeds.")


@pair.command()
def feeds(
    path: PairPath,
    write: Annotated[
        str, typer.Option("--write", metavar="DIR", help="Write a file for each, instead of printing them.")
    ] = "",
) -> int:
    """Print the YAML of each feed. Every other command takes one of them as PAIR.yaml#NAME."""
    from tidelock.adapters.cli.pairing import feeds

    return feeds(path, write)


@pair.command()
def check(path: PairPath, json: Json = False) -> int:
    """Look whether the pair can run, and write nothing."""
    from tidelock.adapters.cli.pairing import check

    return check(path, json)


@pair.command()
def init(
    path: PairPath,
    from_site: FromSite,
    apply: Apply = False,
    replace: Replace = False,
    equal: Equal = False,
    wait: Wait = 60,
) -> int:
    """Make all sites equal to one, and open them to writers; can be run again after it died anywhere."""
    from tidelock.adapters.cli.pairing import init

    return init(path, from_site, apply, replace, equal, wait)


@pair.command()
def add(
    path: PairPath,
    site: SiteName,
    from_site: FromSite,
    apply: Apply = False,
    replace: Replace = False,
    equal: Equal = False,
    wait: Wait = 60,
) -> int:
    """Make one more site equal to that which it hangs on, and open it; the file names it already."""
    from tidelock.adapters.cli.pairing import add

    return add(path, site, from_site, apply, replace, equal, wait)


@pair.command()
def run(
    path: PairPath,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="FEED", help="Only this feed; may be repeated.")
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop once everything is applied that the sources have now.")
    ] = False,
    json: Json = False,
) -> int:
    """Run all feeds, each in a process of its own, until stopped; the exit code is the worst of theirs."""
    from tidelock.adapters.cli.pairing import run

    return run(path, only or [], until_caught_up, json)


@pair.command()
def status(path: PairPath, json: Json = False) -> int:
    """Show each feed: whether it runs, how far it is, its permit, why it halted. Exit codes as of `tidelock status`."""
    from tidelock.adapters.cli.pairing import status

    return status(path, json)


@pair.command()
def pause(path: PairPath, json: Json = False) -> int:
    """Ask all feeds to stop applying until `resume`."""
    from tidelock.adapters.cli.pairing import set_state

    return set_state(path, "paused", json)


@pair.command()
def resume(path: PairPath, json: Json = False) -> int:
    """Ask all feeds to go on."""
    from tidelock.adapters.cli.pairing import set_state

    return set_state(path, "running", json)


@pair.command()
def remove(path: PairPath, site: SiteName, apply: Apply = False, json: Json = False) -> int:
    """Take a site out: its feeds catch up, then their slots, publications and bookkeeping go. Rows stay."""
    from tidelock.adapters.cli.pairing import remove

    return remove(path, site, apply, json)


@pair.command()
def rewound(
    path: PairPath,
    site: SiteName,
    apply: Apply = False,
    arbiters_rows: Annotated[
        bool,
        typer.Option("--arbiters-rows", help="Where the log does not tell: give up what the site has written alone."),
    ] = False,
) -> int:
    """Let a pair go on whose spoke's server has lost its last commits in a crash, and which halted for that."""
    from tidelock.adapters.cli.pair_rewound import rewound

    return rewound(path, site, apply, arbiters_rows)
