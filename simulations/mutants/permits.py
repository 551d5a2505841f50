"""Permits, counters and verdicts: bugs that show where sites have an arbiter (`simulations.sites`).

`case` names the bugs (B) and histories (two-way) of the design of two-way replication.
"""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant


def _arbitrated(name: str, patch: str, wrong: str, case: str) -> Mutant:
    return Mutant(name, patch, wrong, case=case, worlds="arbiter")


PERMITS = (
    _arbitrated(
        "probe-of-an-old-session",
        """
        @ Permit.probe_seen
        - nonce == self.memory.session
        + True
        """,
        "a probe of an earlier session of the source proves this one",
        "two-way B21",
    ),
    _arbitrated(
        "permit-without-a-probe",
        """
        @ Permit.ready
        - self.memory.proven and own.wished and not own.halted and self._lives(now)
        + own.wished and not own.halted and self._lives(now)
        """,
        "a feed applies before a probe has come out of its log",
        "two-way B22",
    ),
    _arbitrated(
        "permit-by-one-side",
        """
        @ Permit._wanted
        - not self.ready(now, own) or sister is None or not sister.ready
        + not self.ready(now, own) or sister is None
        """,
        "a feed applies as soon as it is ready itself",
        "two-way B22",
    ),
    _arbitrated(
        "sister-lives-for-ever",
        """
        @ Permit._lives
        - now - self.memory.moved_at < self._limits.after_us
        + True
        """,
        "a sister that is silent counts as alive",
        "two-way 28c",
    ),
    _arbitrated(
        "ready-waits-for-the-sister",
        """
        @ Permit.ready
        - self.memory.proven and own.wished and not own.halted and self._lives(now)
        + self.memory.proven and own.wished and self._lives(now) and self.memory.sister.ready
        """,
        "each feed waits for the other to be ready",
        "two-way 28b",
    ),
)

DECIDING = (
    _arbitrated(
        "others-rows-as-echoes",
        """
        @ CaptureMachine._with_echoes
        - echoes.note_sent(source, rows)
        + if self._loop.origin is None:
        +     echoes.note_sent(source, rows)
        + else:
        +     rows = echoes.going_back(source, rows, Position(source.file, source.end, proof=log), log)
        """,
        "a row of another spoke is sent only if this one has missed something",
        "two-way B10",
    ),
    _arbitrated(
        "verdict-in-a-transaction-of-its-own",
        """
        @ ArbitratedTarget._commit
        - added = self._site.commit(session, self._receipt(effect), verdicts, self._feed)
        + added = self._site.commit(session, self._receipt(effect))
        + if verdicts and self._faults.chance.random() < 0.8:
        +     added = [*added, *self._site.note((), (), verdicts, self._feed)]
        """,
        "the arbiter's server goes down between a decision and its verdict",
        "two-way B12",
    ),
    _arbitrated(
        "answer-lost-and-asked-under-another-id",
        """
        @ BatchScheduler.tick
        - self._dispatch(batch)
        + self._send(batch)
        """,
        "a batch whose COMMIT was not answered is decided about once more",
        "two-way B15",
    ),
    _arbitrated(
        "delta-of-null-is-tried",
        """
        @ merged._value
        - before is not None and after is not None and here is not None
        + after is not None and here is not None
        """,
        "something is added to a column that was NULL",
        "two-way B16",
    ),
    _arbitrated(
        "additions-written-over",
        """
        @ merged._value
        - added(here, before, after)
        + after
        """,
        "of two additions the later one stays",
        "two-way 26a",
    ),
    _arbitrated(
        "greatest-is-the-last",
        """
        @ merged._value
        - max(here, after, key=rank) if policy is Policy.MAX else min(here, after, key=rank)
        + after
        """,
        "of two values the later one stays, not the greater",
        "sums",
    ),
)
