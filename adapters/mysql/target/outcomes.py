"""The end of a transaction of ours, in the engine's words."""

from __future__ import annotations

from typing import Final

from tidelock.adapters.mysql.target.batch_script import BatchError
from tidelock.adapters.mysql.target.commit_audit import LostCommits
from tidelock.adapters.mysql.target.failures import (
    DEADLOCK,
    DUPLICATE,
    REFERRED_TO,
    TOO_LARGE,
    code_of,
    commit_failure,
    failure_of,
)
from tidelock.adapters.mysql.target.fencing import Fenced, Outvoted
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.session import StatementFailed, is_lost
from tidelock.engine.model.errors import ErrorKind, Failure

_PARKED: Final = "tidelock_parked"
DEADLOCKS_MAX = 3
"""Deadlocks of one batch, before the engine hears of them and lets it rest."""
LOST = Failure(
    ErrorKind.COMMITS_LOST,
    "the target lost transactions it had reported as committed (a crash or a failover, and "
    "innodb_flush_log_at_trx_commit is not 1, or its replica was behind)",
)
FENCED = Failure(ErrorKind.FENCED, "a newer owner has taken the feed over, or its bookkeeping is gone")
OUTVOTED = Failure(ErrorKind.TRANSIENT, "a group has a newer owner than the one that voted for the statement")


def is_deadlock(error: Exception) -> bool:
    """Tell whether nothing is in doubt and nothing is left of the batch, so that it may be sent again at once."""
    return isinstance(error, BatchError) and not error.commit_answered and code_of(error.error) == DEADLOCK


def is_duplicate(error: Exception) -> bool:
    """Tell whether another row holds a value that one of the batch is to have."""
    return isinstance(error, BatchError) and not error.commit_answered and code_of(error.error) == DUPLICATE


def is_referred_to(error: Exception) -> bool:
    """Tell whether rows refer to one that the batch deletes or changes."""
    return isinstance(error, BatchError) and not error.commit_answered and code_of(error.error) in REFERRED_TO


def outcome(error: Exception) -> Failure:
    """Say what `error` means: of a batch, of the fence, of the driver, or a TargetError."""
    match error:
        case LostCommits():
            return LOST
        case Fenced():
            return FENCED
        case Outvoted():
            return OUTVOTED
        case Unwritable():
            return Failure(ErrorKind.ROW, str(error))
        case BatchError() if error.commit_answered or (error.commit_sent and is_lost(error.error)):
            return commit_failure(error.error)
        case BatchError():
            return _kept(failure_of(error.error, error.table), error.table)
        case StatementFailed():
            return failure_of(error.error)
        case _:
            return failure_of(error)


def _kept(failure: Failure, table: str) -> Failure:
    """Returns the failure; of a failed row that cannot be kept: no other row can be blamed for that."""
    if failure.kind is not ErrorKind.ROW or table != _PARKED:
        return failure
    words = f"a row that it refuses cannot be kept as a failed row either: {failure.message}"
    limit = "; raise the limit (SET GLOBAL max_allowed_packet=…)" if failure.code == str(TOO_LARGE) else ""
    return Failure(ErrorKind.TARGET, words + limit, failure.code)
