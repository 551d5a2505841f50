"""Rows that were deleted, as others are to have their unique values (`on_conflict: replace`), and how they are told.

The deleting statement adds their keys to a setting of the session, which a rollback undoes with it.  It is read once
the transaction stands.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.engine.protocol.steps import DeleteRows, Step

log = logging.getLogger(__name__)

_SETTING = "tidelock.replaced"
_TAKE = f"SELECT current_setting('{_SETTING}', true), set_config('{_SETTING}', '', false)"


def may_replace(steps: Sequence[Step]) -> bool:
    """Tell whether a row may be deleted for another."""
    return any(not isinstance(step, DeleteRows) and step.replaces for step in steps)


def note_replaced(deleting: str, table: str) -> str:
    """SQL of a DELETE that returns keys as `k`, with a note of them; `table`: for people."""
    name = table.replace("'", "''")
    fresh = f"(SELECT string_agg('{name}: ' || replace(left(k, 200), chr(10), ' '), chr(10)) FROM gone)"
    known = f"nullif(current_setting('{_SETTING}', true), '')"
    return f"WITH gone AS ({deleting}) SELECT set_config('{_SETTING}', concat_ws(chr(10), {known}, {fresh}), false)"


async def tell_replaced(session: TargetSession) -> int:
    """Log the rows that the session noted, and return how many; none where the connection is lost meanwhile."""
    with contextlib.suppress(*SERVER_ERRORS):
        (keys, _) = await session.connection.fetchrow(_TAKE)
        rows = [line for line in (keys or "").split("\n") if line]
        for row in rows:
            log.warning("a row of the target was deleted, as another is to have its unique value: %s", row)
        return len(rows)
    return 0
