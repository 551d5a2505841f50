"""Checks whether rows of a table can be looked at before they are written, as `verify` or an arbiter of conflicts asks,
and what is not compared."""

from __future__ import annotations

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.config.apply_options import policies_of, version_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.finding import Finding, error, note
from tidelock.adapters.target.compared_columns import left_out
from tidelock.engine.batch.checked_steps import require
from tidelock.engine.model.options import Options
from tidelock.engine.model.schema import Binding, SchemaMismatch


def check_looks(feed: Feed, pair: CheckedTable) -> list[Finding]:
    """Lists what `verify`, or an arbiter of conflicts, cannot do for a table."""
    if feed.verify == "off" and feed.direction == "none":
        return []
    name = pair.target.name
    try:
        binding = Binding(0, pair.source.shape, pair.target)
    except SchemaMismatch:  # a column is missing, as is said elsewhere
        return []
    options = Options(
        verify=feed.verify,
        versions={name: version_of(feed, name)},
        direction=feed.direction,
        policies=policies_of(feed, [name]),
    )
    try:
        require(binding, options)
    except SchemaMismatch as mismatch:
        problem, _, hint = str(mismatch).partition("; ")
        code = "verify-impossible" if feed.direction == "none" else "conflicts-impossible"
        return [error(code, problem, hint[:1].upper() + hint[1:])]
    if feed.direction == "up":
        columns = ", ".join(f"{column} ({why})" for column, why in left_out(binding, pair.dialect))
        words = f"a change of these columns of {name} at both sites is seen as no conflict: {columns}"
        return [note("conflicts-left-out", words, "The spoke's row stands then")] if columns else []
    if feed.verify != "image":
        return []
    if not binding.key:
        return [note("verify-no-key", f"{name} has no key, so `verify: image` does not compare its rows")]
    columns = ", ".join(f"{column} ({why})" for column, why in left_out(binding, pair.dialect))
    hint = "What somebody else writes there goes unseen by the feed; `tidelock verify` finds it"
    return [note("verify-left-out", f"`verify: image` does not compare of {name}: {columns}", hint)] if columns else []
