"""The difference between two files of one feed, and what it means for the rows at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.config.filter_change import FilterChange, compared
from tidelock.adapters.config.url import Endpoint
from tidelock.engine.model.records import TableName

Copied: TypeAlias = Literal["", "copy", "keep"]
TableEvent: TypeAlias = Literal["comes in", "goes", "other target", "columns", "filter", "settings"]

_WITHIN: Final = (FilterChange.SAME, FilterChange.WIDER)
_NEXT: Final = "holds from the next run on"
_MEANS: Final = {
    "start": "nothing for a feed that has begun: it goes on where it stands",
    "copy": "holds for the next copy",
    "spark": "holds for the next copy or verification",
    "consistency": "holds from the next run on, which begins between two source transactions",
}
_MOVED: Final = (
    "Where the same server has moved, or a replica takes its place, correct the file by hand: the next run proves that "
    "the log is the same, or halts"
)
_FIXED: Final = {
    "feed": (
        "is another feed to the bookkeeping, without a place in the log",
        "Keep the name; or write a file of its own with `start: copy`, and `tidelock remove` this one",
    ),
    "source": (
        "names another server or database, whose log has no place of this feed",
        "Keep it; for another source write a feed of a new name with `start: copy`. " + _MOVED,
    ),
    "target": (
        "names another server or database, which has neither the feed's rows nor its bookkeeping",
        "Keep it; for another target write a feed of a new name with `start: copy`",
    ),
    "schema": (
        "names other bookkeeping, which holds no place of this feed",
        "Keep it; for another schema write a feed of a new name with `start: copy`",
    ),
    "log": ("moves the feed to another log", "See docs/how-to/scale-out.md: a feed is moved while nothing of it runs"),
    "partitions": (
        "divides the log anew",
        "See docs/how-to/scale-out.md: a feed is divided anew while nothing of it runs",
    ),
    "sites": ("changes which changes come back", "Two sites are changed as a pair: docs/how-to/pair.md"),
    "conflicts": ("changes who decides conflicts", "Two sites are changed as a pair: docs/how-to/pair.md"),
}


class TableChange(msgspec.Struct, frozen=True):
    """The change of one source table.  `before`, `after`: as the files say it.  `copy`: how its rows are copied."""

    table: str
    target: str
    what: TableEvent
    before: str
    after: str
    means: str
    copy: Copied = ""


class KeyChange(msgspec.Struct, frozen=True):
    """A key of the feed that has another value.  `refused`: it cannot have; `means` says why, `hint` what to do."""

    key: str
    before: str
    after: str
    means: str
    refused: bool = False
    hint: str = ""


class SourceColumns(msgspec.Struct, frozen=True):
    """The columns of a table at the source.  `keyed`: it has a primary key."""

    names: tuple[str, ...]
    keyed: bool = True


class FeedChange(msgspec.Struct, frozen=True):
    """The difference.  `unmatched`: patterns that are new and match no table at the source now."""

    tables: tuple[TableChange, ...] = ()
    keys: tuple[KeyChange, ...] = ()
    unmatched: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.keys or self.unmatched)

    @property
    def refused(self) -> tuple[KeyChange, ...]:
        """Returns the keys that cannot be changed."""
        return tuple(one for one in self.keys if one.refused)

    @property
    def copies(self) -> dict[TableName, Literal["copy", "keep"]]:
        """Returns the source tables that are to be copied, and how."""
        return {_name(one.table): one.copy for one in self.tables if one.copy}

    @property
    def targets(self) -> tuple[TableName, ...]:
        """Returns the tables at the target of all that changes."""
        return tuple(_name(one.target) for one in self.tables)


def difference(
    former: Feed,
    new: Feed,
    there: Mapping[TableName, SourceColumns],
    *,
    begun: bool = True,
    copies: bool = True,
    keep: bool = False,
    earlier: Sequence[TableRule] = (),
) -> FeedChange:
    """Returns the difference.  `there`: the tables at the source that either takes.  `begun`: the feed has a place in
    the log.  `copies`: rows are copied that are not at the target.  `keep`: what the target holds of them stays.
    `earlier`: rules of before the former ones."""
    tables = [_table(former, new, name, columns, earlier) for name, columns in sorted(there.items())]
    changed = [_copied(one, begun=begun, copies=copies, keep=keep) for one in tables if one is not None]
    rules = {rule.source for rule in former.tables}
    unmatched = [
        rule.source
        for rule in new.tables
        if rule.source not in rules and not any(new.select(name) is rule for name in there)
    ]
    return FeedChange(tuple(changed), tuple(_keys(former, new)), tuple(unmatched))


# ---------------------------------------------------------------------- tables


def _table(
    former: Feed, new: Feed, name: TableName, columns: SourceColumns, earlier: Sequence[TableRule]
) -> TableChange | None:
    old, rule = former.select(name), new.select(name)
    if old is None and rule is None:
        return None
    if rule is None:
        target = str(former.target_name(name))
        means = "rows at the target stay as they are, and change no more"
        return TableChange(str(name), target, "goes", _worded(old), "", means)
    target = str(new.target_name(name))
    words = str(name), target
    if old is None:
        return TableChange(*words, "comes in", "", _worded(rule), "rows that are there are copied", "copy")
    if former.target_name(name) != new.target_name(name):
        means = f"rows at {former.target_name(name)} stay and change no more; all are copied"
        return TableChange(*words, "other target", str(former.target_name(name)), target, means, "copy")
    before = [one.where for one in earlier if one.matches(name)]
    return (
        _columns(words, old, rule, columns)
        or _filter(words, old, rule, columns, before)
        or _settings(words, old, rule)
    )


def _columns(words: tuple[str, str], old: TableRule, rule: TableRule, columns: SourceColumns) -> TableChange | None:
    before, after = (_taken(one, columns.names) for one in (old, rule))
    if before == after:
        return None
    come = [column for column in after.items() if column not in before.items()]
    go = [column for column in before.items() if column not in after.items()]
    told = [f"{', '.join(target for _, target in go)}: values at the target stay and change no more"] if go else []
    if come or old.where != rule.where:
        told.append("all rows are copied anew")
    shown = ", ".join(_pair(*c) for c in go), ", ".join(_pair(*c) for c in come)
    return TableChange(*words, "columns", *shown, "; ".join(told), "copy" if come or old.where != rule.where else "")


def _filter(
    words: tuple[str, str], old: TableRule, rule: TableRule, columns: SourceColumns, earlier: Sequence[str]
) -> TableChange | None:
    change = compared(old.where, rule.where)
    if change is FilterChange.SAME:
        return None
    copy: Copied = ""
    match change:
        case FilterChange.WIDER if not all(compared(one, old.where) in _WITHIN for one in earlier):
            means = "wider, as it was once: what came then is as it was, so all rows are copied anew"
            copy = "copy"
        case FilterChange.WIDER if columns.keyed:
            means, copy = "wider: rows that never came are copied, those at the target stay", "keep"
        case FilterChange.NARROWER:
            means = (
                "narrower: rows at the target that no longer belong stay, and change no more; "
                f"`tidelock copy FEED --table {words[0]}` takes them away"
            )
        case _:
            means, copy = "rows that never came may belong, and others no longer: all are copied anew", "copy"
    return TableChange(*words, "filter", old.where or "all rows", rule.where or "all rows", means, copy)


def _settings(words: tuple[str, str], old: TableRule, rule: TableRule) -> TableChange | None:
    changed = [key for key in ("weight", "version", "conflicts") if getattr(old, key) != getattr(rule, key)]
    if not changed:
        return None
    before, after = (", ".join(f"{key}: {getattr(one, key) or 'none'}" for key in changed) for one in (old, rule))
    return TableChange(*words, "settings", before, after, _NEXT)


def _copied(change: TableChange, *, begun: bool, copies: bool, keep: bool) -> TableChange:
    """Returns the change with what the operator wants of copies."""
    if not begun:
        return msgspec.structs.replace(change, copy="", means="the feed has not begun, so it begins like this")
    if not change.copy:
        return change
    if not copies:
        words = "not copied: only changes from where the feed stands on come"
        return msgspec.structs.replace(change, copy="", means=words)
    if keep and change.copy == "copy":
        words = "copied; rows at the target stay, and source rows that clash are passed over"
        return msgspec.structs.replace(change, copy="keep", means=words)
    return change


def _taken(rule: TableRule, names: Sequence[str]) -> dict[str, str]:
    """Returns the columns that a rule takes, each with its name at the target."""
    wanted = rule.columns
    taken = [n for n in names if n not in wanted.exclude and (not wanted.include or n in wanted.include)]
    return {name: wanted.rename.get(name, name) for name in taken}


def _pair(source: str, target: str) -> str:
    return source if source == target else f"{source} as {target}"


def _worded(rule: TableRule | None) -> str:
    return rule.where or "all rows" if rule is not None else ""


def _name(text: str) -> TableName:
    schema, _, table = text.partition(".")
    return TableName(schema, table)


# ---------------------------------------------------------------------- keys


def _keys(former: Feed, new: Feed) -> list[KeyChange]:
    changes = []
    for field in msgspec.structs.fields(Feed):
        before, after = getattr(former, field.name), getattr(new, field.name)
        key = field.encode_name
        if key == "tables" or before == after:
            continue
        shown = _shown(before), _shown(after)
        if key in _FIXED and not (key in ("source", "target") and _same_place(before, after)):
            means, hint = _FIXED[key]
            changes.append(KeyChange(key, *shown, means, refused=True, hint=hint))
        elif key == "server_id" and former.name != new.name:
            continue  # made from the name
        else:
            changes.append(KeyChange(key, *shown, _MEANS.get(key, _NEXT)))
    return changes


def _same_place(before: Endpoint, after: Endpoint) -> bool:
    return all(getattr(before, part) == getattr(after, part) for part in ("scheme", "host", "port", "database"))


def _shown(value: object) -> str:
    """Returns a value as the preview shows it, without passwords; settings of Spark may hold some."""
    if value is None or value == "":
        return "none"
    if isinstance(value, msgspec.Struct) and not isinstance(value, Endpoint):
        told = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
        shown = [f"{field.encode_name}: {_shown(part)}" for field, part in told if part != _default(field)]
        return ", ".join(shown) or "as by default"
    if isinstance(value, dict):
        return f"{', '.join(sorted(value))} (values are not shown)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
