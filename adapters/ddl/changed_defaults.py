"""Defaults of columns that a statement sets or drops, on their way to a target.

Rows come with every value, so no row depends on a default: a target goes without one that may mean something else
there.  Whether it is set already does not matter, as it may be set twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.fills import check_fill
from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.ddl.operations import Clause, RenameColumn, SetDefault
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.ports.definition import Default
from tidelock.adapters.schema.defaults import translated
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.schema import TargetColumn
from tidelock.engine.model.schema_change import FormerColumn

NULL: Final = Default(expression="NULL")
_LONG: Final = ("text", "blob", "json", "geometry")


def read_default(reader: Reader, name: str) -> SetDefault | None:
    """Reads what is set or dropped, behind the column's name; None where that is something else than a default."""
    if reader.take("DROP", "DEFAULT"):
        return SetDefault(name, None)
    if not reader.take("SET", "DEFAULT"):
        return None
    if reader.peek() == "(":
        reader.skip_group()
        return SetDefault(name, Default(expression="an expression"))
    sign = "-" if reader.take("-") else ""
    token = reader.next()
    if token.upper == "NULL":
        return SetDefault(name, NULL)
    if token.upper in ("TRUE", "FALSE"):
        return SetDefault(name, Default("1" if token.upper == "TRUE" else "0"))
    if token.certain and token.mark in (Mark.STRING, Mark.QUOTED, Mark.NUMBER):
        return SetDefault(name, Default(sign + token.text))
    if reader.peek() == "(":
        reader.skip_group()
    return SetDefault(name, Default(expression=token.text))


def column_of(name: str, shape: TargetShape, clauses: Sequence[Clause]) -> TargetColumn | None:
    """Returns the target's column, under the name that it has now: the statement may name it anew as well."""
    to = next((c.to for c in clauses if isinstance(c, RenameColumn) and c.name.lower() == name.lower()), name)
    return shape.column(name) or shape.column(to)


def default_words(default: Default | None, column: TargetColumn, former: FormerColumn | None, dialect: Dialect) -> str:
    """Returns what follows ALTER COLUMN and the name.  `former`: the source's column.  Raises NotTranslated."""
    if column.generated:
        raise NotTranslated("the target computes it")
    if default is None:
        return "DROP DEFAULT"
    if default == NULL:
        return "SET DEFAULT NULL"
    if default.value is None:
        raise NotTranslated(f"{default.expression} is not constant")
    if dialect == "mysql":
        text = quoted(default.value)
        return f"SET DEFAULT ({text})" if column.type.endswith(_LONG) else f"SET DEFAULT {text}"
    if former is None:
        raise NotTranslated("the column's type at the source is not known")
    try:
        check_fill(former.column, default.value)
    except NotPlain:
        raise NotTranslated("servers may read it in different ways") from None
    source = SourceColumn(former.column, former.type, former.nullable, collation=former.collation)
    return f"SET DEFAULT {translated(source, default, 'mysql', 'postgres')}"
