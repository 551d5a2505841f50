"""The parameters of the API's paths and the bodies of its requests, and the options of commands that they become.

A word that begins with `-` would be an option, and one with a control character none that a process can be given: the
patterns leave both out.  `one_of`: what the check of a body adds to its fields, as JSON Schema has it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

LONGEST_LIST = 1000
RowId: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][!-~]{0,199}$")]
Table: TypeAlias = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{0,200}$")]
Tables: TypeAlias = Annotated[
    tuple[Table, ...], Meta(max_length=LONGEST_LIST, description="Only these source tables, `db.table`; none: all.")
]
Wait: TypeAlias = Annotated[
    float, Meta(ge=0, le=3600, description="For how many seconds nothing may happen before the command gives up.")
]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""

    def options(self) -> list[str]:
        """Returns the options of the command."""
        return []


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows are listed."""

    table: Annotated[Table, Meta(description="Only rows of this table.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many, at most.")] = 100

    def options(self) -> list[str]:
        """Returns the options of the command."""
        table = [f"--table={self.table}"] if self.table else []
        return table if self.limit == 100 else [*table, f"--limit={self.limit}"]


class Chosen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which failed rows a decision is about: one of the three."""

    one_of: ClassVar = (
        {"required": ["ids"], "properties": {"ids": {"minItems": 1}}},
        {"required": ["table"], "properties": {"table": {"minLength": 1}}},
        {"required": ["all"], "properties": {"all": {"const": True}}},
    )
    ids: Annotated[
        tuple[RowId, ...], Meta(max_length=LONGEST_LIST, description="As the list of failed rows names them.")
    ] = ()
    table: Annotated[Table, Meta(description="All failed rows of a table, `db.table`.")] = ""
    all: Annotated[bool, Meta(description="All failed rows of the feed.")] = False

    def __post_init__(self) -> None:
        if bool(self.ids) + bool(self.table) + self.all != 1:
            raise ValueError("say which rows: `ids`, `table`, or `all`: true")

    def options(self) -> list[str]:
        """Returns the options of the command, ids behind `--`."""
        if self.ids:
            return ["--", *self.ids]
        return ["--all"] if self.all else [f"--table={self.table}"]


class TakenFromSource(Chosen, frozen=True, forbid_unknown_fields=True):
    """Which failed rows are replaced by the source's rows of now."""

    wait: Wait = 30.0

    def options(self) -> list[str]:
        """Returns the options of the command."""
        return ["--yes", f"--wait={self.wait}", *super().options()]


class Copied(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tables are copied, and what becomes of rows that the target holds: one of the two."""

    one_of: ClassVar = (
        {"required": ["keep"], "properties": {"keep": {"const": True}}},
        {"required": ["replace"], "properties": {"replace": {"const": True}}},
    )
    tables: Tables = ()
    keep: Annotated[bool, Meta(description="The target's rows stay; rows of the source that clash are left.")] = False
    replace: Annotated[bool, Meta(description="The source's rows replace those of the target.")] = False

    def __post_init__(self) -> None:
        if self.keep + self.replace != 1:
            raise ValueError("say what becomes of the target's rows: `keep`: true, or `replace`: true")

    def options(self) -> list[str]:
        """Returns the options of the command."""
        return [*_tables(self.tables), "--keep" if self.keep else "--yes"]


class Verified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows are compared."""

    tables: Tables = ()
    since: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_.-]{1,100}:[0-9]{1,20}|[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9T:.+ -]{0,30}|"
            r"[0-9]{1,9}[a-z]{1,3})?$",
            description="Only rows that changed since `FILE:OFFSET`, a time, or an age (`2h`).",
        ),
    ] = ""
    wait: Wait = 60.0

    def options(self) -> list[str]:
        """Returns the options of the command."""
        since = [f"--since={self.since}"] if self.since else []
        return [*_tables(self.tables), *since, f"--wait={self.wait}"]


class Repaired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which differences are repaired."""

    tables: Tables = ()
    job: Annotated[int, Meta(ge=0, description="The job of `verify` that found them; 0: the feed's newest.")] = 0
    wait: Wait = 120.0

    def options(self) -> list[str]:
        """Returns the options of the command."""
        return [*_tables(self.tables), "--yes", f"--wait={self.wait}"]


Parameters: TypeAlias = Nothing | Listed | Chosen | TakenFromSource | Copied | Verified | Repaired


def _tables(names: tuple[str, ...]) -> list[str]:
    return [f"--table={name}" for name in names]
