"""The oracle: the target equals a serial replay, without lanes, locks, folds or batches.

At every commit: all committed so far, each commit's changes in log order.  At every checkpoint, anew: all that is
applied, in the order of the log alone.  At the end, where nothing was refused: the source itself.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.effects import BeginCopy, EffectId, MergeChunk
from tidelock.simulations.altering.reshape import Reshape
from tidelock.simulations.catalogue import ECHO, OWN
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.history import ADDED
from tidelock.simulations.layout import Token, layout
from tidelock.simulations.ledger import Images, Mistake
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.selection import selected

Keyed: TypeAlias = dict[Token, Row]
Rows: TypeAlias = Keyed | list[Row]


class Serial:
    """Tables without constraints, except that cascades cascade: rows by key, or a list of them where there is none."""

    def __init__(self, specs: dict[TableName, TargetTable]) -> None:
        self.specs = dict(specs)
        self.rows: dict[TableName, Rows] = {name: {} if spec.key else [] for name, spec in specs.items()}

    def __copy__(self) -> Serial:
        twin = Serial(self.specs)
        twin.rows = {name: rows.copy() for name, rows in self.rows.items()}
        return twin

    def apply(self, images: Images) -> None:
        laid, before, after = images
        rows = self.rows[laid.spec.name]
        if isinstance(rows, list):
            if before in rows:
                rows.remove(before)
            if after is not None:
                rows.append(after)
            return
        old = rows.pop(laid.key(before), None) if before is not None else None
        if after is not None:
            rows[laid.key(after)] = _keeping_own(laid.spec, old, after)
        elif old is not None:
            self._cascade(laid.spec, old)

    def _cascade(self, spec: TargetTable, gone: Row) -> None:
        for fk, read in layout(spec).children:
            if not fk.cascades:
                continue
            child = layout(self.specs[fk.child])
            (refers,) = (reads for other, reads in child.parents if other == fk)
            rows = self.rows[fk.child]
            assert isinstance(rows, dict), "such tables have a key"
            for row in [row for row in rows.values() if refers(row) == read(gone)]:
                del rows[child.key(row)]
                self._cascade(child.spec, row)

    def statement(self, entry: Entry, specs: dict[TableName, TargetTable]) -> None:
        """`specs`: the target's before it."""
        assert entry.ddl is not None
        if entry.reshape is not None:
            self._reshape(entry.reshape)
            return
        name, *others = entry.ddl.tables
        if entry.ddl.kind is DdlKind.TRUNCATE:
            for emptied in (name, *others):
                self.rows[emptied].clear()
        elif entry.ddl.kind is DdlKind.CREATE_TABLE:
            self.specs.setdefault(name, specs[name])
            self.rows.setdefault(name, {} if specs[name].key else [])
        elif entry.ddl.kind is DdlKind.ADD_COLUMN and all(c.name != ADDED.name for c in self.specs[name].columns):
            old = self.rows[name]
            self._rebuild(specs[name], [(*row, None) for row in _each(old)])
        elif entry.keys is not None:
            self._rebuild(specs[name], list(_each(self.rows[name])))

    def _reshape(self, change: Reshape) -> None:
        old = {spec.name: list(_each(self.rows.pop(spec.name))) for spec in change.before}
        for name in old:
            del self.specs[name]
        for made in change.made:
            rows = old[made.of] if made.of is not None else []
            self._rebuild(made.spec, [made.row(row) for row in rows])

    def _rebuild(self, spec: TargetTable, rows: list[Row]) -> None:
        self.specs[spec.name] = spec
        key = layout(spec).key
        self.rows[spec.name] = {key(row): row for row in rows} if spec.key else rows


def _keeping_own(spec: TargetTable, old: Row | None, new: Row) -> Row:
    """Columns that only the target has stay as they are."""
    if old is None or not any(c.name == OWN for c in spec.columns):
        return new
    return tuple(kept if c.name == OWN else fresh for c, kept, fresh in zip(spec.columns, old, new, strict=True))


def _each(rows: Rows) -> Iterable[Row]:
    return rows if isinstance(rows, list) else rows.values()


