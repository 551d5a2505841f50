"""What `check` says of names in a feed that nothing there has, and of an address that is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelock.adapters.checks.http_port import check_http
from tidelock.adapters.checks.rule_columns import check_rule_columns
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.web.serving import serve
from tidelock.engine.model.records import Column, Kind, TableName


def feed(options: str = "", rule: str = "{source: crm.*}") -> Feed:
    text = f"feed: shop\nsource: mysql://a:b@h:1\ntarget: postgresql://a:b@h:2/c\ntables: [{rule}]\n{options}"
    return read(text, Path("shop.yaml"))


def table(name: str, *columns: str) -> SourceTable:
    made = tuple(SourceColumn(Column(column, Kind.INT, length=4), "int", nullable=True) for column in columns)
    return SourceTable(TableName("crm", name), made)


TABLES = [table("person", "id", "mail"), table("note", "id", "text")]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{source: crm.*, columns: {rename: {mial: email}}}", "rename: the source's name, left of the colon, is mial"),
        ("{source: crm.*, columns: {exclude: [txet]}}", "exclude: txet, and none of its 2 tables has such a column"),
        ("{source: crm.person, columns: {include: [id, nam]}}", "include: nam, and crm.person has no such column"),
        ("{source: crm.person, where: regoin = 1}", "tables[0].where: there is no column regoin in crm.person"),
        ("{source: crm.*, columns: {rename: {mail: email}, exclude: [text]}}", ""),
        ("{source: crm.person, where: mail = 1}", ""),
    ],
)
def test_a_column_that_no_table_has_is_told_by_the_sources_name(rule: str, said: str) -> None:
    found = check_rule_columns(feed(rule=rule), [one for one in TABLES if feed(rule=rule).select(one.name)])
    assert [said in one.message for one in found] == [True] * bool(said), found
    assert not said or found[0].level == "error"


def test_the_nearest_name_is_proposed() -> None:
    rule = "{source: crm.*, columns: {rename: {mial: email}}}"
    assert check_rule_columns(feed(rule=rule), TABLES)[0].hint == "Did you mean `mail`?"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_port_that_another_program_has_is_found(taken: int) -> None:
    found = await check_http(feed(f"http: 127.0.0.1:{taken}\n"))
    assert [one.kind for one in found] == ["http-taken"] and str(taken) in found[0].message
    assert await check_http(feed()) == []


async def test_a_port_that_the_feeds_own_run_has_is_fine() -> None:
    async with serve(("127.0.0.1", 0), Sample, "shop") as port:
        assert await check_http(feed(f"http: 127.0.0.1:{port}\n")) == []
    async with serve(("127.0.0.1", 0), Sample, "another") as port:
        assert [one.kind for one in await check_http(feed(f"http: 127.0.0.1:{port}\n"))] == ["http-taken"]


async def test_an_address_of_another_machine_is_a_warning() -> None:
    found = await check_http(feed("http: 192.0.2.1:8470\n"))
    assert [(one.level, one.kind) for one in found] == [("warning", "http-elsewhere")]
