"""The target of every test of the MySQL sink."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.adapters.mysql_sink.sink_target import Target


@pytest.fixture(params=["mariadb", "mysql"])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    target = Target(request.getfixturevalue(request.param))
    yield target
    for sink in target.sinks:
        await sink.close()
