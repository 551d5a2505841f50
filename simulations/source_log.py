"""The source's log as servers have it: the one that the history left, the same at other servers, and others in its
place.

Every log names its places and transactions as the history does, so that nothing but proofs (`engine.model.lineage`) can
tell one from another.  The modelled server answers what a real one is asked, and `engine.model.lineage` decides, as in
production.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

import msgspec
from msgspec.structs import replace

from tidelock.engine.model import lineage
from tidelock.engine.model.lineage import Answer, Ending, Group, Here, Proof, Sought
from tidelock.engine.model.records import Position
from tidelock.simulations.history import History
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.log_entry import Entry

_FIRST = 1_700_000_000  # the first commit, in seconds since the epoch
_APART = 10  # seconds between two commits
_SIZE = 31  # of the event that ends a transaction
_MOMENTS = (0, 3, 100_000)  # seconds by which another history was committed later
OTHER = "OtherHistory"


class Server(msgspec.Struct, frozen=True):
    """`exact`: moments are in microseconds (MySQL).  `shift`: its files were begun so many seconds later than the
    first server's.  `first`: the oldest file that it has left; '': all."""

    name: str
    exact: bool
    gtids: bool
    shift: int = 0
    first: str = ""


class Log:
    """Entries at a server.  `same`: so many of its transactions are the history's; those behind were committed `later`
    seconds later, and so were the files begun that begin behind the first `filed` transactions."""

    def __init__(self, entries: Sequence[Entry], server: Server, *, same: int, filed: int, later: int = 0) -> None:
        self.entries = entries
        self.server = server
        self.same = same
        self._filed = filed
        self._later = later
        self._orders: list[tuple[int, int, int]] = []
        self._ends: list[int] = []
        self._first: dict[str, int] = {}  # the first transaction of each file
        self._groups: dict[int, Group] = {}  # as they were told before
        self.grown()

    def grown(self) -> None:
        """Takes note of entries that have come to the list since."""
        for i in range(len(self._orders), len(self.entries)):
            entry = self.entries[i]
            self._orders.append(entry.end.order)
            if entry.commit or entry.ddl is not None:
                self._first.setdefault(entry.end.file, len(self._ends))
                self._ends.append(i + 1)

    def at(self, server: Server) -> Log:
        """The same at another server."""
        return Log(self.entries, server, same=self.same, filed=self._filed, later=self._later)

    def index(self, place: Position) -> int:
        """Returns how many entries are at or before the place."""
        return bisect_right(self._orders, place.order)

    def whole(self, index: int) -> int:
        """Returns how many transactions are whole before that entry."""
        return bisect_right(self._ends, index)

    @property
    def files(self) -> list[str]:
        return [file for file in self._first if _number(file) >= _number(self.server.first)]

    def holds(self, place: Position) -> bool:
        """Tells whether it is the history's own up to there."""
        return self.whole(self.index(place)) + (place.rows > 0) <= self.same

    # ------------------------------------------------------------------ what proves it

    def proof(self, place: Position, known: Group | None, since: int) -> str:
        """Prove a place in this log, for a reader that began behind `since` transactions with `known` as the last."""
        whole = self.whole(self.index(place))
        last = self._group(whole - 1) if whole > since else known
        ending = self.part(place)
        part = (place.offset + place.rows, ending.size, ending.when, ending.mark) if ending is not None else None
        return lineage.encode(Proof(self.server.name, self._begun(place.file), last, self.opened(place), part))

    def opened(self, place: Position) -> tuple[str, int, int] | None:
        """The transaction that the place is inside of."""
        number = self.whole(self.index(place))
        if not place.rows or number >= len(self._ends):
            return None
        end = self.entries[self._ends[number] - 1]
        return (end.source, end.number, self._moment_us(number))

    def part(self, place: Position) -> Ending | None:
        """The event that ends what is before the place of the transaction that it is inside of."""
        if self.server.exact or self.opened(place) is None:
            return None
        number = self.whole(self.index(place))
        mark = zlib.crc32(f"{number} {place.rows} {number >= self.same}".encode())
        return Ending(self._begun(place.file), _SIZE, self._when(number), mark)

    def here(self, place: Position, proof: Proof) -> Here:
        """Returns what the server shows of the proof's places."""
        last, files = proof.last, self.files
        begun = self._begun(place.file) if place.file in files else None
        ending = self._ending(last) if last is not None and last.file in files else None
        return Here(self.server.name, begun, ending, self.server.exact)

    def sought(self, place: Position, last: Group | None) -> Sought:
        """Returns what the server finds by the GTID."""
        first = self.files[0]
        continues = _number(first) > _number(place.file) and (last is None or self._begun(first) >= last.when)
        if last is None or not last.source:
            return Sought(purged=True, continues=continues)
        for number, end in enumerate(self._ends):
            entry = self.entries[end - 1]
            if (entry.source, entry.number) == (last.source, last.number):
                gone = _number(entry.end.file) < _number(first)
                return Sought(0 if gone else self._moment_us(number), gone, continues)
        return Sought(continues=continues)

    def _group(self, number: int) -> Group:
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = self._group_of(number)
        return group

    def _group_of(self, number: int) -> Group:
        entry = self.entries[self._ends[number] - 1]
        gtid = (entry.source, entry.number) if self.server.gtids else ("", 0)
        file = entry.end.file
        ending = self._told(number)
        return Group(
            *gtid, self._moment_us(number), file, ending.begun, entry.end.offset, ending.size, ending.when, ending.mark
        )

    def _ending(self, last: Group) -> Ending:
        """Returns what ends where the last transaction ended."""
        at = self.index(Position(last.file, last.end))
        end = self.entries[at - 1].end if at else None
        if at in self._ends and end is not None and (end.file, end.offset) == (last.file, last.end):
            return self._told(self._ends.index(at))
        return Ending(self._begun(last.file))

    def _told(self, number: int) -> Ending:
        file = self.entries[self._ends[number] - 1].end.file
        mark = zlib.crc32(f"{number} {number >= self.same}".encode())
        return Ending(self._begun(file), _SIZE, self._when(number), mark)

    def _begun(self, file: str) -> int:
        first = self._first.get(file, 0)
        later = self._later if first >= self._filed else 0
        return _FIRST + first * _APART - 5 + self.server.shift + later

    def _when(self, number: int) -> int:
        return _FIRST + number * _APART + (self._later if number >= self.same else 0)

    def _moment_us(self, number: int) -> int:
        within = (7 if number < self.same else 8) if self.server.exact else 0
        return self._when(number) * 1_000_000 + within


