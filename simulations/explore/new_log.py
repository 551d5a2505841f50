"""A log in Kafka that is lost and published again: owners of one group, coordinators and the publisher, in any order.

The source's log has a few transactions, numbered from 1.  Another group stands at 0, so the log is published again from
there; ours stands wherever it is when the topic is lost.  The moves:

- `own`: a worker takes the group over at the target, and knows its checkpoint;  `hear o`: owner o then reads the
  control topic, and takes the group over once more where that says something new;  `apply o`: it applies the next
  record that the topic has for it, if the target lets it;  `end o`: it is gone;  `news o`: it learns that another log
  is open, and begins anew;
- `lose how`: the topic is emptied (`gone`), what the group had not read is cut off (`cut`), or another group's
  partition is (`other`).  What living owners have fetched stays with them;
- `base`, `tell`, `fence`, `open`: the coordinator's steps (`adapters.workers.new_log`);  `crash`: another one comes,
  and goes on from what the control topic says;
- `publish n`: a record more, from the end of the log, of n transactions, or up to the next cut.

What must hold: the group applies the transactions in order, each once; no owner that reads the newest log lacks what
follows its place; where nothing but new owners can come any more, the group has applied all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import msgspec

from tidelock.simulations.explore.search import Broken, Move

LENGTH: Final = 3
RECORDS: Final = (1, 2)  # transactions in a record
CAUSES: Final = ("gone", "cut", "other")


GONE: Final = (-1, -1)


class Owner(msgspec.Struct, frozen=True):
    """`epoch`: its own.  `place`: up to there it has applied all, or found it applied.  `seen`: what the control topic
    said of the log before its takeover.  `number`: of the log that it reads; None: it has not read the control topic
    since.  `base`: where that log begins in the topic.  `fetched`: records that it had when the topic was lost.
    """

    epoch: int
    place: int
    seen: tuple[int, bool] = (1, True)
    number: int | None = None
    base: int = 0
    fetched: tuple[tuple[int, int], ...] = ()


class State(msgspec.Struct, frozen=True):
    """`topic`: records (transactions before and up to), by offset.  `number`, `base`, `is_open`, `cut`: what the
    control topic says of the log.  `step`: the coordinator's next; '' where it has nothing to do.  `known`: the base
    that it has taken, the place that it has read."""

    topic: tuple[tuple[int, int], ...] = ()
    number: int = 1
    base: int = 0
    is_open: bool = True
    cut: int = 0
    step: str = ""
    known: tuple[int, int] = (0, 0)
    epoch: int = 1
    checkpoint: int = 0
    owners: tuple[Owner, ...] = (Owner(1, 0, number=1),)
    takeovers: int = 1
    losses: int = 1
    crashes: int = 1


class NewLogModel:
    """A state and the moves from it.  Subclasses break a rule."""

    steps: tuple[str, ...] = ("base", "tell", "fence", "open")

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state

    def fork(self) -> NewLogModel:
        return type(self)(self.state)

    def key(self) -> Hashable:
        return self.state

    def _set(self, **changes: object) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)

    # ------------------------------------------------------------------ what may happen

    def moves(self) -> Sequence[Move]:
        state = self.state
        found: list[Move] = []
        for n, owner in enumerate(state.owners):
            if owner.number is None and state.is_open:
                found.append(("hear", n))
            if owner.number is not None and self._next(owner) is not None:
                found.append(("apply", n))
            elif owner.number == state.number > 1 and owner.place < self._published():
                raise Broken(f"nothing follows {owner.place} in log {owner.number}, and it goes on behind")
            if owner.number is not None and state.is_open and owner.number < state.number:
                found.append(("news", n))
        if state.step:
            found.append((state.step,))
        elif self._published() < LENGTH:
            found += [("publish", count) for count in RECORDS]
        if not found and any(owner.epoch == state.epoch for owner in state.owners):
            self._see_end()
        if state.step and state.crashes:
            found.append(("crash",))
        if state.losses and not state.step:
            found += [("lose", how) for how in CAUSES]
        if state.takeovers:
            found += [("own",), *(("end", n) for n in range(len(state.owners)))]
        return found

    def take(self, move: Move) -> None:
        match move:
            case ("own",):
                self._own()
            case ("hear", int(n)):
                self._hear(n)
            case ("apply", int(n)):
                self._apply(n)
            case ("news" | "end", int(n)):
                self._drop(n)
            case ("lose", str(how)):
                self._lose(how)
            case ("publish", int(count)):
                self._publish(count)
            case ("crash",):
                self._crash()
            case (str(step),):
                self._take_step(step)
            case _:
                raise ValueError(move)

    # ------------------------------------------------------------------ the group

    def _own(self) -> None:
        state = self.state
        owner = Owner(state.epoch + 1, state.checkpoint, (state.number, state.is_open))
        self._set(epoch=owner.epoch, owners=(*state.owners, owner), takeovers=state.takeovers - 1)

    def _hear(self, n: int) -> None:
        state = self.state
        told = state.number, state.is_open
        if self.state.owners[n].seen == told:
            self._change(n, number=state.number, base=state.base)
        else:
            self._set(epoch=state.epoch + 1)
            self._change(n, epoch=state.epoch + 1, place=state.checkpoint, seen=told)

    def _next(self, owner: Owner) -> tuple[int, int] | None:
        """Returns the record that follows the owner's place in the log that it reads."""
        records = (*owner.fetched, *self.state.topic[owner.base :])
        return next((record for record in records if record[0] == owner.place), None)

    def _apply(self, n: int) -> None:
        owner = self.state.owners[n]
        record = self._next(owner)
        assert record is not None, "the move was there"
        if owner.epoch != self.state.epoch:  # the target's fence
            self._drop(n)
            return
        if record[0] != self.state.checkpoint:
            raise Broken(f"applied {record[0] + 1} to {record[1]}, and {self.state.checkpoint} was the last before")
        self._set(checkpoint=record[1])
        self._change(n, place=record[1])

    def _change(self, n: int, **changes: object) -> None:
        owners = list(self.state.owners)
        owners[n] = msgspec.structs.replace(owners[n], **changes)
        self._set(owners=tuple(owners))

    def _drop(self, n: int) -> None:
        self._set(owners=self.state.owners[:n] + self.state.owners[n + 1 :])

    # ------------------------------------------------------------------ the topic

    def _lose(self, how: str) -> None:
        """`cut`: what is left begins behind the group's place, or at the end."""
        state = self.state
        kept: tuple[tuple[int, int], ...] = ()
        if how != "gone":
            kept = tuple(GONE if how == "cut" and r[0] <= state.checkpoint else r for r in state.topic)
        owners = tuple(
            owner if owner.number is None else msgspec.structs.replace(owner, fetched=state.topic[owner.base :])
            for owner in state.owners
        )
        self._set(topic=kept, losses=state.losses - 1, step=self.steps[0], owners=owners)

    def _published(self) -> int:
        """Returns where the log ends that the control topic tells of."""
        return max((last for _, last in self.state.topic[self.state.base :]), default=0)

    def _publish(self, count: int) -> None:
        end = self._published()
        last = min(end + count, LENGTH)
        if end < self.state.cut < last:
            last = self.state.cut
        self._set(topic=(*self.state.topic, (end, last)))

    # ------------------------------------------------------------------ the coordinator

    def _take_step(self, step: str) -> None:
        state = self.state
        base, place = state.known
        match step:
            case "base":
                self._set(known=(len(state.topic), place))
            case "tell":
                self._set(number=state.number + 1, base=base, is_open=False)
            case "fence":
                self._set(epoch=state.epoch + 1, known=(base, state.checkpoint))
            case "open":
                self._set(is_open=True, cut=place)
        at = self.steps.index(step) + 1
        self._set(step=self.steps[at] if at < len(self.steps) else "")

    def _crash(self) -> None:
        """Another coordinator: it begins with the loss, or goes on where the log is told and not open."""
        state = self.state
        told = not state.is_open
        self._set(crashes=state.crashes - 1, step="fence" if told else self.steps[0], known=(state.base, 0))

    # ------------------------------------------------------------------ the end

    def _see_end(self) -> None:
        if self.state.checkpoint != LENGTH:
            raise Broken(f"{self.state.checkpoint} of {LENGTH} were applied, and nothing follows")


