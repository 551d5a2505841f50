"""A batch of an arbiter's log of which some rows want what rows of the spoke's own hold, for tests of both sinks.

Rows are (id, u, x), u unique.  Of 200 changes 20 want a value of the spoke's own rows, which are to make room; in pairs
of others values change hands; and one wants what the spoke has written to a row that the batch writes too.
"""

from tests.engine.world import change
from tidelock.engine.batch.blind_steps import displacing_steps
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import Step, UpsertRows

OWN = [(1000 + n, f"v{n}", 1) for n in range(20)]
"""The spoke's own rows."""
BEFORE: list[Row] = [(n, f"w{n}", 0) for n in range(100)]
"""Rows that the log has given it before."""
AT_SPOKE: list[Row] = [*((60, "w120", 1) if row[0] == 60 else row for row in BEFORE), *OWN]


def _log() -> list[tuple[Row | None, Row | None]]:
    log: list[tuple[Row | None, Row | None]] = [(BEFORE[n], (n, f"v{n}", 1)) for n in range(20)]
    for n in range(20, 40, 2):  # both values are swapped
        one, other = BEFORE[n], BEFORE[n + 1]
        log += [(one, (n, None, 0)), (other, (n + 1, f"w{n}", 1)), ((n, None, 0), (n, f"w{n + 1}", 1))]
    for n in range(40, 60):  # a new row gets the value of one that goes
        log += [(BEFORE[n], None), (None, (n + 200, f"w{n}", 1))]
    log += [(BEFORE[60], (60, "w60", 1))]
    log += [(None, (n, f"w{n}", 1)) for n in range(100, 209)]
    return log


LOG = _log()


def steps(binding: Binding) -> list[Step]:
    """The steps of the batch, and a check that one of them writes many rows."""
    changes = [change(binding, before, after, number=n) for n, (before, after) in enumerate(LOG)]
    assert len(changes) == 200
    made = displacing_steps(changes)
    assert [len(step.rows) for step in made if isinstance(step, UpsertRows)] == [170]
    return made


def expected() -> list[Row]:
    """Rows that the spoke has afterwards, by id."""
    rows = {row[0]: row for row in BEFORE}
    for before, after in LOG:
        if before is not None:
            del rows[before[0]]
        if after is not None:
            rows[after[0]] = after
    return [rows[id_] for id_ in sorted(rows)]


def recorded() -> list[tuple[int, str]]:
    """The change, by its number, and the key of each row that makes room."""
    return [(n, f"id={1000 + n}") for n in range(20)]
