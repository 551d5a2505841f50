"""The rooms of both databases' targets read alike: one concept has one file name and one name in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidelock.adapters.mysql import target as mysql
from tidelock.adapters.postgres import target as postgres

ROOMS = [Path(str(room.__file__)).parent for room in (mysql, postgres)]
FILES = [{path.name for path in room.glob("*.py")} - {"__init__.py", "sink.py"} for room in ROOMS]


def public_names(path: Path) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")}


@pytest.mark.parametrize("name", sorted(FILES[0] & FILES[1]))
def test_a_file_that_both_rooms_have_holds_one_concept(name: str) -> None:
    ours, theirs = (public_names(room / name) for room in ROOMS)
    assert ours & theirs, f"{name} holds {sorted(ours)} at one target and {sorted(theirs)} at the other"


def test_a_class_that_both_rooms_have_is_in_the_file_of_one_name() -> None:
    where = [{name: path.name for path in room.glob("*.py") for name in public_names(path)} for room in ROOMS]
    apart = {name: (where[0][name], where[1][name]) for name in where[0].keys() & where[1].keys()}
    # What PostgreSQL cannot hold is refused where its texts are made, before there are literals.
    assert {name: files for name, files in apart.items() if files[0] != files[1]} == {
        "Unwritable": ("literals.py", "values.py")
    }
