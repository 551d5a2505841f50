"""`tidelock simulate`: run simulated worlds by seed, and show what they found."""

from __future__ import annotations

import contextlib
import functools
import shlex
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.runtime.journal import JournalError
from tidelock.simulations import campaign, report
from tidelock.simulations.altering.trial import DrawnAltering
from tidelock.simulations.explain import story
from tidelock.simulations.kept import FOLDER, Kept, keep, load
from tidelock.simulations.mutants.hunt import Result
from tidelock.simulations.plan import DEFAULT_CHANGES, Plan
from tidelock.simulations.recorded import FromJournal, NotModelled, model_of
from tidelock.simulations.recording import write_journal
from tidelock.simulations.screen import Screen, screen_for
from tidelock.simulations.shrink import SECONDS, Shrinker
from tidelock.simulations.sites import command as of_sites
from tidelock.simulations.trial import Drawn, Trial, Worlds

COMMAND = "tidelock simulate"
FIRST = 7_000_000
ENOUGH = 5_000  # seeds after which every counter of the coverage table must be above zero
CLEAN, FAILED = 0, 1


def command(
    seeds: Annotated[int, typer.Option(min=1, help="How many worlds to run.")] = 10_000,
    first: Annotated[int, typer.Option("--from", min=0, metavar="SEED", help="The first seed.")] = FIRST,
    jobs: Annotated[int, typer.Option("--jobs", "--processes", min=1, help="Processes at a time.")] = 2,
    changes: Annotated[int, typer.Option(min=1, help="Row changes in each history, at least.")] = DEFAULT_CHANGES,
    first_failure: Annotated[
        bool, typer.Option("--first-failure/--keep-going", help="Start no more seeds once one has failed.")
    ] = False,
    shrink: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="For shrinking the first failure.")] = SECONDS,
    save: Annotated[str, typer.Option(metavar="NAME", help="Keep the shrunk plan in simulations/seeds/.")] = "",
    explain: Annotated[int | None, typer.Option(min=0, metavar="SEED", help="Tell this one run as a story.")] = None,
    plan: Annotated[str, typer.Option(metavar="FILE", help="Run a kept plan and tell it as a story.")] = "",
    journal: Annotated[
        str, typer.Option(metavar="FILE", help="With --explain or --plan: write the run for `tidelock replay`.")
    ] = "",
    owner: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --journal: whose run; else the last owner's.")
    ] = None,
    from_journal: Annotated[
        str, typer.Option(metavar="FILE", help="Take the log from a recorded run (`journal:` of a feed).")
    ] = "",
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Plant known bugs in the engine: does the simulation notice?")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="All ways that small cases can go, instead of random ones.")
    ] = False,
    sites: Annotated[
        bool, typer.Option("--sites", help="Worlds of two to four sites that are all written to.")
    ] = False,
    stamps: Annotated[
        bool, typer.Option("--stamps", help="With --sites: the later stamp of a row stays, in rings and meshes too.")
    ] = False,
    altering: Annotated[
        bool, typer.Option("--altering", help="Worlds in which tables are altered while their rows flow.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> int:
    """Search for faults in simulated worlds: the real engine, a source and a target that do the worst, any time."""
    if mutants + exhaustive + (explain is not None) + bool(plan) > 1:
        raise typer.BadParameter("--mutants, --exhaustive, --explain and --plan exclude each other")
    if (journal or owner) and explain is None and not plan:
        raise typer.BadParameter("--journal and --owner need --explain or --plan: a journal holds one run")
    if sites and (mutants or exhaustive or plan or journal or from_journal or save or changes != DEFAULT_CHANGES):
        raise typer.BadParameter(
            "--sites: with --stamps, --seeds, --from, --processes, --first-failure, --shrink, --explain, --json"
        )
    if stamps and not sites:
        raise typer.BadParameter("--stamps goes with --sites")
    if altering and (sites or mutants or exhaustive or from_journal):
        raise typer.BadParameter("--altering is of one feed and of random worlds, whose log is drawn")
    with terminated():
        if sites and explain is not None:
            return of_sites.explain(explain, json=json, stamps=stamps)
        if sites:
            return of_sites.search(first, seeds, jobs, shrink, first_failure=first_failure, json=json, stamps=stamps)
        if mutants:
            return _mutants(jobs, json)
        if exhaustive:
            return _exhaustive(json)
        worlds, again = _altering(changes) if altering else _worlds(from_journal, changes)
        if plan or explain is not None:
            return _one(worlds, worlds.plan(explain) if explain is not None else _kept(plan), journal, owner, json)
        search = Search(worlds, shrink, save, json, again)
        return search.run(first, seeds, jobs, first_failure=first_failure)


# ---------------------------------------------------------------------- a campaign


def _worlds(from_journal: str, changes: int) -> tuple[Worlds, str]:
    """With the command that runs such worlds again.  Raises CommandError for a journal that cannot be one's log."""
    if not from_journal:
        return Drawn(changes), COMMAND if changes == DEFAULT_CHANGES else f"{COMMAND} --changes {changes}"
    try:
        model_of(from_journal)
        return FromJournal(from_journal), f"{COMMAND} --from-journal {shlex.quote(from_journal)}"
    except OSError as error:
        raise CommandError(f"{from_journal}: {error.strerror}") from None
    except (JournalError, NotModelled) as error:
        raise CommandError(str(error)) from None


def _altering(changes: int) -> tuple[Worlds, str]:
    again = f"{COMMAND} --altering"
    return DrawnAltering(changes), again if changes == DEFAULT_CHANGES else f"{again} --changes {changes}"


class Search:
    """A campaign, and the shrinking of its first failure."""

    def __init__(self, worlds: Worlds, seconds: float, save: str, json: bool, again: str) -> None:
        self._worlds, self._seconds, self._save, self._json, self._again = worlds, seconds, save, json, again

    def run(self, first: int, seeds: int, jobs: int, *, first_failure: bool) -> int:
        """The exit code."""
        screen = screen_for(seeds, json=self._json)
        try:
            tally = campaign.run(self._worlds, first, seeds, jobs=jobs, told=screen.ran, first_failure=first_failure)
            shrinker = self._shrunk(tally.failures[0].seed, screen) if tally.failures and self._seconds else None
        finally:
            screen.close()
        complete = self._worlds.varied and seeds >= ENOUGH
        again = f"{self._again} --from {tally.failures[0].seed} --seeds 1" if tally.failures else ""
        if self._json:
            report.campaign_json(tally, shrinker, again)
        else:
            report.print_campaign(tally, complete=complete)
            if shrinker is not None:
                report.print_shrunk(shrinker, again)
        return FAILED if tally.failed or (complete and report.missing(tally)) else CLEAN

    def _shrunk(self, seed: int, screen: Screen) -> Shrinker | None:
        """None where it does not fail again."""
        attempt = functools.partial(self._worlds.attempt, told=True)
        failing = attempt(self._worlds.plan(seed))
        if not failing.mistake:
            return None
        shrinker = Shrinker(failing, attempt, seconds=self._seconds, told=screen.shrunk)
        with contextlib.suppress(KeyboardInterrupt):  # enough of it: what there is so far will do
            shrinker.run()
        if self._save:
            keep(FOLDER / f"{self._save}.json", Kept(shrinker.best.plan, shrinker.best.mistake))
        return shrinker


# ---------------------------------------------------------------------- one run


def _one(worlds: Worlds, plan: Plan, journal: str, owner: int | None, json: bool) -> int:
    """Tell it as a story, and write it down if that is wanted."""
    trial = worlds.attempt(plan, told=True)
    if journal:
        _write(trial, journal, owner)
    chapters = story(trial)
    if json:
        print_json({"plan": plan, "mistake": trial.mistake, "story": chapters, "coverage": trial.coverage})
    else:
        report.print_story(chapters)
        report.print_coverage(trial)
    return FAILED if trial.mistake else CLEAN


def _write(trial: Trial, path: str, owner: int | None) -> None:
    """The run of one owner as a journal.  Raises CommandError if there was none of that number, or it cannot be."""
    owners = sorted({turn.owner for turn in trial.turns})
    if owner is not None and owner not in owners:
        raise CommandError(f"There was no owner {owner}: only {', '.join(map(str, owners))}")
    try:
        write_journal(trial, path, owner or owners[-1])
    except JournalError as error:
        raise CommandError(str(error)) from None


def _kept(path: str) -> Plan:
    """Raises CommandError."""
    try:
        return load(Path(path)).plan
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise CommandError(f"{path}: not a kept plan: {error}") from None


# ---------------------------------------------------------------------- the other ways to look for bugs


def _mutants(jobs: int, json: bool) -> int:
    from tidelock.simulations.mutants.__main__ import show
    from tidelock.simulations.mutants.check import run

    def tell(result: Result) -> None:
        end = "killed" if result.killed else "alive"
        print(f"{result.mutant.name}: {end} after {result.seeds} seeds", file=sys.stderr, flush=True)

    results = run(jobs=jobs, progress=tell)
    if json:
        print_json(results)
    else:
        show(results)
    return CLEAN if all(result.killed for result in results) else FAILED


def _exhaustive(json: bool) -> int:
    from tidelock.simulations.explore.__main__ import show
    from tidelock.simulations.explore.runs import run

    if json:
        results = list(run())
        print_json(results)
    else:
        results = show(Console(highlight=False), run())
    return CLEAN if all(result.clean for result in results) else FAILED
