"""Bugs in how a log is known again: another history in the place of the source's, or the same one elsewhere."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LINEAGE = (
    Mutant(
        "identity-not-compared",
        """
        @ by_place
        - if here.begun is not None and _same_bytes(proof, here):
        -     return Answer.SAME
        + return Answer.SAME
        """,
        "whatever log is there is read on",
        case="L5: the log reset",
    ),
    Mutant(
        "last-transaction-not-compared",
        """
        @ _same_bytes
        - (here.ending.size, here.ending.when, here.ending.mark) == (last.size, last.when, last.mark)
        + True
        """,
        "a server that was put back to a snapshot of its disk is read on",
        case="L5: the log put back",
    ),
    Mutant(
        "bytes-of-the-last-event-not-compared",
        """
        @ _same_bytes
        - (here.ending.size, here.ending.when, here.ending.mark) == (last.size, last.when, last.mark)
        + (here.ending.size, here.ending.when) == (last.size, last.when)
        """,
        "another transaction of the same second is taken for the one that was read",
        case="L5: the log put back",
    ),
    Mutant(
        "moment-not-compared",
        """
        @ by_gtid
        - Answer.SAME if found.moment_us == proof.last.moment_us else Answer.OTHER
        + Answer.SAME
        """,
        "a GTID alone is taken for proof",
        case="L5: another server behind the same name",
    ),
    Mutant(
        "seconds-of-the-same-server-trusted",
        """
        @ by_place
        - here.exact or here.server != (last.server or proof.server)
        + True
        """,
        "a number that MariaDB used again within the second is taken for the same transaction",
        case="L5: the log reset",
    ),
    Mutant(
        "open-transaction-not-compared",
        """
        @ same_opened
        - if found != proof.opened:
        -     return False
        - return proof.part is None or part is None or (part.size, part.when, part.mark) == proof.part[1:]
        + return True
        """,
        "the rest of another transaction is read behind a part of the one that was left",
        case="L5: the log put back",
    ),
    Mutant(
        "bytes-of-the-open-transaction-not-compared",
        """
        @ same_opened
        - proof.part is None or part is None or (part.size, part.when, part.mark) == proof.part[1:]
        + True
        """,
        "another transaction of the same second and number is read on in its middle",
        case="L5: the log put back",
    ),
    Mutant(
        "receipts-not-confirmed",
        """
        @ furthest
        - behind and (known is None or end.order > known.order)
        + False
        """,
        "receipts of a killed run cover transactions of another log that bear the same numbers",
        case="L5: the log put back",
    ),
    Mutant(
        "nearest-receipt-confirmed",
        """
        @ furthest
        - end.order > known.order
        + end.order < known.order
        """,
        "a log that was put back to a place between two receipts is read on",
        case="L5: the log put back",
    ),
    Mutant(
        "receipts-confirmed-at-the-start-alone",
        """
        @ LogIntake._resend
        - RequestResend(*self._chain.expect_resend(), self._fence.furthest(behind))
        + RequestResend(*self._chain.expect_resend())
        """,
        "a log that is put back before all rows that receipts cover have come by is read on",
        case="L5: the log put back",
    ),
    Mutant(
        "receipt-of-what-is-committed",
        """
        @ BatchScheduler._send
        - self._watermark.end(batch.window)
        + self._watermark.position
        """,
        "a receipt proves the log up to what is committed before it, not up to its own rows",
        case="L5: the log put back",
    ),
    Mutant(
        "replica-refused",
        """
        @ by_gtid
        - Answer.SAME if found.moment_us == proof.last.moment_us else Answer.OTHER
        + Answer.OTHER
        """,
        "a replica with the same transactions is taken for another log",
        case="L6: a replica promoted",
    ),
    Mutant(
        "transaction-of-another-server-sought-here",
        """
        @ carried
        - seen_at = last.server or proof.server
        - last = msgspec.structs.replace(last, server="" if seen_at == server else seen_at)
        """,
        "after a failover the feed halts if it stops before it has read a transaction there",
        case="L6: a replica promoted",
    ),
    Mutant(
        "purged-file-refused",
        """
        @ _same_bytes
        - if here.ending is None: ...
        + if here.ending is None:
        +     return False
        """,
        "a log without its oldest files is taken for another one",
        case="L5: the log purged",
    ),
)
