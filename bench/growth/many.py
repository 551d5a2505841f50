"""Questions to many tables at once: two thousand single ones would take longer than what is measured.

Tables are taken `TOGETHER` at a time, as one view of all their rows: to compare both ends, and to find out when a
PostgreSQL target committed its first and its last row.  All of them must have the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bench.harness.compare import compare
from bench.harness.session import Endpoint, connection

TOGETHER: Final = 100


def differences(source: Endpoint, target: Endpoint, tables: Sequence[str]) -> int:
    """Rows that are not the same at both ends.  `tables`: full names, the same on both."""
    if len(tables) < TOGETHER:
        return compare(source, target, tables).total
    schema = tables[0].partition(".")[0]
    views = {f"{schema}.all_{number}": _union(part, "*") for number, part in enumerate(_parts(tables))}
    for endpoint in (source, target):
        _send(endpoint, [f"CREATE VIEW {view} AS {query}" for view, query in views.items()])
    try:
        return compare(source, target, list(views)).total
    finally:
        for endpoint in (source, target):
            _send(endpoint, [f"DROP VIEW {view}" for view in views])


def _send(endpoint: Endpoint, statements: Iterable[str]) -> None:
    session, close = connection(endpoint)
    try:
        for statement in statements:
            session.send(statement)
    finally:
        close()


def commits(target: Endpoint, tables: Sequence[str]) -> tuple[float, float]:
    """Returns when the first and the last row that is there was committed, in seconds since the epoch.

    Of a row that was changed again the last change counts.  Raises ValueError where no row is there.
    """
    session, close = connection(target)
    moments = ", ".join(f"extract(epoch FROM {end}(pg_xact_commit_timestamp(xmin)))::text" for end in ("min", "max"))
    try:
        found = [session.rows(f"SELECT {moments} FROM ({_union(part, 'xmin')}) AS r")[0] for part in _parts(tables)]
    finally:
        close()
    ends = [(float(first), float(last)) for first, last in found if first]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _parts(tables: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(tables), TOGETHER):
        yield tables[start : start + TOGETHER]


def _union(tables: Sequence[str], what: str) -> str:
    return " UNION ALL ".join(f"SELECT {what} FROM {table}" for table in tables)
