"""Bugs around copies where rows are refused, kept, or written over: what is parked with a chunk, and repairs."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

REFUSED = (
    Mutant(
        "refused-rows-are-lost",
        "tidelock.engine.copy.chunk_merge",
        """
        - parked=self._parked(id_, ""),
        + parked=(),
        """,
        "rows that could not be staged are neither merged nor parked",
    ),
    Mutant(
        "refused-rows-parked-though-touched",
        "tidelock.engine.copy.chunk_merge",
        """
        - if not binding.key or binding.key_of(refused.row) not in chunk.touched:
        + if True:
        """,
        "a row that could not be staged is parked, though it has changed or gone since",
    ),
    Mutant(
        "refused-rows-unknown-to-the-lot",
        "tidelock.engine.copy.chunk_merge",
        """
        - for change in (*(change for change, _ in self._refused), *self._untried):
        + for change in self._untried:
        """,
        "changes of a row that is parked with its chunk are applied",
    ),
    Mutant(
        "untried-rows-unknown-to-the-lot",
        "tidelock.engine.copy.chunk_merge",
        """
        - for change in (*(change for change, _ in self._refused), *self._untried):
        + for change in (change for change, _ in self._refused):
        """,
        "last images that are parked with their chunk are not known as parked",
    ),
    Mutant(
        "untried-in-the-place-of-refused",
        "tidelock.engine.copy.chunk_merge",
        """
        - first = self._read + len(self._untried)
        + first = 0
        """,
        "a last image is parked in the place of a row that could not be staged",
    ),
)

KEPT = (
    Mutant(
        "kept-rows-wait-for-their-chunk",
        "tidelock.engine.copy.chunk_ledger",
        """
        - return chunk.split.stays
        + return False
        """,
        "where rows are kept, changes of open chunks do not take effect",
    ),
    Mutant(
        "kept-rows-not-remembered",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if chunk.open:
        -     if binding.key:
        + if chunk.open and not chunk.split.keep:
        +     if binding.key:
        """,
        "where rows are kept, one that was deleted since it was read comes back",
    ),
)

REPAIRS = (
    Mutant(
        "repair-of-touched-rows-as-read",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if chunk.open:
        -     if binding.key:
        + if chunk.open and chunk.split.by is not By.KEYS:
        +     if binding.key:
        """,
        "a repair puts back what was read of a row that has changed since",
    ),
    Mutant(
        "repair-keys-by-spelling",
        "tidelock.engine.model.chunk_ranges",
        """
        - key = folded_key(tuple([row[p] for p in positions]), equalities)
        + key = tuple([row[p] for p in positions])
        """,
        "changes of a row that is spelled in other letters than what was asked for are not remembered",
    ),
    Mutant(
        "repair-leaves-untold-rows-alone",
        "tidelock.engine.model.chunk_ranges",
        """
        - return UNTOLD if key is None else int(key in wanted)
        + return int(key in wanted)
        """,
        "changes of a row that may be one of those asked for are not remembered",
    ),
    Mutant(
        "repair-forgets-who-comes-after-an-untold-row",
        "tidelock.engine.copy.chunk_ledger",
        """
        - if self._untold or number == UNTOLD:
        + if number == UNTOLD:
        """,
        "a row that comes in the place of one that a repair remembers is deleted",
    ),
    Mutant(
        "repair-inserts-beside-touched-rows",
        "tidelock.engine.copy.chunk_merge",
        """
        - gone=list(dict.fromkeys((*chunk.split.keys, *without))) if chunk.split.by is By.KEYS else [],
        + gone=list(chunk.split.keys) if chunk.split.by is By.KEYS else [],
        """,
        "a repair writes last images of rows that it has not taken away",
    ),
    Mutant(
        "repair-leaves-rows-parked",
        "tidelock.engine.copy.chunk_merge",
        """
        - self.effect = replace(self.effect, unparked=tuple(places))
        """,
        "parked changes of a row that was repaired can be retried over it",
    ),
    Mutant(
        "repair-takes-what-is-parked-for-others",
        "tidelock.engine.batch.parked_rows",
        """
        - return places if all(key in own for place in places for key in self._places[place]) else None
        + return places
        """,
        "what is parked for a repaired row and another is lost for the other",
    ),
    Mutant(
        "repair-takes-what-may-be-parked-for-others",
        "tidelock.engine.batch.parked_rows",
        """
        - if (table.name, None) in own or (table.name, None) in self._keys:
        + if False:
        """,
        "changes that may be of a repaired row stay parked",
    ),
    Mutant(
        "repair-unknown-to-the-lot",
        "tidelock.engine.copy.machine",
        """
        - self._batches.release(effect.unparked)
        """,
        "changes of a row that was repaired are parked, since it is held for parked",
    ),
    Mutant(
        "repair-empties-the-lot",
        "tidelock.engine.copy.machine",
        """
        - self._batches.emptied([split.table for split in effect.splits if not split.stays])
        + self._batches.emptied([split.table for split in effect.splits])
        """,
        "when a repair begins all that is parked for its table is forgotten",
    ),
    Mutant(
        "given-up-repair-stays",
        "tidelock.engine.copy.machine",
        """
        - self._wished += (replace(split, keys=()),)
        + pass
        """,
        "a repair that was given up stands as unfinished for ever",
    ),
    Mutant(
        "joined-repair-forgets-the-first",
        "tidelock.engine.copy.machine",
        """
        - return replace(split, keys=tuple(dict.fromkeys((*others, *split.keys))))
        + return split
        """,
        "rows whose repair is under way are forgotten when others of their table are asked for",
    ),
)
