"""Turns a YAML text into a `Feed`.  Each error names the file, the line, the key, and what was probably meant."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import msgspec

from tidelock.adapters.config import document, former_words
from tidelock.adapters.config import url as endpoint
from tidelock.adapters.config.conflicts import (
    ColumnGroup,
    FeedConflicts,
    Stamp,
    TableConflicts,
    feed_problems,
    table_problems,
    untimed,
)
from tidelock.adapters.config.document import Path as KeyPath
from tidelock.adapters.config.feed import (
    Columns,
    ConfigError,
    Copy,
    Feed,
    Hive,
    Spark,
    TableRule,
    completed,
    yaml_keys,
)
from tidelock.adapters.config.permit import LEAST_AFTER_US, FeedPermit
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.config.secrets import SecretError, has_reference, reveal
from tidelock.adapters.config.sites import FeedSites
from tidelock.engine.capture.pattern import Pattern, PatternError

_URL_KEYS = ("source", "target", "log")
_EMBEDDED = "embedded"
_PARTS = {
    "spark": Spark, "hive": Hive, "copy": Copy, "sites": FeedSites, "ddl": FeedDdl, "conflicts": FeedConflicts,
    "permit": FeedPermit,
}  # fmt: skip
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_WORD = re.compile(r"\w*")
_START = re.compile(r"now|earliest|copy|gtid:.+|.+\.\d+:\d+")
_POSTGRES_START = re.compile(r"now|earliest|copy|[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^:\s]+):\d{1,5}")


def load(path: Path | str) -> Feed:
    """Reads the feed of a YAML file.  Raises ConfigError."""
    path = Path(path)
    return read(text_of(path), path)


def text_of(path: Path) -> str:
    """Returns what a file holds.  Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None


