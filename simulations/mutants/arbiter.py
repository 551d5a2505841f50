"""Echoes, verdicts and blind writes: bugs that show where sites have an arbiter (`simulations.sites`).

`case` names the bugs (B) and histories (two-way) of the design of two-way replication.
"""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant


def _arbitrated(name: str, patch: str, wrong: str, case: str) -> Mutant:
    return Mutant(name, patch, wrong, case=case, worlds="arbiter")


ARBITER = (
    _arbitrated(
        "no-echo",
        """
        @ Echoes.going_back
        + return []
        """,
        "the arbiter never sends a spoke its own change back",
        "two-way 1",
    ),
    _arbitrated(
        "echoes-not-counted",
        """
        @ sending
        - found is not Sending.NOT
        + found is Sending.SEND
        """,
        "an echo does not count as sent",
        "two-way 2",
    ),
    _arbitrated(
        "seen-when-it-is-read",
        """
        @ Echoes.going_back
        - NOTHING if told is None else place_in(self._log.identity(log), told)
        + place_of(source)
        """,
        "a spoke is taken to have seen all that stands before its change in the arbiter's log",
        "two-way 3",
    ),
    _arbitrated(
        "no-floor",
        """
        @ Echoes.__init__
        - EchoIndex(limit, floor.order)
        + EchoIndex(limit)
        """,
        "a reader that begins anew remembers nothing, and takes nothing for sent",
        "two-way 4",
    ),
    _arbitrated(
        "floor-not-raised-when-full",
        """
        @ EchoIndex._make_room
        - self.raise_floor(places[len(places) // 2])
        + for register in list(self._sent)[: len(places) // 2 + 1]:
        +     del self._sent[register]
        """,
        "a full index forgets and says nothing of it",
        "two-way B9",
    ),
    _arbitrated(
        "pruned-too-far",
        """
        @ EchoIndex._make_room
        - self.raise_floor(places[len(places) // 2])
        + self.raise_floor(places[len(places) // 2])
        + self._sent.clear()
        """,
        "a full index forgets more than its floor says",
        "two-way B8",
    ),
    _arbitrated(
        "seen-of-the-forwarded",
        """
        @ SiteFilter._note_checkpoints
        - row[_FEED] == self._sites.sister and row[_GROUP] == EMBEDDED_GROUP
        + row[_GROUP] == EMBEDDED_GROUP

        @ SiteFilter._note_checkpoints
        - known and len(row) > _SITE and row[_SITE] == self._sites.target
        + known

        @ place_in
        - not log or lineage.server_of(position.proof) != log
        + not log
        """,
        "what a site had seen of one log is taken for another",
        "two-way 5, B6",
    ),
    _arbitrated(
        "registers-of-keys-alone",
        """
        @ Echoes._layout
        - tuple(uniques)
        + ()
        """,
        "an echo goes by the row, not by unique values",
        "two-way 6",
    ),
    _arbitrated(
        "groups-written-whole",
        """
        @ by_groups
        - not touched
        + True
        """,
        "rows are written whole, and groups of columns count as sent",
        "two-way 29",
    ),
    _arbitrated(
        "deletes-touch-one-group",
        """
        @ column_groups.touched
        - range(len(groups))
        + range(1)
        """,
        "an insert, a delete and a changed key touch one group of columns",
        "two-way B17",
    ),
    _arbitrated(
        "registers-of-the-new-row-alone",
        """
        @ registers.registers
        - (before, after)
        + (after,)
        """,
        "what a change takes away is no register of it",
        "two-way 6",
    ),
    _arbitrated(
        "no-verdict",
        """
        @ Decision.verdict
        - self.outcome is not Outcome.WRITE
        + False
        """,
        "the arbiter keeps its row and does not say so",
        "two-way 7",
    ),
    _arbitrated(
        "no-verdict-for-those-behind",
        """
        @ arbitration.told
        + return ()
        """,
        "a change that waits behind a parked one leaves no verdict",
        "two-way 7",
    ),
    _arbitrated(
        "verdict-not-counted",
        """
        @ Echoes.note_verdicts
        + pass
        """,
        "a verdict does not count as sent",
        "two-way 2",
    ),
    _arbitrated(
        "verdict-without-a-lock",
        """
        @ sites.deciding.lock
        + pass
        """,
        "a verdict tells a row that another transaction changes before it commits",
        "two-way B12",
    ),
    _arbitrated(
        "come-and-gone-is-nothing",
        """
        @ blind_steps._set_based
        - gone.append(key if len(binding.key) > 1 else (key,))
        + if before is not None:
        +     gone.append(key if len(binding.key) > 1 else (key,))
        """,
        "a row that a batch inserts and deletes is left to the spoke",
        "two-way 11",
    ),
    _arbitrated(
        "unique-columns-stay",
        """
        @ blind_steps._set_based
        - UpsertRows(binding, kept, fresh=False, blind=True)
        + UpsertRows(binding, kept, fresh=False)
        """,
        "a row is written over the spoke's own, whose unique values stay",
        "two-way 6",
    ),
    _arbitrated(
        "fresh-is-believed",
        """
        @ blind_steps._set_based
        - UpsertRows(binding, fresh, fresh=True, blind=True)
        + UpsertRows(binding, fresh, fresh=True)
        """,
        "an insert of the arbiter over the spoke's own row leaves its unique values",
        "two-way 11",
    ),
    _arbitrated(
        "echo-keeps-its-path",
        """
        @ CaptureMachine._batch
        - loop.origin if admitted else None
        + loop.origin
        """,
        "an echo has the path that the change came with, so a site below the spoke never gets it",
        "two-way 24a",
    ),
    _arbitrated(
        "echo-of-the-whole-transaction",
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
    _arbitrated(
        "covered-stay-as-they-are",
        """
        @ Fence.admit
        - self._again = self._blind
        + pass
        """,
        "a row behind an echo that the reader before did not send is not written again",
        "two-way 4",
    ),
    _arbitrated(
        "spoke-believed",
        """
        @ checked_steps.maker
        - options.verify == "image" or options.direction == "up"
        + options.verify == "image"
        """,
        "the arbiter writes a spoke's change over a row that the spoke had not seen",
        "conflicts unseen",
    ),
    _arbitrated(
        "part-has-the-place-of-its-transaction",
        """
        @ place_of
        - 0 if source.complete else source.first_ordinal + source.ordinals
        + 0
        """,
        "a part of a transaction stands where the transaction before it ends",
        "two-way B11",
    ),
    _arbitrated(
        "seen-of-the-newest-at-the-arbiter",
        """
        @ least
        - place.order < least.order
        + place.order > least.order
        """,
        "a batch has seen what the newest of its changes had: an echo is not sent",
        "two-way B5",
    ),
    _arbitrated(
        "loser-not-recorded",
        """
        @ decisions._kept
        - () if here == change.after else (Lost(conflict, incoming=True, row=change.after),)
        + ()
        """,
        "a change that is not written leaves no record",
        "no lost intent",
    ),
    _arbitrated(
        "overwritten-not-recorded",
        """
        @ decisions._between
        - () if met.row == change.after else (Lost(conflict, incoming=False, row=met.row),)
        + ()
        """,
        "a row of the arbiter that is written over leaves no record",
        "no lost intent",
    ),
    _arbitrated(
        "displaced-not-recorded",
        """
        @ looking._write_blindly
        - session.displaced += _drop_holders(session, step.table, row)
        + _drop_holders(session, step.table, row)
        """,
        "a row that makes room leaves no record",
        "two-way B13",
    ),
)
