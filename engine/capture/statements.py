"""The way of statements between sites: which go on, which have run at the target already, which are not taken.

A statement that a feed has run at the source has the path of that feed's receipts, which the source's adapter has made
sure of.  The rule of changes holds for it too: it goes to a site unless that is in its path.  One that is in the
target's path is told all the same: what the target's tables look like is read anew there, and rows in the new form
follow.

Where one site alone makes statements (`Sites.statements`), one that was made at another is told as such, and the feed
halts at it.
"""

from __future__ import annotations

import msgspec

from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.schema_change import Ddl, DdlKind


def ruled(ddl: Ddl, sites: Sites) -> Ddl:
    """Returns a statement with what becomes of it, and its path as it is at the target."""
    if ddl.kind is DdlKind.UNRELATED and not ddl.path:
        return ddl
    path = (*ddl.path, sites.source)
    if ddl.path:
        return msgspec.structs.replace(ddl, path=path, back=sites.target in ddl.path)
    if sites.statements and sites.statements != sites.source:
        return msgspec.structs.replace(ddl, path=path, elsewhere=(sites.source, sites.statements))
    return msgspec.structs.replace(ddl, path=path)
