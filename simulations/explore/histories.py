"""Every source history of a small scope: all rows that its tables can hold, all changes that a database would allow.

A *draft* is a change by content, (table number, before-image, after-image); *contents* are all rows of a database,
(table number, row) in order of table and key.  Every row ends with a `note`, which an update of nothing else toggles:
so two neighbouring versions of a row always differ, and a change applied out of turn meets the wrong before-image.

Symmetry.  The engine sees values only through equality and through the lane that a key hashes to.  So a history and
one in which keys or values are renamed throughout behave alike, lane for lane, if the renaming takes rows that share a
home lane to rows that share one, however many lanes there are.  That is checked for each renaming, and of histories
that one turns into the other only the first is explored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import TypeAlias

import msgspec

from tidelock.engine.model.hashing import home_of
from tidelock.engine.model.records import Row, TableName, Value
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.simulations import catalogue
from tidelock.simulations.model import Database, Violation

Draft: TypeAlias = tuple[int, Row | None, Row | None]
Contents: TypeAlias = tuple[tuple[int, Row], ...]
Renaming: TypeAlias = dict[tuple[str, Value], Value]


def _home(binding: Binding) -> Callable[[Row], int]:
    home, identity = home_of(binding), binding.identity
    return lambda row: home(identity(row))


class Spec(msgspec.Struct, frozen=True):
    """A table and all its rows, their notes zero.  `domains`: of each column, what its values name ('': nothing)."""

    table: TargetTable
    domains: tuple[str, ...]
    rows: tuple[Row, ...]


class Scope:
    """`lanes`: how many before the crash, and how many after it."""

    def __init__(self, name: str, specs: Sequence[Spec], lanes: tuple[int, int]) -> None:
        self.name = name
        self.lanes = lanes
        self.specs = tuple(specs)
        self.tables: dict[TableName, TargetTable] = catalogue.linked(*(spec.table for spec in specs))
        self.bindings = tuple(Binding(n, catalogue.shape(t), t) for n, t in enumerate(self.tables.values()))
        self.homes = tuple(_home(binding) for binding in self.bindings)
        self.renamings = [renaming for renaming in self._renamings() if self._keeps_lanes(renaming)]
        self._databases: dict[Contents, Database] = {}
        self._successors: dict[Contents, list[tuple[Draft, Contents]]] = {}

    # ------------------------------------------------------------------ databases by content

    def database(self, contents: Contents) -> Database:
        """Not to be written to: begin a session and throw it away, or copy it."""
        found = self._databases.get(contents)
        if found is None:
            found = self._databases[contents] = Database(self.tables)
            session = found.begin()
            for table, row in sorted(contents, key=lambda entry: bool(self.specs[entry[0]].table.foreign_keys)):
                session.insert(self.specs[table].table.name, row)
            session.commit()
        return found

    def contents(self, database: Database) -> Contents:
        rows = database.contents()
        return _sorted((n, row) for n, name in enumerate(self.tables) for row in rows[name])

    def successors(self, contents: Contents) -> list[tuple[Draft, Contents]]:
        """Every change that the database allows, with what it then holds."""
        found = self._successors.get(contents)
        if found is None:
            found = [
                (draft, after)
                for draft in self._drafts(contents)
                if (after := self._carried_out(contents, draft)) is not None
            ]
            self._successors[contents] = found
        return found

    def _drafts(self, contents: Contents) -> Iterator[Draft]:
        for table, spec in enumerate(self.specs):
            here = [row for n, row in contents if n == table]
            taken = {row[0] for row in here}
            for old in here:
                yield (table, old, None)
                for row in spec.rows:
                    same = row[:-1] == old[:-1]
                    if row[0] == old[0] or row[0] not in taken:
                        yield (table, old, (*row[:-1], 1 - old[-1] if same else old[-1]))
            yield from ((table, None, row) for row in spec.rows if row[0] not in taken)

    def _carried_out(self, contents: Contents, draft: Draft) -> Contents | None:
        table, before, after = draft
        name = self.specs[table].table.name
        database = self.database(contents).copy()
        session = database.begin()
        try:
            if before is None:
                assert after is not None, "a change has an image"
                session.insert(name, after)
            elif after is None:
                session.delete(name, before[:1])
            else:
                session.update(name, before[:1], after)
        except Violation:
            return None
        session.commit()
        return self.contents(database)

    # ------------------------------------------------------------------ histories

    def starts(self) -> list[Contents]:
        """All that the database may hold before the first change, notes zero; the fewest rows first."""
        found: dict[Contents, None] = {(): None}
        frontier: list[Contents] = [()]
        while frontier:
            for draft, contents in self.successors(frontier.pop()):
                if draft[1] is None and contents not in found:
                    found[contents] = None
                    frontier.append(contents)
        return sorted(found, key=lambda contents: (len(contents), repr(contents)))

    def histories(self, changes: int, *, reduced: bool = True) -> Iterator[tuple[Contents, tuple[Draft, ...]]]:
        """All (start, that many changes); `reduced`: of those that a renaming turns into each other, the first."""
        for start in self.starts():
            images = [(self.renamed(r, start), r) for r in self.renamings] if reduced else []
            if all(_rank(start) <= _rank(image) for image, _ in images):
                keeping = [r for image, r in images if image == start]
                for drafts in self._histories(start, changes, keeping):
                    yield start, drafts

    def _histories(self, contents: Contents, changes: int, keeping: Sequence[Renaming]) -> Iterator[tuple[Draft, ...]]:
        """`keeping`: the renamings that leave all before this as it is."""
        if changes == 0:
            yield ()
            return
        for draft, after in self.successors(contents):
            images = [(self.renamed_draft(r, draft), r) for r in keeping]
            if all(_rank(draft) <= _rank(image) for image, _ in images):
                for rest in self._histories(after, changes - 1, [r for image, r in images if image == draft]):
                    yield (draft, *rest)

    # ------------------------------------------------------------------ symmetry

    def _renamings(self) -> Iterator[Renaming]:
        """All permutations of the values of each domain, NULL excepted, that take the scope's rows to its rows."""
        values: dict[str, list[Value]] = {}
        for spec in self.specs:
            for row in spec.rows:
                for domain, value in zip(spec.domains, row, strict=True):
                    if domain and value is not None and value not in values.setdefault(domain, []):
                        values[domain].append(value)
        for images in product(*(permutations(of) for of in values.values())):
            renaming = {
                (domain, value): other
                for (domain, own), image in zip(values.items(), images, strict=True)
                for value, other in zip(own, image, strict=True)
            }
            if all({self._row(renaming, n, row) for row in s.rows} == set(s.rows) for n, s in enumerate(self.specs)):
                yield renaming

    def _keeps_lanes(self, renaming: Renaming) -> bool:
        """Tells whether rows share a home lane exactly if their images do."""
        for count in self.lanes:
            pairs = {
                (self.homes[n](row) % count, self.homes[n](self._row(renaming, n, row)) % count)
                for n, spec in enumerate(self.specs)
                for row in spec.rows
            }
            if len({a for a, _ in pairs}) < len(pairs) or len({b for _, b in pairs}) < len(pairs):
                return False
        return True

    def _row(self, renaming: Renaming, table: int, row: Row) -> Row:
        domains = self.specs[table].domains
        return tuple(renaming.get((d, value), value) for d, value in zip(domains, row, strict=True))

    def renamed(self, renaming: Renaming, contents: Contents) -> Contents:
        return _sorted((table, self._row(renaming, table, row)) for table, row in contents)

    def renamed_draft(self, renaming: Renaming, draft: Draft) -> Draft:
        table, before, after = draft
        return (
            table,
            before and self._row(renaming, table, before),
            after and self._row(renaming, table, after),
        )


def _sorted(rows: Iterator[tuple[int, Row]]) -> Contents:
    return tuple(sorted(rows, key=lambda entry: (entry[0], entry[1][0])))


def _rank(what: object) -> str:
    """Any order that does not change will do."""
    return repr(what)
