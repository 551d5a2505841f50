"""Names that a changed function uses though nothing binds them: the sources have given a variable another name since.

Such a mutant applies and dies at once, of a NameError and not of its bug.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tidelock.simulations.mutants.functions import Node


def unbound(module: ast.Module, function: Node) -> list[str]:
    """Returns these names, sorted."""
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    local = {name for node in ast.walk(function) for name in _names(node)}
    return sorted(used - local - {*_global(module)} - {*dir(builtins)})


def _global(tree: ast.AST) -> Iterator[str]:
    """Names that a module binds outside of its functions."""
    for node in ast.iter_child_nodes(tree):
        yield from _names(node)
        if not isinstance(node, Node):
            yield from _global(node)


def _names(node: ast.AST) -> Iterator[str]:
    """Names that this node by itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchStar(name=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
