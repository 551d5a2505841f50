"""Moment of a statement as a column's value: what `DEFAULT CURRENT_TIMESTAMP` puts into the rows that are there.

The log tells when a statement began, and its session's time zone where the statement made use of it.  A TIMESTAMP is
that moment.  A DATETIME is what a clock of the zone showed, which is certain where the zone is told by its distance
from UTC.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.changed_table import Before
from tidelock.adapters.ddl.rules import NotFollowed
from tidelock.engine.model.records import Column, Kind

_OFFSET: Final = re.compile(r"([+-])(\d\d?):(\d\d)")


def present_text(column: Column, before: Before, dialect: Dialect) -> str:
    """Returns the moment as the text of a column of whole seconds.  Raises NotFollowed where it is not certain."""
    if before.moment_us is None:
        raise NotFollowed(f"the moment that rows get in column {column.name} is not known")
    shift, mark = datetime.timedelta(0), "+00" if dialect == "postgres" else ""
    if column.kind is Kind.DATETIME:
        shift, mark = _shift(before.zone, column.name), ""
    moment = datetime.datetime.fromtimestamp(before.moment_us // 1_000_000, datetime.UTC) + shift
    return f"{moment:%Y-%m-%d %H:%M:%S}{mark}"


def _shift(zone: str, name: str) -> datetime.timedelta:
    if zone.upper() == "UTC":
        return datetime.timedelta(0)
    found = _OFFSET.fullmatch(zone)
    if found is None:
        told = f"the time zone {zone}, whose distance from UTC it does not tell" if zone else "no time zone"
        raise NotFollowed(f"rows get the session's time in column {name}, and the log has {told}")
    shift = datetime.timedelta(hours=int(found[2]), minutes=int(found[3]))
    return -shift if found[1] == "-" else shift
