"""`tidelock simulate --sites`: worlds of several sites by seed; `--stamps`: of sites whose rows have stamps."""

from __future__ import annotations

import msgspec

from tidelock.adapters.cli.output import print_json
from tidelock.simulations import campaign, report
from tidelock.simulations.screen import screen_for
from tidelock.simulations.sites.plan import SitesPlan, drawn
from tidelock.simulations.sites.shrink import shrunk
from tidelock.simulations.sites.stamp_plan import draw_stamped
from tidelock.simulations.sites.trial import DrawnSites, DrawnStamps, SitesTrial, attempt

CLEAN, FAILED = 0, 1
STRETCH = 1_000
"""Seeds after which it is said where a campaign can go on."""


def search(
    first: int, seeds: int, jobs: int, seconds: float, *, first_failure: bool, json: bool, stamps: bool
) -> int:
    """Runs a campaign, and shrinks its first failure for so many seconds; returns the exit code."""
    worlds = DrawnStamps() if stamps else DrawnSites()
    tally = _campaign(worlds, first, seeds, jobs, first_failure=first_failure, json=json)
    small = shrunk(_plan(tally.failures[0].seed, stamps=stamps), seconds) if tally.failures and seconds else None
    if json:
        print_json({"tally": tally, "shrunk": None if small is None else _told(small)})
    else:
        report.print_campaign(tally, complete=False)
        if small is not None:
            _print(small)
    return FAILED if tally.failed else CLEAN


def _campaign(
    worlds: DrawnSites | DrawnStamps, first: int, seeds: int, jobs: int, *, first_failure: bool, json: bool
) -> campaign.Tally:
    """Runs it stretch by stretch; where it is ended early, what has run counts, and where to go on is said."""
    tally, part, end = campaign.Tally(), campaign.Tally(), first + seeds
    screen = screen_for(seeds, json=json)

    def told(so_far: campaign.Tally) -> None:
        nonlocal part
        part = so_far
        screen.ran(_both(tally, part))

    at = first
    try:
        while at < end and not (first_failure and tally.failed):
            length = min(STRETCH, end - at)
            campaign.run(worlds, at, length, jobs=jobs, told=told, first_failure=first_failure)
            tally, part = _both(tally, part), campaign.Tally()
            at += length
    except KeyboardInterrupt:
        tally = _both(tally, part)
        if not json:
            more = " --stamps" if isinstance(worlds, DrawnStamps) else ""
            print(f"ended; go on with: tidelock simulate --sites{more} --from {at} --seeds {end - at}", flush=True)
    finally:
        screen.close()
    return tally


def _both(one: campaign.Tally, other: campaign.Tally) -> campaign.Tally:
    both = msgspec.structs.replace(one, coverage=one.coverage.copy(), seconds=one.seconds + other.seconds)
    both.add(other)
    return both


def explain(seed: int, *, json: bool, stamps: bool) -> int:
    """Tells one run step by step; returns the exit code."""
    trial = attempt(_plan(seed, stamps=stamps), told=True)
    if json:
        print_json(_told(trial))
    else:
        _print(trial)
    return FAILED if trial.mistake else CLEAN


def _plan(seed: int, *, stamps: bool) -> SitesPlan:
    return draw_stamped(seed) if stamps else drawn(seed)


def _told(trial: SitesTrial) -> dict[str, object]:
    told = {"plan": trial.plan, "mistake": trial.mistake, "transcript": trial.transcript}
    return told | {"coverage": trial.coverage}


def _print(trial: SitesTrial) -> None:
    plan = trial.plan
    print(f"{plan.topology}: {', '.join(plan.feeds)}; {plan.writes - len(plan.without)} local transactions")
    print(*trial.transcript, trial.mistake or "clean", sep="\n")
