"""The result of `tidelock verify`: plain data, for the terminal, as JSON, for the page, and for commands that go on
from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.former_words import share
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.spark.comparable_values import Form, Value, shown
from tidelock.adapters.verify.recheck import DifferenceKind, RowKey, SeenRow
from tidelock.adapters.verify.table_pairs import ComparedTable
from tidelock.engine.model.records import Position

FORMAT = 2
SHOWN_CHARACTERS = 200
NO_ROW = "no row"


class BadReport(OperatorError):
    """A file cannot be used as a report; the text says why and `hint` what to do."""

    exit_code = 2


class Difference(msgspec.Struct, frozen=True):
    """One row that is not the same, or equal rows without a key.

    `key`: by column, complete; empty without a key.  `columns`: those that differ, as [source, target], long values
    cut.  `rows`: how many.  `place`: where in the table, 0 to 1.
    """

    kind: DifferenceKind
    key: dict[str, Any]
    columns: dict[str, tuple[Any, Any]]
    rows: int
    place: float

    @property
    def ends(self) -> tuple[str, str]:
        """The words in place of a value of the source and of the target: '' where that end has one.

        Of rows without a key one end may have fewer of the same.
        """
        fewer = NO_ROW if self.key else f"{self.rows:,} row{'s' if self.rows > 1 else ''} fewer"
        return fewer if self.kind == "extra" else "", fewer if self.kind == "missing" else ""


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: names of the tables that go there.  Rows are counted where the table was read as a whole;
    else both counts are of the keys that were looked at.  A PostgreSQL row that changes while its table is read in
    pieces may be counted twice or not at all; it is compared all the same.

    `missing`, `extra`: rows that only the source, only the target has; `different`: same key, other values.
    `still_changing`: rows that changed in every round and so could not be judged.  `failed_rows`: changes that the feed
    has set aside.  `unsettled` and `parked` are the former names.
    `complete`: every difference is listed; else `differences` holds the first ones.
    """

    table: str
    source: str
    columns: int
    key: tuple[str, ...]
    source_rows: int
    target_rows: int
    matched: int
    missing: int
    extra: int
    different: int
    pieces: int
    seconds: float
    complete: bool
    differences: tuple[Difference, ...]
    still_changing: int = 0
    failed_rows: int = 0
    unsettled: int = 0
    parked: int = 0

    def __post_init__(self) -> None:
        share(self, still_changing="unsettled", failed_rows="parked")

    @property
    def total(self) -> int:
        """The number of rows that differ."""
        return self.missing + self.extra + self.different


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """`settled`: the feed had applied everything that the source had when rows were looked at; else `note` says why
    not, and rows on their way may be among the differences.  Times are in UTC.

    `format`: of this file; others may lack what is needed to go on from it.  `position`: the end of the source's log
    when reading began.  `since`: only rows that changed behind that place were looked at; '' all were.
    """

    feed: str
    source: str
    target: str
    begun: str
    seconds: float
    rows_per_second: float
    settled: bool
    note: str
    tables: tuple[TableReport, ...]
    format: int = 0
    position: Position | None = None
    since: str = ""

    @property
    def equal(self) -> bool:
        """Tells whether no row differs."""
        return not any(table.total for table in self.tables)

    @property
    def verdict(self) -> str:
        """The number of rows that differ, in words."""
        total = sum(table.total for table in self.tables)
        return f"{total:,} row{'s differ' if total > 1 else ' differs'}" if total else "no differences"


_REPORT: Final = msgspec.json.Decoder(VerifyReport)


def read_report(path: str, feed: Feed) -> VerifyReport:
    """Reads a report.  Raises BadReport: not a report, of another feed, or of a version that does not say enough."""
    again = "Make one with `tidelock verify FEED --report FILE`"
    try:
        report = _REPORT.decode(Path(path).read_bytes())
    except OSError as error:
        raise BadReport(f"{path}: {error.strerror or 'cannot be read'}", again) from None
    except msgspec.MsgspecError as error:
        raise BadReport(f"{path} is no report of `tidelock verify`: {error}", again) from None
    if report.format != FORMAT:
        raise BadReport(f"{path} has format {report.format}, this version works with format {FORMAT}", again)
    ours = (feed.name, str(feed.source_url), str(feed.target_url))
    if (report.feed, report.source, report.target) != ours:
        raise BadReport(
            f"{path} is of the feed {report.feed}, {report.source} to {report.target}, and this is {' '.join(ours)}",
            "Give the report of this feed",
        )
    return report


def difference(pair: ComparedTable, key: RowKey, seen: SeenRow, place: float) -> Difference:
    """Returns the difference for the report.  Of a row that one side lacks, columns that are NULL are left out."""
    columns = dict[str, tuple[Any, Any]]()
    for n, (name, form) in enumerate(zip(pair.columns, pair.forms, strict=True)):
        one, other = (None if image is None else image[n] for image in (seen.source, seen.target))
        if one != other and n >= pair.key:
            columns[name] = (_shown(form, one), _shown(form, other))
    names = zip(pair.columns, pair.forms, key[: pair.key], strict=False)
    shown_key = {name: shown(form, value) for name, form, value in names}
    return Difference(seen.kind, shown_key, columns, seen.rows, round(place, 4))


def _shown(form: Form, value: Value) -> Any:
    text = shown(form, value)
    if isinstance(text, str) and len(text) > SHOWN_CHARACTERS:
        return f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
    return text
