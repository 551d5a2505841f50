"""Words of a feed with a permit about itself in `tidelock_runs`, and the query for its sister's.

They are written as often as the sister looks, under the token of the run; one that was taken over says nothing more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Dialect

WORD_SECONDS: Final = 1.0


class PermitWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """JSON of the column `permit`.  `ready`, `lag_us`: as `engine.two_way.permit.Sister` has them.  `held`: why the
    feed applies nothing; '' while it does.
    """

    ready: bool = False
    lag_us: int = 0
    held: str = ""

    @property
    def text(self) -> str:
        """Returns the JSON."""
        return msgspec.json.encode(self).decode()


_WORD: Final = msgspec.json.Decoder(PermitWord)


def read_word(text: str | None) -> PermitWord | None:
    """Returns what a row says; None where its run has no permit."""
    return _WORD.decode(text) if text else None


def sister_query(dialect: Dialect, schema: str) -> str:
    """Returns SQL for (a number that moves while the run lives, NULL behind its end; `permit`) of a feed, `%s`."""
    beat = "extract(epoch FROM beat_at)" if dialect == "postgres" else "unix_timestamp(beat_at)"
    number = "bigint" if dialect == "postgres" else "signed"
    return (
        f"SELECT CAST({beat} * 1000000 AS {number}), permit FROM {quote(dialect, schema)}.tidelock_runs "
        "WHERE feed = %s AND grp = 0"
    )
