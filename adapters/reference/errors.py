"""Writes `docs/reference/errors.md` from the tables that the program itself uses."""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.mysql import error_numbers
from tidelock.adapters.postgres import sqlstates
from tidelock.engine.model.errors import ErrorKind

_TEXT = """\
# Errors of servers

What a feed does when a server answers with an error. Made from the program's own tables:
`python -m tidelock.adapters.reference.errors > docs/reference/errors.md`.

- **again**: the same work is tried again, after 20 ms at first, after 5 s at last, for as long as it takes. The feed
  says so from the second second on, in its progress line, in `/status` (`hindrances`) and in `/metrics`
  (`tidelock_hindered_seconds`), with the server's words. Nothing is lost and nothing need be started anew: it goes on
  when the server can. A run that starts waits in the same way, 1 to 15 s between tries, where the server itself says
  that it cannot now; a server that does not answer at all ends a start, since its URL may be wrong.
- **failed row**: the row at fault is looked for and set aside (`tidelock rows list`); all others go on.
- **halt**: the feed stops with the server's words. Correct what it says, then `tidelock run`.

Where COMMIT was on its way and its answer was lost, or the answer is an error other than a rollback, the same
transaction is sent again, and its receipt at the target tells whether it had been committed.

## PostgreSQL

By SQLSTATE; two characters stand for all others of that class.

| SQLSTATE | what it says | the feed |
|---|---|---|
"""
_MYSQL = """
## MySQL and MariaDB

By error number, at a target. At a source, what is *again* here makes the reader connect again; a refused account or
a missing right ends the run.

| number | what it says | the feed |
|---|---|---|
"""
_OTHERS = "| all others | | halt |\n"
_DONE = {ErrorKind.TRANSIENT: "again", ErrorKind.ROW: "failed row", ErrorKind.TARGET: "halt"}


def reference() -> str:
    """Returns the page."""
    postgres = "".join(_line(one.codes, _what(one), _done(one)) for one in sqlstates.MEANINGS)
    mysql = "".join(_line(one.numbers, _what(one), _done(one)) for one in error_numbers.MEANINGS)
    return _TEXT + postgres + _OTHERS + _MYSQL + mysql + _OTHERS


def _what(one: sqlstates.Meaning | error_numbers.Meaning) -> str:
    return one.what + (", by its words" if one.says else "")


def _line(codes: Sequence[str | int], what: str, done: str) -> str:
    return f"| {', '.join(f'`{code}`' for code in codes)} | {what} | {done} |\n"


def _done(one: sqlstates.Meaning | error_numbers.Meaning) -> str:
    return _DONE[one.kind] + (", on a new connection" if one.lost or one.elsewhere else "")


if __name__ == "__main__":
    print(reference(), end="")
