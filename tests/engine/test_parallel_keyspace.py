"""Namespaces of lock keys."""

from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_request import S, X

SHOP, CRM = TableName("shop", "account"), TableName("crm", "account")


def test_a_namespace_keeps_its_number_and_no_other_has_it() -> None:
    space = Keyspace()
    asked = [
        (SHOP, "unique", ("u",)),
        (SHOP, "unique", ("u", "v")),
        (SHOP, "reference", ("u",)),
        (CRM, "unique", ("u",)),
        (SHOP, "table", ()),
    ]
    numbers = [space.number(*one) for one in asked]
    assert len(set(numbers)) == len(asked)
    assert [space.number(*one) for one in asked] == numbers


def test_a_table_has_one_lock_in_two_modes() -> None:
    space = Keyspace()
    shared, exclusive, other = space.table_lock(SHOP, S), space.table_lock(SHOP, X), space.table_lock(CRM, X)
    assert shared[0] == exclusive[0] != other[0]
    assert (shared[1], exclusive[1]) == (S, X)
