"""Writes `docs/reference/` from the commands and the configuration's model.

`python -m tidelock.adapters.reference.commands` does it.  A test compares, so that the pages cannot fall behind.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import typer.main
from msgspec import Meta

from tidelock.adapters.cli.app import app
from tidelock.adapters.config.conflicts import ColumnGroup, FeedConflicts, Stamp, TableConflicts
from tidelock.adapters.config.feed import Columns, Copy, Feed, Hive, Spark, TableRule
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.config.permit import FeedPermit
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.config.sites import FeedSites
from tidelock.adapters.config.throttle import FeedThrottle
from tidelock.adapters.config.traces import FeedTraces
from tidelock.adapters.config.url import CONNECT_SECONDS, OPTIONS, READ_SECONDS, SASL_MECHANISMS, SSL_MODES, Endpoint

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
NOTICE = "<!-- Written by `python -m tidelock.adapters.reference.commands`; change the code, not this page. -->\n"
SECRETS = f"""
## Secrets and URLs

In `source`, `target`, `log` and the values of `spark.settings`, `${{file:PATH}}` stands for the contents of a file
(relative to the YAML) and `${{env:NAME}}` for an environment variable. A secret inside a URL is taken as it is; any
other part is percent-decoded. Passwords are never shown.

Options of a URL: `{"`, `".join(OPTIONS)}`. `sslmode` is one of `{"`, `".join(SSL_MODES)}`; without it `prefer`:
encrypted where the server can. `connect_timeout` (seconds, {CONNECT_SECONDS:.0f}) bounds connecting and logging in to a
database. `read_timeout` (seconds, {READ_SECONDS:.0f}) is how long the answer to a statement may be missing before the
server is asked, on a second connection, whether it still works on it: if so it is waited for, however long it takes,
and if not the connection is given up and made anew. Both are for MySQL, MariaDB and PostgreSQL.

A listener of Kafka is encrypted or not, so `kafka://` has no `prefer`: without `sslmode` it is `verify-full` if
`sslrootcert` is given and `disable` if not. User and password go with `sasl`: `{"`, `".join(SASL_MECHANISMS)}`.

Values are taken as written: `off`, `null` and `1:30` are text, as YAML should have it.
"""

PAIR = """
# The YAML of a pair

For `tidelock pair` ([how to](../how-to/pair.md)). All keys of a feed but `feed`, `source`, `target`, `sites`, `start`,
`log` and `hive` may stand here too, and hold for all its feeds.

| key | value | default | |
|---|---|---|---|
| `pair` | text | required | Its name, with which those of its feeds begin: `PAIR-SOURCE-TARGET`. |
| `sites` | keys and values | required | Name of each site: its URL. |
| `edges` | list | the two sites | `eu-us`: both ways; `eu>us`: one way. A tree; circles with stamps alone. |
| `feeds` | keys and values |  | Keys of single feeds, by their names; `http`, `journal`, `server_id` stand here. |

`PAIR.yaml#NAME` is one of its feeds, for every command that takes a feed.
"""


def pages() -> dict[str, str]:
    """Returns the text of each page, by file name."""
    return {"cli.md": cli_page(), "config.md": config_page()}


def cli_page() -> str:
    """Returns the page of every command with its arguments and options."""
    parts = [NOTICE, "# The command line\n", str(app.info.help) + "\n"]
    root = typer.main.get_command(app)
    parts += ["\n".join(_facts(root)) + "\n", *_commands(root, "tidelock")]
    return "\n".join(parts)


def _commands(command: Any, path: str) -> list[str]:
    children = getattr(command, "commands", None)
    if children is None:
        return [_command(command, path)]
    return [part for name, child in children.items() for part in _commands(child, f"{path} {name}")]


def _command(command: Any, path: str) -> str:
    params = [p for p in command.params if p.name != "help"]
    words = [p.metavar or p.name.upper() for p in params if p.param_type_name == "argument"]
    lines = [f"## {path}\n", f"`{' '.join([path, *words])}`\n", f"{command.help}\n"]
    facts = _facts(command)
    return "\n".join(lines + facts) + ("\n" if facts else "")


def _facts(command: Any) -> list[str]:
    """Returns one line for each argument and option but `--help`."""
    params = [p for p in command.params if p.name != "help" and getattr(p, "help", None)]
    return [f"- `{_spelling(p)}`: {p.help}" for p in params]


def _spelling(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    value = "" if param.is_flag else f" {param.metavar or 'VALUE'}"
    return f"{', '.join(param.opts)}{value}"


def config_page() -> str:
    """Returns the page of every key of the YAML."""
    parts = [NOTICE, "# The feed's YAML\n", _keys(Feed), "\n## An entry of `tables`\n", _keys(TableRule)]
    parts += ["\n## `columns` of an entry\n", _keys(Columns), "\n## `spark`\n", _keys(Spark)]
    parts += ["\n## `hive`\n", _keys(Hive), "\n## `copy`\n", _keys(Copy), "\n## `sites`\n", _keys(FeedSites)]
    parts += ["\n## `conflicts`\n", _keys(FeedConflicts), "\n## `conflicts` of an entry\n", _keys(TableConflicts)]
    parts += ["\n## `stamp` of `conflicts`\n", _keys(Stamp)]
    parts += ["\n## `groups` of an entry's `conflicts`\n", _keys(ColumnGroup)]
    parts += ["\n## `permit`\n", _keys(FeedPermit), "\n## `throttle`\n", _keys(FeedThrottle)]
    parts += ["\n## `http_tls`\n", _keys(HttpTls), "\n## `traces`\n", _keys(FeedTraces)]
    parts += ["\n## `ddl`\n", _keys(FeedDdl)]
    return "\n".join([*parts, SECRETS, PAIR])


def _keys(model: Any) -> str:
    hints = get_type_hints(model, include_extras=True)
    rows = ["| key | value | default | |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(model):
        kind, metas = _parts(hints[field.name])
        text = next((m.description for m in metas if m.description), "")
        rows.append(f"| `{field.encode_name}` | {_kind(kind, metas)} | {_default(field)} | {text} |")
    return "\n".join(rows)


def _parts(hint: Any) -> tuple[Any, list[Meta]]:
    if get_origin(hint) is not Annotated:
        return hint, []
    kind, *metas = get_args(hint)
    return kind, [m for m in metas if isinstance(m, Meta)]


def _kind(kind: Any, metas: list[Meta]) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{word}`" for word in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(_kind(_parts(part)[0], metas) for part in get_args(kind) if part is not types.NoneType)
    limits = [(m.ge, m.le) for m in metas if m.ge is not None or m.le is not None]
    if kind is int and limits:
        return f"{limits[0][0]} to {limits[0][1]}"
    names = {str: "text", int: "number", bool: "`true` or `false`", Endpoint: "URL"}
    parts = (Columns, Copy, FeedConflicts, FeedDdl, FeedPermit, FeedSites, FeedThrottle, FeedTraces, Hive, HttpTls)
    names |= dict.fromkeys((*parts, Spark, Stamp, TableConflicts), "keys below")
    return names.get(kind) or ("keys and values" if get_origin(kind) is dict else "list")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    match field.default:
        case bool() as value:
            return f"`{str(value).lower()}`"
        case int() | str() as value if value not in ("", 0):
            return f"`{value}`"
        case _:
            return ""


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (FOLDER / name).write_text(page, encoding="utf-8")
