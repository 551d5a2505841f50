"""Bugs around copies where rows are refused, kept, or written over: what is parked with a chunk, and repairs."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

REFUSED = (
    Mutant(
        "refused-rows-are-lost",
        """
        @ ChunkMerge.__init__
        - self._parked(id_)
        + ()
        """,
        "rows that could not be staged are neither merged nor parked",
    ),
    Mutant(
        "refused-rows-parked-though-touched",
        """
        @ _untouched
        - not binding.key or binding.key_of(refused.row) not in chunk.touched
        + True
        """,
        "a row that could not be staged is parked, though it has changed or gone since",
    ),
    Mutant(
        "refused-rows-unknown-to-the-lot",
        """
        @ ChunkMerge.done
        - (*(change for change, _ in self._refused), *self._untried, *self._parked_left_out())
        + (*self._untried, *self._parked_left_out())
        """,
        "changes of a row that is parked with its chunk are applied",
    ),
    Mutant(
        "untried-rows-unknown-to-the-lot",
        """
        @ ChunkMerge.done
        - (*(change for change, _ in self._refused), *self._untried, *self._parked_left_out())
        + (*(change for change, _ in self._refused), *self._parked_left_out())
        """,
        "last images that are parked with their chunk are not known as parked",
    ),
    Mutant(
        "untried-in-the-place-of-refused",
        """
        @ ChunkMerge.set_aside
        - self._read + len(self._untried)
        + 0
        """,
        "a last image is parked in the place of a row that could not be staged",
    ),
)

KEPT = (
    Mutant(
        "kept-rows-wait-for-their-chunk",
        """
        @ ChunkLedger._takes_effect
        - chunk.split.keeps_target_rows
        + False
        """,
        "where rows are kept, changes of open chunks do not take effect",
    ),
    Mutant(
        "kept-rows-not-remembered",
        """
        @ ChunkLedger._takes_effect
        - chunk.open
        + chunk.open and not chunk.split.keep
        """,
        "where rows are kept, one that was deleted since it was read comes back",
    ),
)

REPAIRS = (
    Mutant(
        "repair-of-touched-rows-as-read",
        """
        @ ChunkLedger._takes_effect
        - chunk.open
        + chunk.open and chunk.split.by is not By.KEYS
        """,
        "a repair puts back what was read of a row that has changed since",
    ),
    Mutant(
        "repair-keys-by-spelling",
        """
        @ _listed
        - folded_key(tuple([row[p] for p in positions]), equalities)
        + tuple([row[p] for p in positions])
        """,
        "changes of a row that is spelled in other letters than what was asked for are not remembered",
    ),
    Mutant(
        "repair-leaves-untold-rows-alone",
        """
        @ _listed
        - UNKNOWN if key is None else int(key in wanted)
        + int(key in wanted)
        """,
        "changes of a row that may be one of those asked for are not remembered",
    ),
    Mutant(
        "repair-forgets-who-comes-after-an-untold-row",
        """
        @ TableCopy.chunk
        - self._untold
        + False
        """,
        "a row that comes in the place of one that a repair remembers is deleted",
    ),
    Mutant(
        "repair-inserts-beside-touched-rows",
        """
        @ ChunkMerge.__init__
        - dict.fromkeys((*chunk.split.keys, *without))
        + chunk.split.keys
        """,
        "a repair writes last images of rows that it has not taken away",
    ),
    Mutant(
        "repair-leaves-rows-parked",
        """
        @ ChunkMerge.overtake
        - self.effect = replace(self.effect, unparked=tuple(places))
        """,
        "parked changes of a row that was repaired can be retried over it",
    ),
    Mutant(
        "repair-takes-what-is-parked-for-others",
        """
        @ ParkedRows.of_rows
        - places if all(key in own for place in places for key in self._places[place]) else None
        + places
        """,
        "what is parked for a repaired row and another is lost for the other",
    ),
    Mutant(
        "repair-takes-what-may-be-parked-for-others",
        """
        @ ParkedRows.of_rows
        - (table.name, None) in own or (table.name, None) in self._keys
        + False
        """,
        "changes that may be of a repaired row stay parked",
    ),
    Mutant(
        "repair-unknown-to-the-lot",
        """
        @ CopyMachine.committed
        - self._batches.parked_retry.release(effect.unparked)
        """,
        "changes of a row that was repaired are parked, since it is held for parked",
    ),
    Mutant(
        "repair-empties-the-lot",
        """
        @ CopyMachine.committed
        - [split.table for split in effect.splits if not split.keeps_target_rows]
        + [split.table for split in effect.splits]
        """,
        "when a repair begins all that is parked for its table is forgotten",
    ),
    Mutant(
        "given-up-repair-stays",
        """
        @ CopyMachine._give_up
        - self._requested += (replace(split, keys=()),)
        """,
        "a repair that was given up stands as unfinished for ever",
    ),
    Mutant(
        "joined-repair-forgets-the-first",
        """
        @ ChunkLedger.with_others
        - replace(split, keys=tuple(dict.fromkeys((*others, *split.keys))))
        + split
        """,
        "rows whose repair is under way are forgotten when others of their table are asked for",
    ),
)
