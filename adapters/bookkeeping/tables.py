"""The tables that a feed keeps beside its rows at the target (design 6): its owner, what is applied, which rows failed.

They live in one schema (PostgreSQL) or database (MySQL, MariaDB), shared by all feeds of that target:

| table                | one row per                | holds                                                            |
|----------------------|----------------------------|------------------------------------------------------------------|
| `tidelock_owner`     | feed, table group          | the fencing epoch, the desired state, why it halted, its rules   |
| `tidelock_progress`  | committed batch (receipt)  | which source rows it covers, and their origin and path           |
| `tidelock_checkpoint`| feed, table group          | the source position below which everything is committed          |
| `tidelock_parked`    | failed row (dead letter)   | the change, its error, and `wish`: what it is queued for         |
| `tidelock_chunks`    | chunk of a copied table    | whether it is merged, how many rows; chunk 0: how it is split    |
| `tidelock_runs`      | feed, table group          | who runs it, and the last sign of life (`operator.runs`)         |
| `tidelock_wanted`    | table or row to read anew  | what is queued for copying or repair, until it is done           |
| `tidelock_forms`     | form of a source's table   | the place of the log from which it holds, and the form           |
| `tidelock_site`      | site (`operator.sites`)    | the server that has the name; `own`: this one                    |
| `tidelock_pair`      | feed of a pair (`pair`)    | whether the sites were made equal, so that both may write        |
| `tidelock_conflicts` | row that lost in a conflict| what was meant, what stands, the policy's outcome                |
| `tidelock_verdicts`  | row that an arbiter stands by | the row, for the spoke's feed to read in the log              |
| `tidelock_statements`| statement that a feed runs | its text, by which it is known in this server's own log          |
| `tidelock_shadows`   | shadow table that is known | what the source's statements say of it (`ddl.shadows`)           |
| `tidelock_writers`   | receipt that is not kept   | the transaction, and when it was committed (at an arbiter)       |

- `covered` is as `engine.log.receipts` encodes it.
- `path` and `marks` are as `engine.model.origin` spells them; `seen` is '' or JSON of a `Position`: of a feed without
  sites both are NULL.  The columns' order is part of the receipt, which is read in the log (`engine.capture.origin`).
- `site` of a checkpoint is that of the source, whose log the position is of; NULL without sites.
- `halt` is JSON `{"alarm": Alarm, "ddl": Ddl | null}`.
- `rules` is JSON of `operator.known_tables.Known`, in group 0 of an embedded feed; NULL: it has run with none yet.
- `ddl_passed` is `source:number` of the statement that an operator declared done or skipped.
- `position` is JSON of `engine.model.records.Position`.
- `change_data` is `ParkedRow.change`.
- `split` is msgpack of `engine.model.chunk_ranges.ChunkSplit`; `rows_merged` is NULL until the chunk is merged.
- `tidelock_wanted` names tables as the target does.  `mode` is `copy`, `keep`, `repair` or `resync` (a copy without
  which nothing may be applied); for `repair`, `row_key` is msgpack of the key's canonical values.  `heldcopy` and
  `heldkeep` wait for a run whose file maps the table as the digest in `row_key` says (`operator.held_copies`).  A
  refused request has the mode `refused`, and JSON of the `engine.model.errors.Alarm` in `row_key`; `left` tells rows
  that a repair left as they are, in JSON of `[[key, why], …]`.
- `tidelock_forms` (`adapters.ports.table_form`) names tables as the source does; `form` is the source's own text, of
  PostgreSQL '' where the table is gone.  `table_id` is a hash of the name where the source has no number of its own.
- `prepared` of a run is JSON of `adapters.ports.capture_messages.Unanswered`, NULL where the source has nothing
  prepared for long.
- `permit` of a run is JSON of `bookkeeping.permits.PermitWord`, NULL without a permit.

- `floor` of a site: the latest time of a tombstone that was taken away there; what is written is stamped above it.
- `arbiter` of a site: who decides conflicts between it and this one (`operator.arbiter`); NULL: nobody has said.
- `type` and `outcome` of a conflict are words of `engine.two_way` (`Conflict`, `Outcome`, or `displaced`); `incoming`
  is 1 where the change that came lost, 0 where a row that stood did.  `lost` and `stands` are msgpack of `{column:
  value}`, NULL where no row was meant or stands; `row_key` is for people.  A batch that is sent again counts once.
- `image` of a verdict is msgpack of `{column: text, bytes or nil}`, NULL where no row stands; `row_key` is the same of
  the key.  At PostgreSQL verdicts are messages in the log, and the table stays empty.
- `shadow` is JSON of `adapters.ddl.shadows.Shadow`, which names tables as the source does.
- `tidelock_statements` has rows at MySQL and MariaDB, of feeds with sites (`bookkeeping.statements`); they are made
  before the statement runs, and stay.

- `xid` and `committed_at` of a writer are PostgreSQL's; number 0 says since when all of the feed's are there
  (`postgres.target.row_writers`).  In other databases the table stays empty.

MySQL's `text` ends at 64 KiB, and a DDL statement or a GTID set may be longer, hence `longtext` there.

Tables of sites, pairs and conflicts (`OF_SITES`) are made for feeds with sites.

A later version may have more tables and columns (`adapters.operator.upgrade` adds what is missing).  A column that came
later can be NULL or has a default, for rows and for feeds of older versions that write beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidelock.adapters.config.url import Dialect

RECEIPTS: Final = "tidelock_progress"
CHECKPOINTS: Final = "tidelock_checkpoint"
OWNER: Final = "tidelock_owner"
SITES: Final = "tidelock_site"
PAIRS: Final = "tidelock_pair"
CONFLICTS: Final = "tidelock_conflicts"
VERDICTS: Final = "tidelock_verdicts"
STATEMENTS: Final = "tidelock_statements"
WRITERS: Final = "tidelock_writers"
SHADOWS: Final = "tidelock_shadows"
TABLES = (
    OWNER,
    RECEIPTS,
    CHECKPOINTS,
    "tidelock_parked",
    "tidelock_chunks",
    "tidelock_wanted",
    "tidelock_runs",
    "tidelock_forms",
    SITES,
    PAIRS,
    CONFLICTS,
    VERDICTS,
    STATEMENTS,
    WRITERS,
    SHADOWS,
)
OF_SITES: Final = frozenset((SITES, PAIRS, CONFLICTS, VERDICTS, STATEMENTS, WRITERS))
"""Tables that feeds with sites alone read and write."""

_COLUMNS = {
    OWNER: """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  epoch bigint NOT NULL,
  desired_state varchar(16) NOT NULL DEFAULT 'running',
  halt {long_text},
  ddl_passed varchar(255),
  rules {long_text},
  PRIMARY KEY (feed, grp)""",
    "tidelock_progress": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  epoch bigint NOT NULL,
  batch bigint NOT NULL,
  covered {blob} NOT NULL,
  origin varchar(255) NOT NULL,
  path varchar(1024) NOT NULL,
  marks varchar(1024),
  seen {long_text},
  PRIMARY KEY (feed, grp, epoch, batch)""",
    "tidelock_checkpoint": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  position {long_text} NOT NULL,
  saved_at {timestamp} NOT NULL DEFAULT {now}{on_update},
  site varchar(64),
  PRIMARY KEY (feed, grp)""",
    "tidelock_parked": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  source varchar(80) NOT NULL,
  number bigint NOT NULL,
  ordinal bigint NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  row_key {long_text} NOT NULL,
  error {long_text} NOT NULL,
  change_data {blob} NOT NULL,
  parked_at {timestamp} NOT NULL DEFAULT {now},
  wish varchar(8) NOT NULL DEFAULT '',
  PRIMARY KEY (feed, grp, source, number, ordinal)""",
    "tidelock_chunks": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  chunk int NOT NULL,
  split {blob},
  rows_merged bigint,
  changed_at {timestamp} NOT NULL DEFAULT {now}{on_update},
  PRIMARY KEY (feed, grp, table_schema, table_name, chunk)""",
    "tidelock_wanted": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  ordinal bigint NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  mode varchar(8) NOT NULL,
  row_key {blob},
  PRIMARY KEY (feed, grp, ordinal)""",
    "tidelock_runs": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  token varchar(32) NOT NULL,
  host varchar(255) NOT NULL,
  pid bigint NOT NULL,
  place varchar(255) NOT NULL,
  since {timestamp} NOT NULL DEFAULT {now},
  beat_at {timestamp} NULL DEFAULT NULL,
  lease_seconds int NOT NULL,
  prepared {long_text},
  permit {long_text},
  lag_us bigint,
  PRIMARY KEY (feed, grp)""",
    "tidelock_forms": """
  feed varchar(64) NOT NULL,
  table_id bigint NOT NULL,
  log_file varchar(255) NOT NULL,
  log_offset bigint NOT NULL,
  log_rows bigint NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  form {long_text} NOT NULL,
  PRIMARY KEY (feed, table_id, log_offset, log_rows)""",
    "tidelock_site": """
  site varchar(64) NOT NULL,
  identity varchar(255) NOT NULL,
  own int NOT NULL,
  bound_at {timestamp} NOT NULL DEFAULT {now},
  floor bigint NOT NULL DEFAULT 0,
  arbiter varchar(64),
  PRIMARY KEY (site)""",
    "tidelock_pair": """
  feed varchar(64) NOT NULL,
  pair varchar(64) NOT NULL,
  state varchar(16) NOT NULL,
  changed_at {timestamp} NOT NULL DEFAULT {now}{on_update},
  PRIMARY KEY (feed)""",
    "tidelock_conflicts": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  source varchar(80) NOT NULL,
  number bigint NOT NULL,
  ordinal bigint NOT NULL,
  entry int NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  row_key {long_text} NOT NULL,
  type varchar(32) NOT NULL,
  outcome varchar(16) NOT NULL,
  incoming int NOT NULL,
  lost {blob},
  stands {blob},
  path varchar(1024) NOT NULL,
  at {timestamp} NOT NULL DEFAULT {now},
  PRIMARY KEY (feed, grp, source, number, ordinal, entry)""",
    "tidelock_verdicts": """
  feed varchar(64) NOT NULL,
  grp int NOT NULL,
  epoch bigint NOT NULL,
  batch bigint NOT NULL,
  ordinal int NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  row_key {blob} NOT NULL,
  image {blob},
  PRIMARY KEY (feed, grp, epoch, batch, ordinal)""",
    "tidelock_statements": """
  feed varchar(64) NOT NULL,
  source varchar(255) NOT NULL,
  number bigint NOT NULL,
  ordinal int NOT NULL,
  path varchar(1024) NOT NULL,
  statement {long_text} NOT NULL,
  made_at {timestamp} NOT NULL DEFAULT {now},
  PRIMARY KEY (feed, source, number, ordinal)""",
    "tidelock_shadows": """
  feed varchar(64) NOT NULL,
  table_schema varchar(255) NOT NULL,
  table_name varchar(255) NOT NULL,
  of_schema varchar(255) NOT NULL,
  of_table varchar(255) NOT NULL,
  shadow {long_text} NOT NULL,
  PRIMARY KEY (feed, table_schema, table_name)""",
    "tidelock_writers": """
  feed varchar(64) NOT NULL,
  xid bigint NOT NULL,
  committed_at {timestamp} NOT NULL,
  PRIMARY KEY (feed, xid, committed_at)""",
}

