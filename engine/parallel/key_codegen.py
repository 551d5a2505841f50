"""Generated code that makes the exclusive lock keys of a row change.

Three dictionary keys a row are most of what planning costs, so the code is written out for each set of indexes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from tidelock.engine.model.index import FOLDS, Digest, Index, digest
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Equality

ExclusiveKeys: TypeAlias = Callable[[Row | None, Row | None], list[Digest]]
"""Makes the digests of one change's exclusive keys, from its before- and after-image."""

_Look: TypeAlias = tuple[tuple[int, ...], tuple[Equality, ...], bool]  # of an index: positions, equalities, is_key


def compile_exclusive(indexes: list[Index]) -> ExclusiveKeys:
    """Compiles the function that makes the keys of all `indexes`, the table's key first."""
    looks = tuple((index.positions, index.equalities, index.is_key) for index in indexes)
    return _maker(looks)(*(index.namespace for index in indexes))


@functools.lru_cache(maxsize=1024)
def _maker(looks: tuple[_Look, ...]) -> Callable[..., ExclusiveKeys]:
    """Makes, from their namespaces, one function for all indexes that look so.

    Tables whose indexes look alike share what Python learns about the code as it runs.

    The generated text for `key id, unique email` reads
        def keys(b, a):
            if b is None: load a's columns; out = []; [append each non-NULL key of a]; return out
            if a is None: the same of b
            load both; moved = a0 != b0
            out = [digest((n0, b0))];  if moved: out.append(digest((n0, a0)))
            if moved or a1 != b1: append b's and a's
    with the namespaces as `n0`, `n1`, … and a row's columns as `a0`, `a1`, …, since taking one out of an image costs.
    A value that does not fold exactly takes no key of its own: the index-wide lock covers it (`case_folding`).
    """
    indexes = [Index(n, *look) for n, look in enumerate(looks)]
    lines = ["def keys(b, a):"]
    used = sorted({p for index in indexes for p in index.positions})

    def load(row: str, indent: str) -> list[str]:
        return [f"{indent}{row}{p} = {row}[{p}]" for p in used]

    def term(index: Index, row: str) -> tuple[str, list[str]]:
        parts, conditions = [], []
        for position, equality in zip(index.positions, index.equalities, strict=True):
            value = f"{row}{position}"
            if equality in FOLDS:
                conditions.append(f"(f{position} := {equality.value}({value})) is not None")
                parts.append(f"f{position}")
                continue
            if not index.is_key:
                conditions.append(f"{value} is not None")
            parts.append(f"pad({value})" if equality is Equality.PADDED else value)
        return f"digest((n{index.namespace}, {', '.join(parts)}))", conditions

    def append(index: Index, row: str, indent: str) -> list[str]:
        key, conditions = term(index, row)
        if not conditions:
            return [f"{indent}out.append({key})"]
        return [f"{indent}if {' and '.join(conditions)}: out.append({key})"]

    for row, other in (("a", "b"), ("b", "a")):
        lines += [f"    if {other} is None:", *load(row, "        "), "        out = []"]
        for index in indexes:
            lines += append(index, row, "        ")
        lines.append("        return out")
    lines += [*load("b", "    "), *load("a", "    "), "    out = []"]
    key = next((i for i in indexes if i.is_key), None)
    lines.append("    moved = " + (" or ".join(f"a{p} != b{p}" for p in key.positions) if key else "False"))
    for index in indexes:
        if index.is_key:
            lines += [*append(index, "b", "    "), "    if moved:", *append(index, "a", "        ")]
        else:
            changed = " or ".join(["moved", *(f"a{p} != b{p}" for p in index.positions)])
            lines += [f"    if {changed}:", *append(index, "b", "        "), *append(index, "a", "        ")]
    lines.append("    return out")
    scope: dict[str, object] = {equality.value: fold for equality, fold in FOLDS.items()}
    scope["digest"] = digest
    scope["pad"] = lambda v: v.rstrip(" ") if isinstance(v, str) else v
    names = ", ".join(f"n{index.namespace}" for index in indexes)
    text = "\n ".join(lines)
    exec(f"def make({names}):\n {text}\n return keys", scope)
    return scope["make"]  # type: ignore[return-value]