class Replayed(Checker):
    """`_seen_tainted`: rows of which the operator gave up a change, or that somebody changed at the target, so that
    nobody knows what they should be."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen_now = Serial(self.target.database.specs)
        for name, table in self.target.database.tables.items():
            if table.spec.key:
                self._seen_now.rows[name] = table.rows.copy()
        self._seen_tainted: dict[tuple[TableName, Token], None] = {}
        self._seen_statements: dict[int, None] = {}
        self._seen_retried = 0
        self._base: Serial | None = None  # the log replayed up to a checkpoint
        self._base_known = (0, 0, 0, 0)

    def copy_begun(self, effect: BeginCopy) -> None:
        for split in effect.splits:
            if not split.keeps_target_rows:
                self._seen_now.rows[split.table].clear()
                self._seen_tainted = {slot: None for slot in self._seen_tainted if slot[0] != split.table}

    def merged(self, effect: MergeChunk) -> None:
        """Returns what the source holds of the chunk then, without what is parked."""
        name, ledger = effect.split.table, self.ledger
        at = ledger.progress(effect.split).merged[effect.chunk]
        rows, table = self._seen_now.rows[name], self.target.database.tables[name]
        keys = effect.split.by is By.KEYS
        chunk = ledger.view.having(name, effect.gone, at) if keys else ledger.view.chunk(effect.split, at, effect.chunk)
        parked = [decode_change(row.change).after for row in effect.parked]
        fresh = [ledger.whole(name, row, self.target.database) for row in chunk if row not in parked]
        if isinstance(rows, list):
            rows += fresh
            return
        gone = {slot: rows.pop(slot, None) for slot in (ledger.view.token(name, key) for key in effect.gone)}
        for slot in gone:
            self._seen_tainted.pop((name, slot), None)
        for slot, row in {table.key(row): row for row in fresh}.items():
            if not (effect.split.keep and slot in rows):
                rows[slot] = _keeping_own(table.spec, gone.get(slot), row)

    def committed(self, commit: Commit) -> None:
        self._seen_retried += len(commit.retried)
        for images in commit.images:
            self._seen_now.apply(images)
        if commit.skipped or self._seen_tainted:
            self._taint(commit)
        for name in commit.touched:
            self._compare(name, f"after {commit.effect.id}")

    def _taint(self, commit: Commit) -> None:
        for place in [*commit.skipped, *commit.applied]:
            laid, before, after = self.ledger.images(place, self.target.database)
            slots = [(laid.spec.name, laid.key(row)) for row in (before, after) if row is not None]
            if place in self.ledger.skipped or any(slot in self._seen_tainted for slot in slots):
                self._seen_tainted.update(dict.fromkeys(slots))

    def _compare(self, name: TableName, when: str) -> None:
        table, expected = self.target.database.tables[name], self._seen_now.rows[name]
        tainted = {token for other, token in self._seen_tainted if other == name}
        if isinstance(expected, list):
            if not tainted and Counter(table.rows.values()) != Counter(expected):
                raise Mistake(f"{when}: {name} holds {list(table.rows.values())}, not {expected}")
            return
        if table.rows == expected:
            return
        wanted, there = ({s: row for s, row in rows.items() if s not in tainted} for rows in (expected, table.rows))
        if wanted != there:
            missing = [row for row in wanted.items() if row not in there.items()]
            extra = [row for row in there.items() if row not in wanted.items()]
            raise Mistake(f"{when}: {name} misses {missing}, has {extra}")

    def tampered(self, name: TableName, slot: Token, row: Row | None) -> None:
        self._seen_tainted[name, slot] = None
        rows = self._seen_now.rows[name]
        assert isinstance(rows, dict), "such tables have a key"
        rows.pop(slot, None)
        if row is not None:
            rows[slot] = row

    def written(self, name: TableName, slot: Token, row: Row) -> None:
        rows = self._seen_now.rows[name]
        assert isinstance(rows, dict), "such tables have a key"
        rows[slot] = row

    # ------------------------------------------------------------------ statements, checkpoints, the end

    def made_first(self, entry: Entry) -> None:
        assert entry.reshape is not None
        self._seen_statements[entry.number] = None
        self._seen_now.statement(entry, self.target.database.specs)

    def statement_done(self, entry: Entry) -> None:
        """After it took effect at the target."""
        assert entry.ddl is not None
        if entry.reshape is not None:
            if entry.number in self._seen_statements:
                return
            self._move_taint(entry.reshape)
        self._seen_statements[entry.number] = None
        self._seen_now.statement(entry, self.target.database.specs)
        if entry.ddl.kind is DdlKind.TRUNCATE:
            self._seen_tainted = {slot: None for slot in self._seen_tainted if slot[0] not in entry.ddl.tables}
        self._compare_all(f"after {entry.ddl}")

    def _move_taint(self, change: Reshape) -> None:
        """Rows of which nobody knows what they should be go with their tables; such tables keep their keys."""
        touched = {spec.name for spec in change.before}
        old = {slot for slot in self._seen_tainted if slot[0] in touched}
        kept = {slot: None for slot in self._seen_tainted if slot not in old}
        for made in change.made:
            kept |= {(made.spec.name, slot): None for name, slot in old if name == made.of}
        self._seen_tainted = kept

    def _compare_all(self, when: str) -> None:
        for name in self.target.database.tables:
            self._compare(name, when)

    def saved(self, old: Position, new: Position, dropped: dict[EffectId, bytes]) -> None:
        self._compare_all(f"at checkpoint {new}")
        if self._seen_tainted or self.ledger.copies or self.ledger.repairs:
            return
        history = self.ledger.history
        known = (history.index(new), len(self._seen_statements), len(self.ledger.skipped), self._seen_retried)
        if self._base is None or known[0] < self._base_known[0] or known[1:] != self._base_known[1:]:
            self._base, self._base_known = Serial(self.target.database.specs), (0, *known[1:])
        self._advance(self._base, self._base_known[0], known[0])
        self._base_known = known
        anew = copy.copy(self._base)
        self._advance(anew, known[0], history.told)
        for name, rows in anew.rows.items():
            if name in history.altered:
                continue
            spec = self.target.database.tables[name].spec
            own = any(c.name == OWN for c in spec.columns)
            if spec.key and not own and rows != self._seen_now.rows[name]:
                raise Mistake(f"at checkpoint {new}: {name} is {self._seen_now.rows[name]}, the log makes it {rows}")

    def _advance(self, serial: Serial, start: int, stop: int) -> None:
        """Replay what is applied of `entries[start:stop]`, in the order of the log, as the tables are now."""
        ledger, entries, database = self.ledger, self.ledger.history.entries, self.target.database
        for index in range(start, stop):
            entry = entries[index]
            if entry.spec is not None or entry.reshape is not None:
                continue  # barriers keep such rows in the order of the log
            if entry.ddl is not None:
                if entry.ddl.kind is DdlKind.TRUNCATE and entry.number in self._seen_statements:
                    for name in entry.ddl.tables:
                        if name in serial.rows:
                            serial.rows[name].clear()
            elif entry.taken and entry.place in ledger.applied:
                serial.apply(ledger.images(entry.place, database))

    def finished(self, machine: ApplyMachine) -> None:
        self._compare_all("at the end")
        if not self.whole:
            return
        for name in self.ledger.history.source.tables:
            if name == ECHO.name:
                continue
            wanted = sorted(self._wanted(name), key=repr)
            found = self._without_own(name)
            if wanted != found:
                raise Mistake(f"{name} is {found} at the end, the source has {wanted}")

    def _wanted(self, name: TableName) -> Iterator[Row]:
        """Yields the source's rows as the target should have them."""
        history = self.ledger.history
        table = history.source.tables[name]
        order = [table.at[column.name] for column in history.at_target(table.spec).columns]
        for row in table.rows.values():
            if (wanted := selected(name, tuple(row[place] for place in order))) is not None:
                yield wanted

    def _without_own(self, name: TableName) -> list[Row]:
        table = self.target.database.tables[name]
        kept = [i for i, c in enumerate(table.spec.columns) if c.name != OWN]
        return sorted((tuple(row[i] for i in kept) for row in table.rows.values()), key=repr)
