"""Statements as a feed sees them: its own tables alone, and none that the target may not follow by itself."""

from __future__ import annotations

import msgspec
import pytest

from tidelock.engine.capture.concern import related
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

ACCOUNT, NOTE, OTHER = TableName("shop", "account"), TableName("shop", "note"), TableName("else", "account")


def statement(kind: DdlKind, *tables: TableName, databases: tuple[str, ...] = ()) -> Ddl:
    return Ddl("shop", "…", "0-1", 7, kind, tables, databases)


def mapping(*pairs: tuple[str, str]) -> Mapping:
    return Mapping([Rule(source, target) for source, target in pairs])


def test_only_the_feed_s_own_tables_are_left() -> None:
    own = mapping(("shop.*", "shop.*"))
    assert related(statement(DdlKind.ALTERED, OTHER), own).kind is DdlKind.UNRELATED
    found = related(statement(DdlKind.ALTERED, OTHER, ACCOUNT, databases=("else", "shop")), own)
    assert (found.kind, found.tables, found.databases) == (DdlKind.ALTERED, (ACCOUNT,), ("shop",))
    unread = statement(DdlKind.OTHER)
    assert related(unread, own) is unread, "it may be about any table"


def test_a_statement_has_the_target_s_names_of_its_tables() -> None:
    other_names = mapping(("shop.account", "pool.a"), ("shop.*", "pool.*"))
    assert related(statement(DdlKind.TRUNCATE, ACCOUNT, NOTE), other_names).targets == (
        TableName("pool", "a"),
        TableName("pool", "note"),
    )
    assert related(statement(DdlKind.OTHER, NOTE, databases=("shop",)), other_names).targets == (), "any table"


@pytest.mark.parametrize("kind", [DdlKind.TRUNCATE, DdlKind.ALTERED])
def test_a_table_that_several_share_is_not_changed_for_one_of_them(kind: DdlKind) -> None:
    shared = mapping(("shop.account", "pool.all"), ("shop.note", "pool.all"))
    assert related(statement(kind, ACCOUNT), shared).kind is DdlKind.OTHER
    assert related(statement(kind, ACCOUNT), mapping(("shop.account", "pool.all"))).kind is kind
    assert related(statement(DdlKind.ADD_COLUMN, ACCOUNT), shared).kind is DdlKind.ADD_COLUMN


def test_between_sites_what_takes_something_away_would_come_back() -> None:
    own = mapping(("shop.*", "shop.*"))
    found = {kind: related(statement(kind, ACCOUNT), own, between_sites=True).kind for kind in DdlKind}
    assert found == {kind: kind for kind in DdlKind} | {DdlKind.ALTERED: DdlKind.OTHER}


def test_what_no_row_depends_on_passes_where_it_is_not_followed() -> None:
    index = msgspec.structs.replace(statement(DdlKind.ALTERED, ACCOUNT), optional=True)
    own, shared = mapping(("shop.*", "shop.*")), mapping(("shop.account", "pool.all"), ("shop.note", "pool.all"))
    assert related(index, own).kind is DdlKind.ALTERED
    assert related(index, own, between_sites=True).kind is DdlKind.UNRELATED
    assert related(index, shared).kind is DdlKind.UNRELATED
