"""The source log of a scenario: what its reader hands over, through a capture machine where the scenario has one.

    log 5: insert account 1 a x; update account 1 a x to 2 a x; delete account 2 a x
    log 6 part: …                    a transaction whose commit is not in this batch; then `log 6: …`
    log 7 resent: …                  the first batch after a resend;  `log 9 after 7: …`: a gap
    log 8 to log.000002:120: …       the batch ends there, and so does what the log is counted in from then on
    log 9 of 0-2: …                  a transaction of another server, number 9
    ddl 8 [resent] truncate account  a kind of `DdlKind` and a table, or several: `account,seat`
    moved to log.000002:4 [resent]   the position moved and no row came (a rotation, transactions of other tables)
    heartbeat                        nothing happened; the source is there
    capture account; seat where note = x     a capture machine that takes these tables and rows; `as NODE` before them:
                                             what was at NODE already is not taken.  Lines of the log then are its
                                             chunks, and what it publishes reaches the apply machine, if that has taken
                                             over.  The line again: its process starts anew, behind what was published;
                                             `from PLACE` before the tables: behind that
    log 9 marked a b: …              a transaction that a feed wrote, with this origin and path

Transaction N is of source 0-1 and ends at N00 in the file where the log stands.  A place is FILE:OFFSET, `+ROWS`
behind it inside a transaction, `=GTIDS` behind it where the server has them.  NULL is written `-`, a value with spaces
in quotes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import msgspec

from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.row_filter import Compare
from tidelock.engine.model.log_batch import RECEIPT, LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead
from tidelock.simulations.scenario_tables import Tables

WORDS = ("log", "ddl", "moved", "heartbeat")
SOURCE = "0-1"
FILE = "log.000001"
_PLACE = re.compile(r"(?:([^:=\s]+):)?(\d+)(?:\+(\d+))?(?:=(\S+))?")
_NOW_US = 1_000_000  # the source's clock stands still


class _Head(msgspec.Struct):
    """Head of a `log` line: what it says before its colon."""

    number: int = 0
    part: bool = False
    resent: bool = False
    prev: Position | None = None
    last: Position | None = None
    source: str = SOURCE
    mark: tuple[str, str] | None = None


class SourceLog:
    """`last`: up to where it has been handed over."""

    def __init__(self, tables: Tables) -> None:
        self.last = position(0)
        self.capture: CaptureMachine | None = None
        self._tables = tables
        self._taken: Mapping | None = None
        self._ordinal = 0
        self._told: dict[int, Shape] = {}

    def stand(self, at: Position) -> None:
        """The next batch begins here."""
        self.last, self._ordinal = at, at.rows

    def start_capture(self, rest: str) -> None:
        found = re.fullmatch(r"(?:as (\S+) )?(?:from (\S+) )?(.*)", rest)
        assert found is not None, "matches any text"
        node, start, tables = found.groups()
        if start:
            self.stand(place(start))
        self._taken = Mapping([_rule(text) for text in tables.split("; ")])
        self.capture = CaptureMachine(self._taken, self.last, node or "")
        self._told = {}

    def take(self, word: str, rest: str) -> Iterator[LogBatch]:
        """The batches that a line of the log makes.  Raises ValueError for one that cannot be read."""
        prev = self.last
        head, chunk = self._read(word, rest)
        if self.capture is not None:
            for effect in self.capture.step(0, [SourceRead([chunk])]):
                if isinstance(effect, Publish):
                    yield effect.batch
            return
        transactions = tuple(
            Transaction(t.source, t.number, 0, t.complete) for t in chunk.transactions if t.ddl is None
        )
        rows = tuple(row for t in chunk.transactions for row in t.rows)
        ddl = next((t.ddl for t in chunk.transactions), None)
        prev = head.prev or prev
        yield LogBatch(prev, self.last, transactions, rows, chunk.shapes, ddl, resent=head.resent)

    def _read(self, word: str, rest: str) -> tuple[_Head, SourceChunk]:
        ddl: Ddl | None = None
        body = ""
        match word:
            case "log":
                text, body = re.split(r":(?:\s|$)", rest, maxsplit=1)
                head = self._head(text)
            case "ddl":
                number, *kinds, table = rest.split()
                head = self._head(" ".join([number, *(k for k in kinds if k == "resent")]))
                kind = " ".join(k for k in kinds if k != "resent")
                names = tuple(TableName("shop", name) for name in table.split(","))
                ddl = Ddl(
                    "shop", f"{kind} {table}", head.source, head.number, DdlKind(kind), names, targets=names
                )
            case "moved":
                head = self._head(f"0 {rest}")
            case _:
                return _Head(), SourceChunk([], self.last, server_us=_NOW_US)
        if head.prev is not None:
            self.stand(head.prev)
        if head.resent:
            self._told = {}
        first = self._ordinal
        changes = [self._change(shlex.split(text)) for text in body.split(";") if text.strip()]
        rows = [change for change in changes if change is not None]
        self.stand(self._end(head))
        marks = ((RECEIPT, ("feed", 0, 1, 1, b"", *head.mark)),) if head.mark else ()
        transaction = SourceTransaction(
            head.source, head.number, self.last.file, self.last.offset, rows, first, complete=not head.part, ddl=ddl,
            marks=marks,
        )  # fmt: skip
        return head, SourceChunk([transaction] if head.number else [], self.last, self._announced(rows))

    def _head(self, text: str) -> _Head:
        number, *flags = text.split()
        head = _Head(int(number))
        words = iter(flags)
        for word in words:
            match word:
                case "part":
                    head.part = True
                case "resent":
                    head.resent = True
                case "after":
                    head.prev = self._place(next(words))
                case "to":
                    head.last = self._place(next(words))
                case "of":
                    head.source = next(words)
                case "marked":
                    head.mark = (next(words), next(words).replace(",", " "))
                case _:
                    raise ValueError(f"not understood: {word}")
        return head

    def _place(self, text: str) -> Position:
        """A place, or the end of the transaction with this number."""
        return Position(self.last.file, int(text) * 100) if text.isdigit() else place(text)

    def _end(self, head: _Head) -> Position:
        if head.last is not None:
            return head.last
        if head.part:
            return msgspec.structs.replace(self.last, rows=self._ordinal)
        return self._place(str(head.number))

    def _change(self, words: list[str]) -> RowChange | None:
        """`insert TABLE row`, `delete TABLE row`, `update TABLE row to row`; a reader only counts what nobody takes."""
        what, table, *values = words
        self._ordinal += 1
        if self._taken is not None and not self._taken.selects(TableName("shop", table)):
            return None
        cut = values.index("to") if what == "update" else len(values)
        before = None if what == "insert" else _row(values[:cut])
        after = None if what == "delete" else _row(values if what == "insert" else values[cut + 1 :])
        return RowChange(self._tables.names.index(table), before, after, self._ordinal - 1)

    def _announced(self, rows: list[RowChange]) -> dict[int, Shape]:
        """Shapes that this reader has not told yet."""
        names = self._tables.names
        fresh = {row.table: self._tables.shape(names[row.table]) for row in rows}
        fresh = {number: shape for number, shape in fresh.items() if self._told.get(number) != shape}
        self._told.update(fresh)
        return fresh

    def spell(self, batch: LogBatch) -> str:
        """Spell what the capture machine published."""
        parts = [f"ddl {batch.ddl.statement} ({batch.ddl.kind})"] if batch.ddl is not None else []
        for transaction in batch.transactions:  # one at most: a line of the log is a chunk
            rows = "; ".join(map(self._spell_change, batch.rows)) or "no rows"
            part = "" if transaction.complete else " part"
            parts.append(f"{transaction.source}:{transaction.number}{part}: {rows}")
        resent = " resent" if batch.resent else ""
        return f"publish{resent} {batch.prev} to {batch.last}: {', '.join(parts) or 'nothing'}"

    def _spell_change(self, change: RowChange) -> str:
        name = self._tables.names[change.table]
        images = " to ".join(
            f"({', '.join('NULL' if v is None else str(v) for v in row)})"
            for row in (change.before, change.after)
            if row is not None
        )
        what = "insert" if change.before is None else "delete" if change.after is None else "update"
        return f"{what} {name} {images} at {change.ordinal}"


def position(number: int) -> Position:
    """Behind transaction `number`, in the first file."""
    return Position(FILE, number * 100)


def place(text: str) -> Position:
    """Read a place from `300`, `log.000002:300`, `log.000002:300+2` or `log.000002:300=0-1-5`.  Raises ValueError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"not a place: {text}")
    file, offset, rows, gtids = found.groups()
    return Position(file or FILE, int(offset), int(rows or 0), gtids or "")


def _rule(text: str) -> Rule:
    table, _, condition = text.partition(" where ")
    column, op, literal = condition.split() if condition else ("", "", "")
    where = Compare(column, op, literal) if condition else None
    return Rule(f"shop.{table}", f"shop.{table}", where=where)


def _row(values: list[str]) -> Row:
    return tuple(None if v == "-" else int(v) if v.isdigit() else v for v in values)
