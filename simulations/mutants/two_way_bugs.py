"""The eighty bugs of two-way replication that are to be found dead, and by what each of them dies.

`python -m tidelock.simulations.mutants.two_way_bugs` prints the table of `docs/explanation/two-way-bugs.md`.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Bug(msgspec.Struct, frozen=True):
    """`number`: a history, or B… where it has none.  `worlds`: mutants that random worlds notice.  `rules`: of the
    explorer, which finds the shortest history without them.  `tested`: mutants that a test notices.  `tests`: broken by
    hand.  `why`: what a random world lacks, where none notices it."""

    number: str
    wrong: str
    worlds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    why: str = ""


HOLD: Final = "no feed holds rows"
BYTES: Final = "worlds have no bytes of a log"
SERVER: Final = "a server's own setting or slot"

BUGS: Final = (
    Bug("1", "nothing is sent back", ("no-echo",), ("echo",)),
    Bug("2", "echoes do not count as sent", ("echoes-not-counted", "verdict-not-counted"), ("echoes-count",)),
    Bug("3", "`seen` is taken when a change is read", ("seen-when-it-is-read",), ("seen-in-place",)),
    Bug("4", "a reader begins anew and remembers nothing", ("no-floor",), ("floor",)),
    Bug("5", "`seen` of the first site in a chain", ("seen-of-the-forwarded",), ("forwarder",)),
    Bug(
        "6",
        "echo by the row alone",
        ("registers-of-keys-alone", "registers-of-the-new-row-alone"),
        ("unique-registers",),
    ),
    Bug("7", "a refusal without a verdict", ("no-verdict", "no-verdict-for-those-behind"), ("verdict",)),
    Bug("8", "a row is dropped for another that shares a value", (), ("hold-by-key",), ("hold-drops",), why=HOLD),
    Bug("9", "a row is dropped that should wait", (), ("hold-not-drop",), ("hold-drops",), why=HOLD),
    Bug("10", "what waits counts as seen", (), ("held-unseen",), ("held-row-behind-the-checkpoint",), why=HOLD),
    Bug(
        "11",
        "inserted and deleted in one batch is nothing",
        ("fresh-is-believed", "come-and-gone-is-nothing"),
        ("last-image",),
        ("inserted-and-deleted-is-nothing",),
    ),
    Bug(
        "12",
        "what the spoke's server lost never comes back",
        (),
        ("rewound",),
        ("what-the-spoke-lost-is-known-as-sent",),
        why="worlds of servers that lose commits are to come",
    ),
    Bug("13", "both sides: the source wins", ("what-comes-stays",), ("source-wins",)),
    Bug("14", "both sides: the target wins", ("what-is-there-stays",), ("target-wins",)),
    Bug("15", "stamps are compared on a mismatch only", ("equal-rows-are-not-compared",), ("always-stamps",)),
    Bug("16", "no tombstones", ("tombstones-stay-at-home", "tombstone-leaves-the-row"), ("tombstones",)),
    Bug("17", "an update of a row that is not there is skipped", ("missing-rows-are-not-written",), ("missing",)),
    Bug("18", "equal times, and nobody decides", ("later-time-or-what-comes", "greater-site-first"), ("ties",)),
    Bug("19", "a stamp below that of the row it writes over", ("clock-alone",), ("monotone",)),
    Bug(
        "20",
        "a tombstone is forgotten too early",
        ("round-without-waiting", "round-of-one-feed", "tombstones-go-when-all-have-them", "no-floor-for-stamps"),
        ("purge-rounds", "purge-floor"),
    ),
    Bug(
        "21",
        "looked for a tombstone before the wait for a lock",
        ("looks-before-it-writes", "look-does-not-wait"),
        ("write-then-look",),
    ),
    Bug(
        "21a",
        "the same with an insert of the application",
        ("stamped-before-it-waits", "old-view-is-believed"),
        ("stamp-then-write",),
    ),
    Bug("22", "the stamp is the forwarder's commit time", ("forwarders-time",), ("own-stamp",)),
    Bug("23", "what is replicated goes no further; or a mark tells the last site alone",
        ("replicated-goes-no-further", "path-of-last-hop"), ("whole-path",)),
    Bug("24", "rows of several paths under one mark",
        ("one-mark-for-all", "paths-overtake", "paths-of-whole-transactions")),
    Bug("24a", "an echo keeps its path", ("echo-keeps-its-path",), ("fresh-path",)),
    Bug("25", "a site under two names", ("two-names-of-one-site",)),
    Bug("26", "the target does not log its bookkeeping", ("marks-are-not-logged",)),
    Bug("27", "a slot that was made anew is read on", tests=(
        "tests/adapters/test_postgres_slot_halts.py::test_a_slot_that_was_made_anew_halts",), why=SERVER),
    Bug("28", "behind a failover places of another timeline are taken for this one's", (), (), (
        "place-behind-the-fork",), why=SERVER),
    Bug("29", "what was received is confirmed", tests=(
        "tests/adapters/test_postgres_source.py::test_the_slot_follows_the_stored_checkpoint_and_never_passes_it",),
        why=SERVER),
    Bug("30", "a unique value that is given up unseen", ("unseen-value-locks-nothing",)),
    Bug("31", "a value that the update left alone is lost", ("key-change-of-a-partial-row-is-delete-and-insert",)),
    Bug("32", "a role writes days first", tests=(
        "tests/adapters/test_postgres_source.py::test_a_role_that_writes_days_first",), why=BYTES),
    Bug("33", "a column is added whose old rows have values of their own", (), (), (
        "default-of-each-row-carried-over",), why=SERVER),
    Bug("34", "a mesh that forwards", ("forwards-in-a-mesh",)),
    Bug("35", "a trigger's rows count as replicated", (), (), ("triggers-not-told",), (
        "tests/adapters/test_pair.py::test_what_only_shows_where_both_sites_write",),
        why="worlds have no triggers: `check` tells them"),
    Bug("36", "the mark is in the first part of a transaction alone",
        ("mark-of-first-part-alone", "mark-not-read-again")),
    Bug("37", "rows are copied before the place of the way back is fixed", (), (), (
        "way-back-placed-behind-the-copy",), why="worlds begin with sites whose feeds have their places"),
    Bug("38", "idle feeds wake each other for ever", ("idle-feeds-keep-each-other-awake",)),
    Bug("B1", "the mark behind the first row", ("mark-behind-first-row",)),
    Bug("B2", "no mark in the second part", ("mark-of-first-part-alone", "large-transaction-unmarked")),
    Bug("B3", "a path without the forwarder", ("path-without-forwarder",)),
    Bug("B4", "a batch merges two paths", ("paths-share-a-batch",)),
    Bug("B5", "`seen` of the newest change of a batch",
        ("seen-of-the-newest", "seen-of-the-newest-at-the-arbiter", "seen-of-the-last-in-a-batch-of-the-log"),
        ("least-seen",)),
    Bug("B6", "`seen` of another feed", ("seen-of-another-feed", "seen-of-the-forwarded"), ("right-feed",)),
    Bug("B7", "`seen` compared as text", ("seen-compared-as-text",)),
    Bug("B8", "an index pruned too far", ("pruned-too-far",), ("pruned",), ("floor-below-what-was-forgotten",)),
    Bug("B9", "a full index forgets silently", ("floor-not-raised-when-full",), ("full",)),
    Bug("B10", "rows of other spokes go by the rule of echoes", ("others-rows-as-echoes",), ("own-alone",)),
    Bug("B11", "an echo of the whole transaction; a part that stands where its transaction begins",
        ("echo-of-the-whole-transaction", "part-has-the-place-of-its-transaction"), (),
        ("part-placed-before-its-rows", "echo-of-all-rows")),
    Bug("B12", "a verdict in a transaction of its own",
        ("verdict-in-a-transaction-of-its-own", "verdict-without-a-lock")),
    Bug("B13", "a displaced row is not recorded", ("displaced-not-recorded",), ("recorded",)),
    Bug("B14", "a row makes room by the wrong index", (), (), ("displaced-for-a-value-that-nobody-gets",),
        why="a row less is recorded, and sites are equal: no promise tells it"),
    Bug("B15", "`delta` is added once more after a lost answer", ("answer-lost-and-asked-under-another-id",), (),
        ("question-asked-under-another-id",)),
    Bug("B16", "`delta` of NULL", ("delta-of-null-is-tried",), (), ("delta-of-null",)),
    Bug("B17", "a delete touches no group", (), ("groups-of-deletes",), ("deletes-touch-no-group",),
        why="feeds send by whole rows, whatever groups a table has"),
    Bug("B18", "tombstones by spelling", (), (), ("tombstone-by-spelling",), why="stamps refuse a key that folds"),
    Bug(
        "B19",
        "a changed key leaves no tombstone",
        ("moved-without-a-tombstone", "moved-by-its-own-stamp-alone"),
        tested=("changed-key-leaves-no-tombstone",),
    ),
    Bug("B20", "a tie is broken by the local site", ("later-time-or-what-is-there",), ("own-ties",)),
    Bug("B21", "a probe of an old session proves", ("probe-of-an-old-session",)),
    Bug("B22", "a permit opens on one probe", ("permit-without-a-probe", "permit-by-one-side"), ("permit-probe",)),
    Bug("B23", "the checkpoint passes what waits", (), ("held-checkpoint",), ("held-row-behind-the-checkpoint",),
        why=HOLD),
    Bug("B24", "a receipt of another epoch lets go what waits", (), ("own-receipts",), (
        "held-row-freed-by-another-log",), why=HOLD),
    Bug("B25", "rows are read before they are visible", ("reader-does-not-wait",)),
    Bug("B26", "a place is taken before what it stands for was read", ("deletes-not-remembered",)),
    Bug("B27", "confirmed at the commit, not its end", (), (), ("confirmed-at-the-commit",), why=BYTES),
    Bug("B28", "a keepalive inside a transaction is a place", (), (), ("keepalive-inside-a-transaction",), why=BYTES),
    Bug("B29", "tables by name, not by oid", (), (), ("tables-by-name",), why=BYTES),
    Bug("B30", "tables are kept over a connection", (), (), ("tables-kept-over-a-connection",), why=BYTES),
    Bug("B31", "the whole value of another row", ("unknown-filled-from-another-row",), (),
        ("long-value-of-another-row",)),
    Bug("B32", "an old key is read as an old row", (), (), ("old-key-is-a-whole-row",), why=BYTES),
    Bug("B33", "a TRUNCATE of two tables empties one", (), (), ("truncate-of-the-first-table",), why=BYTES),
    Bug("B34", "an origin or an unknown message is passed over", (), (), (
        "unknown-message-skipped", "origin-skipped"), why=BYTES),
    Bug("B35", "the timeline is part of the identity", (), (), ("timeline-in-the-identity",), why=SERVER),
    Bug("B36", "a slot is made behind the checkpoint", (), (), ("new-slot-behind-the-checkpoint",), why=SERVER),
    Bug("B37", "the sister's halt is read from one's own row", (), (), ("own-row-read-for-the-sisters",),
        why="a row of another feed is refused, in worlds too"),
    Bug("B38", "a spoke that lost commits is sent what stands behind the checkpoint alone", (), ("rewound",), (
        "what-the-spoke-lost-is-known-as-sent",), why="worlds of servers that lose commits are to come"),
    Bug("B39", "a comment in a user's statement is taken for ours", (), (), ("comment-passed-over",),
        why="statements carry no mark of ours: an operator does them at the other site"),
    Bug("B40", "a conflict counts twice after a lost answer", (), (), ("question-asked-under-another-id",),
        why="decisions are counted by the run, which no promise tells"),
)  # fmt: skip


def table() -> list[str]:
    """Returns the lines of the table."""
    lines = ["| bug | | dies by | no world, since |", "|---|---|---|---|"]
    for bug in BUGS:
        dies = [f"worlds: {_quoted(bug.worlds)}"] if bug.worlds else []
        dies += [f"explorer: {_quoted(bug.rules)}"] if bug.rules else []
        dies += [f"test: {_quoted(bug.tested)}"] if bug.tested else []
        dies += [f"by hand: {_quoted(bug.tests)}"] if bug.tests else []
        lines.append(f"| {bug.number} | {bug.wrong} | {'; '.join(dies)} | {bug.why} |")
    return lines


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name.removeprefix('tests/adapters/')}`" for name in names)


if __name__ == "__main__":
    print(*table(), sep="\n")
