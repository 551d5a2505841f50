"""The target of every test of copying into PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bench.harness.servers import Postgres
from tests.adapters.postgres_copying.copy_target import Target


@pytest.fixture
async def target(postgres: Postgres) -> AsyncIterator[Target]:
    target = Target(postgres)
    yield target
    for sink in target.sinks:
        await sink.close()
