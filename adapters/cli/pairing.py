"""`tidelock pair …`: the commands for a pair, a star or a tree of sites."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tidelock.adapters.cli.failure import OK, OPERATOR, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json, print_table
from tidelock.adapters.cli.preparing import Words, counted, print_check, print_findings, print_plan
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.pair import Pair, PairFeed, load, texts

if TYPE_CHECKING:
    from tidelock.adapters.config.edges import Edge
    from tidelock.adapters.pair.beginning import Rows
    from tidelock.adapters.pair.overview import FeedOverview
    from tidelock.adapters.verify.report import VerifyReport


def feeds(path: str, write: str) -> int:
    """Prints or writes the YAML of each feed; returns the exit code."""
    pair = load(path)
    folder = Path(write or Path(path).parent)
    if write and not folder.is_dir():
        raise CommandError(f"{write} is no folder")
    for name, text in texts(pair, folder).items():
        if write:
            from tidelock.adapters.cli.verifying import write as write_file

            write_file(str(folder / f"{name}.yaml"), text.encode())
            print(folder / f"{name}.yaml")
        else:
            print(f"# {path}#{name}\n{text}")
    return OK


def check(path: str, json: bool) -> int:
    """Prints what would keep the pair from running; returns the exit code."""
    pair = load(path)
    from tidelock.adapters.pair.checking import check as check_pair

    return print_check(pair.name, asyncio.run(check_pair(pair)), json)


# ------------------------------------------------------------------ begin


def init(path: str, site: str, apply: bool, replace: bool, equal: bool, wait: float) -> int:
    """Opens all edges from a site outwards, or prints what that needs; returns the exit code."""
    rows, pair = _rows(replace, equal), load(path)
    return _begun(pair, _rooted(pair, site), apply, rows, wait)


def add(path: str, site: str, from_site: str, apply: bool, replace: bool, equal: bool, wait: float) -> int:
    """Opens the edge of one site; returns the exit code."""
    pair = load(path)
    edges = [edge for edge in _rooted(pair, from_site) if edge.ends == (from_site, site)]
    if not edges:
        raise CommandError(f"{path}: no edge ties {site} to {from_site}", f"Add {from_site}-{site} to `edges`")
    return _begun(pair, edges, apply, _rows(replace, equal), wait)


def _rows(replace: bool, equal: bool) -> Rows:
    if replace and equal:
        raise CommandError("--replace copies rows over those that are there, and --equal copies none: one of them")
    return "replaced" if replace else "equal" if equal else "none"


def _rooted(pair: Pair, site: str) -> Sequence[Edge]:
    from tidelock.adapters.config.edges import TreeError

    if site not in pair.tree.sites:
        raise CommandError(f"{pair.path}: {site} is none of the sites {', '.join(pair.tree.sites)}")
    try:
        return pair.tree.rooted(site).edges
    except TreeError as error:
        raise CommandError(f"{pair.path}: {error}") from None


def _begun(pair: Pair, edges: Sequence[Edge], apply: bool, rows: Rows, wait: float) -> int:
    if not apply:
        return _planned(pair)
    from tidelock.adapters.cli.termination import terminated
    from tidelock.adapters.pair.beginning import Beginning, Refused

    def verify(feed: Feed) -> VerifyReport:
        from tidelock.adapters.cli.verifying import Screen, print_report
        from tidelock.adapters.verify.verify import verify as verify_feed

        with Screen(feed.name, sys.stdout.isatty(), False) as screen:
            report = verify_feed(feed, (), wait, screen)
        if not report.equal:
            print_report(report)
        return report

    tell = _Lines(json=False)
    for edge in edges:
        try:
            with terminated():
                Beginning(pair, edge, tell, verify, rows).run()
        except Refused as refused:
            print_findings(refused.findings)
            raise CommandError(
                f"{pair.name}: {edge.parent} to {edge.child} cannot begin{counted(refused.findings)}",
                "Correct that, then run it again",
                REFUSED,
            ) from None
        except Exception as error:
            found = getattr(error, "finding", None)
            if found is None:
                raise
            raise CommandError(found.message, found.hint, REFUSED) from None
    return OK


def _planned(pair: Pair) -> int:
    from tidelock.adapters.pair.beginning import planned

    for one, plan in asyncio.run(planned(pair)):
        if isinstance(plan, Exception):
            print(f"-- {one.name}: known once the tables are there ({plan})\n")
        else:
            print_plan(one.name, plan, False, Words("nothing is missing", "made"))
    print("-- then the place of each way back is fixed, the rows are copied and compared, the edges opened: --apply")
    return OK


# ------------------------------------------------------------------ run


def run(path: str, only: Sequence[str], until_caught_up: bool, json: bool) -> int:
    """Runs the feeds; returns the worst exit code."""
    pair = load(path)
    chosen = [pair.chosen(name) for name in only] or list(pair.feeds)
    from tidelock.adapters.pair.opening import all_open
    from tidelock.adapters.pair.purging import purged
    from tidelock.adapters.pair.running import run as run_pair

    asyncio.run(all_open(pair, chosen))
    options = [*(["--until-caught-up"] if until_caught_up else []), *(["--json"] if json else [])]
    tell = _Lines(json=json)
    with purged(pair, [] if until_caught_up else chosen, tell):
        return run_pair(pair, chosen, tell, options)


class _Lines:
    """Prints lines of feeds, each under its feed's name; of JSON lines, each in an object with it."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        """Prints one line; `name`: '' for what is about all feeds."""
        with self._lock:
            print(self._object(name, line) if self._json else self._named(name, line), flush=True)

    @staticmethod
    def _named(name: str, line: str) -> str:
        return line if not name or line.startswith(f"{name}: ") else f"{name}: {line}"

    @staticmethod
    def _object(name: str, line: str) -> str:
        if line.startswith("{"):
            return f'{{"feed": {dumps(name)}, {line[1:]}'
        return dumps({"feed": name, "message": line}, ensure_ascii=False)


