"""The fence, the receipts, the checkpoint and the barrier: whole apply machines around one target.

Driven is the engine's own `ApplyMachine`, twice: an owner, and another that takes over while the first lives on as a
zombie.  The log is any sequence of a few letters: `a` and `b` change a row each, of different lanes; `T` truncates the
table.  The moves:

- `log o`: owner o receives the next entry;  `answer`: it receives one of the target's answers, in any order;
- `open e`: the target begins a batch: receipt behind the fence, rows; it holds what it locked;
- `commit e`: the batch, a checkpoint or a statement is committed, and answered;
- `doubt e yes|no`: so, or not, and the answer is lost (once);
- `raise`: a new owner raises the epoch (once); open batches of the old one are killed, or were committed before;
- `read`: in a new transaction it reads checkpoint and receipts, and begins;
- `tick o`: time passes, and what was refused is tried again.

What must hold: nothing is applied twice; no zombie applies; the checkpoint never passes what is applied nor goes back;
a statement runs when all before it is applied and nothing after it; in the end nothing is lost and the checkpoint is
the log's end.

A zombie is seen through its orders that are still on their way when the epoch is raised: the fence looks at nothing
but the epoch of an order, so one that it refuses then it refuses whenever it comes, and those that come later too.  A
crash is a zombie without such orders.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from tidelock.engine.log import receipts
from tidelock.engine.protocol.effects import ApplyBatch, ApplyDdl, ApplyEffect, EffectId, SaveCheckpoint, StepDown
from tidelock.engine.protocol.events import ApplyEvent, LogArrived, Receipt, TakenOver, Tick
from tidelock.engine.replay import spell_effect
from tidelock.simulations import catalogue
from tidelock.simulations.explore.fence_state import (
    ANSWERS,
    KINDS,
    REFUSALS,
    REST_US,
    SILENT,
    TABLES,
    Answer,
    Order,
    Owner,
    Source,
    State,
    encoded,
    written,
)
from tidelock.simulations.explore.heard import Tree
from tidelock.simulations.explore.search import Broken, Move


class FenceModel:
    """A state and the pure moves from it.  Subclasses break a rule."""

    def __init__(self, source: Source, tree: Tree, state: State | None = None) -> None:
        self.source = source
        self.tree = tree
        self.state = State() if state is None else state
        if state is None:
            self._raise()
            self._read()

    def fork(self) -> FenceModel:
        return type(self)(self.source, self.tree, self.state)

    def key(self) -> Hashable:
        return self.state

    # ------------------------------------------------------------------ what may happen

    def moves(self) -> Sequence[Move]:
        state = self.state
        found: list[Move] = []
        for n, owner in enumerate(state.owners):
            if owner is not SILENT and owner.read < len(self.source.letters):
                found.append(("log", n))
            if owner.resting:
                found.append(("tick", n))
        found += [("answer", answer) for answer in state.answers]
        for order in state.orders:
            batch = isinstance(self.effect(order), ApplyBatch)
            found.append(("open" if batch and not order[3] else "commit", order))
            if state.doubts and (order[3] or not batch):
                found += [("doubt", order, True), ("doubt", order, False)]
        if state.raised:
            found.append(("read",))
        if not found:
            self._see_end()
        if state.takeovers:
            found.append(("raise",))
        return found

    def take(self, move: Move) -> None:
        match move:
            case ("log", int(owner)):
                self._log(owner)
            case ("tick", int(owner)):
                self._tick(owner)
            case ("answer", answer):
                self._answer(answer)
            case ("open", order):
                self._open(order)
            case ("commit", order):
                self._commit(order)
            case ("doubt", order, bool(landed)):
                self._doubt(order, landed=landed)
            case ("raise",):
                self._set(takeovers=self.state.takeovers - 1)
                self._raise()
            case ("read",):
                self._read()
            case _:
                raise ValueError(move)

    # ------------------------------------------------------------------ what the owners hear

    def _log(self, number: int) -> None:
        owner = self.state.owners[number]
        batch = self.source.batches[owner.read]
        if owner.read == owner.start:
            batch = msgspec.structs.replace(batch, resent=True)
        if batch.rows and set(self.source.letters[owner.start : owner.read]) <= {"T"}:
            batch = msgspec.structs.replace(batch, shapes={0: catalogue.shape(catalogue.OWNER)})
        self._change(number, read=owner.read + 1)
        self._tell(number, f"log {owner.read}", LogArrived([batch]))

    def _tick(self, number: int) -> None:
        self._change(number, resting=False, ticks=self.state.owners[number].ticks + 1)
        self._tell(number, "tick", Tick())

    def _answer(self, answer: Answer) -> None:
        number, what, id_ = answer
        answers = list(self.state.answers)
        answers.remove(answer)
        self._set(answers=tuple(answers))
        if what in REFUSALS:
            self._change(number, resting=True)
        self._tell(number, f"{what} {id_}", ANSWERS[what](id_))

    def _tell(self, number: int, name: str, event: ApplyEvent) -> None:
        owner = self.state.owners[number]
        node = self.tree.after(owner.node, name, (owner.ticks * REST_US, event))
        self._change(number, node=node)
        orders = list(self.state.orders)
        for n, effect in enumerate(self.tree.effects(node)):
            match effect:
                case ApplyBatch() | SaveCheckpoint() | ApplyDdl():
                    orders.append((number, node, n, False))
                case StepDown():
                    self._change(number, read=len(self.source.letters), resting=False)
                case _:
                    raise Broken(f"owner {number} has no reason to {spell_effect(effect)}")
        self._set(orders=tuple(sorted(orders)))

    def _change(self, number: int, **fields: object) -> None:
        owners = list(self.state.owners)
        owners[number] = msgspec.structs.replace(owners[number], **fields)
        self._set(owners=tuple(owners))

    def _set(self, **fields: object) -> None:
        self.state = msgspec.structs.replace(self.state, **fields)

    # ------------------------------------------------------------------ what the target does

    def effect(self, order: Order) -> ApplyEffect:
        return self.tree.effects(order[1])[order[2]]

    def _open(self, order: Order) -> None:
        batch = self.effect(order)
        assert isinstance(batch, ApplyBatch)
        if self._fenced(batch.id):
            self._reply(order, "batch fenced")
        elif self._known(batch.id):
            self._reply(order, "batch committed")
        else:
            rest = [other for other in self.state.orders if other != order]
            self._set(orders=tuple(sorted([*rest, (*order[:3], True)])))

    def _commit(self, order: Order) -> None:
        kind = KINDS[type(self.effect(order))]
        self._reply(order, f"{kind} {'committed' if self._land(order) else 'fenced'}")

    def _doubt(self, order: Order, *, landed: bool) -> None:
        self._set(doubts=self.state.doubts - 1)
        if landed:
            self._land(order)
        self._reply(order, f"{KINDS[type(self.effect(order))]} in doubt")

    def _reply(self, order: Order, what: str) -> None:
        self._set(orders=tuple(other for other in self.state.orders if other != order))
        if self.state.owners[order[0]] is not SILENT:
            self._set(answers=tuple(sorted([*self.state.answers, (order[0], what, self.id(order))])))

    def id(self, order: Order) -> EffectId:
        effect = self.effect(order)
        assert isinstance(effect, ApplyBatch | SaveCheckpoint | ApplyDdl)
        return effect.id

    def _land(self, order: Order) -> bool:
        """The effect takes place, unless the fence stops it (a batch has passed that already)."""
        match self.effect(order):
            case ApplyBatch() as batch:
                self._apply(batch)
            case SaveCheckpoint() as saving:
                if self._fenced(saving.id):
                    return False
                self._save(saving)
            case ApplyDdl() as statement:
                if self._fenced(statement.id):
                    return False
                self._truncate(statement)
        return True

    def _fenced(self, id_: EffectId) -> bool:
        return id_.epoch != self.state.epoch

    def _known(self, id_: EffectId) -> bool:
        """Tells whether the batch finds its own receipt."""
        return any(id_ == other for other, _ in self.state.held)

    def _apply(self, batch: ApplyBatch) -> None:
        state = self.state
        numbers = tuple(number for _, number, _ in receipts.decode(batch.covered))
        if again := [n for n in numbers if n in state.applied]:
            raise Broken(f"{again[0]} is applied twice")
        if batch.id.epoch != state.epoch:
            raise Broken(f"a zombie applies {numbers[0]}")
        rows = written(dict(state.rows), batch.steps)
        held = tuple(sorted([*state.held, (batch.id, numbers)]))
        self._set(rows=tuple(sorted(rows.items())), held=held, applied=state.applied | frozenset(numbers))

    def _save(self, saving: SaveCheckpoint) -> None:
        state, position = self.state, saving.position.offset
        if position < state.checkpoint:
            raise Broken(f"the checkpoint goes back from {state.checkpoint} to {position}")
        if missing := [n for n in range(1, position + 1) if n not in state.applied]:
            raise Broken(f"the checkpoint {position} passes {missing[0]}, which is not applied")
        drop = self._dropped(saving)
        self._set(checkpoint=position, held=tuple(entry for entry in state.held if entry[0] not in drop))

    def _dropped(self, saving: SaveCheckpoint) -> tuple[EffectId, ...]:
        return saving.drop

    def _truncate(self, statement: ApplyDdl) -> None:
        number, applied = statement.ddl.number, self.state.applied
        if applied - {number} != frozenset(range(1, number)):
            raise Broken(f"{number} truncates when {sorted(applied)} are applied")
        self._set(rows=(), applied=applied | {number})

    # ------------------------------------------------------------------ a new owner

    def _raise(self) -> None:
        """The old owner falls silent: what it sends from now on meets the same test as what it has sent already."""
        self._set(raised=True)
        self._stop_open()
        self._set(epoch=self.state.epoch + 1)
        late = tuple(order for order in self.state.orders if order[3] or not self._fenced(self.id(order)))
        self._set(orders=late, answers=(), owners=tuple(SILENT for _ in self.state.owners))

    def _stop_open(self) -> None:
        """Open batches hold the owner's row, so the epoch is raised once they are killed."""
        self._set(orders=tuple(order for order in self.state.orders if not order[3]))

    def _read(self) -> None:
        state = self.state
        self._begin(state.checkpoint, state.held)

    def _begin(self, checkpoint: int, held: tuple[tuple[EffectId, tuple[int, ...]], ...]) -> None:
        positions = self.source.positions
        event = TakenOver(
            self.state.epoch,
            positions[checkpoint],
            tuple(Receipt(id_, encoded(numbers)) for id_, numbers in held),
            tables=TABLES,
            log_end=positions[-1],
        )
        owners = (*self.state.owners, Owner(0, checkpoint, checkpoint))
        self._set(owners=owners, raised=False)
        self._tell(len(owners) - 1, f"taken over {self.state.epoch} {checkpoint} {held}", event)

    def _see_end(self) -> None:
        state, end = self.state, len(self.source.letters)
        if lost := [n for n in range(1, end + 1) if n not in state.applied]:
            raise Broken(f"{lost[0]} is never applied")
        if state.checkpoint != end:
            raise Broken(f"all is applied, yet the checkpoint stays {state.checkpoint}")
        if dict(state.rows) != self.source.rows:
            raise Broken(f"the target ends with {state.rows}, the source with {self.source.rows}")