def parsed(text: str, path: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Returns the text as plain data, and the line of each key.  Raises ConfigError."""
    try:
        return document.parse(text)
    except document.DocumentError as error:
        place = f"{path}, line {error.line}: " if error.line else f"{path}: "
        raise ConfigError(place + str(error), line=error.line) from None


def read(text: str, path: Path) -> Feed:
    """Reads the feed of a YAML text, and prints a hint on stderr for each former word in it.

    `path` names the text in errors, and its folder is where relative secrets are.  Raises ConfigError.
    """
    reading = Reading(path, *parsed(text, path))
    feed = reading.feed()
    for hint in reading.hints:
        print(f"tidelock: {hint}", file=sys.stderr)
    return feed


class Reading:
    """Reads one document as a `Feed`.  `data`, `lines`: as `parsed` returns them.  `hints`: on former words in it.

    Every method raises ConfigError.
    """

    def __init__(self, path: Path, data: Any, lines: dict[KeyPath, int]) -> None:
        self.path = path
        self.data, self.lines = data, lines
        self.hints: list[str] = []
        self._revealed: dict[str, str] = {}

    def feed(self) -> Feed:
        """Returns the feed, checked."""
        self._known(self.data, Feed, ())
        self._reveal_settings()
        self._no_stray_secrets(self.data, ())
        renewed, hints = former_words.renewed(self.data)
        self.hints = [f"{self._place(self.lines.get((key,), 0))}{key}: {hint}" for key, hint in hints.items()]
        if self._revealed:
            settings = {**renewed["spark"]["settings"], **self._revealed}
            renewed = {**renewed, "spark": {**renewed["spark"], "settings": settings}}
        data = renewed | {key: self._endpoint(key) for key in _URL_KEYS if key in self.data}
        try:
            feed = msgspec.convert(data, Feed, strict=False)
        except msgspec.ValidationError as error:
            self._explain(str(error))
        self._refuse_not_yet(feed)
        self._check_values(feed)
        self._check_hive(feed)
        self._check_log(feed)
        self._check_sites(feed)
        self._check_permit(feed)
        self._check_conflicts(feed)
        self._check_tables(feed)
        return completed(feed)

    def _known(self, data: Any, model: Any, path: KeyPath) -> None:
        """Refuses unknown keys here and below."""
        if not isinstance(data, dict):
            self._fail(path, "expected keys and values here")
        keys = yaml_keys(model)
        for key in data:
            if key not in keys:
                self._fail((*path, key), f"unknown key{_nearest(key, keys)}")
        if model is Feed and isinstance(data.get("tables"), list):
            for i, table in enumerate(data["tables"]):
                self._known(table, TableRule, ("tables", i))
        for key, part in _PARTS.items():
            if model is Feed and key in data:
                self._known(data[key], part, (key,))
        if model is TableRule and "columns" in data:
            self._known(data["columns"], Columns, (*path, "columns"))
        if model is FeedConflicts and data.get("stamp") is not None:
            self._known(data["stamp"], Stamp, (*path, "stamp"))
        if model is TableRule and "conflicts" in data:
            self._known(data["conflicts"], TableConflicts, (*path, "conflicts"))
        if model is TableConflicts and isinstance(data.get("groups"), list):
            for i, group in enumerate(data["groups"]):
                self._known(group, ColumnGroup, (*path, "groups", i))

    def _reveal_settings(self) -> None:
        """Puts secrets into Spark's settings."""
        spark = self.data.get("spark")
        settings = spark.get("settings") if isinstance(spark, dict) else None
        for key, value in list(settings.items()) if isinstance(settings, dict) else ():
            if isinstance(value, str) and has_reference(value):
                try:
                    self._revealed[key] = reveal(value, self.path.parent)
                except SecretError as error:
                    self._fail(("spark", "settings", key), str(error))

    def _no_stray_secrets(self, data: Any, path: KeyPath) -> None:
        if isinstance(data, dict):
            for key, value in data.items():
                if path == ("spark", "settings") and key in self._revealed:
                    continue
                if path or key not in _URL_KEYS:
                    self._no_stray_secrets(value, (*path, key))
        elif isinstance(data, list):
            for i, value in enumerate(data):
                self._no_stray_secrets(value, (*path, i))
        elif has_reference(data):
            self._fail(path, "${file:…} and ${env:…} are only for source, target, log and spark.settings")

    def _endpoint(self, key: str) -> endpoint.Endpoint | None:
        text = self.data[key]
        if not isinstance(text, str):
            self._fail((key,), "expected a URL")
        if key == "log" and text == _EMBEDDED:
            return None
        if key == "log" and _WORD.fullmatch(text):
            self._fail((key,), f"{text!r} is not known; use {_EMBEDDED} or kafka://host:port")
        try:
            return endpoint.parse(text, self.path.parent)
        except (endpoint.UrlError, SecretError) as error:
            self._fail((key,), str(error))

    def _refuse_not_yet(self, feed: Feed) -> None:
        for key, url in (("source", feed.source_url), ("target", feed.target_url)):
            if url.scheme == "hive" and key == "source":
                self._fail((key,), "hive:// can only be a target")
            if url.scheme == "kafka":
                self._fail((key,), f"kafka:// is not supported as a {key} yet; it can hold the `log`")

    def _check_values(self, feed: Feed) -> None:
        if feed.source_url.dialect == "postgres":
            if not _POSTGRES_START.fullmatch(feed.start):
                self._fail(("start",), f"{feed.start!r} is not now, copy, earliest, or an LSN such as 0/16B3748")
        elif not _START.fullmatch(feed.start):
            self._fail(("start",), f"{feed.start!r} is not now, earliest, copy, FILE:OFFSET (log.000001:4) or gtid:SET")
        if feed.http and not (_ADDRESS.fullmatch(feed.http) and int(feed.http.rpartition(":")[2]) < 65536):
            self._fail(("http",), f"{feed.http!r} is not HOST:PORT, for example 127.0.0.1:8470")
        for key, url in (("source", feed.source_url), ("target", feed.target_url)):
            if url.dialect == "postgres" and not url.database:
                self._fail((key,), "a PostgreSQL URL names its database: postgresql://user@host:5432/DATABASE")
        for key, url in (("source", feed.source_url), ("target", feed.target_url)):
            if not url.user and url.scheme != "hive":
                self._fail((key,), "the URL names no user: scheme://USER:password@host:port")

        for name in feed.spark.settings:
            if not name.startswith("spark."):
                self._fail(("spark", "settings", name), "Spark's settings begin with spark.")

        if feed.verify == "version" and feed.on_conflict == "replace":
            words = "replace does not go with `verify: version`: an older row would take a newer one away"
            self._fail(("on_conflict",), words)

    def _check_hive(self, feed: Feed) -> None:
        if feed.target_url.scheme != "hive":
            if "hive" in self.data:
                self._fail(("hive",), "these keys are for a target hive://…")
            return
        if feed.log_url is not None:
            self._fail(("log",), f"a Hive target is filled by one process: log: {_EMBEDDED}")
        if feed.journal:
            self._fail(("journal",), "there is none of a Hive target")
        for key, default in (("verify", "off"), ("on_conflict", "dead_letter")):
            if getattr(feed, key) != default:
                self._fail((key,), f"a Hive target has no rows to look at; use {default}")
        if feed.http:
            self._fail(("http",), "a Hive target serves no metrics yet")

    def _check_log(self, feed: Feed) -> None:
        if feed.log_url is None:
            if feed.partitions:
                self._fail(("partitions",), "only a log in Kafka has partitions: log: kafka://host:port")
            return
        if feed.log_url.scheme != "kafka":
            self._fail(("log",), f"use {_EMBEDDED} or kafka://host:port")
        if feed.consistency == "transaction" and feed.partitions > 1:
            self._fail(("partitions",), "consistency: transaction keeps all tables in one group, so use 1 or 0")

    def _check_sites(self, feed: Feed) -> None:
        if feed.ddl.made_at is not None and feed.sites is None:
            self._fail(("ddl", "from"), "it names a site: `sites: {source: …, target: …}`")
        if feed.sites is None:
            return
        if feed.sites.source == feed.sites.target:
            self._fail(("sites", "target"), "the two sites have one name; each server has its own")
        if feed.sites.sister == feed.name:
            self._fail(("sites", "sister"), "that is this feed; the sister goes the other way")
        if feed.log_url is not None:
            self._fail(("sites",), f"feeds of workers cannot name sites yet: log: {_EMBEDDED}")
        if feed.target_url.scheme == "hive":
            self._fail(("sites",), "nothing comes back from Hive: leave them out")

    def _check_permit(self, feed: Feed) -> None:
        if feed.permit is None:
            return
        if feed.sites is None or not feed.sites.sister:
            self._fail(("permit",), "it watches the feed that goes the other way: `sites: {…, sister: NAME}`")
        if feed.permit.limits.after_us < LEAST_AFTER_US:
            self._fail(("permit", "after"), "a feed tells of itself once a second: at least 3s")

    def _check_conflicts(self, feed: Feed) -> None:
        ends = (feed.source_url, feed.target_url)
        why = untimed(*(ends if feed.direction == "down" else ends[::-1]))
        for i, rule in enumerate(feed.tables):
            for path, problem in table_problems(rule.conflicts, feed.conflicts, why):
                self._fail(("tables", i, "conflicts", *path), problem)
        if feed.conflicts is None:
            return
        for path, problem in feed_problems(feed.conflicts, feed.sites):
            self._fail(("conflicts", *path), problem)
        if feed.verify != "off":
            self._fail(("verify",), "a feed with `conflicts` looks at each row already: leave it out")
        if feed.on_conflict != "dead_letter":
            self._fail(("on_conflict",), "policies of `conflicts` say it: leave it out")
        if feed.consistency == "transaction":
            self._fail(("consistency",), "conflicts are decided row by row: use row")
        if feed.conflicts.stamp is not None:
            self._check_stamped(feed)

    def _check_stamped(self, feed: Feed) -> None:
        if feed.copy.existing != "refuse":
            self._fail(("copy", "existing"), "rows with stamps are copied into empty tables alone: use refuse")
        for i, rule in enumerate(feed.tables):
            if rule.where:
                self._fail(("tables", i, "where"), "stamps compare whole tables: a row that leaves the filter has none")
            if rule.columns != Columns():
                self._fail(("tables", i, "columns"), "stamps are of whole rows: give all sites the same columns")
            if rule.target and not Pattern.of(rule.target).bound_to(Pattern.of(rule.source)):
                self._fail(("tables", i, "target"), "rows of several tables would share tombstones: use as many *")

    def _check_tables(self, feed: Feed) -> None:
        seen: set[str] = set()
        for i, rule in enumerate(feed.tables):
            self._check_names(rule, ("tables", i))
            if rule.source in seen:
                self._fail(("tables", i, "source"), f"{rule.source} has a rule already; the first one would always win")
            seen.add(rule.source)
            self._check_columns(rule.columns, ("tables", i, "columns"))
            self._check_where(rule.where, ("tables", i, "where"))
            if rule.version and feed.verify != "version":
                self._fail(("tables", i, "version"), "a version column is for `verify: version`")
            if feed.verify == "version" and not rule.version:
                self._fail(("tables", i), "`verify: version` needs a version column of each table: `version: COLUMN`")

    def _check_names(self, rule: TableRule, path: KeyPath) -> None:
        for key, text in (("source", rule.source), ("target", rule.target)):
            try:
                pattern = Pattern.of(text) if text else None
            except PatternError as error:
                self._fail((*path, key), str(error))
        if pattern and not pattern.fits(Pattern.of(rule.source)):
            self._fail(
                (*path, "target"), f"each part of {rule.target} needs no * or as many as {rule.source} has there"
            )

    def _check_columns(self, columns: Columns, path: KeyPath) -> None:
        if columns.include and columns.exclude:
            self._fail((*path, "exclude"), "include names the columns already; use one of the two")
        targets: set[str] = set()
        for source, target in columns.rename.items():
            if target in targets:
                self._fail((*path, "rename", source), f"two columns would become {target}")
            if source in columns.exclude or (columns.include and source not in columns.include):
                self._fail((*path, "rename", source), f"{source} is not among the replicated columns")
            targets.add(target)

    def _check_where(self, where: str, path: KeyPath) -> None:
        if not where:
            return
        from tidelock.adapters.config.row_filter import (  # sqlglot is slow to import, and few feeds filter
            WhereError,
            parse_where,
        )

        try:
            parse_where(where)
        except WhereError as error:
            self._fail(path, str(error).removeprefix("where: "))

    def _explain(self, message: str) -> NoReturn:
        """Raises msgspec's error in the operator's terms."""
        found = _AT.match(message)
        assert found is not None
        path: KeyPath = tuple(m["key"] or int(m["index"]) for m in _STEP.finditer(found["path"] or ""))
        problem = found["problem"]
        if missing := re.search(r"missing required field `(.+)`", problem):
            self._fail((*path, missing[1]), "missing")
        value = self._at(path)
        if choices := _choices(path):
            self._fail(path, f"{value!r} is not known; use {' or '.join(choices)}{_nearest(str(value), choices)}")
        if "`bool`" in problem:
            problem = "Expected true or false"
        if path[:1] == ("permit",) and "regex" in problem:
            problem = "Expected a length of time: 500ms, 10s, 5m, 1h"
        if path == ("feed",):
            problem = "Expected a name of a-z, 0-9, _ and -, at most 64 long"
        got = f", not {value!r}" if isinstance(value, str) and path and path[0] not in _URL_KEYS else ""
        self._fail(path, problem[:1].lower() + problem[1:].partition(", got")[0].replace("`", "") + got)

    def _at(self, path: KeyPath) -> Any:
        value = self.data
        for step in path:
            value = value[step]
        return value

    def _fail(self, path: KeyPath, problem: str) -> NoReturn:
        key = _dotted(path)
        line = next(
            (self.lines[path[:n]] for n in range(len(path), min(len(path), 1) - 1, -1) if path[:n] in self.lines), 0
        )
        raise ConfigError(f"{self._place(line)}{key + ': ' if key else ''}{problem}", key, line)

    def _place(self, line: int) -> str:
        return f"{self.path}, line {line}: " if line else f"{self.path}: "


def _dotted(path: KeyPath) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _nearest(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # costs 5 ms, and only a mistake needs it

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def _choices(path: KeyPath) -> tuple[str, ...]:
    """Returns the words that a key may hold, none where it is free."""
    hint: Any = Feed
    for step in path:
        parts = (hint, *get_args(hint))
        model = next((part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)), None)
        if isinstance(step, str):
            hint = get_type_hints(model).get(step) if model is not None else None
    return next((get_args(part) for part in (hint, *get_args(hint)) if get_origin(part) is Literal), ())
