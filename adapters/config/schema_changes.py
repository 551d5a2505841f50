"""The feed's `ddl`: what becomes of the source's schema changes, by their kinds, and where they are made."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tidelock.adapters.config.sites import Site

Policy: TypeAlias = Literal["apply", "halt", "skip", "lenient"]


class FeedDdl(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of schema changes that could be applied.  `made_at`: a site's name; None for each of them."""

    made_at: Annotated[
        Site | None,
        Meta(
            description="Between sites: the one where they are made; the feed halts at those that were made at "
            "another. Default: each.",
        ),
    ] = msgspec.field(default=None, name="from")
    default: Annotated[
        Policy,
        Meta(
            description="For kinds without a key of their own. `apply` at the target; `halt` for the operator; `skip`: "
            "the target stays as it is; `lenient`: as `apply`, but no column and no table is dropped there."
        ),
    ] = "apply"
    create_table: Annotated[Policy | None, Meta(description="CREATE TABLE, also LIKE another.")] = None
    drop_table: Annotated[Policy | None, Meta(description="DROP TABLE.")] = None
    rename_table: Annotated[Policy | None, Meta(description="RENAME TABLE.")] = None
    truncate: Annotated[Policy | None, Meta(description="TRUNCATE.")] = None
    add_column: Annotated[Policy | None, Meta(description="ADD COLUMN.")] = None
    drop_column: Annotated[Policy | None, Meta(description="DROP COLUMN.")] = None
    rename_column: Annotated[Policy | None, Meta(description="RENAME COLUMN.")] = None
    change_column: Annotated[
        Policy | None, Meta(description="MODIFY and CHANGE COLUMN, CONVERT TO CHARACTER SET.")
    ] = None
    keys: Annotated[
        Policy | None,
        Meta(description="Primary keys, unique and foreign keys, added or dropped; indexes and CHECKs, dropped."),
    ] = None

    indexes: Annotated[
        Policy | None, Meta(description="Indexes that are not unique, added; those that go are of `keys`.")
    ] = None
    set_default: Annotated[Policy | None, Meta(description="ALTER COLUMN SET and DROP DEFAULT.")] = None

    def of(self, kind: str) -> Policy:
        """Returns the policy of a kind, which is one of the keys."""
        own: Policy | None = getattr(self, kind, None)
        return own if own is not None else self.default
