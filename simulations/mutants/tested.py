"""Bugs of two-way replication that no random world reaches, each with the test that notices it.

A world has no server, no bytes of a log and no clock of a table's rows.  What goes wrong there is planted here as
elsewhere, and hunted by one test in place of worlds: `tests/simulations/test_two_way_bugs.py` plants each of them.
"""

from __future__ import annotations

from tidelock.simulations.mutants.by_test import noticed_in as _in
from tidelock.simulations.mutants.cutting import CUT_BY_TEST
from tidelock.simulations.mutants.tested_at_servers import OF_POSTGRES, OF_SERVERS

HELD = (
    _in(
        "simulations/test_holding.py::test_what_is_covered_is_applied_with_all_that_it_stands_for",
        "hold-drops",
        """
        @ Hold.offer
        - self._waiting[key] = offered
        + pass
        """,
        "a row that is to wait is dropped",
        "two-way 8, 9",
    ),
    _in(
        "simulations/test_holding.py::test_no_checkpoint_passes_what_waits",
        "held-row-behind-the-checkpoint",
        """
        @ Hold.checkpoint
        - min((each.applied[0][0] for each in self._waiting.values()), default=reached)
        + reached
        """,
        "the checkpoint passes what waits",
        "two-way 10, B23",
    ),
    _in(
        "simulations/test_holding.py::test_receipts_of_another_log_cover_nothing",
        "held-row-freed-by-another-log",
        """
        @ Hold.covered
        - log != self._log
        + False
        """,
        "a receipt of another log lets go what waits",
        "two-way B24",
    ),
)

RULES = (
    _in(
        "engine/test_two_way_echo.py::test_a_reader_that_went_back_sends_by_the_floor",
        "what-the-spoke-lost-is-known-as-sent",
        """
        @ EchoIndex.send
        - if at <= self.floor: ...
        + pass
        """,
        "a reader that went back for what the spoke's server lost takes it for sent behind the floor",
        "two-way 12, B38",
    ),
    _in(
        "engine/test_two_way_echo.py::test_a_full_index_forgets_its_older_half_and_raises_the_floor",
        "floor-below-what-was-forgotten",
        """
        @ EchoIndex._make_room
        - self.raise_floor(places[len(places) // 2])
        + self.raise_floor(places[len(places) // 2])
        + self._sent.clear()
        """,
        "a full index forgets more than its floor says",
        "two-way B8",
    ),
    _in(
        "engine/test_log_receipts.py::test_where_rows_are_written_blindly_they_are_written_again_behind_the_first_that_is_new",
        "covered-rows-stay",
        """
        @ Fence.admit
        - self._again = self._blind
        + pass
        """,
        "a row behind an echo that the reader before did not send is not written again",
        "two-way 4",
    ),
    _in(
        "engine/test_capture_echoes.py::test_a_part_of_a_transaction_is_placed_behind_its_rows",
        "part-placed-before-its-rows",
        """
        @ place_of
        - 0 if source.complete else source.first_ordinal + source.ordinals
        + 0
        """,
        "a part of a transaction stands where the transaction before it ends",
        "two-way B11",
    ),
    _in(
        "engine/test_capture_echoes.py::test_what_missed_a_change_of_its_row_goes_back_and_what_had_seen_it_does_not",
        "echo-of-all-rows",
        """
        @ Echoes.going_back
        - [
        -     row
        -     for row in rows
        -     if sending(self._index, self._spoke, Passing(at, path, seen, self._registers(row), self._refers(row)))
        -     is Sending.ECHO
        - ]
        + rows if Sending.ECHO in [
        +     sending(self._index, self._spoke, Passing(at, path, seen, self._registers(row), self._refers(row)))
        +     for row in rows
        + ] else []
        """,
        "rows that need no echo go back with others, and do not count as sent",
        "two-way B11",
    ),
    _in(
        "engine/test_batch_blind_steps.py::test_inserted_and_deleted_in_one_batch_is_deleted",
        "inserted-and-deleted-is-nothing",
        """
        @ blind_steps._set_based
        - gone.append(key if len(binding.key) > 1 else (key,))
        + if before is not None:
        +     gone.append(key if len(binding.key) > 1 else (key,))
        """,
        "a row that a batch inserts and deletes is left to the spoke",
        "two-way 11",
    ),
    _in(
        "engine/test_partial_rows.py::test_bug_31_the_value_of_another_row_that_had_the_key_fills_nothing",
        "long-value-of-another-row",
        """
        @ partial_fold
        - after = _filled(after, rows.get(key), before)
        + after = _filled(after, next(reversed(rows.values()), None), before)
        """,
        "a long value that an update left alone is filled from the row that was folded before it",
        "two-way B31",
    ),
    _in(
        "engine/test_two_way_conflicts.py::test_a_value_that_the_row_does_not_get_displaces_nobody",
        "displaced-for-a-value-that-nobody-gets",
        """
        @ decisions._over_values
        - dict.fromkeys(
        -     holder.row for holder in met.holders if all(row[at] == after[at] for at in holder.columns)
        - )
        + dict.fromkeys(holder.row for holder in met.holders)
        """,
        "a row makes room by an index of which the merged row does not get the value",
        "two-way B14",
    ),
    _in(
        "engine/test_two_way_conflicts.py::test_of_null_no_addition_can_be_told",
        "delta-of-null",
        """
        @ merged._value
        - before is not None and after is not None and here is not None
        + after is not None and here is not None
        """,
        "an addition to a column that was NULL",
        "two-way B16",
    ),
    _in(
        "engine/test_two_way_registers.py::test_inserts_deletes_and_changed_keys_touch_every_group",
        "deletes-touch-no-group",
        """
        @ registers._numbers
        + if after is None:
        +     return ()
        + ...
        """,
        "groups of columns are left out of the registers of a delete",
        "two-way B17",
    ),
    _in(
        "engine/test_two_way_tombstones.py::test_deletes_and_changed_keys_leave_tombstones_of_keys_as_the_index_compares_them",
        "tombstone-by-spelling",
        """
        @ tombstones.exact_key
        - index.values(row)
        + (index.namespace, *(row[at] for at in index.positions))
        """,
        "`A` and `a` have a tombstone each",
        "two-way B18",
    ),
    _in(
        "engine/test_two_way_tombstones.py::test_deletes_and_changed_keys_leave_tombstones_of_keys_as_the_index_compares_them",
        "changed-key-leaves-no-tombstone",
        """
        @ buried
        - exact_key(index, after) == key
        + True
        """,
        "a row that changes its key leaves none under the old one",
        "two-way B19",
    ),
    _in(
        "engine/test_two_way_permit.py::test_the_row_of_another_feed_is_refused",
        "own-row-read-for-the-sisters",
        """
        @ Permit.sister_seen
        - row.feed != self._sister
        + False
        """,
        "a feed reads its own row in the place of its sister's",
        "two-way B37",
    ),
    _in(
        "engine/test_batch_arbitration.py::test_an_answer_that_is_lost_asks_the_same_question_again",
        "question-asked-under-another-id",
        """
        @ BatchScheduler.tick
        - self._dispatch(batch)
        + self._send(batch)
        """,
        "a batch in doubt is asked about under a new id: the sink decides, adds and counts once more",
        "two-way B15, B40",
    ),
)

TESTED = (*HELD, *RULES, *CUT_BY_TEST, *OF_POSTGRES, *OF_SERVERS)
