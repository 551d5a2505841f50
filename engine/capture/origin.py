"""Loop control: which transactions of a source's log came from a feed, by what way, and which of them go on.

A replicated transaction carries its receipt: an insert into `tidelock_progress`, or at PostgreSQL a message with the
same content.  Only receipts that are *inserted* mark.  There are two rules:

- *Sites* (`SiteFilter`): feeds give names to sites.  The path of a change is that of its own transaction's receipt, and
  the site that it is read from; without a receipt it begins there.  It goes on to a site unless that is in its path.
- *Nodes* (`NodeFilter`): feeds that name no sites know servers by `host:port`.  A receipt then names the last node
  alone, and one server may go by two names, so this keeps nothing but a change's way straight back.

What cannot be told ends the reading, once rows of the feed's tables come with it: a receipt without sites among feeds
that have some, or the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from tidelock.engine.model.errors import RESYNC, Alarm
from tidelock.engine.model.log_batch import CHECKPOINT, RECEIPT
from tidelock.engine.model.origin import Origin, read
from tidelock.engine.model.records import Position, Row

# Places of the columns of `tidelock_progress` and `tidelock_checkpoint` (adapters.bookkeeping.tables).
_FEED, _ORIGIN, _PATH, _MARKS, _SEEN = 0, 5, 6, 7, 8
_GROUP, _POSITION, _SITE = 1, 2, 4
_POSITIONS: Final = msgspec.json.Decoder(Position)
EMBEDDED_GROUP: Final = 0

Identity: TypeAlias = tuple[str, int]
Marks: TypeAlias = Sequence[tuple[int, Row]]


class Sites(msgspec.Struct, frozen=True):
    """Sites that a feed is between, by their names.

    `own`: only changes that began at the source go on.  `mark`: words that changes are marked with from here on.
    `drop`: changes with one of these words go no further.  `sister`: name of the feed that goes the other way.
    `echo`: which of the target's own changes go back to it, as the source is its arbiter (`engine.capture.echoes`).
    `statements`: the one site whose statements are taken (`engine.capture.statements`); '': those of all sites.
    """

    source: str
    target: str
    own: bool = False
    mark: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    sister: str = ""
    echo: Literal["none", "exact", "all"] = "none"
    statements: str = ""

    @property
    def local(self) -> Origin:
        """Origin of a change that begins at the source."""
        return Origin((self.source,), self.mark)


class Untraceable(Exception):
    """Error of a transaction of which it cannot be said whether it may go on; `advice`: what an operator does."""

    def __init__(self, words: str, advice: str) -> None:
        super().__init__(words)
        self.advice = advice

    def alarm(self, at: Position) -> Alarm:
        """Returns the halt that it is, behind the place `at`."""
        return Alarm("origin", str(self), self.advice, str(at))


class LoopFilter(Protocol):
    """Is told the transactions of a log in order, one that comes in parts by its parts.

    `origin`: of the transaction that was admitted last; None: it began at the source.  `seen`: as `LogBatch.seen`, of
    that transaction.
    """

    origin: Origin | None
    seen: Position | None

    def admits(self, identity: Identity, marks: Marks, *, rows: bool) -> bool:
        """Is the transaction one that goes on?  `identity`: its source and number.  `rows`: rows of the feed's tables
        come with it.  Raises Untraceable."""
        ...


class NodeFilter:
    """The rule by nodes; `node`: the one that changes go to, '' where loops cannot be."""

    origin: Origin | None = None
    seen: Position | None = None

    def __init__(self, node: str) -> None:
        self._node = node
        self._identity = ("", -1)  # of the last transaction with receipts
        self._foreign: tuple[str, int] | None = None  # that transaction, where it came from that node
        self._fault: Untraceable | None = None  # of it, if it has rows

    def admits(self, identity: Identity, marks: Marks, *, rows: bool) -> bool:
        """Is the transaction not one that came from where it would go?

        One that comes in parts shows its receipt in the first alone: it is its first row.
        """
        if not marks and self._foreign is None and self._fault is None:
            return True
        if self._identity != identity:
            self._identity = identity
            receipts = list(_rows(marks, RECEIPT))
            self._foreign = None if admits(receipts, self._node) else identity
            self._fault = next((_of_sites(row) for row in receipts if _names_sites(row)), None) if self._node else None
        if self._fault is not None and rows:
            raise self._fault
        return self._foreign is None


def admits(receipts: Sequence[Row], node: str) -> bool:
    """May a transaction with these receipts go on to `node`?  Local ones (no receipt) always may."""
    return not node or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for row in receipts)


class SiteFilter:
    """The rule by sites.

    `of_target`: the transaction that was told last was made at the target, or came through it last.  `told`: what its
    receipt says that the target had seen of this log.
    """

    def __init__(self, sites: Sites) -> None:
        self.origin: Origin | None = None
        self.seen: Position | None = None
        self.of_target = False
        self.told: Position | None = None
        self._sites = sites
        self._identity = ("", -1)  # of the last transaction
        self._admitted = True
        self._fault: Untraceable | None = None  # of that transaction, if it has rows
        self._origins: dict[tuple[str, str | None], Origin] = {}  # by path and marks as they are spelled

    def admits(self, identity: Identity, marks: Marks, *, rows: bool) -> bool:
        """Is the target's site not in the transaction's path?  One that comes in parts shows its receipt in the first
        alone."""
        if identity != self._identity:
            self._identity = identity
            self.origin, self._fault, self._admitted = None, None, True
            self.of_target, self.told = False, None
        if marks:
            self._take(marks)
        if self._fault is not None and rows:
            raise self._fault
        return self._admitted

    def _take(self, marks: Marks) -> None:
        try:
            for receipt in _rows(marks, RECEIPT):
                if self.origin is not None:
                    raise _two_receipts(self._identity)
                self.origin = self._origin(receipt)
                self._admitted = self._passes(self.origin)
                self.of_target = self.origin.path[-2:-1] == (self._sites.target,)
                if self.of_target and self._sites.echo != "none":
                    self.told = _seen_of(receipt)
        except Untraceable as fault:
            self._fault = fault
        self._note_checkpoints(marks)

    def _passes(self, origin: Origin) -> bool:
        sites = self._sites
        if sites.own or sites.target in origin.path:
            return False
        return not any(mark in sites.drop for mark in origin.marks)

    def _origin(self, row: Row) -> Origin:
        """Returns the origin of a transaction with this receipt, as it is at the target."""
        path: str = row[_PATH]
        marks: str | None = row[_MARKS] if len(row) > _MARKS else None
        if (known := self._origins.get((path, marks))) is not None:
            return known
        sites = self._sites
        try:
            been = read(path)
            words = read(marks or "")
        except ValueError as error:
            raise Untraceable(
                f"feed {row[_FEED]} writes to the source and names no sites: its receipt says {path!r} ({error})",
                f"Name that feed's sites (`sites:`), run it, then {RESYNC}",
            ) from None
        if sites.source in been:
            raise Untraceable(
                f"a change that feed {row[_FEED]} has brought was here before: its path is {path}, read at site "
                f"{sites.source}",
                "Two sites have one name, or feeds name one site differently: give each its own in all feeds; then "
                f"{RESYNC}",
            )
        made = Origin((*been, sites.source), tuple(dict.fromkeys((*words, *sites.mark))))
        self._origins[path, marks] = made
        return made

    def _note_checkpoints(self, marks: Marks) -> None:
        """Takes the sister's checkpoint: what follows in the log was made when the source had applied all before it."""
        for row in _rows(marks, CHECKPOINT):
            known = row[_FEED] == self._sites.sister and row[_GROUP] == EMBEDDED_GROUP
            if known and len(row) > _SITE and row[_SITE] == self._sites.target:
                self.seen = _POSITIONS.decode(row[_POSITION])


def _seen_of(receipt: Row) -> Position | None:
    told: str | None = receipt[_SEEN] if len(receipt) > _SEEN else None
    return _POSITIONS.decode(told) if told else None


def _names_sites(receipt: Row) -> bool:
    return len(receipt) > _SEEN and receipt[_SEEN] is not None


def _of_sites(receipt: Row) -> Untraceable:
    return Untraceable(
        f"feed {receipt[_FEED]} writes to the source and names sites ({receipt[_PATH]}), this feed names none",
        "Name this feed's sites too (`sites: {source: …, target: …}`), then `tidelock run FEED`; a feed of workers "
        "cannot name any: `tidelock remove FEED`, then begin it anew with `log: embedded`",
    )


def _rows(marks: Marks, kind: int) -> Iterator[Row]:
    return (row for found, row in marks if found == kind)


def _two_receipts(transaction: Identity) -> Untraceable:
    return Untraceable(
        f"transaction {transaction[0]}:{transaction[1]} of the source's log holds more than one receipt of feeds",
        f"Only feeds may write into `tidelock_progress`: take the right away from others, then {RESYNC}",
    )