_TYPES: dict[Dialect, dict[str, str]] = {
    "postgres": {"long_text": "text", "blob": "bytea", "timestamp": "timestamptz", "now": "now()", "on_update": ""},
    "mysql": {
        "long_text": "longtext",
        "blob": "longblob",
        "timestamp": "timestamp(6)",
        "now": "current_timestamp(6)",
        "on_update": " ON UPDATE current_timestamp(6)",
    },
}


class Lacking(msgspec.Struct, frozen=True):
    """The parts of this version's bookkeeping that are missing: tables, columns of existing tables, the schema itself.

    `needed`: the tables that were looked for.
    """

    tables: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    schema: bool = False
    needed: tuple[str, ...] = TABLES

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns)

    @property
    def everything(self) -> bool:
        """Tells whether no table exists, or at MySQL none that this user can see."""
        return len(self.tables) == len(self.needed)

    def __str__(self) -> str:
        columns = (f"{table}.{column}" for table, missing in self.columns.items() for column in missing)
        return ", ".join((*self.tables, *columns))


def needed(*, sites: bool) -> tuple[str, ...]:
    """Returns the tables of a feed.  `sites`: it has some."""
    return TABLES if sites else tuple(table for table in TABLES if table not in OF_SITES)


def create_statements(dialect: Dialect, schema: str) -> list[str]:
    """Returns statements that make the schema and its tables where they are missing; each may be run again.

    Both servers ask for the CREATE privilege even where there is nothing to create (PostgreSQL, for the schema, on the
    whole database), so a feed's user without it must look with `columns_query` first.
    """
    return statements_for(Lacking(TABLES, {}, schema=True), dialect, schema)