class _TellsLast(NewLogModel):
    steps = ("base", "fence", "tell", "open")


class _FencesNobody(NewLogModel):
    def _take_step(self, step: str) -> None:
        epoch = self.state.epoch
        super()._take_step(step)
        self._set(epoch=epoch)


class _CutsNowhere(NewLogModel):
    def _publish(self, count: int) -> None:
        cut = self.state.cut
        self._set(cut=0)
        super()._publish(count)
        self._set(cut=cut)


class _BeginsWhereItDid(NewLogModel):
    def _take_step(self, step: str) -> None:
        super()._take_step(step)
        if step == "base":
            self._set(known=(0, self.state.known[1]))


class _OwnsOnce(NewLogModel):
    def _hear(self, n: int) -> None:
        self._change(n, number=self.state.number, base=self.state.base)


class _OwnsUnread(NewLogModel):
    def _own(self) -> None:
        """Forgets the news of the log, which then is from long before its takeover, unless it is the last one."""
        super()._own()
        if self.state.takeovers:
            self._change(len(self.state.owners) - 1, number=1)


NEW_LOG_RULES: Final[dict[str, tuple[str, type[NewLogModel]]]] = {
    "told-first": ("the groups are fenced before the new log is told", _TellsLast),
    "fence": ("the groups are not fenced", _FencesNobody),
    "cut": ("the log is not cut where the group stands", _CutsNowhere),
    "base": ("the new log begins where the one before did", _BeginsWhereItDid),
    "own-again": ("an owner to whom the control topic says something new does not take over again", _OwnsOnce),
    "read-after": ("an owner takes over with what it knew of the log before", _OwnsUnread),
}
"""Rules of the new log, each broken in turn: what is done instead, and by which model."""
SCOPES: Final = (State(), State(takeovers=2, crashes=0))
