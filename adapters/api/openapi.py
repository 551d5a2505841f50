"""The API as an OpenAPI 3.1 document, made of the table of routes."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import msgspec

from tidelock.adapters.api.answers import Failure
from tidelock.adapters.api.failures import STATUSES
from tidelock.adapters.api.parameters import Nothing
from tidelock.adapters.api.routes import ROOT, ROUTES, Route

PLACES: Final = {
    "feed": ("The feed's name.", {"type": "string"}),
    "job": ("The job's number.", {"type": "integer", "minimum": 1}),
    "row": ("The row's id, as the list names it.", {"type": "string", "pattern": "^[A-Za-z0-9][!-~]{0,199}$"}),
}
SCHEMES: Final = {
    "token": {"type": "http", "scheme": "bearer", "description": "Of the file of `--token-file`."},
    "certificate": {"type": "mutualTLS", "description": "Of an authority of `--client-ca`."},
}
_REF: Final = "#/components/schemas/{name}"

_EVENT: Final = {
    "description": "One event of the stream; its data is the JSON of `GET /feeds`.",
    "type": "object",
    "required": ["event", "data"],
    "properties": {"event": {"const": "feeds"}, "data": {"type": "string", "contentMediaType": "application/json"}},
}


@functools.cache
def document() -> dict[str, Any]:
    """Returns the document."""
    types = {one for route in ROUTES for one in (route.takes, route.answer) if one is not None and one is not Nothing}
    ordered = [*sorted(types, key=lambda one: one.__name__), Failure]
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    for one in types:
        if alternatives := getattr(one, "one_of", ()):
            schemas[one.__name__]["oneOf"] = list(alternatives)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidelock: the control API of `tidelock serve`", "version": "1"},
        "servers": [{"url": ROOT}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": SCHEMES},
        "security": [{name: []} for name in SCHEMES],
    }


def status_of(route: Route) -> int:
    """Returns the status of a request that is carried out."""
    return 202 if route.does == "begin" else 200


def _operation(route: Route) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": _id(route),
        "summary": route.text,
        "parameters": [*_places(route), *_query(route)],
        "responses": {str(status_of(route)): _answer(route), **{str(code): _failure(code) for code in STATUSES}},
    }
    command = f"As `tidelock {route.command}`. " if route.command else ""
    shown["description"] = f"{command}Needs the role `{route.role}`."
    if route.method == "POST" and route.takes is not Nothing:
        content = _json({"$ref": _REF.format(name=route.takes.__name__)})
        shown["requestBody"] = {"required": hasattr(route.takes, "one_of"), "content": content}
    # With GET, from loopback, neither is needed.
    either = [{name: [route.role]} for name in SCHEMES]
    shown["security"] = [{}, *either] if route.method == "GET" else either
    return shown


def _id(route: Route) -> str:
    words = re.findall(r"[A-Za-z]+", route.path)
    return "_".join([route.method.lower(), *words])


def _places(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": PLACES[name][0], "schema": PLACES[name][1]}
        for name in re.findall(r"{(\w+)}", route.path)
    ]


def _query(route: Route) -> list[dict[str, Any]]:
    if route.method != "GET" or route.takes is Nothing:
        return []
    _, schemas = msgspec.json.schema_components([route.takes], ref_template=_REF)
    return [
        {"name": name, "in": "query", "required": False, "description": one.get("description", ""), "schema": one}
        for name, one in schemas[route.takes.__name__]["properties"].items()
    ]


def _answer(route: Route) -> dict[str, Any]:
    if route.does == "events":
        return {"description": route.text, "content": {"text/event-stream": {"schema": _EVENT}}}
    return {
        "description": _words(route),
        "content": _json({"$ref": _REF.format(name=route.answer.__name__)} if route.answer is not None else {}),
    }


def _words(route: Route) -> str:
    if route.answer is not None:
        return " ".join((route.answer.__doc__ or "").split())
    part = f"`{route.part}` of what" if route.part else "What"
    return f"{part} `tidelock {route.command} --json` prints." if route.command else route.text


def _failure(code: int) -> dict[str, Any]:
    return {"description": STATUSES[code], "content": _json({"$ref": _REF.format(name=Failure.__name__)})}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
