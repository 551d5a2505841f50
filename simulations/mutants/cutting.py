"""Cuts of batches by what is in conflict, and decisions that are made together: bugs that show where sites have an
arbiter (`simulations.sites`).

How many changes in conflict make a feed decide untried, and how many it decides about in one transaction, is a matter
of speed: no world can tell one number from another.
"""

from __future__ import annotations

from tidelock.simulations.mutants.by_test import noticed_in as _in
from tidelock.simulations.mutants.mutant import Mutant


def _arbitrated(name: str, patch: str, wrong: str, case: str) -> Mutant:
    return Mutant(name, patch, wrong, case=case, worlds="arbiter")


CUTTING = (
    _arbitrated(
        "layers-of-decisions-are-one",
        """
        @ conflict_cut._layer
        - behind + 2 - behind % 2
        + 0
        """,
        "changes in conflict that share a lock are decided about in one transaction",
        "decided untried",
    ),
    _arbitrated(
        "third-layer-of-decisions-in-the-second",
        """
        @ conflict_cut._layer
        - behind + 2 - behind % 2
        + 2
        """,
        "a lock is handed on once, not as often as changes share it",
        "decided untried",
    ),
    _arbitrated(
        "tried-beside-what-it-follows",
        """
        @ conflict_cut._layer
        - behind if behind % 2 else behind + 1
        + behind
        """,
        "a change in no conflict goes with the decisions that it has to follow",
        "conflicts by scan",
    ),
    _arbitrated(
        "tried-before-what-it-follows",
        """
        @ conflict_cut._layer
        - behind if behind % 2 else behind + 1
        + 1
        """,
        "a change in no conflict goes in the first piece that is tried, whatever it has to follow",
        "conflicts by scan",
    ),
    _arbitrated(
        "clear-past-what-it-follows",
        """
        @ parted
        - behind is None and not decided
        + not decided
        """,
        "a change in no conflict goes first, though it shares a lock with one before it that is",
        "conflicts by scan",
    ),
    _arbitrated(
        "cut-by-first-lock-alone",
        """
        @ parted
        - taken.add(own, at)
        + taken.add(own[:1], at)
        """,
        "a batch is cut by rows, and unique values change hands in any order",
        "conflicts by scan",
    ),
    _arbitrated(
        "cut-forgets-shared-locks",
        """
        @ _Taken.add
        - self._last[key] = max(layer, self._last.get(key, -1))
        + if alone:
        +     self._last[key] = max(layer, self._last.get(key, -1))
        """,
        "a parent goes before the children that it has to follow",
        "conflicts by scan",
    ),
    _arbitrated(
        "cut-remembers-the-first-layer",
        """
        @ _Taken.add
        - self._last[key] = max(layer, self._last.get(key, -1))
        + self._last.setdefault(key, layer)
        """,
        "who takes a lock follows the first that took it, not the last",
        "decided untried",
    ),
    _arbitrated(
        "untried-from-the-last-piece",
        """
        @ BadRowSearch.decide_untried
        - [*reversed(pieces)]
        + [*pieces]
        """,
        "what is decided about untried goes piece by piece from the end",
        "decided untried",
    ),
    _arbitrated(
        "cut-from-the-last-piece",
        """
        @ BadRowSearch.cut
        - (*reversed(behind), clear[half:], clear[:half])
        + (*behind, clear[half:], clear[:half])
        """,
        "what is behind the clear part goes piece by piece from the end",
        "conflicts by scan",
    ),
    _arbitrated(
        "clear-part-comes-last",
        """
        @ BadRowSearch.cut
        - (*reversed(behind), clear[half:], clear[:half])
        + (clear[half:], clear[:half], *reversed(behind))
        """,
        "changes in conflict go before those that they follow",
        "conflicts by scan",
    ),
    _arbitrated(
        "last-of-a-piece-lost",
        """
        @ conflict_cut._pieces
        - layer[at : at + most]
        + layer[at : at + most - 1]
        """,
        "the last change of a piece is in none",
        "no lost intent",
    ),
    _arbitrated(
        "together-whatever-they-touch",
        """
        @ deciding_together.independent
        - not taken.isdisjoint(own)
        + False
        """,
        "a decision is made by a look that was before another decision of its transaction",
        "decided together",
    ),
    _arbitrated(
        "values-left-alone-are-nobodys",
        """
        @ deciding_together.independent
        - {*one.rows, *_written(one, uniques[table])}
        + {*one.rows}
        """,
        "a unique value that an update leaves alone is written over another row, and another change wants it",
        "decided together",
    ),
    _arbitrated(
        "room-made-unseen",
        """
        @ Judged.rows
        - (*found, *(table.key_of(holder.row) for holder in met.holders))
        + found
        """,
        "a row that makes room for one decision is there for the next",
        "decided together",
    ),
)

CUT_BY_TEST = (
    _in(
        "engine/test_batch_conflict_cut.py::test_conflicts_that_are_told_cost_few_transactions",
        "decisions-beyond-the-first-piece-lost",
        """
        @ conflict_cut._pieces
        - range(0, len(layer), max(1, most))
        + range(0, min(len(layer), most), max(1, most))
        """,
        "of more conflicts than one transaction decides about, the others are in no piece",
        "no lost intent",
    ),
    _in(
        "engine/test_two_way_deciding_together.py::test_decisions_are_written_in_few_steps",
        "first-update-written-twice",
        """
        @ steps_together
        - updates.setdefault(step.table, UpdateRows(step.table, [], [], moves=False))
        + updates.setdefault(step.table, step)
        """,
        "of the updates of a table the first is written twice",
        "decided together",
    ),
    _in(
        "engine/test_batch_contention.py::test_a_share_is_taken_over_a_part_of_a_batch",
        "untried-for-ever",
        """
        @ Contention.note
        - LOW if self.high else HIGH
        + -1.0 if self.high else HIGH
        """,
        "what is in no conflict any more is decided about, change by change",
        "decided untried",
    ),
)
