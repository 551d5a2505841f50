"""Bugs around bad rows: the search for them, parking, what follows a parked row, and the operator's wishes."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

BAD_ROWS = (
    Mutant(
        "split-by-row",
        """
        @ BadRowSearch._split
        - self._pieces.pop()
        + sorted(self._pieces.pop(), key=lambda c: repr(c.before or c.after))
        """,
        "a failed batch is split by rows, not in log order: innocents are parked",
        row=15,
    ),
    Mutant(
        "later-half-first",
        """
        @ BadRowSearch._split
        - [piece[at:], piece[:at]]
        + [piece[:at], piece[at:]]
        """,
        "the later half of a failed batch is tried first",
        row=15,
    ),
    Mutant(
        "first-of-a-trial-parked",
        """
        @ BadRowSearch._narrow
        - self._prefix(self._failing)[-1]
        + self._prefix(self._failing)[0]
        """,
        "of a trial that failed the first row is parked",
        row=15,
    ),
    Mutant(
        "search-ends-one-early",
        """
        @ BadRowSearch._narrow
        - self._failing - self._good > 1
        + self._failing - self._good > 2
        """,
        "the search for a bad row ends with two candidates and takes one",
        row=15,
    ),
    Mutant(
        "split-inside-a-transaction",
        """
        @ _middle_transaction
        - (piece[i].source, piece[i].number) != (piece[i - 1].source, piece[i - 1].number)
        + True
        """,
        "a failed batch is split inside a transaction",
    ),
    Mutant(
        "trial-committed",
        """
        @ BatchScheduler.ready
        - self._roll_back(batch.turn)
        + batch.turn.enter(Phase.COMMITTING)
        + self._emit(CommitBatch(batch.effect.id))
        """,
        "a trial that only was to tell is committed",
    ),
    Mutant(
        "transaction-not-tried-whole",
        """
        @ BadRowSearch.failed
        - self._merged and len(piece) > 1
        + False
        """,
        "a transaction that only its merged form spoils is searched for a bad row",
        row=15,
    ),
    Mutant(
        "lane-free-before-rolled-back",
        """
        @ BatchScheduler.failed
        - batch.turn.phase is Phase.ROLLING_BACK
        + False
        """,
        "a batch that fails while it is told to roll back is sent again before it has",
    ),
)

PARKING = (
    Mutant(
        "follower-of-a-parked-row-runs",
        """
        @ ParkedRows.sift
        - self.holds(change)
        + False
        """,
        "a change of a row that was parked before is applied",
    ),
    Mutant(
        "follower-in-the-same-batch-runs",
        """
        @ ParkedRows.sift
        - parked and ahead.holds(change)
        + False
        """,
        "a change of a row that is parked with this batch is applied",
    ),
    Mutant(
        "orphan-not-tried-again",
        """
        @ ParkedRetry.arrived
        - self.try_again(orphans)
        """,
        "a child that was refused as its parent was not there stays parked when it comes",
    ),
    Mutant(
        "parked-row-forgotten",
        """
        @ ParkedRetry.park
        - self.rows.park(change)
        """,
        "what a batch parked is not known until the next takeover",
    ),
    Mutant(
        "parked-rows-not-loaded",
        """
        @ ParkedRetry.adopt
        - self.rows.load(parked, self._tables)
        """,
        "what was parked is not known after a takeover",
    ),
    Mutant(
        "parked-under-its-old-key-only",
        """
        @ _keys
        - (row for row in (change.before, change.after) if row is not None)
        + [row for row in (change.before, change.after) if row is not None][:1]
        """,
        "a parked change that moves a key holds up the old key only",
    ),
    Mutant(
        "parked-row-spelled-otherwise",
        """
        @ _keys
        - folded_key(binding.key_of(row), equalities)
        + binding.key_of(row)
        """,
        "'A' and 'a' are two rows to those parked, though one to the table",
    ),
    Mutant(
        "parked-any-row-is-one-row",
        """
        @ ParkedRows._meets
        - (key[0], None) in self._keys
        + False
        """,
        "a parked key that may be any row holds up only its like",
    ),
    Mutant(
        "any-row-not-held-up",
        """
        @ ParkedRows._meets
        - key[1] is None and key[0] in self._parked
        + False
        """,
        "a key that may be any row is not held up by a parked row",
    ),
)

WISHES = (
    Mutant(
        "narrower-row-of-a-keyless-table",
        """
        @ ParkedRetry.retable
        - not table.key and name in self._tables and table.columns != self._tables[name].columns
        + False
        """,
        "a row parked before a column was added is not known again in a table without a key",
        case="no primary key (tiflow 994)",
    ),
    Mutant(
        "narrower-row-found-by-a-new-owner",
        """
        @ ParkedRows.load
        - _written(table)
        + ()
        """,
        "the same, for an owner that finds the row parked",
        case="no primary key (tiflow 994)",
    ),
    Mutant(
        "wish-beside-rows",
        """
        @ BatchScheduler.send
        - not self.rows
        + True
        """,
        "a retry runs while rows before it are in flight",
    ),
    Mutant(
        "wish-does-not-stop-planning",
        """
        @ WindowPlanner.plan
        - not self._batches.parked_retry.requested
        + True
        """,
        "rows are planned while a retry runs",
    ),
    Mutant(
        "wish-answered-twice",
        """
        @ ParkedRetry.request
        - [row for row in rows if (row.source, row.number, row.ordinal) in self.rows]
        + list(rows)
        """,
        "a wish that is told late is carried out again",
    ),
    Mutant(
        "wish-taken-twice",
        """
        @ RetryRequests.add
        - place not in self._known
        + True
        """,
        "a wish that is told twice is carried out twice",
    ),
    Mutant(
        "wish-row-by-row",
        """
        @ RetryRequests.add
        - (row.table, row.wish)
        + (row.table, row.wish, place)
        """,
        "parked rows are tried one by one: the rows of a swap never succeed",
        row=15,
    ),
    Mutant(
        "wish-overtakes-a-parked-change",
        """
        @ ParkedRetry.send
        - self.rows.follows(self._requests.places)
        + False
        """,
        "a parked change is retried before an earlier one of its row",
    ),
    Mutant(
        "wish-in-the-order-read",
        """
        @ RetryRequests.add
        - sorted(group, key=_order)
        + group
        """,
        "parked rows are retried in the order in which the target lists them",
    ),
    Mutant(
        "wish-in-the-order-of-places",
        """
        @ _order
        - decode_change(row.change).order
        + (0, 0, 0)
        """,
        "parked rows are retried by source and number, which is not the order of a log of two sources",
        case="a replica promoted",
    ),
    Mutant(
        "skipped-row-applied",
        """
        @ RetryRequests.start
        - _changes(group, tables) if group[0].wish != "skip" else []
        + _changes(group, tables)
        """,
        "a row that the operator gave up is applied all the same",
    ),
    Mutant(
        "emptied-table-keeps-its-parked-rows",
        """
        @ Pipeline._ddl_applied
        - self.batches.parked_retry.emptied(event.emptied)
        """,
        "what was parked for a table that a TRUNCATE emptied is known as parked",
    ),
    Mutant(
        "one-of-the-emptied-tables-forgets-its-parked-rows",
        """
        @ Pipeline._ddl_applied
        - self.batches.parked_retry.emptied(event.emptied)
        + self.batches.parked_retry.emptied(event.emptied[:1])
        """,
        "what was parked for the second table that a TRUNCATE emptied is known as parked",
    ),
    Mutant(
        "wish-released-before-committed",
        """
        @ ParkedRetry.send
        + self.rows.release(self._requests.places)
          self._emit(self._requests.start(self._next_id(), self._tables, self._ranks))
        """,
        "rows count as free when their retry is sent, though it may be refused",
    ),
)
