"""The one table of the API's routes.

The routing, the checks of parameters, the OpenAPI document and `docs/reference/api.md` are made of it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.api import answers
from tidelock.adapters.api.parameters import (
    Chosen,
    Copied,
    Listed,
    Nothing,
    Parameters,
    Repaired,
    TakenFromSource,
    Verified,
)
from tidelock.adapters.api.roles import Role

ROOT: Final = "/api/v1"
Does: TypeAlias = Literal[
    "document", "who", "feeds", "events", "feed", "lanes", "read", "act", "process", "begin", "jobs", "job", "end job"
]
"""The way of answering: `read` gives a command's JSON, `act` runs a command and waits, `begin` begins a job."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route.

    `path`: below `ROOT`; `{feed}` is the name of a feed, `{job}` a job's number, `{row}` a row's id.  `text`: what it
    does.  `command`: the product's command that it runs.  `takes`: the parameters of a GET, the body of a POST.
    `part`: the one key of the command's JSON that is the answer, '' all of it.  `answer`: None for a command's JSON.
    `role`: what who asks must at least have.
    """

    method: Literal["GET", "POST"]
    path: str
    does: Does
    text: str
    command: str = ""
    takes: type[Parameters] = Nothing
    part: str = ""
    answer: type[msgspec.Struct] | None = None
    role: Role = "read"


def _read(path: str, command: str, text: str, takes: type[Parameters] = Nothing, part: str = "") -> Route:
    return Route(
        method="GET", path=f"/feeds/{{feed}}/{path}", does="read", text=text, command=command, takes=takes, part=part
    )


def _act(role: Role, path: str, command: str, text: str, takes: type[Parameters] = Nothing) -> Route:
    return Route(
        method="POST", path=f"/feeds/{{feed}}/{path}", does="act", text=text, command=command, takes=takes,
        answer=answers.Done, role=role,
    )  # fmt: skip


def _begin(role: Role, command: str, text: str, takes: type[Parameters] = Nothing) -> Route:
    return Route(
        method="POST", path=f"/feeds/{{feed}}/{command}", does="begin", text=text, command=command, takes=takes,
        answer=answers.Queued, role=role,
    )  # fmt: skip


def _process(wish: str, text: str) -> Route:
    return Route(
        method="POST", path=f"/feeds/{{feed}}/{wish}", does="process", text=text, answer=answers.ShownFeed,
        role="operate",
    )  # fmt: skip


ROUTES: Final = (
    Route(method="GET", path="/openapi.json", does="document", text="This API, as an OpenAPI 3.1 document."),
    Route(method="GET", path="/who", does="who", text="Whose request it is, and what it may.", answer=answers.Who),
    Route(method="GET", path="/feeds", does="feeds", text="All feeds of the folder.", answer=answers.Feeds),
    Route(
        method="GET", path="/events", does="events",
        text="Server-sent events: `event: feeds` with the JSON of `GET /feeds`, at first and when something has "
        "changed, at most once a second; a comment each 15 s.",
    ),
    Route(
        method="GET", path="/feeds/{feed}", does="feed", text="One feed, with the keys of its file.",
        answer=answers.FeedWithConfig,
    ),
    Route(
        method="GET", path="/feeds/{feed}/lanes", does="lanes",
        text="What the feed's process tells of its lanes and of changes that wait; while it is busy, what it told "
        "last, `age_seconds` ago. 503 where it does not run, or has told nothing yet.",
    ),
    _read("status", "status", "The feed as its target knows it."),
    _read("halt", "status", "Why the feed has halted, with the statement if one did; null: it has not.", part="halted"),
    _read("copy", "status", "Tables that are copied or were, and how far each is.", part="copies"),
    _read("failed-rows", "rows list", "Failed rows, oldest first.", Listed),
    _read("failed-rows/{row}", "rows show", "A failed row, before and after its change."),
    _read("conflicts", "conflicts list", "What was meant and does not stand, newest first.", Listed),
    _read("conflicts/{row}", "conflicts show", "A row that lost, and the row that stood when it was decided."),
    _process("start", "Starts the feed's process, if it has none."),
    _process(
        "stop", "Ends the feed's process in order; it stays stopped until it is started, its file changes, or `serve` "
        "begins anew.",
    ),
    _process("restart", "Ends the feed's process in order, and starts another one."),
    _act("operate", "pause", "pause", "Asks the feed to stop applying until `resume`; its process stays."),
    _act("operate", "resume", "resume", "Asks a paused feed to go on."),
    _act(
        "admin", "ddl/done", "ddl done",
        "Goes on behind the statement that halted the feed: its change was made by hand.",
    ),
    _act("admin", "ddl/skip", "ddl skip", "Goes on behind the statement that halted the feed, without its change."),
    _act(
        "operate", "failed-rows/retry", "rows retry", "Has failed rows applied again, all of a table together.", Chosen
    ),
    _act("admin", "failed-rows/skip", "rows skip", "Drops failed rows: their changes are never applied.", Chosen),
    _act(
        "admin", "failed-rows/take-source", "rows take-source",
        "Has the feed write what the source has now of failed rows.", TakenFromSource,
    ),
    _begin(
        "admin", "copy", "Begins a job: copies rows that exist, while the feed runs. To end the job ends no copy.",
        Copied,
    ),
    _begin("operate", "verify", "Begins a job: compares source and target row by row.", Verified),
    _begin(
        "admin", "repair", "Begins a job: has the feed write rows again that a job of `verify` found to differ.",
        Repaired,
    ),
    _begin("operate", "check", "Begins a job: looks whether the feed can run, and writes nothing."),
    Route(method="GET", path="/jobs", does="jobs", text="Jobs without their reports.", answer=answers.Jobs),
    Route(method="GET", path="/jobs/{job}", does="job", text="One job, with its report.", answer=answers.Job),
    Route(
        method="POST", path="/jobs/{job}/end", does="end job", text="Ends a job's command.", answer=answers.Job,
        role="operate",
    ),
)  # fmt: skip
"""All routes; of two that a path fits, the first."""
