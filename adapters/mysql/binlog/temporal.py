"""Dates and times of the log as canonical text.

The packed integers of DATE, DATETIME, TIMESTAMP and TIME are split so that each half repeats often: a date and a time
of day.  Both come from a table that fills itself, which is three times faster than formatting, and exact for zero
dates, `2023-00-15` and TIME beyond 24 hours, which no Python type holds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

# Dates met in one log are few; a hostile stream of all of them may not grow without bound.
_MOST_ENTRIES: Final = 200_000
_EPOCH: Final = date(1970, 1, 1)


class Texts(dict[int, str]):
    """A table from packed integers to their text, filled on demand."""

    __slots__ = ("_text",)

    def __init__(self, text: Callable[[int], str]) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, packed: int) -> str:
        if len(self) >= _MOST_ENTRIES:
            self.clear()
        text = self[packed] = self._text(packed)
        return text


def _date(packed: int) -> str:
    """DATE: 15 bits of year, 4 of month, 5 of day."""
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"


def _datetime_day(packed: int) -> str:
    """The upper 23 bits of DATETIME2: the sign (always set), year * 13 + month, day; with the blank that follows."""
    year, month = divmod((packed >> 5) & 0x1FFFF, 13)
    return f"{year:04d}-{month:02d}-{packed & 31:02d} "


def _clock(packed: int) -> str:
    """Hours, 6 bits of minutes, 6 bits of seconds."""
    return f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def _epoch_day(day: int) -> str:
    return f"{_EPOCH + timedelta(days=day)} "


def _second_of_day(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _old_datetime(packed: int) -> str:
    """DATETIME before 5.6: the decimal number YYYYMMDDhhmmss.

    Raises ValueError for other numbers: MariaDB's own older DATETIME(6) has the same type and size in the log.
    """
    day, clock = divmod(packed, 1_000_000)
    fits = day <= 9999_12_31 and day // 100 % 100 <= 12 and day % 100 <= 31 and clock // 10000 < 24
    if not fits or clock // 100 % 100 >= 60 or clock % 100 >= 60:
        raise ValueError("a DATETIME in a form that the log does not describe: ALTER TABLE … FORCE rewrites it")
    return f"{day // 10000:04d}-{day // 100 % 100:02d}-{day % 100:02d} {_decimal_clock(clock)}"


def _decimal_clock(number: int) -> str:
    return f"{number // 10000:02d}:{number // 100 % 100:02d}:{number % 100:02d}"


def _old_time(packed: int) -> str:
    """TIME before 5.6: the decimal number hhmmss in 24 bits, signed."""
    number = packed - 0x1000000 if packed & 0x800000 else packed
    return f"-{_decimal_clock(-number)}" if number < 0 else _decimal_clock(number)


DATES: Final = Texts(_date)
DATETIME_DAYS: Final = Texts(_datetime_day)
CLOCKS: Final = Texts(_clock)
EPOCH_DAYS: Final = Texts(_epoch_day)
SECONDS_OF_DAY: Final = Texts(_second_of_day)
OLD_DATETIMES: Final = Texts(_old_datetime)
OLD_TIMES: Final = Texts(_old_time)

ZERO_TIMESTAMP: Final = "0000-00-00 00:00:00"


def timestamp(seconds: int) -> str:
    """Seconds since the epoch, in UTC; 0 is the zero date."""
    if not seconds:
        return ZERO_TIMESTAMP
    day, second = divmod(seconds, 86400)
    return EPOCH_DAYS[day] + SECONDS_OF_DAY[second]


def packed_date(packed: int) -> str:
    """The date in the packed 64-bit integer that binary JSON uses."""
    return _datetime_day(packed >> 41).rstrip()


def packed_datetime(packed: int) -> str:
    """Spell a DATETIME as JSON documents pack it."""
    return f"{_datetime_day(packed >> 41)}{_clock(packed >> 24 & 0x1FFFF)}.{packed & 0xFFFFFF:06d}"


def packed_time(packed: int) -> str:
    """Spell a TIME as JSON documents pack it."""
    magnitude = abs(packed)
    sign = "-" if packed < 0 else ""
    return f"{sign}{_clock(magnitude >> 24 & 0x3FFFFF)}.{magnitude & 0xFFFFFF:06d}"
