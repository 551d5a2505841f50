"""Parses row filters from the feed's text: `region = 'eu' AND amount > 10` → `engine.capture.row_filter.Condition`.

sqlglot reads the text (as MySQL).  Only comparisons of a column with a literal, IN, BETWEEN, IS NULL, AND, OR and NOT
are taken; everything else is refused, so that a filter never means something else than it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelock.engine.capture.row_filter import And, Compare, Condition, In, IsNull, Not, Or

if TYPE_CHECKING:
    from sqlglot import expressions as exp

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class WhereError(Exception):
    """The filter cannot be used; `args[0]` says which part."""


def parse_where(text: str) -> Condition:
    """Parses a filter.  Raises WhereError."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(text, read="mysql", into=sqlglot.exp.Condition)
    except SqlglotError as error:
        raise WhereError(f"where: {text!r} cannot be read: {str(error).splitlines()[0]}") from None
    return _condition(tree)


def _condition(node: exp.Expr) -> Condition:
    from sqlglot import expressions as exp

    operators = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
    match node:
        case exp.Paren():
            return _condition(node.this)
        case exp.And():
            return And((_condition(node.left), _condition(node.right)))
        case exp.Or():
            return Or((_condition(node.left), _condition(node.right)))
        case exp.Not():
            return Not(_condition(node.this))
        case exp.Is() if isinstance(node.expression, exp.Null):
            return IsNull(_column(node.this))
        case exp.In() if node.expressions and not node.args.get("query"):
            return In(_column(node.this), tuple(_literal(e) for e in node.expressions))
        case exp.Between():
            column = _column(node.this)
            low, high = _literal(node.args["low"]), _literal(node.args["high"])
            return And((Compare(column, ">=", low), Compare(column, "<=", high)))
        case exp.Binary() if type(node) in operators:
            operator = operators[type(node)]
            if isinstance(node.left, exp.Column):
                return Compare(_column(node.left), operator, _literal(node.right))
            return Compare(_column(node.right), _FLIPPED[operator], _literal(node.left))
    raise WhereError(
        f"where: {node.sql(dialect='mysql')!r} is not a comparison of a column with a literal, IN, BETWEEN, IS NULL, "
        "AND, OR or NOT"
    )


def _column(node: exp.Expr) -> str:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Column) and not node.table:
        return node.name
    raise WhereError(f"where: {node.sql(dialect='mysql')!r} is not a column")


def _literal(node: exp.Expr) -> str:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.this}"
    if isinstance(node, exp.Literal):
        return str(node.this)
    raise WhereError(f"where: {node.sql(dialect='mysql')!r} is not a literal")
