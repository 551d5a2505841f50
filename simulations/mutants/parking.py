"""Bugs around bad rows: the search for them, parking, what follows a parked row, and the operator's wishes."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

ISOLATION = (
    Mutant(
        "split-by-row",
        "tidelock.engine.batch.bad_row_search",
        """
        - piece = self._pieces.pop()
        + piece = sorted(self._pieces.pop(), key=lambda c: repr(c.before or c.after))
        """,
        "a failed batch is split by rows, not in log order: innocents are parked",
        row=15,
    ),
    Mutant(
        "later-half-first",
        "tidelock.engine.batch.bad_row_search",
        """
        - self._pieces += [piece[at:], piece[:at]]
        + self._pieces += [piece[:at], piece[at:]]
        """,
        "the later half of a failed batch is tried first",
        row=15,
    ),
    Mutant(
        "first-of-a-trial-parked",
        "tidelock.engine.batch.bad_row_search",
        """
        - self.bad.append((self._prefix(self._failing)[-1], self._error))
        + self.bad.append((self._prefix(self._failing)[0], self._error))
        """,
        "of a trial that failed the first row is parked",
        row=15,
    ),
    Mutant(
        "search-ends-one-early",
        "tidelock.engine.batch.bad_row_search",
        """
        - if self._failing - self._good > 1:
        + if self._failing - self._good > 2:
        """,
        "the search for a bad row ends with two candidates and takes one",
        row=15,
    ),
    Mutant(
        "split-inside-a-transaction",
        "tidelock.engine.batch.bad_row_search",
        """
        - if (piece[i].source, piece[i].number) != (piece[i - 1].source, piece[i - 1].number)
        """,
        "a failed batch is split inside a transaction",
    ),
    Mutant(
        "trial-committed",
        "tidelock.engine.batch.scheduler",
        """
        - self._roll_back(attempt)
        + self._commit(attempt)
        """,
        "a trial that only was to tell is committed",
    ),
    Mutant(
        "trial-not-held",
        "tidelock.engine.batch.scheduler",
        """
        - held=self._options.atomic or probing,
        + held=self._options.atomic and not probing,
        """,
        "a trial that only was to tell commits by itself",
    ),
    Mutant(
        "transaction-not-tried-whole",
        "tidelock.engine.batch.bad_row_search",
        """
        - elif self._merged and len(piece) > 1:
        + elif False:
        """,
        "a transaction that only its merged form spoils is searched for a bad row",
        row=15,
    ),
    Mutant(
        "lane-free-before-rolled-back",
        "tidelock.engine.batch.scheduler",
        """
        - if attempt is None or attempt.phase is Phase.ROLLING:
        + if attempt is None:
        """,
        "a batch that fails while it is told to roll back is sent again before it has",
    ),
)

PARKING = (
    Mutant(
        "follower-of-a-parked-row-runs",
        "tidelock.engine.batch.parked_rows",
        """
        - if error is None and (self.holds(change) or (parked and ahead.holds(change))):
        + if error is None and (parked and ahead.holds(change)):
        """,
        "a change of a row that was parked before is applied",
    ),
    Mutant(
        "follower-in-the-same-batch-runs",
        "tidelock.engine.batch.parked_rows",
        """
        - if error is None and (self.holds(change) or (parked and ahead.holds(change))):
        + if error is None and self.holds(change):
        """,
        "a change of a row that is parked with this batch is applied",
    ),
    Mutant(
        "orphan-not-tried-again",
        "tidelock.engine.batch.scheduler",
        """
        - if orphans := self.adopted(changes):
        + if (orphans := self.adopted(changes)) and False:
        """,
        "a child that was refused as its parent was not there stays parked when it comes",
    ),
    Mutant(
        "parked-row-forgotten",
        "tidelock.engine.batch.scheduler",
        """
        - self.lot.park(change)
        """,
        "what a batch parked is not known until the next takeover",
    ),
    Mutant(
        "parked-rows-not-loaded",
        "tidelock.engine.batch.scheduler",
        """
        - self.lot.load(parked, self._tables)
        """,
        "what was parked is not known after a takeover",
    ),
    Mutant(
        "parked-under-its-old-key-only",
        "tidelock.engine.batch.parked_rows",
        """
        - rows = (row for row in (change.before, change.after) if row is not None)
        + rows = [row for row in (change.before, change.after) if row is not None][:1]
        """,
        "a parked change that moves a key holds up the old key only",
    ),
    Mutant(
        "parked-row-spelled-otherwise",
        "tidelock.engine.batch.parked_rows",
        """
        - return [(binding.name, folded_key(binding.key_of(row), equalities)) for row in rows]
        + return [(binding.name, binding.key_of(row)) for row in rows]
        """,
        "'A' and 'a' are two rows to the parking lot, though one to the table",
    ),
    Mutant(
        "parked-any-row-is-one-row",
        "tidelock.engine.batch.parked_rows",
        """
        - key in self._keys or (key[0], None) in self._keys or (key[1] is None and key[0] in self._parked)
        + key in self._keys or (key[1] is None and key[0] in self._parked)
        """,
        "a parked key that may be any row holds up only its like",
    ),
    Mutant(
        "any-row-not-held-up",
        "tidelock.engine.batch.parked_rows",
        """
        - key in self._keys or (key[0], None) in self._keys or (key[1] is None and key[0] in self._parked)
        + key in self._keys or (key[0], None) in self._keys
        """,
        "a key that may be any row is not held up by a parked row",
    ),
)

WISHES = (
    Mutant(
        "narrower-row-of-a-keyless-table",
        "tidelock.engine.batch.scheduler",
        """
        - if not table.key and name in self._tables and table.columns != self._tables[name].columns:
        + if False:
        """,
        "a row parked before a column was added is not known again in a table without a key",
        case="no primary key (tiflow 994)",
    ),
    Mutant(
        "narrower-row-found-by-a-new-owner",
        "tidelock.engine.batch.parked_rows",
        """
        - if table is not None and all(c in at for c in columns or _written(table)):
        + if table is not None and all(c in at for c in columns):
        """,
        "the same, for an owner that finds the row parked",
        case="no primary key (tiflow 994)",
    ),
    Mutant(
        "wish-beside-rows",
        "tidelock.engine.batch.scheduler",
        """
        - if not self._wishes or self.rows or self.streaming or self._wishes.running or self.now < self._wish_at:
        + if not self._wishes or self.streaming or self._wishes.running or self.now < self._wish_at:
        """,
        "a retry runs while rows before it are in flight",
    ),
    Mutant(
        "wish-does-not-stop-planning",
        "tidelock.engine.apply.machine",
        """
        - while self._barrier.ddl is None and not self.batches.wishing and not self.streaming:
        + while self._barrier.ddl is None and not self.streaming:
        """,
        "rows are planned while a retry runs",
    ),
    Mutant(
        "wish-answered-twice",
        "tidelock.engine.batch.scheduler",
        """
        - rows = [row for row in rows if (row.source, row.number, row.ordinal) in self.lot]
        + rows = list(rows)
        """,
        "a wish that is told late is carried out again",
    ),
    Mutant(
        "wish-taken-twice",
        "tidelock.engine.batch.parked_retry",
        """
        - if row.wish and place not in self._known:
        + if row.wish:
        """,
        "a wish that is told twice is carried out twice",
    ),
    Mutant(
        "wish-row-by-row",
        "tidelock.engine.batch.parked_retry",
        """
        - groups.setdefault((row.table, row.wish), []).append(row)
        + groups.setdefault((row.table, row.wish, place), []).append(row)
        """,
        "parked rows are tried one by one: the rows of a swap never succeed",
        row=15,
    ),
    Mutant(
        "wish-overtakes-a-parked-change",
        "tidelock.engine.batch.scheduler",
        """
        - if self.lot.follows(self._wishes.places):
        + if False:
        """,
        "a parked change is retried before an earlier one of its row",
    ),
    Mutant(
        "wish-in-the-order-read",
        "tidelock.engine.batch.parked_retry",
        """
        - self._groups.append(tuple(sorted(group, key=_order)))
        + self._groups.append(tuple(group))
        """,
        "parked rows are retried in the order in which the target lists them",
    ),
    Mutant(
        "wish-in-the-order-of-places",
        "tidelock.engine.batch.parked_retry",
        """
        - return decode_change(row.change).order, (row.source, row.number, row.ordinal)
        + return (0, 0, 0), (row.source, row.number, row.ordinal)
        """,
        "parked rows are retried by source and number, which is not the order of a log of two sources",
        case="a replica promoted",
    ),
    Mutant(
        "skipped-row-applied",
        "tidelock.engine.batch.parked_retry",
        """
        - self.changes = _changes(group, tables) if group[0].wish != "skip" else []
        + self.changes = _changes(group, tables)
        """,
        "a row that the operator gave up is applied all the same",
    ),
    Mutant(
        "emptied-table-keeps-its-parked-rows",
        "tidelock.engine.apply.machine",
        """
        - self.batches.emptied(event.emptied)
        """,
        "what was parked for a table that a TRUNCATE emptied is known as parked",
    ),
    Mutant(
        "wish-released-before-committed",
        "tidelock.engine.batch.scheduler",
        """
              self._emit(self._wishes.refuse(self._next_id(), _FOLLOWS))
          else:
        +     self.lot.release(self._wishes.places)
        """,
        "rows count as free when their retry is sent, though it may be refused",
    ),
)
