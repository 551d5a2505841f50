"""The commit of a batch at the simulated target: what it changes beside the rows, and what the checkers are told."""

from __future__ import annotations

from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.log import receipts
from tidelock.engine.protocol.effects import MergeChunk
from tidelock.simulations.checkers.checker import Commit
from tidelock.simulations.lane_work import Work
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.stored import Stored


def commit(stored: Stored, work: Work) -> None:
    """Commit a batch: its rows, its receipt, what it parks, or the chunk that it merges."""
    assert work.session is not None
    effect, state, ledger = work.effect, stored.state, stored.ledger
    before = stored.database.copy() if effect.parked else None
    work.session.commit()
    state.receipts[effect.id] = effect.covered
    if work.merge is not None:
        note_merge(stored, work.merge)
    for place in effect.unparked:
        if state.parked.pop(place, None) is None:
            raise Mistake(f"{effect.id} carries out a wish for {place}, which is not parked")
    wished = {place: state.wished.get(place, "retry") for place in effect.unparked if work.merge is None}
    retried = [place for place, wish in wished.items() if wish == "retry"]
    skipped = [place for place, wish in wished.items() if wish == "skip"]
    parked = [(row.source, row.number, row.ordinal) for row in effect.parked]
    if len({*parked}) < len(parked):
        raise Mistake(f"{effect.id} parks two rows in one place: {parked}")
    for place, row in zip(parked, effect.parked, strict=True):
        state.parked[place] = (row, "")
    places = receipts.decode(effect.covered)
    aside = dict.fromkeys(parked)
    ledger.covered.update(dict.fromkeys(places, effect.id))
    unknown = any(place not in ledger.index for place in places)  # a checker will say so
    applied = [] if unknown else ledger.in_log_order([*(p for p in places if p not in aside), *retried])
    ledger.applied.update(dict.fromkeys(applied))
    ledger.skipped.update(dict.fromkeys(skipped))
    images = [ledger.images(place, stored.database) for place in applied]
    done = Commit(effect, places, applied, images, retried, skipped, parked, before, work.session.touched)
    for checker in stored.checkers:
        checker.committed(done)
    stored.flush_by_chance()


def note_merge(stored: Stored, effect: MergeChunk) -> None:
    """Note a chunk as merged, in the transaction that puts its rows in place."""
    progress = stored.ledger.progress(effect.split)
    if progress.split != effect.split or effect.chunk in progress.merged:
        raise Mistake(f"chunk {effect.chunk} of {effect.split.table} is merged again, or was never planned")
    at = progress.merged[effect.chunk] = stored.ledger.history.index(effect.position)
    for row in effect.parked:
        stored.ledger.stray((row.source, row.number, row.ordinal), decode_change(row.change), at)
    stored.ledger.emptied.update(dict.fromkeys(effect.unparked))
    for checker in stored.checkers:
        checker.merged(effect)
    stored.advance(effect.position, effect.drop)
