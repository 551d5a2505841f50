"""Translates an expression of a check or an index into the other dialect, where it means the same there.

sqlglot reads it, and what is written is ours: only what both servers are known to compute alike.  Texts that a source
compares without case, arithmetic of floating point numbers and functions with a meaning of their own are refused, with
the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import sqlglot
from sqlglot import exp

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.schema.create_table import identifier
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Equality

_SORTS: Final = {
    **dict.fromkeys((Kind.INT, Kind.YEAR, Kind.DECIMAL), "number"),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), "float"),
    **dict.fromkeys((Kind.DATE, Kind.DATETIME), "time"),
    Kind.TEXT: "text",
    Kind.ENUM: "label",
}
_COMPARED: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_ORDERS: Final = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_ARITHMETIC: Final = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_Type = exp.DataType.Type
_TEXT_TYPES: Final = (_Type.TEXT, _Type.VARCHAR, _Type.CHAR, _Type.BPCHAR)
_TIME_TYPES: Final = (_Type.DATE, _Type.TIMESTAMP)


class Translation:
    """Translation of a table's expressions.  `columns`: of the source, by name.  `names`: their names at the target.
    `equalities`: how the source compares its text columns.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        columns: Mapping[str, SourceColumn],
        names: Mapping[str, str],
        equalities: Mapping[str, Equality],
    ) -> None:
        self._source, self._target = source, target
        self._columns, self._names, self._equalities = columns, names, equalities

    def condition(self, text: str) -> str:
        """Returns a condition for the target.  Raises NotTranslated."""
        return self._condition(_parsed(text, self._source))

    def value(self, text: str) -> str:
        """Returns the expression of an index for the target.  Raises NotTranslated."""
        made, sort = self._value(_parsed(text, self._source))
        if sort == "folded":
            raise NotTranslated("the source compares without case or trailing spaces")
        return made

    def typed(self, text: str) -> tuple[str, str]:
        """Returns an expression for the target, and the sort of its values: `number`, `text`, `folded` (a text that the
        source compares without case), `truth`, … .  Raises NotTranslated."""
        node = _parsed(text, self._source)
        try:
            return self._value(node)
        except NotTranslated as reason:
            try:
                return self._condition(node), "truth"
            except NotTranslated:
                raise reason from None

    def _condition(self, node: exp.Expr) -> str:
        match node:
            case exp.Paren():
                return self._condition(node.this)
            case exp.And() | exp.Or():
                word = "AND" if isinstance(node, exp.And) else "OR"
                return f"({self._condition(node.left)} {word} {self._condition(node.right)})"
            case exp.Not():
                return f"(NOT {self._condition(node.this)})"
            case exp.Is() if isinstance(node.expression, exp.Null):
                return f"({self._value(node.this)[0]} IS NULL)"
            case exp.EQ() if isinstance(node.expression, exp.Any):  # PostgreSQL's spelling of IN
                return self._in(node.this, _listed(node.expression.this))
            case exp.In() if node.expressions:
                return self._in(node.this, node.expressions)
            case exp.Between():
                low, high = (self._ordered(node.this, node.args[end]) for end in ("low", "high"))
                return f"({low[0]} >= {low[1]} AND {high[0]} <= {high[1]})"
            case exp.Binary() if type(node) in _COMPARED:
                two = self._ordered if isinstance(node, _ORDERS) else self._equal
                left, right = two(node.left, node.right)
                return f"({left} {_COMPARED[type(node)]} {right})"
        raise NotTranslated(f"{node.sql(self._source)} is not known to mean the same there")

    def _in(self, node: exp.Expr, values: list[exp.Expr]) -> str:
        pairs = [self._equal(node, value) for value in values]
        return f"({pairs[0][0]} IN ({', '.join(right for _, right in pairs)}))"

    def _equal(self, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
        """Returns both sides of a comparison for equality."""
        (one, sort), (other, second) = self._value(left), self._value(right)
        sorts = {sort, second}
        if "folded" in sorts:
            raise NotTranslated("the source compares without case or trailing spaces")
        if sorts == {"label", "word"} or sorts == {"time", "word"} or sorts == {"text", "word"} or len(sorts) == 1:
            return one, other
        if sorts <= {"number", "float"}:
            return one, other
        raise NotTranslated(f"{left.sql(self._source)} and {right.sql(self._source)} are of different kinds")

    def _ordered(self, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
        """Returns both sides of a comparison by order."""
        sides = self._equal(left, right)
        if {self._value(left)[1], self._value(right)[1]} & {"text", "label"}:
            raise NotTranslated("texts have another order there")
        return sides

    def _value(self, node: exp.Expr) -> tuple[str, str]:
        """Returns an expression for the target, and the sort of its values."""
        match node:
            case exp.Paren():
                return self._value(node.this)
            case exp.Column():
                return self._column(node.name)
            case exp.Introducer() if str(node.this).lower() in ("_utf8mb4", "_latin1", "_utf8mb3"):
                return self._value(node.expression)
            case exp.Literal():
                return self._literal(node)
            case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return f"-{node.this.this}", "number"
            case exp.Cast() if node.to.this in _TEXT_TYPES and not node.to.expressions:
                inner, sort = self._value(node.this)
                if sort in ("text", "word"):
                    return inner, sort
            case exp.Cast() if node.to.this == _Type.DECIMAL and not node.to.expressions:
                inner, sort = self._value(node.this)
                if sort == "number":
                    return inner, sort
            case exp.Cast() if node.to.this in _TIME_TYPES and isinstance(node.this, exp.Literal):
                return self._value(node.this)
            case exp.Length() if not node.args.get("binary"):
                inner, sort = self._value(node.this)
                if sort in ("text", "folded"):
                    return f"char_length({inner})", "number"
            case exp.Binary() if type(node) in _ARITHMETIC:
                return self._arithmetic(node)
            case exp.Null():
                return "NULL", "null"
            case exp.Coalesce():
                values, sort = self._alike([node.this, *node.expressions])
                return f"COALESCE({', '.join(values)})", sort
            case exp.Concat() if not node.args.get("coalesce"):
                return self._joined(node.expressions)
            case exp.If():
                return self._cases([node], node.args.get("false"))
            case exp.Case() if node.this is None:
                return self._cases(node.args["ifs"], node.args.get("default"))
        raise NotTranslated(f"{node.sql(self._source)} is not known to mean the same there")

    def _cases(self, branches: Sequence[exp.Expr], otherwise: exp.Expr | None) -> tuple[str, str]:
        """Returns CASE for branches that have a condition each."""
        conditions = [self._condition(branch.this) for branch in branches]
        (*values, last), sort = self._alike([*(branch.args["true"] for branch in branches), otherwise or exp.Null()])
        whens = " ".join(f"WHEN {one} THEN {value}" for one, value in zip(conditions, values, strict=True))
        return f"(CASE {whens} ELSE {last} END)", sort

    def _joined(self, nodes: Sequence[exp.Expr]) -> tuple[str, str]:
        """Returns texts one behind the other, which are NULL where one of them is."""
        texts, sort = self._alike(nodes)
        if sort not in ("text", "folded"):
            raise NotTranslated("servers write what is no text in different ways")
        return f"({' || '.join(texts)})" if self._target == "postgres" else f"CONCAT({', '.join(texts)})", sort

    def _alike(self, nodes: Sequence[exp.Expr]) -> tuple[list[str], str]:
        """Returns expressions of which one is chosen, and their sort, which is the same."""
        found = [self._value(node) for node in nodes]
        sorts = {sort for _, sort in found} - {"null"}
        if sorts and sorts <= {"text", "folded", "word"}:
            sort = "folded" if "folded" in sorts else "text"
        elif sorts == {"number"}:
            sort = "number"
        else:
            raise NotTranslated("values of several sorts have another type there")
        return [made for made, _ in found], sort

    def _arithmetic(self, node: exp.Binary) -> tuple[str, str]:
        (left, one), (right, other) = self._value(node.left), self._value(node.right)
        if {one, other} != {"number"}:
            raise NotTranslated(f"{node.sql(self._source)} may be rounded in another way there")
        if isinstance(node, exp.Sub) and any(self._unsigned(c.name) for c in node.find_all(exp.Column)):
            raise NotTranslated(f"{node.sql(self._source)} fails below 0 at the source, and has a sign there")
        if self._target == "postgres":  # whose integers overflow where MySQL's are wider
            left, right = f"({left})::numeric", f"({right})::numeric"
        return f"({left} {_ARITHMETIC[type(node)]} {right})", "number"

    def _unsigned(self, name: str) -> bool:
        return name in self._columns and self._columns[name].column.unsigned

    def _column(self, name: str) -> tuple[str, str]:
        column = self._columns.get(name)
        if column is None or name not in self._names:
            raise NotTranslated(f"it names {name}, which is not carried over")
        sort = _SORTS.get(column.column.kind)
        if sort is None:
            raise NotTranslated(f"{name} is of another type there")
        if sort == "text" and self._equalities.get(name, Equality.EXACT) is not Equality.EXACT:
            sort = "folded"
        return identifier(self._target, self._names[name]), sort

    def _literal(self, node: exp.Literal) -> tuple[str, str]:
        text = str(node.this)
        if not node.is_string:
            return text, "float" if "e" in text.lower() else "number"
        if "\\" in text:
            raise NotTranslated("a text with a backslash is read in different ways")
        return quoted(text), "word"


def _parsed(text: str, dialect: Dialect) -> exp.Expr:
    try:
        found = sqlglot.parse_one(text, read=dialect)
    except sqlglot.errors.SqlglotError:
        raise NotTranslated("it cannot be read") from None
    return found


def _listed(node: exp.Expr) -> list[exp.Expr]:
    """Returns the members of PostgreSQL's `ARRAY[…]`."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if not isinstance(node, exp.Array):
        raise NotTranslated("ANY over something else than a list")
    return list(node.expressions)
