"""Bugs around copying tables in chunks: the ledger, the merge, what foreign keys and statements do to open chunks."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LEDGER = (
    Mutant(
        "reader-does-not-wait",
        """
        @ Copier._may_begin
        - self._view.seen(self._source.visible) >= self._history.index(after)
        + True
        """,
        "a chunk is read before everything that the stream has taken is visible",
        row=5,
    ),
    Mutant(
        "chunk-read-amid-a-transaction",
        """
        @ CopyMachine._ask_for_chunks
        - self.position.rows
        + False
        """,
        "a chunk is read behind half a transaction, of which no reader sees the other half",
        row=5,
    ),
    Mutant(
        "nothing-remembered",
        """
        @ ChunkLedger._takes_effect
        - chunk.note(change.binding, before, after)
        + chunk.binding = change.binding
        """,
        "changes of a chunk that is open are dropped, as those of a pending one",
    ),
    Mutant(
        "remembered-once-staged",
        """
        @ ChunkLedger._takes_effect
        - chunk.note(change.binding, before, after)
        + if chunk.state is ChunkState.STAGED:
        +     chunk.note(change.binding, before, after)
        """,
        "changes are remembered once the chunk is staged, and dropped while it is read",
    ),
    Mutant(
        "remembered-while-read",
        """
        @ ChunkLedger._takes_effect
        - chunk.note(change.binding, before, after)
        + if chunk.state is not ChunkState.STAGED:
        +     chunk.note(change.binding, before, after)
        """,
        "changes between the end of the read and the merge are dropped",
    ),
    Mutant(
        "deletes-not-remembered",
        """
        @ Chunk.note
        - self.touched[binding.key_of(before)] = None
        + self.touched.pop(binding.key_of(before), None)
        """,
        "a row that was read and then deleted comes back",
        row=6,
    ),
    Mutant(
        "image-before-remembered",
        """
        @ Chunk.note
        - None if self.split.keep else after
        + None if self.split.keep else before or after
        """,
        "of a row that changes while its chunk is open the image before is kept",
    ),
    Mutant(
        "pending-takes-effect",
        """
        @ ChunkLedger._takes_effect
        - chunk.state is ChunkState.MERGED
        + chunk.state in (ChunkState.MERGED, ChunkState.PENDING)
        """,
        "changes of rows that were not read yet are applied",
    ),
    Mutant(
        "move-judged-by-its-old-chunk",
        """
        @ ChunkLedger._effect
        - copy.chunk(binding, after) if after is not None else None
        + here or (copy.chunk(binding, after) if after is not None else None)
        """,
        "a key that moves between chunks is treated as its old chunk is",
        row=6,
    ),
    Mutant(
        "half-a-move-applied-whole",
        """
        @ ChunkLedger._effect
        - change if before is not None and after is not None else change.part(before, after)
        + change
        """,
        "of a key that moves between chunks both halves are applied where one should be",
        row=2,
    ),
    Mutant(
        "receipts-hide-from-the-ledger",
        """
        @ WindowPlanner._effective
        - altered = self._copying.sift(changes, end)

          if self._fence: ...
        + if self._copying:
        +     altered = self._copying.sift(changes, end)
        """,
        "a change that a receipt covers is not seen by the ledger",
        row=6,
    ),
    Mutant(
        "keyless-rows-remembered-by-value",
        """
        @ ChunkLedger._takes_effect
        - change.binding.key
        + True
        """,
        "in a table without a key equal rows are taken for one",
    ),
    Mutant(
        "view-counted-twice",
        """
        @ UnkeyedChanges.since
        - not held
        + True
        """,
        "of a table without a key what is in the view that was read is added to it again",
    ),
    Mutant(
        "view-ends-with-its-window",
        """
        @ Snapshot.holds
        - end.order <= self.position.order
        + start.order < self.position.order
        """,
        "all of a window in which a view ends is taken to be in it",
    ),
    Mutant(
        "view-begins-behind-its-window",
        """
        @ Snapshot.holds
        - start.order >= self.position.order
        + True
        """,
        "all of a window in which a view ends is taken to be behind it",
    ),
    Mutant(
        "numbers-of-two-servers-compared",
        """
        @ Snapshot.holds
        - number <= last
        + True
        """,
        "a transaction behind a view counts as in it where the same server wrote last in it",
    ),
    Mutant(
        "gone-rows-stay-in-the-view",
        """
        @ _merge_steps
        - [DeleteRows(binding, less)] if less else []
        + []
        """,
        "rows without a key that are gone since the view come with it",
    ),
    Mutant(
        "gone-rows-stay-refused",
        """
        @ _untouched
        - gone[known] -= 1
        + gone[known] -= 0
        """,
        "of refused rows without a key one that is gone hides all of them",
    ),
    Mutant(
        "remembered-without-a-limit",
        """
        @ CopyMachine.sift
        - self.ledger.evict(self._options.copy_touched)
        """,
        "touched rows are remembered without a limit",
    ),
    Mutant(
        "reads-without-a-limit",
        """
        @ ChunkLedger.next
        - len(opened) >= most
        + False
        """,
        "all chunks are read at once",
    ),
    Mutant(
        "any-attempt-is-taken",
        """
        @ ChunkLedger._reading
        - c.attempt == attempt
        + True
        """,
        "a report of a read that was given up counts for the one that followed it",
        row=6,
    ),
)

MERGING = (
    Mutant(
        "merged-too-early",
        """
        @ ChunkLedger.due
        - least if least is not None and least.high is not None and least.high.order <= seen.order else None
        + least
        """,
        "a chunk is merged before the stream has reached what its reader may have seen",
    ),
    Mutant(
        "merged-beside-what-is-in-flight",
        """
        @ Dispatcher.plan_alone
        - [queue[-1].holder for queue in queues if queue]
        + []
        """,
        "a chunk is merged while changes before it are in flight",
        row=7,
    ),
    Mutant(
        "merge-takes-no-table",
        """
        @ BatchScheduler.plan_alone
        - [self.binding_locks.table_lock(table)]
        + []
        """,
        "changes behind a merge do not wait for it",
        row=7,
    ),
    Mutant(
        "copied-table-takes-no-share",
        """
        @ compile_keys
        - table_shared or is_cascaded(table, tables)
        + is_cascaded(table, tables)
        """,
        "changes of a table that is copied do not ask who has it whole",
        row=7,
    ),
    Mutant(
        "merge-beside-held-transactions",
        """
        @ CopyMachine.plan
        - self._options.atomic and self._effect is not None
        + False
        """,
        "with whole transactions, later ones are sent while a merge waits for earlier ones",
        row=13,
    ),
    Mutant(
        "touched-rows-as-they-were-staged",
        """
        @ ChunkMerge.__init__
        + ...
        + self.effect = replace(self.effect, without=[])
        """,
        "rows that were touched go in as they were read, too",
    ),
    Mutant(
        "last-images-left-out",
        """
        @ ChunkMerge.__init__
        - [*(image for image in touched.values() if image is not None), *difference.more]
        + []
        """,
        "rows that were touched are left out for good",
    ),
    Mutant(
        "merge-planned-anew",
        """
        @ CopyMachine.send
          self._sent = self._at_target = True
        + effect = self._effect = replace(effect, id=self._next_id())
        """,
        "a merge whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "merge-beside-a-checkpoint",
        """
        @ CopyMachine.send
        - effect is None or self._at_target or saving or self.now < self._not_before
        + effect is None or self._at_target or self.now < self._not_before
        """,
        "a checkpoint that was sent before a merge is stored after it, and goes back",
    ),
    Mutant(
        "merge-saves-no-checkpoint",
        """
        @ note_merge
        - stored.advance(effect.position, effect.drop)
        """,
        "after a restart changes are applied again that came with a merged chunk",
        row=6,
    ),
    Mutant(
        "lost-staging-merged",
        """
        @ Lanes._run
        - work.merge is not None and len(self.stored.staged.get(work.merge.staged, ())) != work.merge.rows
        + False
        """,
        "a staging table that lost rows in a crash is merged as it is",
    ),
    Mutant(
        "copy-begins-amid-batches",
        """
        @ CopyMachine.send
        - self._batches.busy
        + False
        """,
        "tables are emptied for a copy while changes before it are in flight",
    ),
    Mutant(
        "copy-begins-beside-the-stream",
        """
        @ CopyMachine.plan
          if self._effect is None:
              self._effect = BeginCopy(self._next_id(), self._requested, self.position)
        - return True
        + return False
        """,
        "changes are planned while tables are emptied for a copy",
    ),
    Mutant(
        "table-settles-with-its-first-chunk",
        """
        @ TableCopy.done
        - all(chunk.state is ChunkState.MERGED for chunk in self.chunks)
        + any(chunk.state is ChunkState.MERGED for chunk in self.chunks)
        """,
        "a table counts as copied when one of its chunks is",
    ),
    Mutant(
        "caught-up-before-it-is-copied",
        """
        @ Checkpointer.reach_goal
        - if self._copying:
        -     return
        """,
        "a feed says that it has caught up while chunks are missing",
    ),
)

CASCADES = (
    Mutant(
        "cascade-leaves-chunks-open",
        """
        @ ChunkLedger._cascade
        - if change.after is None or any(change.before[p] != change.after[p] for p in places):
        -     self._abandon_tables(into)
        """,
        "rows that a cascade took, and no log tells of, come back with their chunk",
    ),
    Mutant(
        "cascade-into-the-next-table-only",
        """
        @ _swept
        - table.references if table is not None else ()
        + ()
        """,
        "a cascade over two tables leaves the chunks of the second open",
    ),
    Mutant(
        "statement-leaves-chunks-open",
        """
        @ ChunkLedger.statement
        - self._abandon_tables(tables or self.tables)
        """,
        "rows that a TRUNCATE took come back with their chunk, or rows lack a column",
    ),
    Mutant(
        "statement-leaves-the-chunks-of-other-tables-open",
        """
        @ ChunkLedger.statement
        - tables or self.tables
        + tables[:1] or self.tables
        """,
        "a TRUNCATE names several tables, and the rows of the second come back with their chunk",
    ),
    Mutant(
        "children-before-parents",
        """
        @ ChunkLedger._waits_for_parents
        - table is None or any(fk.parent in self._copies and fk.parent != name for fk in table.foreign_keys)
        + False
        """,
        "a table is copied before the rows that it refers to are there",
    ),
)
