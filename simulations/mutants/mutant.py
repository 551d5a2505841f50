"""A planted bug, as data: which module, the change of its text as a patch, and what is wrong then."""

from __future__ import annotations

import textwrap

import msgspec


class Stale(Exception):
    """The sources have moved on and the mutant no longer applies; `args[0]` says which text is at fault."""


class Mutant(msgspec.Struct, frozen=True):
    """`patch`: hunks with an empty line between them.  A line begins with `-` (goes), `+` (comes) or a blank (stays);
    what goes and stays must be in the source of `module` exactly once, at any depth of indentation.

    `row`: of the table of counter-examples (0: of none).  `case`: the edge case or report it stands for, if any.
    """

    name: str
    module: str
    patch: str
    wrong: str
    row: int = 0
    case: str = ""

    def plant(self, source: str) -> str:
        """The source with the bug.  Raises Stale."""
        lines = source.removesuffix("\n").split("\n")
        for hunk in textwrap.dedent(self.patch).strip("\n").split("\n\n"):
            old, new = ([line[2:] for line in hunk.split("\n") if line[0] in marks] for marks in ("- ", "+ "))
            wanted, length = _dedented(old), len(old)
            found = [i for i in range(len(lines)) if _dedented(lines[i : i + length]) == wanted]
            if len(found) != 1:
                raise Stale(f"mutant {self.name}: this occurs {len(found)} times in {self.module}, not once:\n{hunk}")
            (at,) = found
            deeper = _margin(lines[at : at + length]) - _margin(old)
            lines[at : at + length] = [" " * (_margin([line]) + deeper) + line.lstrip() for line in new]
        return "\n".join(lines) + "\n"

    @property
    def stands_for(self) -> str:
        return f"counter-example {self.row}" if self.row else self.case


def _dedented(lines: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(lines)).split("\n")


def _margin(lines: list[str]) -> int:
    """Blanks before each of these lines."""
    return min(len(line) - len(line.lstrip()) for line in lines)
