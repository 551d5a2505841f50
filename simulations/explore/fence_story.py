"""A way through the fence model as a transcript: what each owner hears and wants, as `engine.replay` spells it, and
what the target does in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.engine.replay import spell_effect, spell_event, spell_id
from tidelock.simulations.explore.fence import FenceModel
from tidelock.simulations.explore.search import Move


def told(model: FenceModel, way: Sequence[Move]) -> list[str]:
    """`model`: at its start.  It takes the moves, of which the last, or what comes after it, may break it."""
    lines = [*_heard(model, ())]
    try:
        for move in way:
            before = tuple(owner.node for owner in model.state.owners)
            lines += _done(model, move)
            model.take(move)
            lines += _heard(model, before)
        model.moves()
    except AssertionError as error:
        lines.append(f"  ✗ {str(error) or repr(error)}")
    return lines


def _done(model: FenceModel, move: Move) -> Iterator[str]:
    """Tell what happens at the target."""
    match move:
        case ("open" | "commit" as verb, order):
            yield f"target: {verb} {spell_id(model.id(order))}"
        case ("doubt", order, bool(landed)):
            what = "takes place" if landed else "does not take place"
            yield f"target: {spell_id(model.id(order))} {what}, and the answer is lost"
        case ("raise",):
            yield f"target: a new owner raises the epoch to {model.state.epoch + 1}"


def _heard(model: FenceModel, before: Sequence[int]) -> Iterator[str]:
    """Tell what owners were told, and what they want done."""
    for number, owner in enumerate(model.state.owners):
        if owner.node and (number >= len(before) or owner.node != before[number]):
            _, event = model.tree.history(owner.node)[-1]
            for line in spell_event(event):
                yield f"owner {number + 1}: {line}"
            for effect in model.tree.effects(owner.node):
                yield f"  → {spell_effect(effect)}"