class Source:
    """Server that answers under the source's name.  `log`: what is there now; `right`: what an operator brings back."""

    def __init__(self, history: History, seed: int, ledger: Ledger, log: Log | None = None) -> None:
        """`log`: that of the history, if it is there already."""
        chance = Random(f"servers {seed}")
        self._history = history
        self._ledger = ledger
        self._servers = 1
        self._chance = chance
        exact, gtids = chance.random() < 0.5, chance.random() < 0.75
        self.right = self.log = log or self._all(history.entries, Server("server 1", exact, gtids))
        self.start = replace(history.start, proof=self.right.proof(history.start, None, 0))

    @staticmethod
    def _all(entries: Sequence[Entry], server: Server) -> Log:
        number = len(entries) + 1
        return Log(entries, server, same=number, filed=number)

    def open(self, place: Position, further: Sequence[Position] = ()) -> Log | None:
        """The log to be read behind a place, None where it is refused; `further`: places that it must hold too.

        Another log that is the history's own up to there, and up to all that the target has, is put right first: nobody
        could tell.  Raises Mistake for a place that nothing proves.
        """
        if self.log.holds(place) and self._reached() <= self.log.same:
            self.log = self.right
        for at in (place, *further):
            proof = lineage.decode(at.proof)
            if proof is None:
                raise Mistake(f"nothing proves the log of {at}")
            if not _is_same(self.log, at, proof, further=at is not place):
                return None
        return self.log

    def _reached(self) -> int:
        """Returns how many transactions there are up to the last that the target has a row of."""
        index = self._ledger.index
        last = max((index[place] for place in self._ledger.covered if place in index), default=-1)
        return self.right.whole(int(last)) + 1 if last >= 0 else 0

    @property
    def is_right(self) -> bool:
        return self.log is self.right

    def put_right(self) -> None:
        self.log = self.right

    def moved_to(self, log: Log) -> None:
        """The same log is there, at another server or without its oldest files."""
        self.right = self.log = log

    def replace(self, stored: Position) -> str:
        """Another history takes the log's place: reset, or put back and gone on from there, to before `stored` or to
        where less was read than readers have.  Says what it was; '' where there is too little of a log yet."""
        whole = self.right.whole(self.right.index(stored))
        count = self.right.whole(len(self.right.entries))
        if not self.is_right or not whole:
            return ""
        chance = self._chance
        told = whole + (stored.rows > 0)
        read = max(self.right.whole(self._history.told), told)
        same = chance.choice((0, chance.randrange(told), told - 1, chance.randrange(told, read + 1)))
        if count - same < 2:
            return ""
        turn = chance.randrange(1, count - same)
        length = chance.choice((count, chance.randrange(same + 1, count + 1)))
        elsewhere = chance.random() < 0.4
        later = chance.choice(_MOMENTS)
        if elsewhere or self._servers > 1 or self.right.server.first:
            later = later or 1  # where seconds decide alone: that takes longer than one
        server = replace(self._another(later) if elsewhere else self.right.server, first="")
        filed = 0 if elsewhere or not same else same
        entries = _turned(self.right.entries, same, turn, length)
        self.log = Log(entries, server, same=same, filed=filed, later=later)
        if same >= told:
            return f"put back behind the checkpoint, {'shorter' if self.log.whole(len(entries)) < read else 'longer'}"
        what = "put back" if same else "reset"
        return f"{what}, {'shorter' if self.log.whole(len(entries)) < whole else 'longer'}"

    def move(self, stored: Position) -> str:
        """The same log elsewhere: says how, '' where nothing can prove it there yet."""
        proof = lineage.decode(stored.proof)
        if not self.is_right or proof is None or proof.last is None or proof.last.file not in self.right.files:
            return ""
        chance, log = self._chance, self.right
        ways = ["disk"]
        if log.server.gtids:
            ways.append("replica")
        if proof.server == log.server.name and log.here(stored, proof).begun == proof.begun:
            ways.append("expired")
        parted = "expired" in ways and proof.last.file != stored.file  # seldom, and the last transaction's is the older
        how = "expired" if parted else chance.choice(ways)
        if how == "expired":
            server = replace(log.server, first=stored.file)
        else:
            server = self._another(chance.choice(_MOMENTS) if how == "replica" else 0)
        self.moved_to(log.at(server))
        return how

    def _another(self, shift: int) -> Server:
        self._servers += 1
        server = self.right.server
        return replace(server, name=f"server {self._servers}", shift=server.shift + shift)


