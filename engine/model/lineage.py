"""Proof of which log a position belongs to, and whether a source's log is still that one.

A file's name, an offset and GTIDs name a place in *some* log.  A log that was begun anew (RESET MASTER), a server put
back from a backup, another server behind the same name: each uses the same names again for other transactions, and
reading on there would leave rows out without a word.  So a position carries its *proof* (`Position.proof`): when its
file was begun, and the last transaction at or before it as the log has it.

Two forms of the same transaction can be compared:
- *by place*: the event that ends it, byte for byte, in the same file.  Only the server that wrote the file has that.
- *by GTID*: it and the moment of its first commit, which every replica keeps.  MySQL tells that moment in
  microseconds; MariaDB in seconds, too coarse for a server that may have used the number again at once, so there the
  same server (by its id) must show the same bytes.
"""

from __future__ import annotations

import enum

import msgspec


class Group(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Last transaction at or before a position.

    `source`, `number`: its GTID as in `engine.model.records.Transaction`; no source without GTIDs.
    `moment_us`: when it was committed first, microseconds since the epoch, the same on every replica.
    `file`, `begun`, `end`: the file that it is in, when that was begun (seconds since the epoch; 0: unknown), and the
    byte behind it.  `size`, `when`, `mark`: of the event that ends it: bytes, time, CRC32 of its body.
    `server`: where it was read, if that is not the server of the proof.
    """

    source: str
    number: int
    moment_us: int
    file: str
    begun: int
    end: int
    size: int
    when: int
    mark: int
    server: str = ""

    @property
    def gtid(self) -> str:
        """GTID of the transaction, as its server spells it; '' without GTIDs."""
        separator = "-" if self.source.count("-") == 1 else ":"
        return f"{self.source}{separator}{self.number}" if self.source else ""


class Proof(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Proof of which log a position is of.

    `server`: its UUID or id.  `begun`: when the position's file was begun (0: unknown).  `last`: None where no
    transaction was seen.  `opened`: (source, number, moment) of the transaction that the position is inside
    of.  `part`: (end, size, when, mark) of the last event of it that was read, where moments are in seconds.
    """

    server: str
    begun: int
    last: Group | None = None
    opened: tuple[str, int, int] | None = None
    part: tuple[int, int, int, int] | None = None


def encode(proof: Proof) -> str:
    """Spell a proof as positions carry it."""
    return _ENCODER.encode(proof).decode()


def decode(text: str) -> Proof | None:
    """Read a proof; None where a position has none: an older version stored it, or an operator wrote it.

    Raises msgspec.MsgspecError for a text that is none.
    """
    return _DECODER.decode(text) if text else None


def server_of(text: str) -> str:
    """Returns the server where a position with this proof was read; '' where nobody knows."""
    try:
        proof = decode(text)
    except msgspec.MsgspecError:
        return ""
    return proof.server if proof is not None else ""


def carried(proof: Proof, server: str) -> Proof:
    """Returns the proof as a reader at `server` goes on with it: the last transaction's place is one at the server
    before."""
    if server == proof.server:
        return proof
    last, proof = proof.last, msgspec.structs.replace(proof, part=None)
    if last is None:
        return proof
    seen_at = last.server or proof.server
    last = msgspec.structs.replace(last, server="" if seen_at == server else seen_at)
    return msgspec.structs.replace(proof, server=server, last=last)


class Ending(msgspec.Struct, frozen=True):
    """End of the last transaction as the source has it: when that file was begun, and the event that ends there (all
    zero: none does)."""

    begun: int
    size: int = 0
    when: int = 0
    mark: int = 0


class Here(msgspec.Struct, frozen=True):
    """Places of a proof as the source shows them.

    `begun`: when the position's file was begun; None: there is no such file.  `ending`: None where the last
    transaction's file is not there, or cannot be read at that place.  `exact`: GTIDs' moments are in microseconds.
    """

    server: str
    begun: int | None
    ending: Ending | None
    exact: bool


class Sought(msgspec.Struct, frozen=True):
    """Answer of a source that was asked for the last transaction by its GTID.

    `moment_us`: of the one that the log has; 0: it has none.  `purged`: the server had it, and its file is
    gone.  `continues`: all files that are left were begun after the position, and are numbered on from there.
    """

    moment_us: int = 0
    purged: bool = False
    continues: bool = False


class Answer(enum.Enum):
    """Answer to whether a log is the one that was read: SAME; OTHER; SEEK the last transaction by its GTID first."""

    SAME = "same"
    OTHER = "other"
    SEEK = "seek"  # ask for the last transaction by its GTID


def by_place(proof: Proof, here: Here) -> Answer:
    """Tells whether it is the same log, as far as files and offsets tell."""
    if here.begun is not None and _same_bytes(proof, here):
        return Answer.SAME
    if here.begun is None:
        return Answer.SEEK
    last = proof.last
    can_seek = last is not None and last.source and (here.exact or here.server != (last.server or proof.server))
    return Answer.SEEK if can_seek else Answer.OTHER


def by_gtid(proof: Proof, here: Here, found: Sought, *, further: bool = False) -> Answer:
    """Tells whether a log whose files do not tell is the same.

    It is where it has the last transaction as it was, or, of the same server, where nothing but files behind the
    position were removed.  `further`: the log is proven at the place where it is read from, and what it has purged was
    before that.
    """
    if proof.last is not None and found.moment_us:
        return Answer.SAME if found.moment_us == proof.last.moment_us else Answer.OTHER
    if further and found.purged and proof.last is not None and proof.last.source:
        return Answer.SAME
    gone = found.purged or proof.last is None
    return Answer.SAME if gone and found.continues and here.server == proof.server else Answer.OTHER


def same_opened(proof: Proof, found: tuple[str, int, int] | None, part: Ending | None = None) -> bool:
    """Tells whether it is the transaction that was read in part.

    `found`: the one in its place.  `part`: what ends in the same file where the part of it ended; None: nobody can
    tell.
    """
    if found != proof.opened:
        return False
    return proof.part is None or part is None or (part.size, part.when, part.mark) == proof.part[1:]


def agree(one: str, other: str) -> bool:
    """May proofs of the same place be of one log?  A position without one agrees with every other."""
    try:
        mine, theirs = decode(one), decode(other)
    except msgspec.MsgspecError:
        return one == other
    if mine is None or theirs is None or mine.last is None or theirs.last is None:
        return True
    a, b = mine.last, theirs.last
    if a.source or b.source:
        return (a.source, a.number, a.moment_us) == (b.source, b.number, b.moment_us)
    return (a.file, a.end, a.size, a.when, a.mark) == (b.file, b.end, b.size, b.when, b.mark)


def _same_bytes(proof: Proof, here: Here) -> bool:
    if proof.begun and here.begun != proof.begun:
        return False
    last = proof.last
    if last is None:
        return bool(proof.begun) and here.server == proof.server
    if here.ending is None:  # files are purged from the oldest on: the position's own is the proof that is left
        return bool(proof.begun) and here.server == proof.server
    if last.begun and here.ending.begun != last.begun:
        return False
    return (here.ending.size, here.ending.when, here.ending.mark) == (last.size, last.when, last.mark)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Proof)
