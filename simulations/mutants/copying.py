"""Bugs around copying tables in chunks: the ledger, the merge, what foreign keys and statements do to open chunks."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LEDGER = (
    Mutant(
        "reader-does-not-wait",
        "tidelock.simulations.copier",
        """
        - return self._view.seen(self._source.visible) >= self._history.index(after)
        + return True
        """,
        "a chunk is read before everything that the stream has taken is visible",
        row=5,
    ),
    Mutant(
        "chunk-read-amid-a-transaction",
        "tidelock.engine.copy.machine",
        """
        - if self.position.rows or self.now < self._read_after or not self._heard:
        + if self.now < self._read_after or not self._heard:
        """,
        "a chunk is read behind half a transaction, of which no reader sees the other half",
        row=5,
    ),
    Mutant(
        "nothing-remembered",
        "tidelock.engine.copy.chunk_ledger",
        """
        - chunk.note(binding, before, after)
        + chunk.binding = binding
        """,
        "changes of a chunk that is open are dropped, as those of a pending one",
    ),
    Mutant(
        "remembered-once-staged",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if chunk.open:
        -     if binding.key:
        + if chunk.open:
        +     if binding.key and chunk.state is not State.STAGED:
        +         pass
        +     elif binding.key:
        """,
        "changes are remembered once the chunk is staged, and dropped while it is read",
    ),
    Mutant(
        "remembered-while-read",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if chunk.open:
        -     if binding.key:
        + if chunk.open:
        +     if binding.key and chunk.state is State.STAGED:
        +         pass
        +     elif binding.key:
        """,
        "changes between the end of the read and the merge are dropped",
    ),
    Mutant(
        "deletes-not-remembered",
        "tidelock.engine.copy.chunk_ledger",
        """
        - self.touched[binding.key_of(before)] = None
        + self.touched.pop(binding.key_of(before), None)
        """,
        "a row that was read and then deleted comes back",
        row=6,
    ),
    Mutant(
        "image-before-remembered",
        "tidelock.engine.copy.chunk_ledger",
        """
        - self.touched[binding.key_of(after)] = None if self.split.keep else after
        + self.touched[binding.key_of(after)] = None if self.split.keep else before or after
        """,
        "of a row that changes while its chunk is open the image before is kept",
    ),
    Mutant(
        "pending-takes-effect",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if chunk.state is State.MERGED:
        + if chunk.state in (State.MERGED, State.PENDING):
        """,
        "changes of rows that were not read yet are applied",
    ),
    Mutant(
        "move-judged-by-its-old-chunk",
        "tidelock.engine.copy.chunk_ledger",
        """
        - there = copy.chunk(binding, after) if after is not None else None
        + there = here or (copy.chunk(binding, after) if after is not None else None)
        """,
        "a key that moves between chunks is treated as its old chunk is",
        row=6,
    ),
    Mutant(
        "half-a-move-applied-whole",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return change if before is not None and after is not None else change.part(before, after)
        + return change
        """,
        "of a key that moves between chunks both halves are applied where one should be",
        row=2,
    ),
    Mutant(
        "receipts-hide-from-the-ledger",
        "tidelock.engine.apply.machine",
        """
        - altered = self.copying.sift(changes)
        + pass

        - if altered:
        + if self.copying:
        +     altered = self.copying.sift(changes)
        + if altered:
        """,
        "a change that a receipt covers is not seen by the ledger",
        row=6,
    ),
    Mutant(
        "keyless-rows-remembered-by-value",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if binding.key:
        -     chunk.note(binding, before, after)
        + if True:
        +     chunk.note(binding, before, after)
        """,
        "in a table without a key equal rows are taken for one",
    ),
    Mutant(
        "remembered-without-a-limit",
        "tidelock.engine.copy.machine",
        """
        - self.ledger.relieve(self._options.copy_touched)
        """,
        "touched rows are remembered without a limit",
    ),
    Mutant(
        "reads-without-a-limit",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if len(opened) >= most or any(chunk.again for chunk in opened):
        + if any(chunk.again for chunk in opened):
        """,
        "all chunks are read at once",
    ),
    Mutant(
        "any-attempt-is-taken",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return next((c for c in self.chunks if c.state is State.READING and c.attempt == attempt), None)
        + return next((c for c in self.chunks if c.state is State.READING), None)
        """,
        "a report of a read that was given up counts for the one that followed it",
        row=6,
    ),
)

