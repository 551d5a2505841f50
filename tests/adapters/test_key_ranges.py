"""Pieces of a PostgreSQL table along its key: each row is in one of them, whatever types and collations the key has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from bench.harness.rig import Rig
from bench.harness.servers import Postgres
from tidelock.adapters.config.loader import load
from tidelock.adapters.spark.key_ranges import key_pieces
from tidelock.adapters.wiring.source_tables import tables_of
from tidelock.engine.model.records import TableName

ROWS = 60
# The key's columns, and values of the row s.
KEYS = {
    "words": (
        'w text COLLATE "en-US-x-icu", PRIMARY KEY (w)',
        r"chr(97 + s % 26) || (ARRAY['É\', '''', ''])[s % 3 + 1] || s",
    ),
    "numbers": (
        "a numeric, b float8, PRIMARY KEY (b, a)",
        "CASE s WHEN 7 THEN 'NaN' ELSE (s % 5)::numeric / 4 END, s / 5",
    ),
    "moments": (
        "d date, h timestamptz(2), i interval, PRIMARY KEY (d, h, i)",
        (
            "(ARRAY['-infinity', '0044-03-15 BC', '2024-02-29'])[s % 3 + 1]::date, "
            "'epoch'::timestamptz + s % 4 * interval '0.25 s', s * interval '1 mon -1 s'"
        ),
    ),
    "others": (
        "c char(4), b bytea, m mood, r int4range, PRIMARY KEY (m, c, b, r)",
        (
            "(ARRAY['a', 'A'''])[s % 2 + 1], decode(lpad((s % 4)::text, 2, '0'), 'hex'), "
            r"(ARRAY['sad', 'it''s \ok'])[s % 2 + 1]::mood, int4range(s, s + 2)"
        ),
    ),
    "domains": ("d cents, PRIMARY KEY (d)", "s / 4.0"),
    "empty": ("id int, PRIMARY KEY (id)", ""),
}


def test_each_row_is_in_one_piece(make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres) -> None:
    rig = make_rig(postgres_source, postgres, "cut")
    rig.at_source(r"CREATE TYPE mood AS ENUM ('sad', 'it''s \ok')", "CREATE DOMAIN cents AS numeric(10,2)")
    for table, (columns, values) in KEYS.items():
        rig.at_source(f"CREATE TABLE {table} ({columns})")
        if values:
            rig.at_source(f"INSERT INTO {table} SELECT {values} FROM generate_series(1, {ROWS}) s")
    with tables_of(load(rig.feed).source_url) as server:
        found = asyncio.run(server.shapes(lambda name: name.schema == rig.schema))
        for table, (_, values) in KEYS.items():
            name = TableName(rig.schema, table)
            pieces, rows = asyncio.run(key_pieces(server, found[name], 7))
            assert (rows, len(pieces)) == ((ROWS, ROWS // 7 + 1) if values else (0, 1)), table
            cut = ", ".join(f"t.{key} AS p{n}" for n, key in enumerate(found[name].shape.primary_key))
            read: Counter[str] = Counter()
            for piece in pieces:
                query = f"SELECT t::text AS line, {cut} FROM {rig.schema}.{table} t"
                lines = [line for (line,) in server.rows(f"SELECT line FROM ({query}) q WHERE {piece}")]
                assert len(lines) <= 7
                read.update(lines)
            assert len(read) == rows and set(read.values()) <= {1}, table


def test_a_bound_says_the_same_whatever_the_settings(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """A role may take backslashes in texts for escapes."""
    rig = make_rig(postgres_source, postgres, "escaped")
    rig.at_source("CREATE TABLE item (w text PRIMARY KEY)")
    rig.at_source(r"INSERT INTO item VALUES (E'a\\b'), (E'a\\\\b'), ('it''s')")
    with tables_of(load(rig.feed).source_url) as server:
        (table,) = asyncio.run(server.shapes(lambda name: name.table == "item")).values()
        pieces, _ = asyncio.run(key_pieces(server, table, 1))
        for setting in ("on", "off"):
            server.rows(f"SET standard_conforming_strings = {setting}")
            rows = f"SELECT count(*) FROM (SELECT w AS p0 FROM {rig.schema}.item) q"
            assert [server.rows(f"{rows} WHERE {piece}")[0][0] for piece in pieces] == [1, 1, 1, 0]
