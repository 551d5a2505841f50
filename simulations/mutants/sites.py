"""Paths, marks and `seen`: bugs that show where several sites write (`simulations.sites`).

`case` names the bugs (B) and counter-examples (two-way) of the design of two-way replication.
"""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant


def _of_sites(name: str, patch: str, wrong: str, case: str) -> Mutant:
    return Mutant(name, patch, wrong, case=case, worlds="sites")


SITES = (
    _of_sites(
        "mark-behind-first-row",
        """
        @ Reader._part
        - if (entry.origin or entry.marks) and self._marked != (entry.source, entry.number): ...
        + if rows and rows[-1].ordinal == 0 and not entry.commit:
        +     pass
        + elif (entry.origin or entry.marks) and self._marked != (entry.source, entry.number): ...
        """,
        "a sink writes the receipt behind the first row, and the log is cut between them",
        "two-way B1",
    ),
    _of_sites(
        "mark-of-first-part-alone",
        """
        @ SiteFilter.admits
        - identity != self._identity
        + identity != self._identity or not marks
        """,
        "the second part of a transaction has no receipt and is taken for the site's own",
        "two-way B2, 36",
    ),
    _of_sites(
        "mark-not-read-again",
        """
        @ Reader._part
        - self._marked != (entry.source, entry.number)
        + (self._marked != (entry.source, entry.number) and (not rows or rows[0].ordinal == 0))
        """,
        "a reader that begins inside a transaction does not read its receipt",
        "two-way 36",
    ),
    _of_sites(
        "path-without-forwarder",
        """
        @ SiteFilter._origin
        - (*been, sites.source)
        + been or (sites.source,)
        """,
        "a change that goes on has the path that it came with",
        "two-way B3",
    ),
    _of_sites(
        "path-of-last-hop",
        """
        @ SiteFilter._origin
        - (*been, sites.source)
        + (sites.source,)
        """,
        "a mark tells the last site alone: a ring goes round for ever",
        "two-way 23",
    ),
    _of_sites(
        "replicated-goes-no-further",
        """
        @ SiteFilter._passes
        - sites.own or sites.target in origin.path
        + True
        """,
        "whatever has a mark is dropped: the third site of a ring never gets the first one's rows",
        "two-way 23",
    ),
    _of_sites(
        "paths-share-a-batch",
        """
        @ Lane.cut
        - queue[0].provenance.origin != provenance.origin
        + (queue[0].provenance.origin is None) != (provenance.origin is None)
        """,
        "a batch merges changes of two sites, if neither is the source's own",
        "two-way B4",
    ),
    _of_sites(
        "one-mark-for-all",
        """
        @ Lane.cut
        - queue[0].provenance.origin != provenance.origin
        + False
        """,
        "changes that came from elsewhere and the source's own share a receipt",
        "two-way 24",
    ),
    _of_sites(
        "paths-overtake",
        """
        @ groups
        - at < behind
        + at < 0
        """,
        "a change overtakes one of another path that it shares a key with",
        "two-way 24",
    ),
    _of_sites(
        "paths-of-whole-transactions",
        """
        @ runs
        - not made or made[-1][0] != origin
        + not made
        """,
        "with whole transactions, a window has the path of its first",
        "two-way 24",
    ),
    _of_sites(
        "large-transaction-unmarked",
        """
        @ Streaming.take
        - self._provenance = provenance
        + pass
        """,
        "a transaction that is applied as it comes counts as the source's own",
        "two-way B2",
    ),
    _of_sites(
        "two-names-of-one-site",
        """
        @ sites_of
        - Sites(edge.source, edge.target, edge.own, edge.mark, edge.drop, sister)
        + Sites(edge.source, f"{edge.target}-by-address", edge.own, edge.mark, edge.drop, sister)
        """,
        "a feed knows its target by another name than the feeds that write there",
        "two-way 25",
    ),
    _of_sites(
        "marks-are-not-logged",
        """
        @ SiteTarget._receipt
        + return ()
        """,
        "the bookkeeping of a target is not in its log (binlog_ignore_db), and no probe has told",
        "two-way 26",
    ),
    _of_sites(
        "forwards-in-a-mesh",
        """
        @ SiteFilter._passes
        - sites.own or sites.target in origin.path
        + sites.target in origin.path
        """,
        "a mesh forwards: each change comes to each site twice",
        "two-way 34",
    ),
    _of_sites(
        "drop-ignored",
        """
        @ SiteFilter._passes
        - any(mark in sites.drop for mark in origin.marks)
        + False
        """,
        "a change goes on in spite of its mark",
        "custom marks",
    ),
    _of_sites(
        "marks-of-last-hop",
        """
        @ SiteFilter._origin
        - (*words, *sites.mark)
        + sites.mark
        """,
        "a change loses the words that earlier feeds have marked it with",
        "custom marks",
    ),
    _of_sites(
        "own-changes-unmarked",
        """
        @ Sites.local
        - self.mark
        + ()
        """,
        "what begins at the source does not get the feed's mark",
        "custom marks",
    ),
    _of_sites(
        "idle-feeds-keep-each-other-awake",
        """
        @ Checkpointer.save
        - self._options.checkpoint_us if mark.receipts else self._options.idle_checkpoint_us
        + self._options.checkpoint_us
        """,
        "each feed of a pair stores a checkpoint for the checkpoint of the other",
        "two-way 38",
    ),
    _of_sites(
        "seen-of-the-newest",
        """
        @ least
        - place.order < least.order
        + place.order > least.order
        """,
        "a batch has seen what the newest of its changes had",
        "two-way B5",
    ),
    _of_sites(
        "seen-of-the-last-in-a-batch-of-the-log",
        """
        @ CaptureMachine._batch
        - if not transactions:
        -     seen = loop.seen
        + seen = loop.seen
        """,
        "all transactions of a batch of the log have seen what the last had",
        "two-way B5",
    ),
    _of_sites(
        "seen-of-another-feed",
        """
        @ SiteFilter._note_checkpoints
        - row[_FEED] == self._sites.sister and row[_GROUP] == EMBEDDED_GROUP
        + row[_GROUP] == EMBEDDED_GROUP

        @ SiteFilter._note_checkpoints
        - known and len(row) > _SITE and row[_SITE] == self._sites.target
        + known
        """,
        "`seen` is a place in another site's log",
        "two-way B6",
    ),
    _of_sites(
        "seen-compared-as-text",
        """
        @ least
        - place.order < least.order
        + str(place) < str(least)
        """,
        "`seen` is compared as text, across a change of the log's file",
        "two-way B7",
    ),
)
