"""Planted bugs that the random worlds do not reach, or too rarely to ask for, and what a world would need to.

They stay in the catalogue, can be hunted by name, and are the list of where to widen the worlds next; most are noticed
by a scenario or a leaf's own test.  `python -m tidelock.simulations.mutants` and `make proof` hunt all others.
"""

from __future__ import annotations

BEYOND: dict[str, str] = {
    "moded-downgraded-in-a-transaction": "a transaction that writes a key and reads it again, with another at that key",
    "cascade-one-level": "a third level of cascades",
    "cascade-into-the-next-table-only": "more owners that go while a chunk of the second level of a cascade is open",
    "untried-in-the-place-of-refused": "more chunks with a row that cannot be staged and a last image that is refused",
    "repair-leaves-untold-rows-alone": "more changes of a row while it is repaired under a key in other letters",
    "cycle-of-tables-folded": "two tables that refer to each other",
    "parent-back-in-other-letters": "more parents that leave and come back in one batch",
    "referenced-value-taken-by-an-update": "more parents that leave while another takes their value (once in 22,246)",
    "fold-two-shapes-apart": "rows of one key parked before and after a column was added, retried together",
    "neighbours-of-two-tables-share": "the same",
    "gone-rows-stay-refused": "refused rows without a key, one of which goes between its view and the merge",
    "numbers-of-two-servers-compared": "views in windows of whose later transactions none is seen again",
    "narrower-row-of-a-keyless-table": "rows parked in a table without a key that then gains a column (once in 3,537)",
    "narrower-row-found-by-a-new-owner": "the same",
    "blind-change-in-place": "a target that goes through the rows of one statement in an order of its own",
    "transaction-not-tried-whole": "a merged form that fails where log order would not: none is known",
    "fence-without-source": "two sources whose transactions have the same numbers",
    "any-answer-saves": "answers that arrive again much later",
    "lane-free-before-rolled-back": "late answers to a rollback",
    "fenced-owner-raises-an-alarm": "a checker of what zombies say",
    "caught-up-by-another-servers-places": "a promoted replica",
    "log-that-goes-back-taken": "a log that is reset under its reader",
    "gap-never-halts": "a gap that stays",
    "idle-checkpoints-hurry": "a checker of how often an idle feed writes",
    "one-shape-overtakes-the-other": "a table under two shapes with no statement between them",
    "had-whole-beside-the-last-holder": "the same",
    "never-full": "a checker of the inbox between two steps",
    "stuck-order-not-seen-while-resting": "longer lock waits beside failing batches",
    "stuck-order-next-one-only": "a stuck commit order with three batches in it",
    "wish-row-by-row": "a checker that everything parked can be applied once the target is mended",
    "orphan-not-tried-again": "a log that has children before their parents",
    "emptied-with-the-rows-of-others": "a TRUNCATE of one of two tables that become one",
    "chunk-goes-on-with-a-partial-key-change": "a row of a copied table that changes its key and is not told whole",
    "insert-over-a-row-that-is-there": "rows of others under keys that the source gives later",
    "an-equal-version-is-written": "tables with a version column",
    "retry-compares-nothing": "an operator who retries rows that are not as before",
    "values-left-alone-are-nobodys": "more values that an arbiter's change at the spoke lets go of (worlds "
    "28,000,229 and 28,000,253, which `test_a_world_that_failed_once_is_clean` runs)",
    "covered-stay-as-they-are": "more readers that begin anew behind an echo; a test notices `covered-rows-stay`",
}
