"""The aiohttp application of `serve --http`: the API, the console, and the metrics of all feeds.

A request passes, in this order: the size of its body, the guard, the checks of its parameters; then it is carried out,
and a POST is written to the audit file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from tidelock.adapters.api.audit import Audit
from tidelock.adapters.api.control import Asked, Control
from tidelock.adapters.api.events import Events
from tidelock.adapters.api.failures import AWAY, BAD, FORBIDDEN, STATUSES, ApiError
from tidelock.adapters.api.fleet import Fleet
from tidelock.adapters.api.guard import Guard, Refused
from tidelock.adapters.api.openapi import status_of
from tidelock.adapters.api.parameters import Parameters, RowId
from tidelock.adapters.api.roles import Holder
from tidelock.adapters.api.routes import ROOT, ROUTES, Route
from tidelock.adapters.console.routes import add_console
from tidelock.adapters.fleet.pages import page
from tidelock.adapters.process.command_answer import Run, command_answer
from tidelock.adapters.web.client_names import client_name
from tidelock.adapters.web.exposition import CONTENT_TYPE

MOST_BODY_BYTES: Final = 64 << 10
OPEN: Final = ("/metrics", "/livez")
"""Pages for machines that watch: without a token, whatever the Host header."""
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
ASK: Final = "lines of the file of --token-file give roles"
NOBODY: Final = Holder("", "read")
WHO: Final = web.RequestKey("who", Holder)
BODY: Final = web.RequestKey("body", object)
HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


def application(
    fleet: Fleet, guard: Guard, audit: Audit, folder: Path, run: Run = command_answer
) -> web.Application:
    """Returns the pages.  `folder`: of their own, for reports.  To be called in the loop that serves them."""
    control, events = Control(fleet, folder, run), Events(fleet)
    app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[_failures, _guarded(guard, audit, fleet)])
    app.router.add_get("/metrics", _metrics(fleet))
    app.router.add_get("/livez", _alive)
    for route in ROUTES:
        handler = events.stream if route.does == "events" else _handler(route, control, audit)
        app.router.add_route(route.method, ROOT + _matched(route), _allowed(route, handler))
    add_console(app)
    app.on_response_prepare.append(_with_headers)
    app.on_shutdown.append(_closing(events))
    return app


def _matched(route: Route) -> str:
    """Returns what the router looks for: where a word of another route stands, there is no row's id."""
    place, found, _ = route.path.partition("{row}")
    words = [one.path.removeprefix(place) for one in ROUTES if found and one.path.startswith(place)]
    others = "|".join(re.escape(word) for word in words if "{" not in word)
    return f"{place}{{row:(?!(?:{others})$)[^/]+}}" if others else route.path


def json_answer(value: Any, status: int = 200) -> web.Response:
    """Returns an answer as JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _allowed(route: Route, handler: Handler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        who = request[WHO]
        if not who.may(route.role):
            raise ApiError(FORBIDDEN, f"The role `{route.role}` is needed, and {who.name} has `{who.role}`: {ASK}")
        return await handler(request)

    return handle


def _handler(route: Route, control: Control, audit: Audit) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        given = await _given(route, request)
        place = _place(request)
        if route.method == "POST":
            request[BODY] = given
            try:
                audit.ready()
            except OSError as error:
                raise ApiError(AWAY, f"{audit.path} cannot be written: {error.strerror or error}") from None
        answer = await control.answer(Asked(route, place, given, request[WHO]))
        return json_answer(answer, status_of(route))

    return handle


async def _given(route: Route, request: web.Request) -> Parameters:
    """Returns the parameters, or the body.  Raises ApiError."""
    try:
        if route.method == "GET":
            given = dict(request.query)
            if len(given) < len(request.query):
                raise ApiError(BAD, "A parameter is given twice")
            return msgspec.convert(given, route.takes, strict=False)
        if "Content-Encoding" in request.headers:
            raise ApiError(BAD, "The body is sent as it is: without Content-Encoding")
        body = await request.read()
        if body and request.content_type != "application/json":
            raise ApiError(BAD, "The body is JSON: send `Content-Type: application/json`")
        return msgspec.convert(_whole(msgspec.json.decode(body or b"{}")), route.takes)
    except msgspec.MsgspecError as error:
        raise ApiError(BAD, f"The request is not as the API has it: {error}") from None
    except UnicodeDecodeError:
        raise ApiError(BAD, "The body is not UTF-8") from None
    except RecursionError:
        raise ApiError(BAD, "The body is nested too deeply") from None
    except (web.RequestPayloadError, ConnectionError):
        raise ApiError(BAD, "The body is shorter than was said") from None


def _whole(value: Any) -> Any:
    """Returns the value of a body with whole numbers as such: JSON knows one kind, and 3.0 is an integer of its."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _place(request: web.Request) -> dict[str, str]:
    place = dict(request.match_info)
    if "row" in place:
        try:
            msgspec.convert(place["row"], RowId)
        except msgspec.ValidationError:
            raise ApiError(404, "There is no such row: the list names their ids") from None
    return place


def _guarded(guard: Guard, audit: Audit, fleet: Fleet) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN and request.method in ("GET", "HEAD"):
            return await handler(request)
        who: Holder | Refused = guard.stranger(request.headers) or NOBODY
        if not isinstance(who, Refused) and _is_of_api(request):
            who = guard.who(request.method, request.headers, _certificate(request))
        status, name = 500, "" if isinstance(who, Refused) else who.name
        try:
            if isinstance(who, Refused):
                raise ApiError(*who)
            request[WHO] = who
            response = await handler(request)
            status = response.status
            return response
        except ApiError as error:
            status = error.status
            raise
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            if request.method not in ("GET", "HEAD"):
                try:
                    audit.write(name, request.method, request.path, status, request.get(BODY))
                except OSError as error:
                    words = f"{request.method} {request.path[:200]} by {name or 'nobody'} was answered with {status}"
                    fleet.tell(f"{audit.path} cannot be written: {error.strerror or error}; {words}")

    return guarded


def _certificate(request: web.Request) -> str:
    """Returns the name in the certificate that the client has shown; '' where it has shown none."""
    return "" if request.transport is None else client_name(request.transport.get_extra_info("peercert"))


def _is_of_api(request: web.Request) -> bool:
    """Tells whether a request is for the API, by what it was found to be for, however its path is written."""
    resource = request.match_info.route.resource
    return request.path.startswith(ROOT) or (resource is not None and resource.canonical.startswith(ROOT))


@web.middleware
async def _failures(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Makes JSON of what is refused."""
    try:
        response = await handler(request)
    except ApiError as error:
        response = json_answer({"error": str(error)}, error.status)
    except web.HTTPException as error:
        known = {404: f"There is no page {request.path[:200]}", 405: f"{request.method} is not for this page"}
        words = known.get(error.status) or STATUSES.get(error.status) or error.reason
        response = json_answer({"error": words}, error.status)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    if response.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _metrics(fleet: Fleet) -> Handler:
    async def show(_: web.Request) -> web.Response:
        text = await asyncio.to_thread(page, list(fleet.members.values()))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    return show


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _closing(events: Events) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        events.close()

    return close
