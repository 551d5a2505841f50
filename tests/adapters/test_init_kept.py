"""`init` of 60 everyday tables, from MySQL to PostgreSQL and back: nothing is lost without a word."""

from __future__ import annotations

import pytest

from bench.harness.servers import MySql, Postgres
from tests.adapters.kept_parts import PAGE, page, through_init


@pytest.mark.proof
async def test_each_part_of_a_schema_is_kept_or_said_to_be_left_out(mysql: MySql, postgres: Postgres) -> None:
    of_mysql, of_postgres = await through_init(mysql, postgres), await through_init(postgres, mysql)
    assert of_mysql.lost == of_postgres.lost == []
    assert page(of_mysql, of_postgres) == PAGE.read_text()
