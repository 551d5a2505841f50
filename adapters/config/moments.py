"""Moments as operators write them: a time, or an age."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

_AGE: Final = re.compile(r"(\d{1,9})\s*(s|min|m|h|d)", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_AGO: Final = re.compile(r"(.*\S)\s+ago")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?", re.ASCII)


class StartMoment(msgspec.Struct, frozen=True):
    """The moment that `start` names: a time, in microseconds since the epoch, or an age, in microseconds."""

    at_us: int = 0
    age_us: int = 0

    def before(self, now_us: int) -> int:
        """Returns the time, where it is `now_us` at the source."""
        return now_us - self.age_us if self.age_us else self.at_us


def span(text: str) -> timedelta | None:
    """Parses a length of time such as `90min`, `2h`, `1d`; returns None for anything else."""
    found = _AGE.fullmatch(text)
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    except OverflowError:
        return None


def time_of(text: str) -> datetime | None:
    """Parses a time in ISO 8601, of UTC where it names no zone; returns None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return None


def start_moment(text: str) -> StartMoment | None:
    """Parses `2026-11-20T12:00Z` and `2h ago`; returns None for anything else."""
    if found := _AGO.fullmatch(text):
        age = span(found[1])
        return StartMoment(age_us=age // timedelta(microseconds=1)) if age else None
    time = time_of(text) if _DATE.fullmatch(text) else None
    return StartMoment((time - _EPOCH) // timedelta(microseconds=1)) if time else None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
