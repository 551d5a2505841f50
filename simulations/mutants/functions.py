"""Finding a function of the sources by its name: `_Tail.take`, or `locks._Tail.take` if two modules have one.

Its module is found by looking into all files, so it may move to another one, and modules to other folders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tidelock.simulations.mutants.mutant import Stale

Node = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGES = Path(__file__).resolve().parents[2]
_PLANTED_IN = ("engine", "simulations")
_ELSE_IN = ("adapters/postgres/logical", "adapters/checks", "adapters/ddl", "adapters/pair")
"""Folders that are looked into for a function that the others do not have: worlds do not reach those."""


class Function(NamedTuple):
    """`name`: with its classes.  `full`: with its module in front."""

    path: Path
    name: str
    full: str
    line: int

    def answers(self, name: str) -> bool:
        """Tells whether that is its name, with as much of the module in front as one likes."""
        return name.endswith(self.name) and f".{self.full}".endswith(f".{name}")

    def __str__(self) -> str:
        return f"{self.full} ({self.path.relative_to(PACKAGES)}, line {self.line})"


def find(name: str) -> Function:
    """The one function of that name.  Raises Stale if there is none, or if there are several."""
    functions = _functions(PACKAGES, _PLANTED_IN)
    found = [function for function in functions if function.answers(name)]
    found = found or [function for function in _functions(PACKAGES, _ELSE_IN) if function.answers(name)]
    if len(found) == 1:
        return found[0]
    if found:
        apart = len({function.full for function in found}) == len(found)
        advice = "put the module in front" if apart else "rename one, as they have one name in one module"
        raise Stale(f"there are {len(found)} functions {name}, {advice}: {', '.join(map(str, found))}")
    last = name.rpartition(".")[2]
    alike = [str(function) for function in functions if function.name.rpartition(".")[2] == last]
    raise Stale(f"there is no function {name}" + (f"; is it one of these? {', '.join(alike)}" if alike else ""))


def functions_of(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Node]]:
    """Functions and methods with their names.  A function inside of another is a part of that one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Node):
            yield within + node.name, node
        else:
            yield from functions_of(node, f"{within}{node.name}." if isinstance(node, ast.ClassDef) else within)


@cache
def _functions(packages: Path, folders: tuple[str, ...]) -> tuple[Function, ...]:
    return tuple(
        Function(path, name, ".".join([*path.relative_to(packages).with_suffix("").parts, name]), node.lineno)
        for path in _files(packages, folders)
        for name, node in functions_of(ast.parse(path.read_bytes()))
    )


def _files(packages: Path, folders: tuple[str, ...]) -> list[Path]:
    """Not the mutants' own."""
    own = Path(__file__).resolve().parent
    files = [path for folder in folders for path in sorted((packages / folder).rglob("*.py"))]
    return [path for path in files if own not in path.parents]
