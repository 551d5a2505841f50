"""Changes of rows of which PostgreSQL's log tells nothing, found by two looks at the catalogue.

- A partition that is detached or dropped takes its rows away, one that is attached brings some, and a TRUNCATE of a
  partition is not published where its rows come as those of its table.  Whether a partition was made as one shows by
  the transactions that wrote it and its place among the partitions: they are the same.
- `ALTER COLUMN … TYPE … USING` that keeps the type leaves the form as it was.  It has put the rows into another file,
  and the transaction that wrote the column's definition made the files of the table or of its indexes.
- A label of an enum that gets another name has that in all rows at once.

VACUUM FULL and CLUSTER of a partition, which change no row, cannot be told from a TRUNCATE of it, and are told as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from tidelock.adapters.postgres.logical.form_facts import FormFacts
from tidelock.adapters.postgres.logical.relation_changes import POSITIVE, Form, FormChange
from tidelock.engine.model.schema_change import DdlKind

Mark: TypeAlias = tuple[str, int, int]
"""Mark that tells such a change from others of the table."""
_EMPTIED: Final = "TRUNCATE of a partition takes its rows away, VACUUM FULL and CLUSTER change none"
_WRITTEN: Final = "what changes then is in no message; VACUUM FULL and CLUSTER change no row"


def untold(before: Form, after: Form) -> FormChange | None:
    """Returns what happened to rows between two looks at one table that no message tells; None where nothing did."""
    was, now = before.facts, after.facts
    if was is None or now is None:
        return None
    found = [*_partitions(was, now), *_converted(before, after), *_labels(was, now)] or [*_unlogged(before, after)]
    if not found:
        return None
    words = [text for _, text in found]
    if before.parts != after.parts:
        words.append("it was changed in another way as well")
    tables = tuple(dict.fromkeys((before.name, after.name)))
    told = msgspec.json.encode((before.parts, after.seen, [mark for mark, _ in found]))
    number = xxh3_64_intdigest(told) & POSITIVE
    return FormChange(after.oid, number, DdlKind.OTHER, f"{after.name}: {'; '.join(words)}", tables, untold=True)


def renewed(known: FormFacts, seen: FormFacts) -> bool:
    """Tells whether a look shows other facts than are known, of those that the next look is compared with."""
    return _compared(known) != _compared(seen)


def _compared(facts: FormFacts) -> tuple[object, ...]:
    files = sorted((one.oid, one.file, one.attached) for one in facts.partitions)
    return files, facts.converted, facts.labels, facts.file


def _unlogged(before: Form, after: Form) -> Iterator[tuple[Mark, str]]:
    was, now, place = before.facts, after.facts, after.published or before.published
    if was is None or now is None or was.partitions or now.partitions or before.parts != after.parts:
        return
    if place.count(".") == 1 and 0 not in (was.file, now.file) and was.file != now.file:
        words = "it was written anew, and the publication does not name it, so it may have been UNLOGGED for a while"
        yield ("written", 0, was.file), f"{words}: {_WRITTEN}"


def _partitions(was: FormFacts, now: FormFacts) -> Iterator[tuple[Mark, str]]:
    had, has = ({one.oid: one for one in facts.partitions} for facts in (was, now))
    for oid, one in had.items():
        if oid not in has:
            text = f"its partition {one.name or oid} was detached or dropped, and the log does not tell its rows"
            yield ("gone", oid, 0), text
    for oid, one in has.items():
        former = had.get(oid)
        brings = not one.empty if former is None else former.file != 0
        if one.attached and brings and (former is None or former.attached != one.attached):
            again = "" if former is None else "detached and "
            text = f"its partition {one.name} was {again}attached, and the log does not tell the rows that it had"
            yield ("attached", oid, one.attached), text
        elif former is not None and former.file not in (0, one.file):
            text = f"its partition {one.name} was emptied or written anew by itself, and the log tells nothing of it"
            yield ("emptied", oid, former.file), f"{text}: {_EMPTIED}"
        elif former is None and not one.attached and one.file not in (0, oid) and all(p.file for p in was.partitions):
            text = f"its partition {one.name} was written anew since it was made: it was emptied, or UNLOGGED"
            yield ("emptied", oid, oid), f"{text}, and the log tells nothing of that; VACUUM FULL changes no row"


def _converted(before: Form, after: Form) -> Iterator[tuple[Mark, str]]:
    was, now = before.facts, after.facts
    if was is None or now is None or was.converted is None or now.converted is None or was.file in (0, now.file):
        return
    by_number, names = dict(was.converted), {column.number: column.name for column in after.columns}
    for number, transaction in now.converted:
        old, new = was.column(number), now.column(number)
        if old is None or new is None or number not in names or by_number.get(number) == transaction:
            continue
        is_same = (old.type, old.modifier) == (new.type, new.modifier)  # another type is told as such
        if is_same and (old.fill is None or new.has_default):  # else VACUUM FULL may have taken the value away
            text = f"column {names[number]} was converted and the table written anew"
            yield ("converted", number, transaction), f"{text}: what USING computed is in no message"


def _labels(was: FormFacts, now: FormFacts) -> Iterator[tuple[Mark, str]]:
    if was.labels is None or now.labels is None:
        return
    names = dict(now.labels)
    for oid, label in was.labels:
        if names.get(oid, label) != label:
            yield ("label", oid, 0), f"the enum's label {label} is {names[oid]} now, in all rows that have it"
