"""Lines of the page on schema changes: what no message of PostgreSQL's log tells, and a look at the catalogue shows."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tidelock.adapters.postgres.logical.form_facts import ColumnState, FormFacts, Partition
from tidelock.adapters.postgres.logical.relation_changes import Form, FormColumn
from tidelock.adapters.postgres.logical.untold_rows import untold
from tidelock.engine.model.records import TableName

_PART: Final = Partition(7, empty=False, name="t1", file=1)
_A: Final = ColumnState(1, "a", 23, -1, "integer", False, False)
_FACTS: Final = FormFacts((_A,), converted=(), labels=((9, "x"),), file=1)
_COLUMN: Final = FormColumn("a", 23, -1, "integer", 1)
_FORM: Final = Form(1, TableName("public", "t"), (_COLUMN,), ("a",), facts=_FACTS, published="5.6")
_PARTED: Final = replace(_FACTS, partitions=(_PART,))
_CASES: Final = (
    ("DETACH PARTITION, DROP of a partition", _PARTED, _FACTS),
    ("ATTACH PARTITION, which has rows", _FACTS, replace(_FACTS, partitions=(replace(_PART, attached=5),))),
    ("ATTACH PARTITION, which is empty; CREATE TABLE … PARTITION OF", _FACTS,
     replace(_FACTS, partitions=(replace(_PART, attached=5, empty=True),))),
    ("TRUNCATE, VACUUM FULL or CLUSTER of one partition", _PARTED,
     replace(_FACTS, partitions=(replace(_PART, file=2),))),
    ("TRUNCATE of a partition that no look has seen; it was UNLOGGED for a while", _FACTS,
     replace(_FACTS, partitions=(replace(_PART, file=8),))),
    ("SET UNLOGGED and SET LOGGED, where the publication does not name the table; VACUUM FULL, CLUSTER there", _FACTS,
     replace(_FACTS, file=2)),
    ("ALTER COLUMN … TYPE … USING, which keeps the type", _FACTS, replace(_FACTS, converted=((1, 5),), file=2)),
    ("ALTER TYPE … RENAME VALUE of an enum", _FACTS, replace(_FACTS, labels=((9, "y"),))),
    ("ALTER TYPE … ADD VALUE of an enum", _FACTS, replace(_FACTS, labels=((9, "x"), (10, "y")))),
)  # fmt: skip


def untold_lines() -> list[tuple[str, str, str, str]]:
    """Returns (change, outcome at PostgreSQL, at MySQL and MariaDB, why it halts)."""
    lines = []
    for name, before, after in _CASES:
        found = untold(replace(_FORM, facts=before), replace(_FORM, facts=after))
        outcome = "passed" if found is None else "halts"
        lines.append((name, outcome, outcome, "" if found is None else found.statement))
    return lines
