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
)
from tidelock.adapters.config.document import Path as KeyPath
from tidelock.adapters.config.feed import (
    EMBEDDED,
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
from tidelock.adapters.config.feed_problems import problems_of
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.config.permit import FeedPermit
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.config.secrets import SecretError, has_reference, reveal
from tidelock.adapters.config.sites import FeedSites
from tidelock.adapters.config.throttle import FeedThrottle
from tidelock.adapters.config.traces import FeedTraces

_URL_KEYS = ("source", "target", "log")
_PARTS = {
    "spark": Spark, "hive": Hive, "copy": Copy, "sites": FeedSites, "ddl": FeedDdl, "conflicts": FeedConflicts,
    "permit": FeedPermit,
    "throttle": FeedThrottle,
    "http_tls": HttpTls,
    "traces": FeedTraces,
}  # fmt: skip
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_WORD = re.compile(r"\w*")


def load(path: Path | str) -> Feed:
    """Reads the feed of a YAML file.  Raises ConfigError."""
    path = Path(path)
    return read(text_of(path), path)


def text_of(path: Path) -> str:
    """Returns what a file holds, with the ends of lines that it has.  Raises ConfigError."""
    try:
        return path.read_bytes().decode("utf-8")
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
        for path, problem in problems_of(feed, self.data):
            self._fail(path, problem)
        return completed(feed, self.path.parent)

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
        if key == "log" and text == EMBEDDED:
            return None
        if key == "log" and _WORD.fullmatch(text):
            self._fail((key,), f"{text!r} is not known; use {EMBEDDED} or kafka://host:port")
        try:
            return endpoint.parse(text, self.path.parent)
        except (endpoint.UrlError, SecretError) as error:
            self._fail((key,), str(error))

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
