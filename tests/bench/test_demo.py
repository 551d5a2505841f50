"""The demo's shop is the same at either source; the demo itself is a tour of a minute, run by hand."""

from bench.demo_servers import SCHEMA, furnish, source_url
from bench.harness.compare import compare
from bench.harness.servers import MariaDb, Postgres
from bench.harness.workload.shop import Shop


def test_the_shop_is_the_same_at_either_source(mariadb: MariaDb, postgres: Postgres) -> None:
    shops = Shop(), Shop()
    servers = mariadb, postgres
    try:
        held = [furnish(server, shop, 80) for server, shop in zip(servers, shops, strict=True)]
        assert held == [80 + 20 + 2 + 20] * 2
        for server, shop in zip(servers, shops, strict=True):
            assert shop.run(server.url(SCHEMA), 600, seed=5).changes == 600
        differences = compare(mariadb, source_url(postgres), [f"{SCHEMA}.{table}" for table in shops[0].tables])
        assert differences.total == 0 and differences.matched > 122, differences
        told = "SELECT DISTINCT relreplident::text FROM pg_class WHERE relname = ANY($1)"
        assert postgres.execute(told, shops[1].tables, database=SCHEMA) == [("f",)], "else one row after another"
    finally:
        mariadb.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        postgres.execute(f"DROP DATABASE IF EXISTS {SCHEMA} WITH (FORCE)")
