"""*churn*: unique values that are freed and taken again by other rows, within a few changes.

This is the work that breaks appliers which order rows by primary key alone.  Emails freed
by a delete or an update are taken by another primary key 0 to 10 changes later; two rows
swap their values through a temporary one; chains hand values down (the last row takes a
new one, each row before it its neighbour's); primary keys are updated and freed keys come
back; a composite unique key `(region, code)` does the same with NULLs, which clash with
nothing.

`Churn(peers=True)` keeps to the account table of the recorded peer figures: one unique
key beside the primary key, no version.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Callable, Iterator

from bench.harness.session import literal
from bench.harness.workload.mix import ACCOUNT, PAYLOADS, without_version
from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

MEMBER = Table(
    "member",
    (*ACCOUNT.columns[:-1], ("region", "varchar(8)", True), ("code", "int", True), ACCOUNT.columns[-1]),
    uniques=(("email",), ("region", "code")),
)
RETAKE_WITHIN_CHANGES = 10
FEWEST_ROWS = 20
REGIONS = ("eu", "us", "asia")


@dataclasses.dataclass(slots=True)
class Member:
    """Knowledge that the model needs of a row: its unique values and its version."""

    email: str
    region: str | None
    code: int | None
    version: int


class Churn(Workload):
    """Every change leaves all unique values unique at once: the source runs it statement by statement."""

    name = "churn"

    def __init__(self, *, peers: bool = False) -> None:
        self.specs = (without_version(ACCOUNT) if peers else MEMBER,)
        self._table = self.specs[0].name
        self._peers = peers
        self._rows: dict[int, Member] = {}
        self._live = Pool()
        self._ids = itertools.count(1)
        self._emails = (f"user{number}@example.com" for number in itertools.count(1))
        self._codes = itertools.count(1)
        self._freed_emails: list[tuple[int, str, int]] = []  # heap of (due at version, email, the id that had it)
        self._freed_ids: list[int] = []
        self._freed_code: tuple[str, int] | None = None
        super().__init__()

    def changes(self) -> Iterator[Change]:
        moves: list[Callable[[], Iterator[Change]]] = [self._swap_emails, self._chain, self._move_key]
        if not self._peers:
            moves += [self._change_code, self._swap_codes]
        while True:
            if self._freed_emails and self._freed_emails[0][0] <= self._version:
                yield from self._retake()
                continue
            drawn = self._rng.random()
            if drawn < 0.22 or len(self._live) < FEWEST_ROWS:
                yield self._insert(self._unused_id(0), next(self._emails))
            elif drawn < 0.36:
                yield self._delete(self._live.draw(self._rng))
            elif drawn < 0.50:
                yield from self._release_email()
            elif drawn < 0.74:
                yield from moves[int(self._rng.random() * len(moves))]()
            else:
                yield self._update(self._live.draw(self._rng), f"balance={self.amount()}")

    def _retake(self) -> Iterator[Change]:
        """Another row takes a freed email: a new row, a row that comes back, or one that gives up its own."""
        _, email, id_ = heapq.heappop(self._freed_emails)
        if self._rng.random() < 0.5:
            yield self._insert(self._unused_id(id_), email)
            return
        taker = next(other for other in self._live.sample(self._rng, 2) if other != id_)
        old = self._rows[taker].email
        yield self._set_email(taker, email)
        if self._rng.random() < 0.5:
            self._free_email(old, taker)

    def _release_email(self) -> Iterator[Change]:
        id_ = self._live.draw(self._rng)
        old = self._rows[id_].email
        yield self._set_email(id_, next(self._emails))
        self._free_email(old, id_)

    def _swap_emails(self) -> Iterator[Change]:
        one, two = self._live.sample(self._rng, 2)
        first, second = self._rows[one].email, self._rows[two].email
        yield self._set_email(one, f"swap{self._version}@example.com")
        yield self._set_email(two, first)
        yield self._set_email(one, second)

    def _chain(self) -> Iterator[Change]:
        """a→b, b→c, c→new, applied from the end, so that each value is free when it is taken."""
        ids = self._live.sample(self._rng, 2 + int(self._rng.random() * 3))
        taken = next(self._emails)
        for id_ in ids:
            old = self._rows[id_].email
            yield self._set_email(id_, taken)
            taken = old
        self._free_email(taken, ids[-1])

    def _move_key(self) -> Iterator[Change]:
        """Two rows move up: the first to an unused key, the second (every other time) to the key that this frees."""
        first, second = self._live.sample(self._rng, 2)
        yield self._set_id(first, self._unused_id(first))
        if self._rng.random() < 0.5 and first in self._freed_ids:
            self._freed_ids.remove(first)
            yield self._set_id(second, first)

    def _change_code(self) -> Iterator[Change]:
        """To NULL in one column or both, to a new pair, or to the pair that another row gave up last."""
        id_ = self._live.draw(self._rng)
        row = self._rows[id_]
        old = (row.region, row.code) if row.region is not None and row.code is not None else None
        drawn = self._rng.random()
        if self._freed_code and drawn < 0.5:
            (region, code), self._freed_code = self._freed_code, None
            yield self._set_code(id_, region, code)
        elif drawn < 0.7:
            yield self._set_code(id_, self._rng.choice((None, "eu")), None)
        elif drawn < 0.8:
            yield self._set_code(id_, None, 7)
        else:
            yield self._set_code(id_, *self._new_code())
        if old:
            self._freed_code = old

    def _swap_codes(self) -> Iterator[Change]:
        one, two = self._live.sample(self._rng, 2)
        first, second = self._rows[one], self._rows[two]
        pair, other = (first.region, first.code), (second.region, second.code)
        yield self._set_code(one, None, None)
        yield self._set_code(two, *pair)
        yield self._set_code(one, *other)

    def _free_email(self, email: str, id_: int) -> None:
        due = self._version + int(self._rng.random() * (RETAKE_WITHIN_CHANGES + 1))
        heapq.heappush(self._freed_emails, (due, email, id_))

    def _unused_id(self, besides: int) -> int:
        """A key that was freed before (one time in three) or a new one; never `besides`."""
        if self._freed_ids and self._rng.random() < 0.33 and self._freed_ids[0] != besides:
            return self._freed_ids.pop(0)
        return next(self._ids)

    def _new_code(self) -> tuple[str, int]:
        return REGIONS[int(self._rng.random() * len(REGIONS))], next(self._codes) + 100

    def _insert(self, id_: int, email: str) -> Change:
        version = self.next_version()
        region, code = self._new_code() if self._rng.random() < 0.7 else (None, None)
        self._rows[id_] = Member(email, region, code, version)
        self._live.add(id_)
        values = [str(id_), literal(email), self.amount(), self.moment(), literal("p" * (version % PAYLOADS % 150))]
        if not self._peers:
            values += [literal(region), literal(code), str(version)]
        return Kind.INSERT, f"INSERT INTO {self._table} VALUES ({','.join(values)})"

    def _delete(self, id_: int) -> Change:
        self.next_version()
        row = self._rows.pop(id_)
        self._live.remove(id_)
        self._forget(id_, row)
        self._free_email(row.email, id_)
        return Kind.DELETE, f"DELETE FROM {self._table} WHERE id={id_}"

    def _forget(self, id_: int, row: Member) -> None:
        """The row left this key; the key may come back."""
        self.deleted.append((self._table, id_, row.version))
        self._freed_ids.append(id_)

    def _update(self, id_: int, assignments: str) -> Change:
        row = self._rows[id_]
        row.version = self.next_version()
        tail = "" if self._peers else f",version={row.version}"
        return Kind.UPDATE, f"UPDATE {self._table} SET {assignments},updated_at={self.moment()}{tail} WHERE id={id_}"

    def _set_email(self, id_: int, email: str) -> Change:
        self._rows[id_].email = email
        return self._update(id_, f"email={literal(email)}")

    def _set_code(self, id_: int, region: str | None, code: int | None) -> Change:
        self._rows[id_].region, self._rows[id_].code = region, code
        return self._update(id_, f"region={literal(region)},code={literal(code)}")

    def _set_id(self, id_: int, new: int) -> Change:
        row = self._rows[id_]
        self._forget(id_, row)
        kind, sql = self._update(id_, f"id={new}")
        del self._rows[id_]
        self._live.remove(id_)
        self._rows[new] = row
        self._live.add(new)
        return kind, sql
