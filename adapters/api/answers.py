"""Answers of the API, where it is not a command's own JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tidelock.adapters.api.roles import Role
from tidelock.adapters.fleet.member import MemberState
from tidelock.adapters.runtime.progress import Sample


class ShownFeed(msgspec.Struct, frozen=True, kw_only=True):
    """A feed as `serve` knows it."""

    name: Annotated[str, Meta(description="Its name; the file's, where that cannot be read.")]
    file: Annotated[str, Meta(description="The name of its file in the folder.")]
    state: Annotated[
        MemberState,
        Meta(
            description="`stopped`: by an operator, until it is started, its file changes, or `serve` begins anew. "
            "`waits`: it ended, and is started again in `retry_in` seconds. `needs an operator`: it halted."
        ),
    ]
    words: Annotated[str, Meta(description="What its process said last.")]
    running: Annotated[bool, Meta(description="Whether it has a process.")]
    starts: Annotated[int, Meta(description="How often its process was started.")]
    exit_code: Annotated[int | None, Meta(description="Of its last process that ended; minus the signal's number.")]
    retry_in: Annotated[float | None, Meta(description="In how many seconds it is started again.")]
    source: Annotated[str, Meta(description="The source's address, without the account.")]
    target: Annotated[str, Meta(description="The target's address, without the account.")]
    tables: Annotated[tuple[str, ...], Meta(description="The source tables of its rules.")]
    kind: Annotated[
        Literal["run", "worker", "hive", ""],
        Meta(description="`worker`: one of those that share a log in Kafka; `hive`: a run into Hive."),
    ]
    sample: Annotated[Sample | None, Meta(description="What its process told last of itself, about once a second.")]


class FeedWithConfig(ShownFeed, frozen=True, kw_only=True):
    """A feed with the keys of its file."""

    config: Annotated[
        dict[str, Any] | None,
        Meta(description="As written, `${env:…}` and `${file:…}` unresolved, passwords as `***`; null: unreadable."),
    ]


class Feeds(msgspec.Struct, frozen=True):
    """All feeds of the folder."""

    feeds: tuple[ShownFeed, ...]


class Done(msgspec.Struct, frozen=True):
    """A command that has ended and told its result."""

    exit_code: Annotated[
        int, Meta(description="The command's: 0 ok, 1 refused, 3 differences, 4 an operator is needed.")
    ]
    report: Annotated[Any, Meta(description="What the command printed with `--json`.")]


class Queued(msgspec.Struct, frozen=True):
    """A job that was begun."""

    job: Annotated[int, Meta(description="Its number, for `GET /jobs/JOB`.")]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A command that takes longer than an answer may."""

    id: int
    feed: str
    command: str
    state: Annotated[
        Literal["runs", "done", "failed"],
        Meta(description="`done`: it gave a report, whatever its exit code; `failed`: it gave none, as `error` says."),
    ]
    by: Annotated[str, Meta(description="Whose token it was begun with.")]
    began: Annotated[float, Meta(description="In seconds since 1970.")]
    ended: Annotated[float | None, Meta(description="In seconds since 1970.")] = None
    exit_code: int | None = None
    report: Annotated[Any, Meta(description="What the command printed with `--json`; only of `GET /jobs/JOB`.")] = None
    error: str = ""


class Jobs(msgspec.Struct, frozen=True):
    """The jobs that run and the last ones that have ended, newest first."""

    jobs: tuple[Job, ...]


class Who(msgspec.Struct, frozen=True):
    """Whose request it was."""

    name: Annotated[
        str, Meta(description="Of the token, or in the certificate (`CN=…`); `loopback`: neither is needed.")
    ]
    role: Annotated[Role, Meta(description="What it may, as the table of routes has it.")]
    may: Annotated[tuple[str, ...], Meta(description="The paths of the POST requests that it may send.")]


class Failure(msgspec.Struct, frozen=True):
    """A request that was not carried out."""

    error: Annotated[str, Meta(description="A sentence for the operator.")]