MERGING = (
    Mutant(
        "merged-too-early",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return least if least is not None and least.high is not None and least.high.order <= seen.order else None
        + return least
        """,
        "a chunk is merged before the stream has reached what its reader may have seen",
    ),
    Mutant(
        "merged-beside-what-is-in-flight",
        "tidelock.engine.parallel.dispatcher",
        """
        - segment = self._follow(Segment(self._order, lane.number, window), [queue[-1] for queue in queues if queue])
        + segment = self._follow(Segment(self._order, lane.number, window), [])
        """,
        "a chunk is merged while changes before it are in flight",
        row=7,
    ),
    Mutant(
        "merge-takes-no-table",
        "tidelock.engine.batch.scheduler",
        """
        - self.dispatcher.plan_alone(window, lane, [whole_table(table, self._space)])
        + self.dispatcher.plan_alone(window, lane, [])
        """,
        "changes behind a merge do not wait for it",
        row=7,
    ),
    Mutant(
        "copied-table-takes-no-share",
        "tidelock.engine.parallel.lock_keys",
        """
        - if cascaded or copied:
        + if cascaded:
        """,
        "changes of a table that is copied do not ask who has it whole",
        row=7,
    ),
    Mutant(
        "merge-beside-held-transactions",
        "tidelock.engine.copy.machine",
        """
        - return self._options.atomic and self._effect is not None
        + return False
        """,
        "with whole transactions, later ones are sent while a merge waits for earlier ones",
        row=13,
    ),
    Mutant(
        "touched-rows-as-they-were-staged",
        "tidelock.engine.copy.chunk_merge",
        """
        - without=without,
        + without=[],
        """,
        "rows that were touched go in as they were read, too",
    ),
    Mutant(
        "last-images-left-out",
        "tidelock.engine.copy.chunk_merge",
        """
        - images = [image for image in chunk.touched.values() if image is not None]
        + images = []
        """,
        "rows that were touched are left out for good",
    ),
    Mutant(
        "merge-planned-anew",
        "tidelock.engine.copy.machine",
        """
        - self._sent = self._at_target = True
        + self._sent = self._at_target = True
        + effect = self._effect = replace(effect, id=self._next_id())
        """,
        "a merge whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "merge-beside-a-checkpoint",
        "tidelock.engine.copy.machine",
        """
        - if effect is None or self._at_target or saving or self.now < self._not_before:
        + if effect is None or self._at_target or self.now < self._not_before:
        """,
        "a checkpoint that was sent before a merge is stored after it, and goes back",
    ),
    Mutant(
        "merge-saves-no-checkpoint",
        "tidelock.simulations.target",
        """
          for checker in self.checkers:
              checker.merged(effect)
        - self._advance(effect.position, effect.drop)
        """,
        "after a restart changes are applied again that came with a merged chunk",
        row=6,
    ),
    Mutant(
        "lost-staging-merged",
        "tidelock.simulations.target",
        """
        - if work.merge is not None and len(self.staged.get(work.merge.staged, ())) != work.merge.rows:
        + if False:
        """,
        "a staging table that lost rows in a crash is merged as it is",
    ),
    Mutant(
        "copy-begins-amid-batches",
        "tidelock.engine.copy.machine",
        """
        - if self._batches.busy:
        + if False:
        """,
        "tables are emptied for a copy while changes before it are in flight",
    ),
    Mutant(
        "copy-begins-beside-the-stream",
        "tidelock.engine.copy.machine",
        """
          if self._effect is None:
              self._effect = BeginCopy(self._next_id(), self._wished, self.position)
        - return True
        + return False
        """,
        "changes are planned while tables are emptied for a copy",
    ),
    Mutant(
        "table-settles-with-its-first-chunk",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return all(chunk.state is State.MERGED for chunk in self.chunks)
        + return any(chunk.state is State.MERGED for chunk in self.chunks)
        """,
        "a table counts as copied when one of its chunks is",
    ),
    Mutant(
        "caught-up-before-it-is-copied",
        "tidelock.engine.apply.machine",
        """
        - if self.copying:
        -     return
          mark = self.watermark
          comparable = self._saved_here or (mark.window >= 0 and mark.position == mark.saved)
        + mark = self.watermark
        + comparable = self._saved_here or (mark.window >= 0 and mark.position == mark.saved)
        """,
        "a feed says that it has caught up while chunks are missing",
    ),
)

CASCADES = (
    Mutant(
        "cascade-leaves-chunks-open",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if change.after is None or any(change.before[p] != change.after[p] for p in places):
        -     self._back(into)
        """,
        "rows that a cascade took, and no log tells of, come back with their chunk",
    ),
    Mutant(
        "cascade-into-the-next-table-only",
        "tidelock.engine.copy.chunk_ledger",
        """
        - for further in table.references if table is not None else ():
        + for further in ():
        """,
        "a cascade over two tables leaves the chunks of the second open",
    ),
    Mutant(
        "statement-leaves-chunks-open",
        "tidelock.engine.copy.chunk_ledger",
        """
        - self._back(tables or self.tables)
        + pass
        """,
        "rows that a TRUNCATE took come back with their chunk, or rows lack a column",
    ),
    Mutant(
        "children-before-parents",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return table is None or any(fk.parent in self._copies and fk.parent != name for fk in table.foreign_keys)
        + return False
        """,
        "a table is copied before the rows that it refers to are there",
    ),
)
