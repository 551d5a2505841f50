"""The model of a feed's YAML (design 9); `config.loader` reads it.

The model is msgspec, as the records are: it is needed on every start anyway, and pydantic alone would use up the
whole start-up budget (docs/decisions).  `docs/reference/config.md` is generated from the descriptions here.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tidelock.adapters.config.conflicts import FeedConflicts, TableConflicts
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.config.moments import StartMoment, start_moment
from tidelock.adapters.config.permit import FeedPermit
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.config.sites import FeedSites
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.config.throttle import FeedThrottle
from tidelock.adapters.config.traces import FeedTraces
from tidelock.adapters.config.url import SLOT, Endpoint
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.conflict_options import Direction
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.stamp_columns import TOMBSTONES

FEED_NAME = r"^[a-z0-9_-]{1,64}$"
SCHEMA_NAME = r"^[a-z_][a-z0-9_]{0,62}$"
EMBEDDED = "embedded"
"""Word for a log that is the source's own."""
ServerId: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table that are replicated, and their names at the target."""

    include: Annotated[tuple[str, ...], Meta(description="Only these source columns.")] = ()
    exclude: Annotated[tuple[str, ...], Meta(description="All source columns but these.")] = ()
    rename: Annotated[dict[str, str], Meta(description="Source column name: target column name.")] = {}


class TableRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for tables of the source: their names, columns and rows at the target."""

    source: Annotated[str, Meta(description="`db.table`; `*` stands for any text. The first rule that matches wins.")]
    target: Annotated[
        str, Meta(description="`schema.table`; a `*` carries over what the source's `*` stood for. Default: same name.")
    ] = ""
    columns: Annotated[Columns, Meta(description="Which columns, under which names.")] = Columns()
    where: Annotated[
        str, Meta(description="Row filter: comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT over columns and literals.")
    ] = ""
    weight: Annotated[int, Meta(description="Order of upserts in a batch among equal tables; higher is later.")] = 0
    version: Annotated[
        str,
        Meta(
            description="With `verify: version`: the column, by its name at the target, whose value grows with every "
            "change of a row. A number, a date or a time, and NOT NULL at the target."
        ),
    ] = ""
    conflicts: Annotated[
        TableConflicts, Meta(description="Policies of these tables, in a feed with `conflicts: arbiter`.")
    ] = TableConflicts()

    def matches(self, name: TableName) -> bool:
        """Tells whether the rule is for the source table `name`."""
        return Pattern.of(self.source).matches(name)

    def target_name(self, name: TableName) -> TableName:
        """Returns the target's name for `name`, which this rule matches."""
        return Pattern.of(self.source).carry(name, Pattern.of(self.target)) if self.target else name