def statements_for(lacking: Lacking, dialect: Dialect, schema: str) -> list[str]:
    """Returns the statements that add what is missing."""
    quoted = quote(dialect, schema)
    container, options = ("SCHEMA", "") if dialect == "postgres" else ("DATABASE", _MYSQL_OPTIONS)
    suffix = "" if dialect == "postgres" else f" ENGINE=InnoDB{_MYSQL_OPTIONS}"
    made = [f"CREATE {container} IF NOT EXISTS {quoted}{options}"] if lacking.schema else []
    made += [
        f"CREATE TABLE IF NOT EXISTS {quoted}.{name} ({_COLUMNS[name].format_map(_TYPES[dialect])}\n){suffix}"
        for name in lacking.tables
    ]
    for table, columns in lacking.columns.items():
        definitions = _definitions(table)
        added = (f"ADD COLUMN {name} {definitions[name].format_map(_TYPES[dialect])}" for name in columns)
        made.append(f"ALTER TABLE {quoted}.{table} {', '.join(added)}")
    return made


_MYSQL_OPTIONS = " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def columns_query(dialect: Dialect, schema: str, tables: tuple[str, ...] = TABLES) -> str:
    """Returns SQL that lists (table, column) of each of these tables in `schema`, for `lacking`.

    MySQL shows those that this user may use.  PostgreSQL shows all, and a row of NULLs where there is only the schema.
    """
    names = ", ".join(f"'{name}'" for name in tables)
    return _COLUMNS_QUERIES[dialect].format(schema=schema.replace("'", "''"), names=names)


