"""Steps that look at the target's rows before they change them: for targets where somebody else may write too.

`verify: image` compares each row with its before-image, and an insert must find none.  A fold keeps the row's first
before-image, which is what the target holds before the batch, so the folded steps carry those; a batch in log order
carries each change's own.  A fold needs each row's changes to be a chain (`row_chains`), else the batch runs in log
order.  A row that is inserted and deleted in one batch folds to nothing: first of all it is seen that none is there.
Where the target may take two keys for one, what is there may be a row that leaves in this very batch, which then runs
in log order.

`verify: version` writes only what has a higher version than the target's row.  A fold would write the last image of a
row, though an earlier one may have the higher version, so these batches always run in log order.

`on_conflict: replace` deletes rows that hold a unique value which another row is to have.  Only a batch in log order
can tell that no change before it frees the value, and none of the table may be parked, as that may be what frees it:
so it is allowed while a bad row is looked for, where the table has no parked rows.

Where rows were left behind, by a filter that became narrower, one that is inserted may find its former self, whose
unique values are older too.  It is written over whole: else a plain insert that finds its key leaves those as they are
(`UpsertRows`), for which the log has no reason here.

Sites without an arbiter write what has the greater stamp (`engine.batch.stamp_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice

from tidelock.engine.batch.blind_steps import blind_steps, displacing_steps, require_blind
from tidelock.engine.batch.group_steps import by_groups
from tidelock.engine.batch.merge import Fold, Ranks, fold, in_log_order, merge, set_based
from tidelock.engine.batch.parked_rows import ParkedRows
from tidelock.engine.batch.row_chains import breaks
from tidelock.engine.batch.stamp_steps import require_stamps, stamp_steps
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Kind, Row, TableName
from tidelock.engine.model.schema import Binding, Equality, SchemaMismatch
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.engine.two_way.table_policies import problems

_ORDERED = (Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
MakeSteps = Callable[[Sequence[Change], Ranks], list[Step]]


def maker(options: Options) -> MakeSteps:
    """Returns what makes the steps of a batch under these options."""
    if (stamp := options.stamp) is not None:
        return lambda changes, ranks: stamp_steps(changes, stamp)
    if options.direction == "down":
        words = options.policies
        return lambda changes, ranks: by_groups(blind_steps(changes, ranks), changes, words)
    if options.verify == "image" or options.direction == "up":
        return image_steps
    if options.verify == "version":
        return lambda changes, ranks: version_steps(changes, options)
    if left := frozenset(options.left_behind):
        return lambda changes, ranks: _over_what_was_left(merge(changes, ranks), left)
    return merge


def maker_in_order(options: Options) -> Callable[[Sequence[Change]], list[Step]]:
    """Returns what makes the steps of a batch that runs in log order under these options."""
    if (stamp := options.stamp) is not None:
        return lambda changes: stamp_steps(changes, stamp)
    if options.direction == "down":
        words = options.policies
        return lambda changes: by_groups(displacing_steps(changes), changes, words)
    if options.verify == "image" or options.direction == "up":
        return image_steps_in_order
    if options.verify == "version":
        return lambda changes: version_steps(changes, options)
    if left := frozenset(options.left_behind):
        return lambda changes: _over_what_was_left(in_log_order(changes), left)
    return in_log_order


def require(binding: Binding, options: Options) -> None:
    """Raises SchemaMismatch where rows of the table cannot be looked at as the options want it."""
    if options.stamp is not None:
        require_stamps(binding, options.stamp)
    if options.direction == "down":
        require_blind(binding)
    elif options.direction == "up":
        _require_decidable(binding, options)
    if options.verify == "off":
        return
    name, wish = binding.shape.name, f"`verify: {options.verify}`"
    if binding.partial:
        raise SchemaMismatch(
            f"{wish} needs whole before-images, and of a row of {name} that is updated or deleted the source logs its "
            "key alone; run ALTER TABLE … REPLICA IDENTITY FULL on it at the source, or set `verify: off`"
        )
    if options.verify == "image":
        return
    column = options.versions.get(binding.name, "")
    if not binding.key:
        raise SchemaMismatch(f"{wish} needs a key, and {binding.name} has none; give it one, or set `verify: off`")
    if _position(binding, column) < 0:
        raise SchemaMismatch(
            f"{wish}: {binding.name} is written without the version column {column or '(none is named)'}; name one "
            "that the feed replicates (tables: version), or set `verify: off`"
        )
    if (kind := binding.shape.columns[_position(binding, column)].kind) not in _ORDERED:
        raise SchemaMismatch(
            f"{wish}: {binding.name}.{column} is {kind}, whose order is not the same everywhere; name a column of "
            "numbers without a floating point, of dates or of times, or set `verify: off`"
        )
    if next(c for c in binding.target.columns if c.name == column).nullable:
        raise SchemaMismatch(
            f"{wish}: {binding.name}.{column} may be NULL, which is no version; make it NOT NULL at the target, or set "
            "`verify: off`"
        )


def _require_decidable(binding: Binding, options: Options) -> None:
    words = options.policies.get(binding.name, TableWords())
    if problem := next(problems(words, binding), ""):
        raise SchemaMismatch(
            f"conflicts of {binding.name} cannot be decided: {problem}; or leave the table out of the feed"
        )


def _position(binding: Binding, column: str) -> int:
    """Returns where the column is in a row, -1 where no row that is written has it."""
    columns = zip(binding.shape.columns, binding.columns, strict=True)
    names = [logged.name if written is not None else "" for logged, written in columns]
    return names.index(column) if column and column in names else -1


def _over_what_was_left(steps: list[Step], tables: Container[TableName]) -> list[Step]:
    """Returns the steps with inserts that write over rows of their keys in these tables."""
    return [
        UpsertRows(step.table, step.rows, fresh=True, blind=True)
        if isinstance(step, UpsertRows) and step.fresh and step.table.key and step.table.name in tables
        else step
        for step in steps
    ]


# ---------------------------------------------------------------------- image


def image_steps(changes: Sequence[Change], ranks: Ranks) -> list[Step]:
    """The steps of one batch whose rows are compared with their before-images."""
    steps = set_based(changes, ranks) if next(breaks(changes), None) is None else None
    return image_steps_in_order(changes) if steps is None else _with_first_images(steps, changes)


def _with_first_images(steps: list[Step], changes: Sequence[Change]) -> list[Step]:
    """Returns the steps with the before-image that each row had first."""
    folded = fold(changes)
    unseen = list(_nothing_there(folded))
    if not all(_has_exact_key(step.table) for step in unseen):
        return image_steps_in_order(changes)
    first: dict[Binding, dict[Row, Row]] = {
        binding: {binding.key_of(before): before for before, _ in rows.values() if before is not None}
        for binding, rows in folded.items()
    }
    checked = [_with_images_of(step, first[step.table]) if _is_compared(step.table) else step for step in steps]
    return [*unseen, *checked]


def _has_exact_key(binding: Binding) -> bool:
    """Tells whether keys that differ in the log are those of different rows at the target."""
    equality = {column.name: column.equality for column in binding.target.columns}
    return all(equality[name] is Equality.EXACT for name in binding.target.key)


def _nothing_there(folded: dict[Binding, Fold]) -> Iterator[Step]:
    """Yields what sees that the rows are not there that come and go in one batch."""
    for binding, rows in folded.items():
        keys = [key for key, (before, after) in rows.items() if before is None and after is None]
        if keys and _is_compared(binding):
            yield DeleteRows(binding, keys if len(binding.key) > 1 else [(key,) for key in keys], absent=True)


def _with_images_of(step: Step, first: dict[Row, Row]) -> Step:
    table = step.table
    if isinstance(step, DeleteRows):
        return DeleteRows(table, step.keys, [first[key] for key in step.keys])
    if isinstance(step, UpdateRows):
        return UpdateRows(table, step.keys, step.rows, step.moves, [first[key] for key in step.keys])
    if step.fresh:
        return UpsertRows(table, step.rows, fresh=True, absent=True)
    keys = [table.key_of(row) for row in step.rows]
    return UpdateRows(table, keys, step.rows, moves=False, befores=[first[key] for key in keys])


def image_steps_in_order(changes: Sequence[Change]) -> list[Step]:
    """The same, one change after another."""
    steps, following = in_log_order(changes), iter(changes)
    for step in (steps := _last_alone(steps)):
        own = list(islice(following, len(step.rows if isinstance(step, UpsertRows) else step.keys)))
        if not _is_compared(step.table):
            continue
        if isinstance(step, UpsertRows):
            step.absent = True
        else:
            step.befores = _before_images(own)
    return steps


def _last_alone(steps: list[Step]) -> list[Step]:
    """Returns the steps with the last change in a step of its own: where a search ends at it, its error is told."""
    if not steps:
        return steps
    *others, last = steps
    match last:
        case DeleteRows() if len(last.keys) > 1:
            parts: list[Step] = [DeleteRows(last.table, keys) for keys in (last.keys[:-1], last.keys[-1:])]
        case UpsertRows() if len(last.rows) > 1:
            parts = [UpsertRows(last.table, rows, last.fresh) for rows in (last.rows[:-1], last.rows[-1:])]
        case UpdateRows() if len(last.keys) > 1 and not last.moves:
            keys, rows = last.keys, last.rows
            parts = [UpdateRows(last.table, keys[at], rows[at], moves=False) for at in (slice(-1), slice(-1, None))]
        case _:
            return steps
    return [*others, *parts]


def _is_compared(binding: Binding) -> bool:
    """Without a key the whole row tells it from others already."""
    return bool(binding.key) and not binding.partial


def _before_images(changes: Sequence[Change]) -> list[Row]:
    return [change.before for change in changes if change.before is not None]


# ---------------------------------------------------------------------- version


def version_steps(changes: Sequence[Change], options: Options) -> list[Step]:
    """The steps of one batch of which only what has a higher version than the target's row is written.

    Raises SchemaMismatch for a parked change that has no version."""
    steps, following = in_log_order(changes), iter(changes)
    for step in steps:
        own = list(islice(following, len(step.rows if isinstance(step, UpsertRows) else step.keys)))
        require(step.table, options)
        step.version = _position(step.table, options.versions[step.table.name])
        if not isinstance(step, UpsertRows):
            step.befores = _before_images(own)
    return steps


# ---------------------------------------------------------------------- replace


def let_replace(steps: list[Step], parked: ParkedRows, aside: Sequence[Change]) -> None:
    """Lets the steps of a batch in log order replace rows of the target, where no parked change may explain them.

    `aside`: changes that this batch parks."""
    being_parked = {change.binding.name for change in aside}
    for step in steps:
        table = step.table
        if not isinstance(step, DeleteRows) and table.key and not table.has_unlogged_unique_column:
            told = not any(unique.opaque for unique in table.target.uniques)
            free = table.name not in being_parked and not parked.of(table.name)
            step.replaces = told and free and step.version < 0  # an older row must not make a newer one go

