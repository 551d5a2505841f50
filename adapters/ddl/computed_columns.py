"""Values that a generated column of MySQL or MariaDB has in rows that are there when it is added: computed once.

At the target it is a plain column, as `tidelock init` makes it: rows to come bring the values that the source has
computed.  The values that the log does not tell are computed from the target's own columns, by expressions that the two
servers are known to compute alike (`schema.expressions`); any other expression is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.operations import AddComputed
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.schema.computed import require_digits
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import is_text
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Equality, TargetColumn
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

_NUMBER: Final = re.compile(r"(tiny|small|medium|big)?int|integer|decimal|numeric")
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_QUOTED: Final = re.compile(r"`(?:[^`]|``)+`|'((?:[^']|'')*)'")


def expression_at(
    clause: AddComputed,
    before: FormerTable | None,
    shape: TargetShape,
    name_of: Callable[[str], str | None],
    touched: Collection[str],
    dialect: Dialect,
) -> str:
    """Returns the expression of a new column in the target's words.  `before`: the source's table just before; `shape`:
    the target's; `name_of`: the target's name of a column, None of one that is left out; `touched`: columns that the
    statement changes as well, in lower case.  Raises NotTranslated."""
    from tidelock.adapters.schema.expressions import Translation  # sqlglot is slow to import

    if not clause.expression:
        raise NotTranslated("the statement does not tell for certain by what")
    if before is None:
        raise NotTranslated("how its table was before the statement is not known")
    every = [quoted.replace("``", "`") or word for quoted, word in _NAME.findall(clause.expression)]
    used, names = dict[str, SourceColumn](), dict[str, str]()
    for former in before.columns:
        for spelled in [word for word in every if word.lower() == former.column.name.lower()]:
            there = shape.column(name_of(former.column.name) or "")
            if spelled.lower() not in touched and there is not None and _is_alike(former, there):
                used[spelled], names[spelled] = SourceColumn(former.column, former.type, True), there.name
    require_digits([used[name] for name in every if name in used], clause.expression)
    folded = {name: Equality.FOLDED for name, column in used.items() if column.column.kind is Kind.TEXT}
    made, sort = Translation("mysql", dialect, used, names, folded).typed(clause.expression)
    made = _QUOTED.sub(_spelled, made) if dialect == "mysql" else made
    kind = clause.column.column.kind
    if sort == "truth" and kind is Kind.INT:
        return f"({made})::int" if dialect == "postgres" else made
    if sort == "number" and kind in (Kind.INT, Kind.DECIMAL):
        return made
    if sort in ("text", "folded", "word") and kind is Kind.TEXT and not clause.column.type.startswith("char("):
        return made
    raise NotTranslated(f"what {clause.expression} becomes as {clause.column.type} is not known to be the same there")


def _is_alike(former: FormerColumn, there: TargetColumn) -> bool:
    """Tells whether a column of the target has its values in the same sort of type."""
    match former.column.kind:
        case Kind.INT | Kind.DECIMAL:
            return _NUMBER.match(there.type) is not None
        case Kind.TEXT:
            return is_text(there.type)
        case Kind.DATE | Kind.DATETIME:
            return there.type.startswith(("date", "timestamp"))
    return False


def _spelled(found: re.Match[str]) -> str:
    """Returns a text without a quote in it, which MySQL writes down as the end of the text, and reads again."""
    if "'" not in (text := (found[1] or "").replace("''", "'")):
        return found[0]
    return f"CONVERT(x'{text.encode().hex()}' USING utf8mb4)"
