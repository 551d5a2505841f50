"""Locks that a change takes: whoever must be ordered by the book shares a key, and ordinary rows share none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import (
    ACCOUNT,
    BY_CODE,
    CASCADE,
    COMPOSITE,
    FAMILY,
    FOLDED,
    KEYLESS,
    OPAQUE,
    SELF,
    TWO_UNIQUES,
    WORLDS,
    History,
    World,
    bind,
    conflict,
    drafts,
    linked,
    refers,
    shape_of,
    table,
)
from tidelock.engine.model.index import digest
from tidelock.engine.model.records import Column, Kind, Shape
from tidelock.engine.model.schema import Binding, Equality, SchemaMismatch, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_keys import RowKeys, compile_keys, serial_reason
from tidelock.engine.parallel.segments import Change


def compiled(world: World) -> list[RowKeys]:
    space = Keyspace()
    return [compile_keys(binding, space, world.tables) for binding in world.bindings()]


def digests(*keys: tuple) -> list[int]:
    return [digest(key) for key in keys]


def taken(keys: RowKeys, before: tuple | None, after: tuple | None) -> dict[int, bool]:
    """Digests of every key of the change, with whether it is exclusive."""
    out = dict.fromkeys(keys.exclusive(before, after), True)
    for key, exclusive in keys.requests(before, after) if keys.requests is not None else ():
        out[digest(key)] = exclusive or out.get(digest(key), False)
    return out


def meet(one: dict[int, bool], other: dict[int, bool]) -> bool:
    return any(one[key] or other[key] for key in one.keys() & other.keys())


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
@settings(max_examples=20, deadline=None)
@given(some=drafts(14, 6))
def test_changes_that_must_keep_their_order_share_a_key(world: World, some: list) -> None:
    history = History(world)
    for draft in some:
        history.take(draft)
    space = Keyspace()
    of = {b: compile_keys(b, space, world.tables) for b in history.bindings}
    keys = [taken(of[c.binding], c.before, c.after) for c in history.log]
    for i, one in enumerate(history.log):
        for j, other in enumerate(history.log[:i]):
            if conflict(world, one, other):
                assert meet(keys[i], keys[j]), (other.before, other.after, one.before, one.after)


EXACT = [w for w in WORLDS if w in (ACCOUNT, TWO_UNIQUES, COMPOSITE, FAMILY, BY_CODE, SELF)]


@pytest.mark.parametrize("world", EXACT, ids=lambda w: w.name)
@settings(max_examples=20, deadline=None)
@given(some=drafts(14, 6))
def test_changes_that_need_no_order_share_none(world: World, some: list) -> None:
    """Holds where all values compare exactly; a row that changes its key also takes what it leaves alone."""

    def moves(one: Change) -> bool:
        key_of = one.binding.key_of
        return one.before is not None and one.after is not None and key_of(one.before) != key_of(one.after)

    history = History(world)
    for draft in some:
        history.take(draft)
    space = Keyspace()
    of = {b: compile_keys(b, space, world.tables) for b in history.bindings}
    keys = [taken(of[c.binding], c.before, c.after) for c in history.log]
    for i, one in enumerate(history.log):
        for j, other in enumerate(history.log[:i]):
            if not conflict(world, one, other) and not moves(one) and not moves(other):
                assert not meet(keys[i], keys[j])


def test_counter_example_1_the_key_is_locked_by_every_change() -> None:
    (keys,) = compiled(ACCOUNT)
    assert keys.exclusive((2, "a", 0), (2, "a", 1)) == digests((0, 2))
    assert keys.exclusive((2, "a", 0), None) == digests((0, 2), (1, "a"))
    assert keys.exclusive(None, (2, None, 0)) == digests((0, 2))
    assert keys.exclusive((2, "a", 0), (2, "b", 0)) == digests((0, 2), (1, "a"), (1, "b"))
    assert keys.exclusive((2, "a", 0), (3, "a", 0)) == digests((0, 2), (0, 3), (1, "a"), (1, "a"))
    assert keys.requests is None, "an ordinary table pays for nothing else"


def test_counter_example_2_what_becomes_an_insert_takes_all_values() -> None:
    (keys,) = compiled(TWO_UNIQUES)
    left_alone = taken(keys, (2, "a", "x", 0), (2, "a", "x", 1))
    assert taken(keys, None, (2, "a", "x", 1)).keys() > left_alone.keys()


def test_equal_values_in_different_columns_do_not_collide_pingcap_dm_2035() -> None:
    (keys,) = compiled(TWO_UNIQUES)
    assert not meet(taken(keys, None, (1, "x", "y", 0)), taken(keys, None, (2, "y", "x", 0)))


def test_null_in_a_unique_key_conflicts_with_nothing() -> None:
    (keys,) = compiled(COMPOSITE)
    assert not meet(taken(keys, None, (1, 1, "a", None)), taken(keys, None, (2, 1, "a", None)))
    assert meet(taken(keys, None, (1, 1, "a", "x")), taken(keys, None, (2, 1, "a", "x")))


def test_counter_example_10_children_share_their_parents_key() -> None:
    mother, child = compiled(FAMILY)
    parent = taken(mother, (1, "a", 0), None)
    first, second = taken(child, None, (1, 1, None)), taken(child, None, (2, 1, None))
    assert meet(parent, first) and meet(parent, second) and not meet(first, second)
    assert not meet(parent, taken(child, None, (3, 2, None)))
    assert not meet(taken(mother, (1, "a", 0), (1, "b", 1)), first), "a parent's other columns concern no child"


def test_a_foreign_key_to_a_unique_index_locks_that_value() -> None:
    country, town = compiled(BY_CODE)
    assert meet(taken(country, (1, "a", 0), (1, "b", 0)), taken(town, None, (1, "b", 0)))
    assert not meet(taken(country, (1, "a", 0), (1, "a", 1)), taken(town, None, (1, "a", 0)))


def test_counter_example_11_a_cascading_parent_locks_the_child_tables_whole() -> None:
    mother, child, toy = compiled(CASCADE)
    gone, moved = taken(mother, (1, "a"), None), taken(mother, (1, "a"), (2, "a"))
    stranger, its_toy = taken(child, (9, 8, None), None), taken(toy, (9, 8), None)
    for change_of_parent in (gone, moved):
        assert meet(change_of_parent, stranger), "any child may be touched"
        assert meet(change_of_parent, its_toy), "and who refers to a child must have let go before"
    assert not meet(taken(mother, None, (3, "c")), stranger)
    assert not meet(taken(mother, (1, "a"), (1, "b")), stranger)
    assert not meet(stranger, taken(child, None, (10, 7, None))), "children among themselves stay parallel"


def test_case_folds_and_odd_values_take_the_index_gh_ost_1285() -> None:
    word, _ = compiled(FOLDED)
    lower, upper, other = (taken(word, None, (v, None, 0)) for v in ("lucy", "LUCY ", "bob"))
    odd = taken(word, None, ("josé", None, 0))
    assert meet(lower, upper) and not meet(lower, other)
    assert meet(odd, lower) and meet(odd, other) and meet(odd, taken(word, ("è", None, 0), None))


@pytest.mark.parametrize("images", [("é", "bob"), ("bob", "é")])
def test_a_change_from_or_to_an_odd_value_takes_the_index(images: tuple) -> None:
    word, _ = compiled(FOLDED)
    before, after = ((name, None, 0) for name in images)
    assert meet(taken(word, before, after), taken(word, None, ("eve", None, 0)))


def test_a_change_that_leaves_a_folded_value_alone_does_not_take_it() -> None:
    word, _ = compiled(FOLDED)
    same = taken(word, ("bob", "é", 0), ("bob", "é", 1))
    assert same == taken(word, ("bob", None, 0), ("bob", None, 1))


@pytest.mark.parametrize("world", [OPAQUE, KEYLESS], ids=lambda w: w.name)
def test_prefix_expression_or_no_key_makes_the_table_one_key(world: World) -> None:
    keys = compiled(world)[0]
    width = len(world.bindings()[0].shape.columns)
    assert keys.serial == serial_reason(next(iter(world.tables.values()))) != ""
    one, other = taken(keys, None, tuple(range(width))), taken(keys, tuple(range(5, 5 + width)), None)
    assert one == other and meet(one, other)


# ------------------------------------------------------------------ what the log does not have


def unlogged(target: TargetTable, *columns: str) -> Binding:
    return bind(target, columns)


def with_default(target: TargetTable, column: str) -> TargetTable:
    columns = tuple(TargetColumn(c.name, c.type, c.nullable, default=c.name == column) for c in target.columns)
    return TargetTable(target.name, columns, target.key, target.uniques, target.foreign_keys, target.references)


def test_a_unique_index_over_a_column_that_is_not_logged_serialises() -> None:
    target = table("account", ["id", "email", "tenant"], ["id"], [["email", "tenant"]])
    keys = compile_keys(unlogged(target, "tenant"), Keyspace(), linked(target))
    assert "tenant is not in the log" in keys.serial
    assert meet(taken(keys, None, (1, "a")), taken(keys, None, (2, "b")))


CHILD = table("child", ["id", "parent"], ["id"], [], [refers("child", ["parent"], "mother", ["id"])])
PARENTS = linked(table("mother", ["id"], ["id"]), CHILD)


def test_a_foreign_key_column_that_is_always_null_refers_to_nobody() -> None:
    keys = compile_keys(unlogged(PARENTS[CHILD.name], "parent"), Keyspace(), PARENTS)
    assert taken(keys, None, (1,)) == {digest((0, 1)): True}


def test_a_foreign_key_column_that_the_target_fills_in_is_refused() -> None:
    child = with_default(PARENTS[CHILD.name], "parent")
    with pytest.raises(SchemaMismatch, match=r"uses column parent of shop\.child, which the source does not log"):
        compile_keys(unlogged(child, "parent"), Keyspace(), {**PARENTS, child.name: child})


def test_a_foreign_key_to_a_table_outside_the_feed_takes_no_lock() -> None:
    keys = compile_keys(bind(PARENTS[CHILD.name]), Keyspace(), {CHILD.name: PARENTS[CHILD.name]})
    assert keys.requests is None


def test_the_two_sides_of_a_foreign_key_meet_whatever_their_scale() -> None:
    tables = linked(
        table("rate", ["id"], ["id"]),
        table("use", ["id", "rate"], ["id"], [], [refers("use", ["rate"], "rate", ["id"])]),
    )
    rate, use = tables.values()
    space = Keyspace()
    exact = Column("id", Kind.DECIMAL, scale=4)
    parent = Binding(0, Shape(rate.name, (exact,), ("id",)), rate)
    child = Binding(1, Shape(use.name, (Column("id", Kind.INT), Column("rate", Kind.DECIMAL, scale=1)), ("id",)), use)
    one = taken(compile_keys(parent, space, tables), ("1.5000",), None)
    assert meet(one, taken(compile_keys(child, space, tables), (1, "1.5"), None))
    assert not meet(one, taken(compile_keys(child, space, tables), (1, "1.0"), None))


def test_two_shapes_of_a_table_share_their_namespaces() -> None:
    """A column added in between, or another order of columns, must not part the locks."""
    target = next(iter(ACCOUNT.tables.values()))
    space = Keyspace()
    turned = Shape(target.name, tuple(reversed(shape_of(target).columns)), ("id",))
    one = compile_keys(bind(target), space, ACCOUNT.tables)
    other = compile_keys(Binding(1, turned, target), space, ACCOUNT.tables)
    assert taken(one, None, (1, "a", 0)) == taken(other, None, (0, "a", 1))


@given(st.text("ab ", max_size=3), st.text("ab ", max_size=3))
def test_padded_values_meet_without_their_spaces(one: str, other: str) -> None:
    target = table("t", ["id", "c"], ["id"], [["c"]], equality={"c": Equality.PADDED})
    keys = compile_keys(bind(target), Keyspace(), linked(target))
    both = taken(keys, None, (1, one)), taken(keys, None, (2, other))
    assert meet(*both) == (one.rstrip(" ") == other.rstrip(" "))


def test_an_unusable_index_is_named_with_its_reason() -> None:
    target = table("t", ["id", "c"], ["id"])
    opaque = TargetTable(target.name, target.columns, target.key, (UniqueKey("c_10", ("c",), "over a prefix"),))
    assert serial_reason(opaque) == "unique index c_10: over a prefix"
    assert serial_reason(target) == ""
    assert "no primary key" in serial_reason(table("t", ["id"], []))
