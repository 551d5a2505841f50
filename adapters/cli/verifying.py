"""`tidelock verify`: its progress on a terminal or as lines, and its report as tables, JSON and a page."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tidelock.adapters.cli.failure import DIFFERENT, OK, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json, print_table
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.process import private_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress as Bar

    from tidelock.adapters.verify.report import Difference, VerifyReport
    from tidelock.adapters.verify.verify import VerifyStep

SHOWN = 10
POLL_SECONDS = 0.25
LINE_SECONDS = 10.0


def verify(path: str, tables: Sequence[str], report: str, html: str, wait: float, json: bool, since: str = "") -> int:
    """Compares both sides and prints or writes the report; returns the exit code."""
    feed = load(path)
    for text in filter(None, (report, html)):
        if not Path(text).resolve().parent.is_dir() or Path(text).is_dir():
            raise CommandError(f"{text} is no place for a file: give its name, in a folder that is there")
    from tidelock.adapters.ports.target_inspection import CannotRun
    from tidelock.adapters.verify.verify import verify as verify_feed

    try:
        with terminated(), Screen(feed.name, sys.stdout.isatty() and not json, json) as screen:
            found = verify_feed(feed, tables, wait, screen, since)
    except CannotRun as refused:
        raise CommandError(refused.finding.message, refused.finding.hint, REFUSED) from None
    if report:
        write(report, msgspec.json.format(msgspec.json.encode(found), indent=2))
    if html:
        from tidelock.adapters.verify.page import page

        write(html, page(found).encode())
    if json:
        print_json(found)
    else:
        print_report(found)
    return OK if found.equal else DIFFERENT


def write(path: str, text: bytes) -> None:
    """Writes a file that only its owner can read, because it holds rows.  Raises CommandError."""
    try:
        private_files.write(path, text)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or 'cannot be written'}") from None


class Screen:
    """Shows progress: a bar in place on a terminal, elsewhere a line a step and one every ten seconds of a long step,
    nothing with `--json`.

    While Spark works, a thread asks it how many tasks are done.
    """

    def __init__(self, name: str, terminal: bool, silent: bool) -> None:
        self._name, self._terminal, self._silent = name, terminal, silent
        self._spark: SparkSession | None = None
        self._bar: Bar | None = None
        self._task: Any = None
        self._step: VerifyStep | None = None
        self._said = ""
        self._begun = self._line = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            said = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}")
            self._bar = Progress(*said, TimeElapsedColumn(), TimeRemainingColumn(), transient=True)
            self._bar.start()
        if not self._silent:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if not self._silent:
            self._thread.join()
        if self._bar is not None:
            self._bar.stop()

    def attach(self, spark: SparkSession) -> None:
        """Takes the Spark session whose tasks are counted from now on."""
        self._spark = spark

    def begin(self, step: VerifyStep) -> None:
        """Shows a new step."""
        self._step, self._begun, self._said = step, time.monotonic(), ""
        self._line = self._begun
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(str(msgspec.structs.replace(step, rows=0)), total=None, said="")
        elif not self._silent:
            print(f"{self._name}: {step}", flush=True)

    def tell(self, text: str) -> None:
        """Shows how far the present step is."""
        self._said = text
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, said=text)

    def _follow(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            step = self._step
            if step is None:
                continue
            done = total = 0
            if self._spark is not None:
                try:
                    done, total = _tasks(self._spark)
                except Exception:  # Spark is stopping; the screen must not be what fails
                    return
            self._show(step, done, total)

    def _show(self, step: VerifyStep, done: int, total: int) -> None:
        """Shows that `done` of `total` tasks of Spark are finished; 0 of 0 where it has none."""
        now = time.monotonic()
        if total:
            rows = step.rows * done / total / max(now - self._begun, 0.1)
            self._said = f"{done}/{total} pieces" + (f", {rows:,.0f} rows/s" if step.rows else "")
        if self._bar is not None and self._task is not None:
            if total:
                self._bar.update(self._task, completed=done, total=total, said=self._said)
        elif now >= self._line + LINE_SECONDS:
            self._line = now
            said = f", {self._said}" if self._said else ""
            what = f"{step.phase} {step.table}".rstrip()
            print(f"{self._name}: … {what} for {now - self._begun:.0f} s{said}", flush=True)


def _tasks(spark: SparkSession) -> tuple[int, int]:
    """Returns (done, all) tasks of the stages that run now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def print_report(report: VerifyReport) -> None:
    columns = ("table", "source rows", "target rows", "matched", "missing", "extra", "different", "still changing", "s")
    rows = [(t.table, *(f"{getattr(t, name):,}" for name in _COUNTED), f"{t.seconds:.1f}") for t in report.tables]
    print_table(columns, rows)
    for table in report.tables:
        if table.differences:
            print(f"\n{table.table}: {'the first' if table.complete else 'too many differences to look at all; some'}")
            print_table(("", "key", "column", "source", "target"), _lines(table.differences[:SHOWN]))
        if table.failed_rows:
            print(f"{table.table}: {table.failed_rows:,} failed rows (`tidelock rows list`)")
    print(f"\n{report.feed}: {summary(report)}")


_COUNTED = ("source_rows", "target_rows", "matched", "missing", "extra", "different", "still_changing")


def _lines(differences: Sequence[Difference]) -> list[tuple[str, ...]]:
    lines = list[tuple[str, ...]]()
    for found in differences:
        key = ", ".join(f"{name}={value}" for name, value in found.key.items())
        columns = found.columns if found.kind == "different" else dict(list(found.columns.items())[:3])
        source_is, target_is = found.ends
        for name, (source, target) in columns.items():
            lines.append((found.kind, key, name, source_is or _cell(source), target_is or _cell(target)))
        if not columns:
            lines.append((found.kind, key, "", source_is or "a row", target_is or "a row"))
    return lines


def _cell(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def summary(report: VerifyReport) -> str:
    """Returns one sentence on the result, and a note where an operator should know more."""
    rows = sum(t.source_rows for t in report.tables)
    what = f"rows that changed since {report.since}" if report.since else "rows"
    text = f"{rows:,} {what} in {report.seconds:.0f} s ({report.rows_per_second:,} rows/s): {report.verdict}"
    still_changing = sum(t.still_changing for t in report.tables)
    if still_changing:
        text += f"; {still_changing:,} were still changing and could not be judged: run it again"
    return f"{text}\nNote: {report.note}" if report.note and not report.equal else text
