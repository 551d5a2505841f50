"""A planted bug that one test notices, in place of random worlds."""

from __future__ import annotations

import msgspec

from tidelock.simulations.mutants.mutant import Mutant


class ByTest(msgspec.Struct, frozen=True):
    """`test`: the one that notices, as pytest names it.  `server`: it asks for one."""

    mutant: Mutant
    test: str
    server: bool = False


def noticed_in(test: str, name: str, patch: str, wrong: str, case: str, *, server: bool = False) -> ByTest:
    return ByTest(Mutant(name, patch, wrong, case=case), f"tests/{test}", server)
