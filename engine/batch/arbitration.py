"""Questions to the target of a feed to an arbiter of conflicts: to decide about a change, and to tell rows.

The search for a bad row ends at one change that the target does not take: a row is not as the change's before-image, a
unique value is another row's.  That change is sent once more, alone, to be decided about; where the target has said
which rows are in conflict (`conflict_cut`), several are sent at once, untried.  If what was decided cannot be written
either, it is sent alone to be kept out, and if not even that can be, it is parked as it is.

Whatever is parked leaves the arbiter's row as it is, so that row is told to the spoke: for each change that waits
behind a parked one of its row too, since the spoke has written it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.batch.commit_times import CommitTimes
from tidelock.engine.batch.parked_rows import parked_row
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.errors import Failure, breaks_foreign_key
from tidelock.engine.model.options import Options
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import DecideChange, RowsToTell
from tidelock.engine.two_way.deciding import keys_of


def questions(
    changes: Sequence[Change],
    refusals: Sequence[Failure],
    options: Options,
    id_: EffectId,
    origin: Origin | None,
    times: CommitTimes,
) -> tuple[DecideChange, ...]:
    """Returns what the target is to decide.  `refusals`: by the target, of the changes as they came, then of what was
    decided about the only one, if that was.  `id_`: of the batch; `origin`: where the changes had been.  `times`: when
    they were committed."""
    first, *others = refusals
    refused = others[0].message if others else ""
    by_time = {name for name, words in options.policies.items() if words.by_time}
    return tuple(
        DecideChange(
            change.binding,
            change.before,
            change.after,
            options.policies.get(change.binding.name, TableWords()),
            parked_row(change, refused or first.message, id_, n, origin=origin),
            refused,
            bool(others) and breaks_foreign_key(others[0]),
            options.clock if change.binding.name in by_time else None,
            times.of(change),
        )
        for n, change in enumerate(changes)
    )


def told(parked: Sequence[Change]) -> tuple[RowsToTell, ...]:
    """Returns the rows that are told as these changes are parked."""
    keys: dict[Binding, dict[Row, None]] = {}
    for change in parked:
        concerned = keys_of(change.binding, change.before, change.after)
        keys.setdefault(change.binding, {}).update(dict.fromkeys(concerned))
    return tuple(RowsToTell(binding, list(rows)) for binding, rows in keys.items())
