"""The patch of a mutant: which functions it changes, and what in them.

    @ LockTable.only_on
    - all(holder.lane == lane for holder in before)
    + True

    @ Lane.cut
      segment = self.queue.popleft()
    + self.queue.reverse()

`@` names a function (`functions.find`).  Below it stand hunks with an empty line between them.  A line begins with `-`
(goes), `+` (comes) or a blank (stays).  What goes and stays is one expression or some statements in a row, and must be
in the function exactly once.  Syntax trees are compared, so line breaks, comments, quotes and brackets do not matter.

`...` as the whole of a block is whatever stands there: `- for row in rows: ...` with `+ for row in rows[1:]: ...`.  A
hunk of `+` alone is a new body for the function, in which `...` is the present one.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidelock.simulations.mutants.functions import Node
from tidelock.simulations.mutants.mutant import Stale


class Hunk(NamedTuple):
    """`function`: its name as the patch has it.  `text`: as it is written, for whoever has to mend it."""

    function: str
    text: str

    def side(self, mark: str) -> str:
        """The lines that bear this mark, and those that stay."""
        return textwrap.dedent("\n".join(line[2:] for line in self.text.split("\n") if line[0] in f"{mark} "))


def hunks(patch: str) -> list[Hunk]:
    """In the order of the patch, each with the function that was named last.  Raises Stale."""
    found = []
    function = ""
    for text in textwrap.dedent(patch).strip("\n").split("\n\n"):
        if text.startswith("@ "):
            heading, _, text = text.partition("\n")
            function = heading.removeprefix("@ ")
        if odd := [line for line in text.split("\n") if line[:2] not in ("- ", "+ ", "  ")]:
            raise Stale(f"a line of a hunk begins with '- ', '+ ' or two blanks, and this does not: {odd[0]!r}")
        if not function:
            raise Stale(f"a patch names its function first, as `@ LockTable.release`; this has none:\n{text}")
        found.append(Hunk(function, text))
    return found


def change(node: Node, hunk: Hunk) -> None:
    """The function has the bug from now on.  Raises Stale."""
    old, new = _parsed(hunk.side("-")), _parsed(hunk.side("+"))
    if not old:
        node.body = _filled(new, node, [node.body])
        return
    found: list[_Place] = [*_expressions(node, old, new)] or [*_statements(node, old)]
    if len(found) != 1:
        raise Stale(f"this occurs {len(found)} times in {hunk.function}, not once:\n{hunk.text}")
    found[0].fill(new)


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise Stale(f"this is no Python ({error.msg}):\n{text}") from None


class _Place(NamedTuple):
    """Place where what goes was found: `length` nodes of a list, or (`field` of `holder`) a single one.

    `blocks`: what stands there for each `...`.
    """

    holder: ast.AST
    field: str
    first: int
    length: int
    blocks: list[list[ast.stmt]]

    def fill(self, new: list[ast.stmt]) -> None:
        value = getattr(self.holder, self.field)
        if not isinstance(value, list):
            setattr(self.holder, self.field, _alone(_filled(new, value, [])))
            return
        at = slice(self.first, self.first + self.length)
        filled: list[Any] = _filled(new, value[self.first], self.blocks)
        value[at] = filled if isinstance(value[self.first], ast.stmt) else [_alone(filled)]
        if not value:
            value.append(ast.Pass())


def _expressions(node: Node, old: list[ast.stmt], new: list[ast.stmt]) -> Iterator[_Place]:
    """Find where the expression stands, if one goes and another comes."""
    wanted = _alone(old)
    if wanted is None or _alone(new) is None:
        return
    for holder in ast.walk(node):
        for field, value in ast.iter_fields(holder):
            for i, each in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(each, ast.expr) and _like(wanted, each, []):
                    yield _Place(holder, field, i, 1, [])


def _statements(node: Node, old: list[ast.stmt]) -> Iterator[_Place]:
    for holder in ast.walk(node):
        for field, value in ast.iter_fields(holder):
            if not (isinstance(value, list) and value and isinstance(value[0], ast.stmt)):
                continue
            for i in range(len(value) - len(old) + 1):
                blocks: list[list[ast.stmt]] = []
                if all(_like(one, other, blocks) for one, other in zip(old, value[i:], strict=False)):
                    yield _Place(holder, field, i, len(old), blocks)


def _alone(statements: list[ast.stmt]) -> ast.expr | None:
    """The expression, if they are nothing else."""
    if len(statements) == 1 and isinstance(statements[0], ast.Expr):
        return statements[0].value
    return None


def _like(wanted: Any, there: Any, blocks: list[list[ast.stmt]]) -> bool:
    """Tells whether the trees are the same.  What stands for `...` is added to `blocks`."""
    if type(wanted) is not type(there):
        return False
    if isinstance(wanted, ast.AST):
        return all(_like(getattr(wanted, name), getattr(there, name), blocks) for name in wanted._fields)
    if not isinstance(wanted, list):
        return bool(wanted == there)
    if len(wanted) == 1 and _is_open(wanted[0]):
        blocks.append(there)
        return True
    return len(wanted) == len(there) and all(_like(*pair, blocks) for pair in zip(wanted, there, strict=True))


def _is_open(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _filled(new: list[ast.stmt], at: ast.AST, blocks: list[list[ast.stmt]]) -> list[ast.stmt]:
    """With the lines of what goes, for tracebacks, and with the blocks in the places of `...`."""
    tree = ast.Module(new, [])
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            ast.copy_location(node, at)
    _Filler(blocks).visit(tree)
    return tree.body


class _Filler(ast.NodeTransformer):
    def __init__(self, blocks: list[list[ast.stmt]]) -> None:
        self._blocks = iter(blocks)

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        itself: list[ast.stmt] = [node]
        return next(self._blocks, itself) if _is_open(node) else itself
