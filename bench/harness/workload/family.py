"""*family*: parents and children joined by a foreign key (orders of customers).

Parents and children are inserted, children move to another parent, children are deleted,
and parents are deleted once their last child is gone; a deleted parent's email is taken by
the next one.  A third of the children belong to a few hot parents, as real orders do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.harness.workload.pool import Pool
from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Workload

PARENT = Table(
    "parent",
    (("id", "bigint", False), ("email", "varchar(64)", False), ("name", "varchar(80)", True),
     ("version", "bigint", False)),
    uniques=(("email",),),
)  # fmt: skip
CHILD = Table(
    "child",
    (("id", "bigint", False), ("parent_id", "bigint", False), ("amount", "decimal(12,2)", False),
     ("updated_at", "datetime(6)", False), ("version", "bigint", False)),
    references=(("parent_id", "parent", "id"),),
)  # fmt: skip
HOT_PARENTS = 3
FEWEST_PARENTS = 10


class Family(Workload):
    """The model: which child has which parent, and every row's version."""

    name = "family"
    specs = (PARENT, CHILD)

    def __init__(self) -> None:
        self._parents, self._children = Pool(), Pool()
        self._emails: dict[int, str] = {}
        self._parent_of: dict[int, int] = {}
        self._children_of: dict[int, Pool] = {}
        self._versions: dict[tuple[str, int], int] = {}
        self._freed_emails: list[str] = []
        self._ids = itertools.count(1)
        super().__init__()

    def changes(self) -> Iterator[Change]:
        while True:
            drawn = self._rng.random()
            if drawn < 0.12 or len(self._parents) < FEWEST_PARENTS:
                yield self._insert_parent()
            elif drawn < 0.52 or not self._children:
                yield self._insert_child()
            elif drawn < 0.68:
                yield self._update("child", self._children.draw(self._rng), f"amount={self.amount()}")
            elif drawn < 0.80:
                yield self._move_child(self._children.draw(self._rng), self._some_parent())
            elif drawn < 0.92:
                yield self._delete_child(self._children.draw(self._rng))
            elif drawn < 0.96:
                yield self._update("parent", self._parents.draw(self._rng), f"name='name {self._version}'")
            else:
                yield from self._delete_family(self._small_parent())

    def _some_parent(self) -> int:
        if self._rng.random() < 0.33:
            return next(id_ for id_ in itertools.islice(self._emails, int(self._rng.random() * HOT_PARENTS), None))
        return self._parents.draw(self._rng)

    def _small_parent(self) -> int:
        """The one of a few parents with the fewest children."""
        return min(self._parents.sample(self._rng, 5), key=lambda id_: len(self._children_of[id_]))

    def _insert_parent(self) -> Change:
        id_ = next(self._ids)
        email = self._freed_emails.pop(0) if self._freed_emails else f"parent{id_}@example.com"
        self._parents.add(id_)
        self._emails[id_] = email
        self._children_of[id_] = Pool()
        return Kind.INSERT, f"INSERT INTO parent VALUES ({id_},'{email}',NULL,{self._write('parent', id_)})"

    def _insert_child(self) -> Change:
        id_, parent = next(self._ids), self._some_parent()
        self._children.add(id_)
        self._parent_of[id_] = parent
        self._children_of[parent].add(id_)
        version = self._write("child", id_)
        return Kind.INSERT, f"INSERT INTO child VALUES ({id_},{parent},{self.amount()},{self.moment()},{version})"

    def _move_child(self, id_: int, parent: int) -> Change:
        self._children_of[self._parent_of[id_]].remove(id_)
        self._parent_of[id_] = parent
        self._children_of[parent].add(id_)
        return self._update("child", id_, f"parent_id={parent}")

    def _delete_child(self, id_: int) -> Change:
        self._children.remove(id_)
        self._children_of[self._parent_of.pop(id_)].remove(id_)
        return self._delete("child", id_)

    def _delete_family(self, parent: int) -> Iterator[Change]:
        """The parent's children move away or go, then the parent goes, and its email waits for the next parent."""
        for child in list(self._children_of[parent]):
            heir = self._parents.draw(self._rng)
            yield self._delete_child(child) if heir == parent else self._move_child(child, heir)
        self._parents.remove(parent)
        del self._children_of[parent]
        self._freed_emails.append(self._emails.pop(parent))
        yield self._delete("parent", parent)

    def _update(self, table: str, id_: int, assignments: str) -> Change:
        return Kind.UPDATE, f"UPDATE {table} SET {assignments},version={self._write(table, id_)} WHERE id={id_}"

    def _delete(self, table: str, id_: int) -> Change:
        self.next_version()
        self.deleted.append((table, id_, self._versions.pop((table, id_))))
        return Kind.DELETE, f"DELETE FROM {table} WHERE id={id_}"

    def _write(self, table: str, id_: int) -> int:
        """A new version of the row."""
        version = self._versions[table, id_] = self.next_version()
        return version
