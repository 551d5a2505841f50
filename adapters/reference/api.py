"""Writes `docs/reference/api.md` from the API's table of routes.

`python -m tidelock.adapters.reference.api` does it.  A test compares, so that the page cannot fall behind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from tidelock.adapters.api.answers import Failure, Job, ShownFeed
from tidelock.adapters.api.failures import STATUSES
from tidelock.adapters.api.openapi import PLACES, status_of
from tidelock.adapters.api.parameters import Nothing
from tidelock.adapters.api.roles import TEXTS
from tidelock.adapters.api.routes import ROOT, ROUTES, Route

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api.md"
_HEAD: Final = f"""\
<!-- Written by `python -m tidelock.adapters.reference.api`; change the code, not this page. -->

# The control API

Of [`tidelock serve DIR --http HOST:PORT`](cli.md#tidelock-serve); [how to](../how-to/api.md) use it. All paths are
below `{ROOT}`, all bodies and answers are JSON. Times are seconds since 1970, lengths of time seconds. `GET
{ROOT}/openapi.json` is this page as an OpenAPI 3.1 document.

## Routes

| | what it does | role | command | takes | answers |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Returns the text of the page."""
    parts = [_HEAD, *map(_route, ROUTES), "\n## Roles\n\n", "| | |\n|---|---|\n"]
    parts += [f"| `{role}` | {text[0].upper()}{text[1:]} |\n" for role, text in TEXTS.items()]
    parts += ["\nWhere a role does not suffice, the answer is 403, and says which does.\n"]
    parts += ["\n## Places in a path\n\n", "| | |\n|---|---|\n"]
    parts += [f"| `{{{name}}}` | {text} |\n" for name, (text, _) in PLACES.items()]
    parts += ["\n## Statuses\n\n| | |\n|---|---|\n"]
    parts += ["| 200, 202 | It was carried out; of a job: it has begun. |\n"]
    parts += [f"| {code} | {text} |\n" for code, text in STATUSES.items()]
    parts += [f"\nAll but the first two have the body `{Failure.__name__}`.\n"]
    taken = {route.takes: None for route in ROUTES if route.takes is not Nothing}
    parts += ["\n## What is taken\n", *map(_fields, taken)]
    answered = [ShownFeed, *(route.answer for route in ROUTES if route.answer is not None), Failure]
    return "".join([*parts, "\n## What is answered\n", *map(_fields, dict.fromkeys(answered))])


def _route(route: Route) -> str:
    command = f"[`{route.command}`](cli.md#tidelock-{route.command.replace(' ', '-')})" if route.command else ""
    taken = "" if route.takes is Nothing else _linked(route.takes)
    told = "" if route.does in ("events", "document") else f"`{route.part}` of the command's JSON" if route.part else ""
    told = told or ("the command's JSON" if route.does == "read" else "")
    told = _linked(route.answer) if route.answer is not None else told
    status = "" if status_of(route) == 200 else f"{status_of(route)} "
    return f"| `{route.method} {route.path}` | {route.text} | `{route.role}` | {command} | {taken} | {status}{told} |\n"


def _linked(model: Any) -> str:
    return f"[{model.__name__}](#{model.__name__.lower()})"


def _fields(model: Any) -> str:
    """Returns a section about one kind of JSON: of one that adds to another, what it adds."""
    _, schemas = msgspec.json.schema_components([model], ref_template="{name}")
    base = model.__bases__[0]
    known = () if base is msgspec.Struct else base.__struct_fields__
    rows = [
        f"| `{name}` | {_kind(one)} | {_default(one)} | {one.get('description', '')} |\n"
        for name, one in schemas[model.__name__]["properties"].items()
        if name not in known
    ]
    text = " ".join((model.__doc__ or "").split()) + (f" As {_linked(base)}, and:" if known else "")
    return f"\n### {model.__name__}\n\n{text}\n\n| key | value | default | |\n|---|---|---|---|\n{''.join(rows)}"


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{word}`" if word else "empty" for word in schema["enum"])
    if "$ref" in schema:
        shown = schema["$ref"] in (ShownFeed.__name__, Job.__name__)
        return f"[{schema['$ref']}](#{schema['$ref'].lower()})" if shown else "an object"
    match schema.get("type", "any"):
        case "array":
            return f"list of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
        case "object":
            return "an object"
        case "integer" | "number" if "minimum" in schema:
            most = f" to {schema['maximum']}" if "maximum" in schema else " or more"
            return f"{schema['minimum']}{most}"
        case "integer" | "number":
            return "number"
        case "string":
            return "text"
        case "boolean":
            return "`true` or `false`"
        case str() as other:
            return other
        case _:
            return "any"


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    if not value and value is not False and value != 0:
        return ""
    return f"`{str(value).lower()}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
