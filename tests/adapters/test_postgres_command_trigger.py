"""Event triggers of a feed at a PostgreSQL source: made, checked and taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, Postgres
from tests.adapters.checked_postgres_feed import Place
from tidelock.adapters.checks import inspection
from tidelock.adapters.checks.source_inspection import Preparation
from tidelock.adapters.config.loader import read
from tidelock.adapters.ports.target_inspection import CannotRun


async def tellers(place: Place, *, wanted: bool, **other: str) -> list[Preparation]:
    async with inspection.source_inspected(place.feed(**other)) as source:
        return await source.tellers(wanted=wanted)


async def run(place: Place, *, wanted: bool) -> int:
    planned = await tellers(place, wanted=wanted)
    place.at_source(*(one.sql for one in planned))
    return len(planned)


async def said(place: Place, tables: str = "") -> list[str]:
    found = await place.findings(tables)
    return [f"{one.level}: {one.kind}" for one in found if one.kind.startswith("commands")]


async def test_made_checked_and_taken_away(postgres_source: Postgres, postgres: Postgres) -> None:
    place = Place(postgres_source, postgres)
    place.both()
    assert await said(place) == []
    assert await run(place, wanted=True) > 0
    assert await said(place) == ["note: commands-told"]
    assert await run(place, wanted=True) == 0, "they are there"
    place.at_source(f'ALTER EVENT TRIGGER "{place.slot}_drop" DISABLE')
    assert await said(place) == ["warning: commands-untold"]
    assert await run(place, wanted=True) > 0
    assert await said(place, "[{source: public.*}]") == ["warning: commands-other"]
    place.at_source("CREATE ROLE teller LOGIN REPLICATION PASSWORD 'pw'")
    url = place.source.url(place.schema, "teller", "pw")
    assert all(one.administrator for one in await tellers(place, wanted=False, source=url))
    place.at_source("DROP ROLE teller")
    assert await run(place, wanted=False) > 0
    assert await said(place) == []
    assert await run(place, wanted=False) == 0
    place.at_source("CREATE SCHEMA tidelock_ddl")  # nothing is left, its schema neither


async def test_a_log_with_statements_needs_none(mariadb: MariaDb, postgres: Postgres) -> None:
    urls = f"source: {mariadb.url(mariadb.database('check'))}\ntarget: {postgres.url('postgres')}"
    feed = read(f"feed: f\n{urls}\ntables: [{{source: a.b}}]\n", Path("feed.yaml"))
    async with inspection.source_inspected(feed) as source:
        with pytest.raises(CannotRun, match="has statements"):
            await source.tellers(wanted=True)
