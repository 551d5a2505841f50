"""`tidelock status` for a feed with a Hive target."""

from __future__ import annotations

from tidelock.adapters.cli.failure import OK
from tidelock.adapters.cli.output import print_facts, print_json, span
from tidelock.adapters.config.feed import Feed


def status(feed: Feed, json: bool) -> int:
    """Prints the state of the feed; returns the exit code."""
    from tidelock.adapters.hive.status import feed_status

    seen = feed_status(feed)
    if json:
        print_json(seen)
        return OK
    facts = [("feed", seen.feed), ("source", seen.source), ("target", seen.target)]
    if seen.merge < 0:
        facts.append(("state", "has never run"))
        print_facts(facts)
        return OK
    if seen.copy is not None:
        waits = f"the log is to be followed to {seen.copy.end}" if seen.copy.end else "rows are being read"
        facts.append(("copy", f"{len(seen.copy.loaded)} tables loaded, {len(seen.copy.pending)} to be read; {waits}"))
    facts.append(("last merge", f"number {seen.merge}, {span(seen.merge_seconds)} ago, {seen.last:,} changes"))
    facts += [("changes", f"{seen.changes:,} merged in all"), ("position", str(seen.position))]
    facts.append(("source", f"its log ends at {seen.source_end}" if seen.source_end else seen.source_error))
    facts.append(("lag", _lag(seen.lag_seconds)))
    facts.append(("tables", ", ".join(seen.tables) or "none yet"))
    print_facts(facts)
    return OK


def _lag(seconds: float | None) -> str:
    if seconds is None:
        return "not known: no change was merged yet"
    return f"the last change merged is {span(seconds)} old" if seconds else "none: the tables are the source's"
