"""The target of every test of copying into MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.adapters.mysql_copying.copy_target import Target


@pytest.fixture(params=["mariadb", "mysql"])
async def target(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Target]:
    target = Target(request.getfixturevalue(request.param), tmp_path)
    yield target
    for sink in target.sinks:
        await sink.close()
