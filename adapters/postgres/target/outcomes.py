"""The end of a transaction of ours, in the engine's words."""

from __future__ import annotations

from tidelock.adapters.postgres.target.bookkeeping_sql import is_fenced, is_outvoted
from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import failure_of
from tidelock.adapters.postgres.target.values import Unwritable
from tidelock.engine.model.errors import ErrorKind, Failure

FENCED = Failure(ErrorKind.FENCED, "a newer owner has taken the feed over, or its bookkeeping is gone")
OUTVOTED = Failure(ErrorKind.TRANSIENT, "a group has a newer owner than the one that voted for the statement")
LOST = Failure(
    ErrorKind.COMMITS_LOST,
    "the target lost transactions it had reported as committed (a crash or a failover)",
)


def outcome(error: BaseException, *, committing: bool, tables: str = "") -> Failure:
    """Say what `error` means: of a value, of the fence, of the driver or the server.

    `committing`: a COMMIT was on its way.  `tables`: named where the server's message names none.
    """
    match error:
        case LostCommits():
            return LOST
        case Unwritable():
            return Failure(ErrorKind.ROW, str(error))
        case _ if is_outvoted(error):
            return OUTVOTED
        case _ if is_fenced(error):
            return FENCED
        case _:
            return failure_of(error, committing=committing, tables=tables)