# ------------------------------------------------------------------ look, stop, end


def status(path: str, json: bool) -> int:
    """Prints each feed; returns the worst exit code."""
    pair = load(path)
    from tidelock.adapters.pair.clocks import ahead
    from tidelock.adapters.pair.overview import overview

    seen, clocks = asyncio.run(overview(pair)), asyncio.run(ahead(pair))
    if json:
        print_json({"pair": pair.name, "feeds": [_shown(one) for one in seen], "clocks": clocks})
    else:
        columns = ("feed", "sites", "state", "permit", "checkpoint", "failed rows", "halt")
        print_table(columns, [_cells(one) for one in seen])
        if clocks:
            print(f"\nclocks: {', '.join(f'{site} +{seconds:.3f} s' for site, seconds in clocks.items())}")
    return max((_code(one) for one in seen), default=OK)


def _shown(one: FeedOverview) -> dict[str, object]:
    activity = one.status.activity if one.status is not None else None
    return {**msgspec.structs.asdict(one), "activity": activity, "permit": _permit(one)}


def _cells(one: FeedOverview) -> tuple[str, ...]:
    seen = one.status
    ends = f"{one.source} → {one.target}"
    if seen is None:
        return one.feed, ends, "unknown", "", "", "", one.error
    state = seen.activity if one.opening == "open" else f"{seen.activity}, {one.opening or 'before `pair init`'}"
    state += ", paused" if seen.desired_state == "paused" else ""
    failed = sum(table.rows for table in seen.failed_rows)
    halt = str(seen.halted.alarm) if seen.halted is not None else "; ".join(seen.warnings)
    return one.feed, ends, state, _permit(one), str(seen.checkpoint or ""), str(failed or ""), halt


def _permit(one: FeedOverview) -> str:
    from tidelock.adapters.cli.watching import permit_words

    return permit_words(one.status) if one.status is not None else ""


def _code(one: FeedOverview) -> int:
    from tidelock.adapters.cli.watching import CODES

    if one.status is None:
        return REFUSED
    return OPERATOR if one.status.needs_operator else CODES[one.status.activity]


def set_state(path: str, state: Literal["running", "paused"], json: bool) -> int:
    """Sets the desired state of all feeds; returns the exit code."""
    pair = load(path)
    from tidelock.adapters.operator import feed_control

    for one in pair.feeds:
        asyncio.run(feed_control.set_state(one.feed, state))
    if json:
        print_json({"pair": pair.name, "feeds": [one.name for one in pair.feeds], "desired_state": state})
    else:
        count = len(pair.feeds)
        print(f"{pair.name}: the desired state of {count} feeds is {state}; those that run do it within seconds")
    return OK


def remove(path: str, site: str, apply: bool, json: bool) -> int:
    """Prints, or with `apply` does, what takes a site out; returns the exit code."""
    pair = load(path)
    from tidelock.adapters.pair.leaving import edges_of, feeds_of, removals

    feeds = [one for edge in edges_of(pair, site) for one in feeds_of(pair, edge)]
    if apply:
        _drain(pair, site, feeds, json)
    try:
        found = asyncio.run(removals(pair, site, apply))
    except Exception as error:
        refused = getattr(error, "finding", None)
        if refused is None:
            raise
        raise CommandError(refused.message, f"{refused.hint}. End `tidelock pair run` first", REFUSED) from None
    if json:
        print_json({"applied": apply, "feeds": [{"feed": name, "statements": plan} for name, plan in found]})
        return OK
    for name, plan in found:
        print_plan(name, plan, apply, Words("nothing is left of it", "removed"))
    if apply:
        print(f"-- {pair.name}: {site} is out; take it and its edges out of {path}")
    return OK


def _drain(pair: Pair, site: str, feeds: Sequence[PairFeed], json: bool) -> None:
    """Runs the feeds of a site until they have caught up.  Raises CommandError."""
    from tidelock.adapters.operator.feed_control import nobody_runs
    from tidelock.adapters.pair.opening import opening
    from tidelock.adapters.pair.running import run as run_pair

    begun = [one for one in feeds if asyncio.run(opening(one))]
    for one in begun:
        if not asyncio.run(nobody_runs(one.feed)):
            raise CommandError(f"{one.name} runs", "End `tidelock pair run` (SIGTERM), then remove again", REFUSED)
    code = run_pair(pair, begun, _Lines(json=json), ["--until-caught-up", *(["--json"] if json else [])])
    if code:
        raise CommandError(
            f"what {site} has written has not all gone on, or not all has come there: see the lines above",
            f"Correct that, then `tidelock pair remove {pair.path} {site} --apply` again",
            code,
        )
