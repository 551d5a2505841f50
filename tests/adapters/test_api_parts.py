"""Parts of the control API: tokens, jobs, options of commands, what is shown of a feed's file, and its document."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tidelock.adapters.api import commands
from tidelock.adapters.api import jobs as running_jobs
from tidelock.adapters.api.commands import line
from tidelock.adapters.api.failures import ApiError
from tidelock.adapters.api.guard import Guard, Refused
from tidelock.adapters.api.jobs import Jobs
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.parameters import Chosen, Copied, Listed, TakenFromSource, Verified
from tidelock.adapters.api.routes import ROUTES
from tidelock.adapters.api.shown_config import masked, shown_config
from tidelock.adapters.api.tokens import TokenFileError, Tokens
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.serving import serve
from tidelock.adapters.process import private_files
from tidelock.adapters.process.command_answer import CommandAnswer, command_answer
from tidelock.adapters.reference import api as reference

TOKEN = "0123456789abcdef-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def tokens_in(place: Path, text: str = f"# people\nann:{TOKEN}\n", mode: int = 0o600) -> Path:
    path = place / "tokens"
    path.write_text(text)
    path.chmod(mode)
    return path


async def test_of_a_command_that_tells_too_much_nothing_is_kept() -> None:
    answer = await command_answer(["--version"], 60.0, 10)
    assert (answer.code, answer.out) == (0, None)


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


async def test_a_command_that_takes_too_long_is_ended_with_its_process(tmp_path: Path) -> None:
    before = children()
    with pytest.raises(TimeoutError):
        await command_answer(["serve", str(tmp_path)], 0.1, 1000)
    assert children() == before


async def test_equal_questions_share_a_command_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_WAITING", 1)
    ended, lines, told = asyncio.Event(), list[Sequence[str]](), list[str]()

    async def run(arguments: Sequence[str], seconds: float, most: int) -> CommandAnswer:
        lines.append(arguments)
        await ended.wait()
        if arguments[0] == "pause":
            raise TimeoutError
        return CommandAnswer(1, b"", "Traceback: hidden") if arguments[0] == "feeds" else CommandAnswer(4, b"[1]", "")

    asked, path = commands.Commands(told.append, run), Path("/shop.yaml")
    both = asyncio.gather(*(asked.read("rows list", path, []) for _ in range(2)))
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="1 commands wait already"):
        await asked.read("status", path, [])
    ended.set()
    assert [bytes(one) for one in await both] == [b"[1]", b"[1]"]
    assert lines == [("rows", "list", "/shop.yaml", "--json")]
    with pytest.raises(ApiError, match="`tidelock pause` has not ended within 300 s and was ended"):
        await asked.act("pause", path, [])
    with pytest.raises(ApiError, match="what it said is in the output of `serve`"):
        await asked.read("feeds", path, [])
    assert "hidden" in told[0]


@pytest.mark.parametrize(
    ("http", "tokens", "words"),
    [
        ("0.0.0.0:0", "", "reached from elsewhere"),
        ("nowhere", "", "is no address"),
        ("127.0.0.1:99999", "", "is no address"),
        ("", "tokens", "goes with --http"),
        ("127.0.0.1:0", "tokens", "cannot be read"),
    ],
)
def test_serve_refuses_what_would_be_open_or_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, http: str, tokens: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((CommandError, TokenFileError), match=words):
        serve(str(tmp_path), http, tokens)


async def test_jobs_keep_the_last_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_jobs, "KEPT", 2)
    said = {"verify": CommandAnswer(3, b'{"equal":false}', ""), "copy": CommandAnswer(1, b"", '{"error":"no"}\n')}
    said["repair"] = CommandAnswer(1, b"", "Traceback: postgresql://a:hidden@h\n")

    async def run(arguments: Sequence[str], seconds: float, most: int) -> CommandAnswer:
        for one in arguments:
            if one.startswith("--report="):
                private_files.write(one.removeprefix("--report="), b"{}")
        return said[arguments[0]]

    told: list[str] = []
    jobs = Jobs(tmp_path, told.append, run)
    for command in ("verify", "copy", "repair"):
        number = jobs.begin("shop", command, [command], "ann")
        await jobs.over(number)
    first = jobs.job(1)
    assert (first.state, first.exit_code, bytes(first.report)) == ("done", 3, b'{"equal":false}')
    assert jobs.differences("shop", 0) == jobs.differences("shop", 1) == tmp_path / "verify-1.json"
    with pytest.raises(ApiError, match="begin one first"):
        jobs.differences("other", 0)
    assert (jobs.job(2).state, jobs.job(2).error) == ("failed", "no")
    assert "hidden" not in jobs.job(3).error and "hidden" in told[0]
    jobs.begin("shop", "copy", ["copy"], "ann")
    with pytest.raises(ApiError, match="There is no job 1"):
        jobs.job(1)
    assert not os.listdir(tmp_path) and [one.id for one in jobs.all()] == [4, 3, 2]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (f"ann:{TOKEN}\n", 0o644, "others than its owner"),
        ("ann:short\n", 0o600, "line 1: not of the form"),
        (f"{TOKEN}\n", 0o600, "line 1: not of the form"),
        (f"ann:{TOKEN}\nann:{TOKEN}x\n", 0o600, "line 2: ann has a line already"),
        ("# none\n", 0o600, "holds no token"),
    ],
)
def test_a_token_file_is_private_and_its_tokens_are_long(tmp_path: Path, text: str, mode: int, words: str) -> None:
    with pytest.raises(TokenFileError, match=words) as caught:
        Tokens(tokens_in(tmp_path, text, mode))
    assert TOKEN not in f"{caught.value} {caught.value.hint}"


def test_a_token_that_is_taken_away_holds_no_more(tmp_path: Path) -> None:
    path = tokens_in(tmp_path)
    tokens = Tokens(path)
    assert tokens.holder(TOKEN) == ("ann", "admin") and not tokens.holder(TOKEN + "x") and not tokens.holder("")
    tokens_in(tmp_path, f"bob:{TOKEN}-other\n")
    tokens.refresh()
    assert not tokens.holder(TOKEN) and tokens.holder(f"{TOKEN}-other") == ("bob", "admin")
    path.unlink()
    guard = Guard("10.0.0.1", tokens)
    refused = guard.who("GET", {"Authorization": f"Bearer {TOKEN}-other"})
    assert isinstance(refused, Refused) and refused.status == 503 and "cannot be read" in refused.error


def test_from_elsewhere_all_requests_need_a_token(tmp_path: Path) -> None:
    guard = Guard("0.0.0.0", Tokens(tokens_in(tmp_path)))
    refused = guard.who("GET", {})
    assert isinstance(refused, Refused) and refused.status == 401
    assert guard.who("GET", BEARER) == ("ann", "admin")
    assert guard.stranger({"Host": "192.0.2.7:80"}) is None and guard.stranger({"Host": "rebound.example"})
    assert guard.stranger({}) and Guard("::1", None).stranger({"Host": "[::1]:8470"}) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql://a:secret@h:1/d?sslmode=require", "mysql://a:***@h:1/d?sslmode=require"),
        ("mysql://a:se@cr:et@h", "mysql://a:***@h"),
        ("mysql://${env:U}:${file:/run/x@y}@h:1", "mysql://${env:U}:${file:/run/x@y}@h:1"),
        ("mysql://a:x${env:P}@h", "mysql://a:***@h"),
        ("mysql://a@h:1", "mysql://a@h:1"),
        ("mysql://a:sec/ret@h", "***"),
        ("${env:URL}", "${env:URL}"),
        ("kafka://k1:9092,k2:9092", "kafka://k1:9092,k2:9092"),
        ("email LIKE '%@x'", "email LIKE '%@x'"),
    ],
)
def test_passwords_of_addresses_are_masked_and_references_are_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_secrets_of_spark_s_settings_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    text = "spark: {settings: {spark.hadoop.fs.s3a.secret.key: abc, spark.executor.memory: 1g}}\nbatch_rows: 7\n"
    path.write_text(text)
    settings = {"spark.hadoop.fs.s3a.secret.key": "***", "spark.executor.memory": "1g"}
    assert shown_config(path) == {"spark": {"settings": settings}, "batch_rows": "7"}


def test_bodies_become_options_of_commands() -> None:
    path = Path("/feeds/shop.yaml")
    assert line("rows skip", path, Chosen(ids=("a:1", "b:2")).options()) == [
        *("rows", "skip", "/feeds/shop.yaml", "--json", "--", "a:1", "b:2")
    ]
    assert line("rows show", path, [], "b:2")[-2:] == ["--", "b:2"]
    assert Chosen(table="crm.t").options() == ["--table=crm.t"]
    assert TakenFromSource(all=True, wait=5).options() == ["--yes", "--wait=5", "--all"]
    assert Copied(tables=("a.b", "a.c"), replace=True).options() == ["--table=a.b", "--table=a.c", "--yes"]
    assert Copied(keep=True).options() == ["--keep"]
    assert Verified(since="2h", wait=1).options() == ["--since=2h", "--wait=1"]
    assert Listed().options() == [] and Listed(table="--x", limit=5).options() == ["--table=--x", "--limit=5"]


@pytest.mark.parametrize("since", ["", "bin.000002:400", "2026-11-22T12:00", "90min"])
def test_moments_are_taken(since: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode({"since": since}), type=Verified).since == since


def test_the_document_names_every_route_and_its_references_lead_somewhere() -> None:
    shown = document()
    named = {(method.upper(), path) for path, methods in shown["paths"].items() for method in methods}
    assert named == {(route.method, route.path) for route in ROUTES}
    ids = [one["operationId"] for methods in shown["paths"].values() for one in methods.values()]
    assert len(set(ids)) == len(ids)
    text = json.dumps(shown)
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in shown["components"]["schemas"]


def test_the_reference_page_is_current() -> None:
    page = reference.PAGE.read_text(encoding="utf-8")
    assert page == reference.page(), "run `python -m tidelock.adapters.reference.api`"


