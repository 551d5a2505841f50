"""Fixtures that several modules of this folder begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.harness.logical import Log, log
from bench.harness.servers import Postgres


@pytest.fixture
def shop_log(postgres_source: Postgres) -> Iterator[Log]:
    """The log of a fresh database with the tables `t` and `u`, from where they are made on."""
    database = postgres_source.database("shop")
    postgres_source.execute_script(
        "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text);", database=database
    )
    with log(postgres_source, database) as made:
        yield made