def _number(file: str) -> int:
    return int(file.rpartition(".")[2] or 0)


def _is_same(log: Log, place: Position, proof: Proof, *, further: bool) -> bool:
    """As the adapters' readers ask."""
    here = log.here(place, proof)
    part = log.part(place)
    answer = lineage.by_place(proof, here)
    if answer is Answer.SEEK:
        answer, part = lineage.by_gtid(proof, here, log.sought(place, proof.last), further=further), None
    if answer is not Answer.SAME:
        return False
    return proof.opened is None or lineage.same_opened(proof, log.opened(place), part)


def _turned(entries: Sequence[Entry], same: int, turn: int, length: int) -> list[Entry]:
    """So many transactions: behind the first `same` the others of the history in another order, under the names and
    at the places of those that they replace."""
    transactions: list[list[Entry]] = [[]]
    for entry in entries:
        transactions[-1].append(entry)
        if entry.commit or entry.ddl is not None:
            transactions.append([])
    transactions.pop()
    others = transactions[same:]
    turned = [entry for transaction in transactions[:same] for entry in transaction]
    before = turned[-1].end if turned else None
    for number, named in enumerate(others[: length - same]):
        end = named[-1].end
        start = before.offset if before is not None and before.file == end.file else 0
        for entry in others[(number + turn) % len(others)]:
            place = Position(end.file, start, entry.end.rows) if entry.end.rows else end
            ddl = entry.ddl and replace(entry.ddl, source=named[-1].source, number=named[-1].number)
            turned.append(replace(entry, source=named[-1].source, number=named[-1].number, end=place, ddl=ddl))
        before = end
    return turned
