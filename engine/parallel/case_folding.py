"""Index-wide locks, for indexes whose equality cannot be computed exactly for every value.

Printable ASCII folds exactly, so such a value takes its own key, and the index-wide lock in mode S.  Any other value
may be equal to many: it takes the index-wide lock in mode X (slow, never wrong).
"""

from __future__ import annotations

from tidelock.engine.model.index import FOLDS, Index
from tidelock.engine.model.records import Row
from tidelock.engine.parallel.lock_request import LockRequest, RequestKeys, S, X, changed


def index_wide_requests(index: Index) -> RequestKeys:
    """Requests the index-wide lock of an index that folds case, whose own keys are exclusive.

    The answers are few and always the same lists, so that a window need not look into each (`Dispatcher.plan`).
    """
    key = index.index_wide()
    none: list[LockRequest] = []
    shared: list[LockRequest] = [(key, S)]
    exclusive: list[LockRequest] = [(key, X)]
    columns = [(p, FOLDS.get(e)) for p, e in zip(index.positions, index.equalities, strict=True)]

    def wanted(row: Row | None) -> list[LockRequest]:
        if row is None:
            return none
        answer = shared
        for position, fold in columns:
            value = row[position]
            if value is None:
                return none
            if fold is not None and fold(value) is None:
                answer = exclusive
        return answer

    def requests(before: Row | None, after: Row | None) -> list[LockRequest]:
        if before is None or after is None:
            return wanted(before) or wanted(after)
        if not index.is_key and not changed(index.positions, before, after):
            return none
        one, other = wanted(before), wanted(after)
        return one if one is exclusive or not other else other

    return requests
