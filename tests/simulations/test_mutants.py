"""The mutation check: every planted bug still applies, and dies; what is planted, and how a hunt ends."""

import ast
import importlib
import sys
import textwrap
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from tidelock.simulations.mutants import check, functions, patch, planting
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.check import HuntFailed, hunt_all
from tidelock.simulations.mutants.functions import find, functions_of
from tidelock.simulations.mutants.hunt import Order, Result
from tidelock.simulations.mutants.mutant import Mutant, Stale
from tidelock.simulations.mutants.mutation_table import updated

COUNTER_EXAMPLES = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 30, 31}  # those that concern what exists
QUICK = (
    "lock-dropped", "fence-skipped", "identity-not-compared",
)  # fmt: skip
SHARES = 8


def mutant(changes: str) -> Mutant:
    return Mutant("a mutant", changes, "something")


SOURCE = """\
class Two:
    def one(self, a, b):
        if a:  # a comment
            return (
                b
            )
        for each in self.all('x'):
            each()
            each(a)
        return a

    def other(self, a):
        '''Said.'''
        a = a + 1
        return a
"""


def patched(*hunks: str) -> str:
    """The method `one` behind them, or what is wrong with them."""
    tree = ast.parse(SOURCE)
    functions = dict(functions_of(tree))
    for hunk in patch.hunks("@ Two.one\n" + "\n\n".join(hunks)):
        patch.change(functions[hunk.function], hunk)
    compile(ast.fix_missing_locations(tree), "two.py", "exec")
    return ast.unparse(functions["Two.one"])


def method(body: str) -> str:
    return "def one(self, a, b):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


LOOP = "for each in self.all('x'):\n    each()\n    each(a)"


def test_an_expression_is_found_by_its_tree_and_not_by_its_text() -> None:
    changed = method("if a:\n    return b\nfor each in self.none:\n    each()\n    each(a)\nreturn a")
    assert patched('- self.all("x")\n+ self.none') == changed
    assert patched('- (self\n-     .all("x"))\n+ self.none') == changed


def test_statements_are_found_at_any_depth_and_change_beside_what_stays() -> None:
    assert patched("- return b\n+ return b + 1", "  each()\n- each(a)", "+ a += 1\n  return a") == method(
        "if a:\n    return b + 1\nfor each in self.all('x'):\n    each()\na += 1\nreturn a"
    )


def test_a_block_of_which_nothing_is_left_passes() -> None:
    assert patched("- return b") == method(f"if a:\n    pass\n{LOOP}\nreturn a")


def test_dots_are_whatever_the_block_holds() -> None:
    swapped = method("if not a:\n    return b\nfor each in self.all('x'):\n    each()\n    each(a)\nreturn a")
    assert patched("- if a: ...\n+ if not a: ...") == swapped
    assert patched("- for each in self.all('x'): ...\n+ while a: ...\n+ else:\n+     b()") == method(
        "if a:\n    return b\nwhile a:\n    each()\n    each(a)\nelse:\n    b()\nreturn a"
    )


def test_what_only_comes_is_the_whole_body() -> None:
    assert patched("+ return 3") == method("return 3")
    assert patched("+ if b:\n+     return 3\n+ ...") == method(
        f"if b:\n    return 3\nif a:\n    return b\n{LOOP}\nreturn a"
    )


def test_tracebacks_show_the_lines_of_what_went() -> None:
    tree = ast.parse(SOURCE)
    functions = dict(functions_of(tree))
    (hunk,) = patch.hunks("@ Two.one\n- return a\n+ b()\n+ return b.c")
    patch.change(functions["Two.one"], hunk)
    assert [statement.lineno for statement in functions["Two.one"].body[-2:]] == [10, 10]


@pytest.mark.parametrize(
    ("hunk", "wrong"),
    [
        ("- return c\n+ return 1", r"this occurs 0 times in Two\.one, not once:\n- return c"),
        ("- a + 1\n+ 1", "this occurs 0 times"),  # in the other method
        ("- self.all\n+ self.one\n+ self.two", "this occurs 0 times"),  # two do not come for one
        ("- if a:\n-     return a\n+ return 1", "this occurs 0 times"),
        ("- a\n+ 1", r"this occurs 3 times in Two\.one, not once"),
        ("  return\n+ pass", "this occurs 0 times"),
        ("- each(a)\n- each()\n+ pass", "this occurs 0 times"),  # they stand in the other order
        ("  return a\n\n@ Two.other\n- a\n+ 1", r"this occurs 2 times in Two\.other"),  # what is assigned to is none
        ("- if a:\n+ if True:", r"this is no Python \(.*\):\nif a:"),
        ("- return a\n+return 1", r"begins with .*, and this does not: '\+return 1'"),
    ],
)
def test_a_hunk_that_does_not_fit_exactly_once_is_stale(hunk: str, wrong: str) -> None:
    with pytest.raises(Stale, match=wrong):
        patched(hunk)


