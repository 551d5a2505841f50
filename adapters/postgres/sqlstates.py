"""The meaning of each SQLSTATE of a PostgreSQL server for a batch: `docs/reference/errors.md` is made of this table.

A code is looked up whole, then by its class, its first two characters (PostgreSQL's manual, appendix "Error Codes").
What is not listed is TARGET: the feed halts and shows the server's words.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model.errors import ErrorKind


class Meaning(msgspec.Struct, frozen=True):
    """`lost`: the connection is of no further use, and a COMMIT that was under way is in doubt.  `elsewhere`: another
    server may answer at the same address by now, so the next try connects anew.  `says`: only where the server's words
    hold one of these."""

    codes: tuple[str, ...]
    kind: ErrorKind
    what: str
    lost: bool = False
    elsewhere: bool = False
    says: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """The server itself says that it cannot now: a run that starts waits for it."""
        return self.kind is ErrorKind.TRANSIENT


MEANINGS: Final = (
    Meaning(("08",), ErrorKind.TRANSIENT, "the connection failed or was refused", lost=True),
    Meaning(("57P01", "57P02"), ErrorKind.TRANSIENT, "the server is shut down, or was ended by a crash", lost=True),
    Meaning(("57P03",), ErrorKind.TRANSIENT, "the server starts, stops or recovers", lost=True),
    Meaning(("57P04", "57P05", "25P03"), ErrorKind.TRANSIENT, "the server ended the session", lost=True),
    Meaning(("25006",), ErrorKind.TRANSIENT, "the target is read-only: a standby, or a server set so", elsewhere=True),
    Meaning(("40",), ErrorKind.TRANSIENT, "a deadlock, or a serialisation failure"),
    Meaning(("55P03", "55006"), ErrorKind.TRANSIENT, "a lock, or an object in use, was not had in time"),
    Meaning(("57014", "25P04", "57000"), ErrorKind.TRANSIENT, "a statement was cancelled or took too long"),
    Meaning(("53300",), ErrorKind.TRANSIENT, "too many connections"),
    Meaning(("53100",), ErrorKind.TRANSIENT, "the disk is full"),
    Meaning(
        ("XX000",), ErrorKind.TRANSIENT, "the disk is full, as a session begins",
        says=("could not write init file", "No space left"),
    ),
    Meaning(("53200",), ErrorKind.TRANSIENT, "out of memory"),
    Meaning(("53",), ErrorKind.TRANSIENT, "another resource has run out"),
    Meaning(("58000", "58030"), ErrorKind.TRANSIENT, "the server's system or disk failed"),
    Meaning(("72",), ErrorKind.TRANSIENT, "a snapshot is too old"),
    Meaning(("22",), ErrorKind.ROW, "a value that its column cannot hold"),
    Meaning(("23", "44"), ErrorKind.ROW, "a constraint, or a view's check"),
    Meaning(("54000",), ErrorKind.ROW, "a row too large for its page or its index"),
    Meaning(("P0",), ErrorKind.ROW, "a trigger of the target raised it"),
    Meaning(("28",), ErrorKind.TARGET, "user, password or `pg_hba.conf`"),
    Meaning(("3D", "3F"), ErrorKind.TARGET, "the database or schema is missing"),
    Meaning(("42",), ErrorKind.TARGET, "a right, a table or a column is missing"),
    Meaning(("XX",), ErrorKind.TARGET, "the server's own fault, or damaged data"),
)  # fmt: skip
_OTHER: Final = Meaning((), ErrorKind.TARGET, "anything else")
_BY_CODE: Final = {code: meaning for meaning in MEANINGS for code in meaning.codes}


def meaning(code: str, words: str = "") -> Meaning:
    """Look up a code: whole, then by its class.  `words`: the server's."""
    found = _BY_CODE.get(code)
    if found is not None and found.says and not any(sign in words for sign in found.says):
        found = None
    return found or _BY_CODE.get(code[:2]) or _OTHER