_COLUMNS_QUERIES: dict[Dialect, str] = {
    "mysql": "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = '{schema}' AND table_name IN ({names})",
    "postgres": "SELECT c.relname::text, a.attname::text FROM pg_namespace n "
    "LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND c.relname IN ({names}) "
    "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "WHERE n.nspname = '{schema}'",
}


def lacking(seen: Iterable[Sequence[Any]], tables: tuple[str, ...] = TABLES) -> Lacking:
    """Compares `seen`, the rows of `columns_query`, with these tables as this version needs them."""
    rows = list(seen)
    there: dict[str, set[str]] = {}
    for table, column in rows:
        if table is not None:
            there.setdefault(str(table), set()).add(str(column))
    missing = {
        table: tuple(column for column in _definitions(table) if column not in there[table])
        for table in tables
        if table in there
    }
    return Lacking(
        tuple(table for table in tables if table not in there),
        {table: columns for table, columns in missing.items() if columns},
        schema=not rows,
        needed=tables,
    )


def _definitions(table: str) -> dict[str, str]:
    """Returns for each column its type and what follows it."""
    lines = [line.strip().removesuffix(",").partition(" ") for line in _COLUMNS[table].strip().splitlines()]
    return {name: definition for name, _, definition in lines if name != "PRIMARY"}


def quote(dialect: Dialect, name: str) -> str:
    """Returns `name` as a quoted identifier."""
    mark = '"' if dialect == "postgres" else "`"
    return mark + name.replace(mark, mark * 2) + mark