def test_a_patch_without_a_function_is_stale() -> None:
    with pytest.raises(Stale, match=r"names its function first, .* none:\n- return a"):
        patch.hunks("- return a\n+ return b")


# ---------------------------------------------------------------------- the function that is meant


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of sources of their own in the place of ours."""
    monkeypatch.setattr(functions, "PACKAGES", tmp_path)
    write(tmp_path / "engine/locks.py", SOURCE)
    return tmp_path


def write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    functions._functions.cache_clear()


@pytest.mark.parametrize("place", ["engine/locks.py", "engine/room/locks.py", "simulations/deep/er/other.py"])
def test_a_function_is_found_wherever_its_module_is(place: str, sources: Path) -> None:
    (sources / "engine/locks.py").unlink()
    write(sources / place, "import os\n" + SOURCE)
    assert find("Two.one")[:2] == (sources / place, "Two.one")
    assert find("Two.one").line == 3


def test_a_function_of_two_modules_is_named_with_its_own(sources: Path) -> None:
    write(sources / "engine/room/keys.py", SOURCE)
    candidates = (
        r"engine\.locks\.Two\.one \(engine/locks\.py, line 2\), "
        r"engine\.room\.keys\.Two\.one \(engine/room/keys\.py, line 2\)"
    )
    with pytest.raises(Stale, match=rf"there are 2 functions Two\.one, put the module in front: {candidates}"):
        find("Two.one")
    assert find("keys.Two.one").path == find("room.keys.Two.one").path == sources / "engine/room/keys.py"


def test_functions_that_no_name_tells_apart(sources: Path) -> None:
    write(sources / "engine/keys.py", "class Key:\n    def a(self):\n        pass\n\n    def a(self):\n        pass\n")
    both = r"engine\.keys\.Key\.a \(engine/keys\.py, line 2\), engine\.keys\.Key\.a \(engine/keys\.py, line 5\)"
    with pytest.raises(Stale, match=rf"there are 2 functions Key\.a, rename one, .* in one module: {both}"):
        find("Key.a")


@pytest.mark.parametrize("name", ["one", "Three.one", "keys.Two.one", "ocks.Two.one"])
def test_a_function_that_is_not_there_is_told_with_those_alike(name: str, sources: Path) -> None:
    with pytest.raises(Stale, match=rf"no function {name}; is it one of these\? engine\.locks\.Two\.one \("):
        find(name)


def test_a_function_within_another_is_a_part_of_it(sources: Path) -> None:
    write(sources / "engine/keys.py", "if True:\n    def outer():\n        def inner():\n            return 1\n")
    assert find("outer").full == "engine.keys.outer"
    with pytest.raises(Stale, match=r"there is no function inner$"):
        find("inner")


def test_a_mutant_tells_its_name_with_what_is_stale(sources: Path) -> None:
    with pytest.raises(Stale, match=r"mutant a mutant: there is no function Two\.three$"):
        planting.changed(mutant("@ Two.three\n- a\n+ b"))
    with pytest.raises(Stale, match=r"mutant a mutant: this occurs 0 times in Two\.one"):
        planting.changed(mutant("@ Two.one\n- c\n+ b"))


def test_a_name_that_nothing_binds_is_stale(sources: Path) -> None:
    """Else such a mutant would die of it in the first world that comes by, and count as noticed."""
    with pytest.raises(Stale, match=r"mutant a mutant: nothing in Two\.one is named c, print_:\n- return a"):
        planting.changed(mutant("@ Two.one\n- return a\n+ return print_(c, print, Two)"))
    comes = ["import sys as s, os.path", "try:", "    return [s for t in os if (u := each)]", "except OSError as e:"]
    known = "@ Two.one\n- return a\n" + "\n".join(f"+ {line}" for line in [*comes, "    return e, t, u, b"])
    assert planting.changed(mutant(known))


def test_a_bug_of_two_modules_is_planted_under_whatever_name_they_are_imported(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(sources / "engine/room/keys.py", "def three():\n    return 3\n")
    (sources / "planted").mkdir()
    (sources / "planted/engine").symlink_to("../engine")
    monkeypatch.syspath_prepend(sources)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    planting.plant(mutant("@ Two.other\n- a + 1\n+ a + 2\n\n@ three\n- 3\n+ 4\n\n@ Two.one\n- return b\n+ return 5"))
    names = ("planted.engine.locks", "planted.engine.room.keys")
    try:
        locks, keys = map(importlib.import_module, names)
        assert (locks.Two().other(1), keys.three(), locks.Two().one(1, 2)) == (3, 4, 5)
        with pytest.raises(AssertionError, match=r"planted\.engine\.room\.keys is imported already"):
            planting.plant(mutant("@ three\n- 3\n+ 4"))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "planted"]:
            del sys.modules[name]
    assert not list(sources.rglob("*.pyc"))


# ---------------------------------------------------------------------- the catalogue


def test_every_function_that_a_mutant_names_is_one() -> None:
    wrong = []
    for planted in CATALOGUE:
        for hunk in patch.hunks(planted.patch):
            try:
                find(hunk.function)
            except Stale as stale:
                wrong.append(f"{planted.name}: {stale}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_mutant_still_applies(share: int) -> None:
    wrong = []
    for planted in CATALOGUE[share::SHARES]:
        try:
            trees = planting.changed(planted)
        except Stale as stale:
            wrong.append(str(stale))
            continue
        named = [find(hunk.function) for hunk in patch.hunks(planted.patch)]
        if any(dumped(trees[path], name) == sound(path, name) for path, name, *_ in named):
            wrong.append(f"mutant {planted.name}: it changes nothing")
        for path, tree in trees.items():
            compile(tree, path, "exec")
    assert not wrong, "\n".join(wrong)


def dumped(tree: ast.AST, name: str) -> str:
    return ast.dump(dict(functions_of(tree))[name])


@cache
def sound(path: Path, name: str) -> str:
    return dumped(ast.parse(path.read_bytes()), name)


def test_the_catalogue_is_whole() -> None:
    assert len({planted.name for planted in CATALOGUE}) == len(CATALOGUE) >= 60
    assert {planted.row for planted in CATALOGUE} - {0} == COUNTER_EXAMPLES


def test_what_is_beyond_reach_is_in_the_catalogue_and_not_hunted_unnamed() -> None:
    names = {planted.name for planted in CATALOGUE}
    hunted = {planted.name for planted in check.named(())}
    assert set(BEYOND) <= names and hunted == names - set(BEYOND)
    assert [planted.name for planted in check.named(["never-full"])] == ["never-full"]


def test_names_that_the_catalogue_does_not_have() -> None:
    assert [planted.name for planted in check.named(["fence-skipped"])] == ["fence-skipped"]
    with pytest.raises(ValueError, match="no such mutant: nobody"):
        check.named(["fence-skipped", "nobody"])


def hunt(changes: str, limit: int = 6, patience: float = 20.0) -> check.Result:
    (result,) = hunt_all([Order(mutant(changes), limit, patience)])
    return result


def test_a_harmless_change_lives() -> None:
    """So a death is the bug's doing, not the planting's."""
    result = hunt("@ LockTable.release\n- assert not holder.committed, 'released twice'\n+ pass")
    assert not result.killed
    assert (result.seed, result.seeds, result.by) == (None, 6, "")


def test_who_noticed_is_told() -> None:
    result = hunt("@ LockTable.release\n- assert not holder.committed, 'released twice'\n+ raise KeyError('gone')")
    assert (result.seed, result.seeds) == (0, 1)
    assert result.by == "lock_table.release: KeyError 'gone'"


def test_a_world_that_does_not_come_to_an_end_is_noticed() -> None:
    result = hunt("@ LockTable.release\n  holder.committed = True\n+ while True:\n+     pass", patience=2.0)
    assert result.by == "lock_table.release: Endless a seed took more than 2 s"


def test_a_hunt_that_cannot_be_is_an_error() -> None:
    with pytest.raises(HuntFailed, match=r"this occurs 0 times in LockTable\.release"):
        hunt("@ LockTable.release\n- is_in_no_source\n+ pass")


def test_no_hunt_begins_with_a_stale_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = mutant("@ LockTable.release\n- is_in_no_source\n+ pass")
    monkeypatch.setattr(check, "CATALOGUE", (*CATALOGUE[:5], stale))
    monkeypatch.setattr(check, "hunt_all", lambda *_: pytest.fail("a hunt begins"))
    with pytest.raises(Stale, match="a mutant: this occurs 0 times"):
        check.run()


def test_results_take_the_places_of_their_rows_and_leave_all_others() -> None:
    first, second, third = CATALOGUE[:3]
    page = f"words\n\n| mutant | x |\n|---|---|\n| {first.name} | a | | 7 | 25 |\n| {third.name} | c | | 9 | 25 |\n"
    results = [Result(third, None, 40, 1.0, ""), Result(second, 4, 5, 1.0, "somebody")]
    *before, fresh, changed, end = updated(page, results, date(2026, 11, 26)).split("\n")
    assert [*before, changed.partition(" | ")[0], end] == [
        line if third.name not in line else f"| {third.name}" for line in page.split("\n")
    ]
    assert fresh == f"| {second.name} | {second.wrong} | {second.stands_for} | 5 | 2026-11-26 |"
    assert changed.endswith("| > 40 | 2026-11-26 |")
    assert updated("|---|\n", [Result(first, 0, 1, 1.0, "")], date(2026, 11, 26)).startswith(f"|---|\n| {first.name} |")


def test_quick_ones_die() -> None:
    told: list[str] = []
    results = check.run(QUICK, limit=100, progress=lambda result: told.append(result.mutant.name))
    assert [result.mutant.name for result in results] == list(QUICK)
    assert sorted(told) == sorted(QUICK)
    assert [result.mutant.name for result in results if not result.killed] == []


@pytest.mark.proof
def test_all_die() -> None:
    assert [result.mutant.name for result in check.run() if not result.killed] == []
