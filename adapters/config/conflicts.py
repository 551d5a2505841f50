"""The parts of a feed's YAML that say who decides conflicts of two sites, and how (`engine.two_way`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tidelock.adapters.config.sites import FeedSites
from tidelock.adapters.config.url import Endpoint
from tidelock.engine.model.conflict_options import Direction, GroupWords, PolicyWord, TableWords
from tidelock.engine.two_way.conflicts import Conflict
from tidelock.engine.two_way.policies import Group, Order, Policies, Policy, refused

Problem: TypeAlias = tuple[tuple[str | int, ...], str]
"""A key below the part, and what is wrong there."""


class ColumnGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of a table that have a policy of their own."""

    columns: Annotated[
        tuple[str, ...], Meta(min_length=1, description="By their names at the target; any change of one carries all.")
    ]
    policy: Annotated[PolicyWord, Meta(description="For these columns.")]


class TableConflicts(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a table."""

    default: Annotated[
        PolicyWord | None, Meta(description="For conflicts that nothing else is said of. Default: the feed's.")
    ] = None
    types: Annotated[
        dict[str, str], Meta(description="Type of conflict: policy. Other types: as the feed says.")
    ] = {}
    version: Annotated[
        str,
        Meta(
            description="For `latest`: the column, by its name at the target, that grows with every change of a row: "
            "a number, a date or a time. Without it commits are compared by their times, where the arbiter is "
            "PostgreSQL and the spoke PostgreSQL or MySQL."
        ),
    ] = ""
    groups: Annotated[
        tuple[ColumnGroup, ...],
        Meta(description="Columns with a policy of their own, as `delta`, that also travel apart; keys below."),
    ] = ()


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """The columns that hold a row's stamp, the same at all sites."""

    time: Annotated[str, Meta(min_length=1, description="When the row was written last, in microseconds.")] = "tl_time"
    site: Annotated[str, Meta(min_length=1, description="Where.")] = "tl_site"


class FeedConflicts(msgspec.Struct, frozen=True, kw_only=True):
    """The site that decides conflicts, or stamps that do, and the policies of all tables."""

    arbiter: Annotated[
        str, Meta(description="The site whose log decides: one of the feed's two. Both feeds of a pair say the same.")
    ] = ""
    stamp: Annotated[
        Stamp | None,
        Meta(description="In place of an arbiter, for rings and meshes: the row with the greater stamp stays."),
    ] = None
    default: Annotated[
        PolicyWord, Meta(description="For conflicts that nothing else is said of. `stop` sets the change aside.")
    ] = "stop"
    types: Annotated[dict[str, str], Meta(description="Type of conflict: policy.")] = {}
    echo: Annotated[
        Literal["exact", "all"],
        Meta(
            description="Which of a spoke's own changes the arbiter sends back: `exact`, those that crossed others; "
            "`all`, every one."
        ),
    ] = "exact"

    def direction(self, sites: FeedSites) -> Direction:
        """Returns the feed's direction: `down` from the arbiter, `up` to it."""
        if not self.arbiter:
            return "none"
        return "down" if self.arbiter == sites.source else "up"

    def of(self, table: TableConflicts) -> TableWords:
        """Returns the policies of a table, with those of the feed where it says nothing."""
        return TableWords(
            table.default or self.default,
            {**({} if table.default else self.types), **table.types},
            tuple(GroupWords(group.columns, group.policy) for group in table.groups),
            table.version,
        )


def feed_problems(conflicts: FeedConflicts, sites: FeedSites | None) -> Iterator[Problem]:
    """Yields what is wrong with a feed's part."""
    if sites is None:
        yield (), "they are decided between sites: name them (`sites:`)"
        return
    if bool(conflicts.arbiter) == (conflicts.stamp is not None):
        yield (), "say who decides: `arbiter: SITE`, or `stamp: {time: tl_time, site: tl_site}`, one of the two"
        return
    if conflicts.stamp is not None:
        if (conflicts.default, conflicts.types, conflicts.echo) not in _BY_STAMP:
            yield (), "the greater stamp stays, whatever the conflict is: leave policies and `echo` out"
        return
    if not sites.sister:
        yield (), "they need both directions: name the feed that goes the other way (`sites: sister`)"
    if conflicts.arbiter not in (sites.source, sites.target):
        yield ("arbiter",), f"{conflicts.arbiter} is neither {sites.source} nor {sites.target}"
    yield from _policy_problems(conflicts.of(TableConflicts()))


def untimed(arbiter: Endpoint, spoke: Endpoint) -> str:
    """Returns why commits of the two sites cannot be compared by their times; '' where they can."""
    if arbiter.dialect != "postgres":
        return "MySQL and MariaDB do not tell when a row was changed last"
    if spoke.scheme == "mariadb":
        return "MariaDB logs when a statement began, not when it was committed"
    return ""


def table_problems(table: TableConflicts, conflicts: FeedConflicts | None, no_times: str = "") -> Iterator[Problem]:
    """Yields what is wrong with a table's part.  `no_times`: why times of commits cannot be compared, if so."""
    if conflicts is None:
        if table != TableConflicts():
            yield (), "only a feed with `conflicts: arbiter` decides any"
        return
    if conflicts.stamp is not None:
        if table != TableConflicts():
            yield (), "the greater stamp stays, whatever the conflict is: leave policies out"
        return
    seen: set[str] = set()
    for i, group in enumerate(table.groups):
        for name in group.columns:
            if name in seen:
                yield ("groups", i, "columns"), f"{name} is in a group already"
            seen.add(name)
    words = conflicts.of(table)
    yield from _policy_problems(words)
    named = [words.default, *words.types.values(), *(group.policy for group in words.groups)]
    why = "a commit's time is of the whole row, and this table has groups" if words.groups else no_times
    if Policy.LATEST.value in named and not words.version and why:
        yield (), f"`latest` needs the column that tells which row is later, `conflicts: {{version: COLUMN}}`: {why}"


_BY_STAMP: Final[tuple[tuple[PolicyWord, dict[str, str], str], ...]] = (("stop", {}, "exact"), ("latest", {}, "exact"))


def _policy_problems(words: TableWords) -> Iterator[Problem]:
    for kind, policy in words.types.items():
        for word, known in ((kind, Conflict), (policy, Policy)):
            choices = [one.value for one in known]
            if word not in choices:
                yield ("types", kind), f"{word!r} is not known; use {' or '.join(choices)}"
                return
    for problem in refused(_policies(words), Order.ARBITER):
        yield (), problem


def _policies(words: TableWords) -> Policies:
    """Returns them for `refused`, which asks for no columns here."""
    types = {Conflict(kind): Policy(policy) for kind, policy in words.types.items()}
    return Policies(Policy(words.default), types, tuple(Group((), Policy(group.policy)) for group in words.groups))
