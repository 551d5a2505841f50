"""Parses row filters from the feed's text: `region = 'eu' AND amount > 10` → `engine.capture.row_filter.Condition`.

sqlglot reads the text (as MySQL).  Only comparisons of a column with a literal, IN, BETWEEN, IS NULL, AND, OR and NOT
are taken; everything else is refused, so that a filter never means something else than it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelock.engine.capture.row_filter import And, Compare, Condition, In, IsNull, Not, Or

if TYPE_CHECKING:
    from sqlglot import expressions as exp
    from sqlglot.errors import SqlglotError

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
        raise WhereError(f"where: {text!r} cannot be read{_unread(error)}") from None
    return _condition(tree)


def _unread(error: SqlglotError) -> str:
    """Returns where a text was read up to, and what is the matter there, as far as it is known."""
    told = next(iter(getattr(error, "errors", None) or ()), None)
    if told is None:
        return ": a quote that is opened and not closed, or a character that no condition has"
    wanted = f": {told['description']}" if str(told["description"]).startswith("Expecting") else ""
    line = f"line {told['line']}, " if told["line"] > 1 else ""
    return f" at {line}character {told['col']}, near {told['highlight']!r}{wanted}"


def _at(node: exp.Expr) -> str:
    """Returns a part of the filter with its place in the text, if that is known."""
    starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
    place = f" at character {min(starts) + 1}" if starts else ""
    return f"{node.sql(dialect='mysql')!r}{place}"


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
            if isinstance(node.right, exp.Column) and not isinstance(node.left, exp.Column):
                return Compare(_column(node.right), _FLIPPED[operator], _literal(node.left))
            return Compare(_column(node.left), operator, _literal(node.right))
    raise WhereError(
        f"where: {_at(node)} is not a comparison of a column with a literal, IN, BETWEEN, IS NULL, "
        "AND, OR or NOT"
    )


def _column(node: exp.Expr) -> str:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Column) and not node.table:
        return node.name
    raise WhereError(f"where: {_at(node)} is not a column")


def _literal(node: exp.Expr) -> str:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.this}"
    if isinstance(node, exp.Literal):
        return str(node.this)
    raise WhereError(f"where: {_at(node)} is not a literal")