class Spark(msgspec.Struct, frozen=True, kw_only=True):
    """The place where bulk work (`tidelock verify`, copying) runs."""

    master: Annotated[
        str, Meta(min_length=1, description="Spark's master: `local[*]` is this machine, with all its cores.")
    ] = "local[*]"
    memory: Annotated[
        str, Meta(pattern=r"^[1-9][0-9]*[mg]$", description="Of the driver, on `local[*]` of the whole: `512m`, `2g`.")
    ] = "1g"
    piece_rows: Annotated[
        int, Meta(ge=1000, description="Rows that one task reads; smaller pieces show progress sooner and cost more.")
    ] = 250_000
    small_rows: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Tables of at most so many rows are copied, and compared by `verify`, without Spark and Java.",
        ),
    ] = 20_000
    settings: Annotated[
        dict[str, str], Meta(
            description="Any of Spark's own settings, by their names (`spark.executor.memory`); secrets as in URLs."
        )
    ] = {}


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which existing rows are copied (`start: copy`, `tidelock copy`)."""

    existing: Annotated[
        Literal["refuse", "replace", "keep"],
        Meta(
            description="Target tables that hold rows when `start: copy` first runs: `refuse` to run, `replace` them, "
            "or `keep` them and pass over source rows that clash."
        ),
    ] = "refuse"
    chunk_rows: Annotated[
        int, Meta(ge=1000, le=10_000_000, description="Rows of one chunk, about: what is read and merged at once.")
    ] = 200_000


class Hive(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which a Hive target keeps its tables."""

    merge_seconds: Annotated[
        int, Meta(ge=1, le=86_400, description="How long changes are collected for one merge.")
    ] = 60
    format: Annotated[
        Literal["parquet", "orc"],
        Meta(description="Of tables that are new. Small merges are made without a job of Spark in `parquet` only."),
    ] = "parquet"
    buckets: Annotated[
        int,
        Meta(
            ge=1,
            le=4096,
            description="The most partitions of a table, by a hash of its key: it begins with few and gets more as it "
            "grows, and a merge rewrites some.",
        ),
    ] = 16
    history: Annotated[
        bool, Meta(description="Whether new tables get a second one, `…_history`, with every version of their rows.")
    ] = False


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """One changefeed: its source, its target, the tables between them, and how they are replicated."""

    name: Annotated[
        str, Meta(pattern=FEED_NAME, description="Its name in the bookkeeping: `a-z`, `0-9`, `_`, `-`, at most 64.")
    ] = msgspec.field(name="feed")
    source_url: Annotated[
        Endpoint,
        Meta(
            description="`mysql://`, `mariadb://` or `postgresql://` `user:password@host:port`, with the database for "
            "PostgreSQL; secrets as below."
        ),
    ] = msgspec.field(name="source")
    target_url: Annotated[
        Endpoint,
        Meta(
            description="`postgresql://`, `mysql://` or `mariadb://`, with the database for PostgreSQL; "
            "`hive:///FOLDER` or `hive://METASTORE:9083/DATABASE`."
        ),
    ] = msgspec.field(name="target")
    tables: Annotated[tuple[TableRule, ...], Meta(min_length=1, description="Which tables.")]
    consistency: Annotated[
        Literal["row", "transaction"],
        Meta(description="`row`: rows of different lanes may overtake one another; `transaction`: source order."),
    ] = "row"
    lanes: Annotated[int, Meta(ge=1, le=64, description="Target connections that apply in parallel.")] = 8
    batch_rows: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="Rows in one target transaction, at most. Default: 4000, with `consistency: transaction` 1000.",
        ),
    ] = 0
    verify: Annotated[
        Literal["off", "version", "image"],
        Meta(
            description="What a change is compared with at the target before it is written: `off`, nothing; `image`, "
            "the row must be as the log has it before the change, else it fails; `version`, only a row with a higher "
            "`version` is written."
        ),
    ] = "off"
    log_url: Annotated[
        Endpoint | None,
        Meta(
            description="`embedded`: the source's own log is the log, for one process (`tidelock run`). "
            "`kafka://[user:password@]host:port[,host:port…]`: any number of workers (`tidelock worker`) share one. "
            "Default: `embedded`."
        ),
    ] = msgspec.field(name="log", default=None)
    partitions: Annotated[
        int,
        Meta(
            ge=0,
            le=256,
            description="Of the log in Kafka: exactly so many. Default: one for each group of tables, at most 8.",
        ),
    ] = 0
    start: Annotated[
        str,
        Meta(
            description="Where the first run begins: `now`, `earliest`, `FILE:OFFSET`, `gtid:SET`, a time "
            "(`2026-11-20T12:00Z`, `2h ago`) of MySQL or MariaDB; `copy`: now, once all tables are being copied. Later "
            "runs go on. At PostgreSQL `earliest`, or an LSN such as `0/16B3748`, needs a slot that was made before."
        ),
    ] = "now"
    server_id: Annotated[
        ServerId, Meta(description="Our id as a replica, unique at the source. Default: made from the feed's name.")
    ] = 0
    http: Annotated[
        str, Meta(description="`HOST:PORT` that serves `/metrics`, `/livez` and `/readyz`. Default: none.")
    ] = ""
    http_tls: Annotated[
        HttpTls | None, Meta(description="Serve `http` with TLS, and `verify --http`. Default: without.")
    ] = None
    ready_seconds: Annotated[
        int,
        Meta(ge=1, le=86_400, description="`/readyz` is 503 once source, target or Kafka is silent for so long."),
    ] = 30
    zero_dates: Annotated[
        Literal["dead_letter", "null"],
        Meta(
            description="A row with `0000-00-00` where the target has no such date: set aside as a failed row "
            "(`dead_letter`), or written with NULL."
        ),
    ] = "dead_letter"
    on_conflict: Annotated[
        Literal["dead_letter", "replace"],
        Meta(
            description="A row whose unique value another row at the target holds: `dead_letter` sets it aside as a "
            "failed row; `replace` deletes that other row and tells it."
        ),
    ] = "dead_letter"
    schema: Annotated[
        str, Meta(pattern=SCHEMA_NAME, description="Schema or database of the bookkeeping at the target.")
    ] = "tidelock"
    synchronous_commit: Annotated[
        bool,
        Meta(description="PostgreSQL: wait for the disk at every commit. Safe without: a lost tail is applied again."),
    ] = False
    journal: Annotated[
        str,
        Meta(
            description="File that records the run for `tidelock replay`; it holds rows: only its owner can read it. "
            "A worker keeps one for each group that it owns, `FILE.group0` and so on. Default: none."
        ),
    ] = ""
    journal_mb: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Of one journal, about: then the feed takes itself over anew, with a new file "
            "(while rows are copied it records on, up to twice as much).",
        ),
    ] = 1024
    journal_keep: Annotated[
        int, Meta(ge=0, le=1000, description="Journals that stay of before: `FILE.1` is the last one, and so on.")
    ] = 3
    journal_fault: Annotated[
        Literal["go on", "stop"],
        Meta(
            description="When the disk does not take the journal: `go on` without it, or `stop` the feed in order "
            "(exit code 4)."
        ),
    ] = "go on"

    spark: Annotated[Spark, Meta(description="Where and how bulk work runs.")] = Spark()
    hive: Annotated[Hive, Meta(description="How a Hive target keeps its tables.")] = Hive()
    copy: Annotated[Copy, Meta(description="How rows that exist already are copied.")] = Copy()
    sites: Annotated[
        FeedSites | None, Meta(description="Names of the sites, where changes may come back. Default: none.")
    ] = None
    permit: Annotated[
        FeedPermit | None, Meta(description="Apply only while the sister does. Default: whatever the sister does.")
    ] = None
    throttle: Annotated[
        FeedThrottle | None, Meta(description="Bounds how fast it applies. Default: as fast as it can.")
    ] = None
    traces: Annotated[
        FeedTraces | None, Meta(description="Send spans of batches to a collector. Default: none are made.")
    ] = None
    ddl: Annotated[
        FeedDdl, Meta(description="What becomes of schema changes, by their kinds; between sites, where they are made.")
    ] = FeedDdl()
    conflicts: Annotated[
        FeedConflicts | None, Meta(description="Who decides where both sites write one row. Default: nobody.")
    ] = None

    def select(self, name: TableName) -> TableRule | None:
        """Returns the first rule that matches a source table."""
        return next((rule for rule in self.tables if rule.matches(name)), None)

    def target_name(self, name: TableName) -> TableName:
        """Returns the target's name for a source table; its own name where no rule matches."""
        rule = self.select(name)
        return rule.target_name(name) if rule else name

    @property
    def direction(self) -> Direction:
        """Direction towards the arbiter of its conflicts, if it has one."""
        if self.conflicts is None or self.sites is None:
            return "none"
        return self.conflicts.direction(self.sites)

    @property
    def starts_where_kept(self) -> bool:
        """Tells whether the first run needs a log that was kept before it."""
        return self.start not in ("now", "copy")

    @property
    def starts_at_moment(self) -> bool:
        """Tells whether the first run looks for a moment in the log."""
        return isinstance(self.start_place, StartMoment)

    @property
    def start_place(self) -> Literal["now", "earliest"] | StartMoment | Position:
        """The value of `start`, parsed: a position has a file and an offset, only `gtids`, or only an LSN."""
        if moment := start_moment(self.start):
            return moment
        match self.start.partition(":"):
            case "now" | "copy", "", "":
                return "now"
            case "earliest", "", "":
                return "earliest"
            case "gtid", _, gtids:
                return Position("", 0, gtids=gtids)
        if self.source_url.dialect == "postgres":
            high, _, low = self.start.partition("/")
            return Position("", int(high, 16) << 32 | int(low, 16))
        file, _, offset = self.start.rpartition(":")
        return Position(file, int(offset))

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of `http`, None where nothing is served."""
        host, _, port = self.http.rpartition(":")
        return (host.strip("[]"), int(port)) if self.http else None


class ConfigError(Exception):
    """The YAML cannot be used.  `key` is its dotted path (`tables[0].where`), `line` counts from 1 (0: unknown)."""

    exit_code = 2

    def __init__(self, message: str, key: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.key = key
        self.line = line


def derived_server_id(name: str) -> int:
    """Returns a replica id made from the feed's name: the same at every start, above the small numbers that people give
    servers.
    """
    return 0x4000_0000 | zlib.crc32(name.encode()) & 0x3FFF_FFFF


def completed(feed: Feed, folder: Path) -> Feed:
    """Returns `feed` with the values that depend on others, and on the folder of its file, filled in.

    The URL of a PostgreSQL source carries the name of the feed's slot to whoever reads there.  Where stamps decide,
    tombstones are tables of the feed too.
    """
    source, tables = feed.source_url, feed.tables
    if feed.conflicts is not None and feed.conflicts.stamp is not None:
        tables = (*map(_of_tombstones, tables), *tables)
    if source.dialect == "postgres":
        source = msgspec.structs.replace(source, options={**source.options, SLOT: slot_name(feed.name)})
    return msgspec.structs.replace(
        feed,
        source_url=source,
        tables=tables,
        server_id=feed.server_id or derived_server_id(feed.name),
        http_tls=feed.http_tls and feed.http_tls.beside(folder),
    )


def _of_tombstones(rule: TableRule) -> TableRule:
    """Returns the rule for the tombstones of a rule's tables."""
    target = rule.target and rule.target + TOMBSTONES
    return TableRule(source=rule.source + TOMBSTONES, target=target, weight=rule.weight)


def yaml_keys(model: Any) -> tuple[str, ...]:
    """Returns the keys of a model as the YAML spells them, in order."""
    return tuple(field.encode_name for field in msgspec.structs.fields(model))
