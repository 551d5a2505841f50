"""The `tidelock` command as a user runs it: a process, its exit code, what it prints and where."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bench.harness.rig import tidelock as ended
from bench.harness.servers import MariaDb, Postgres
from tidelock.adapters import cli
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.plain_lines import COMMANDS, plain
from tidelock.adapters.cli.plugins import run_plugin
from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.reference import commands as reference
from tidelock.adapters.wiring.session import session
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema_change import Ddl

ROOT = Path(__file__).parents[2]
Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


def tidelock(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = ended(*map(str, arguments), environment=environment, seconds=60)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


@pytest.mark.parametrize("words", [("check",), ("init",), ("run",), ("worker",), ("status",)])
def test_workers_of_a_feed_with_sites_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "feed: shop\nsource: mysql://u:p@127.0.0.1:1\ntarget: mysql://u:p@127.0.0.1:2\ntables: [{source: shop.*}]\n"
        "log: kafka://127.0.0.1:3\nsites: {source: eu, target: us}\n",
        encoding="utf-8",
    )
    assert_one_paragraph(tidelock(*words, str(file)), 2, "sites: feeds of workers cannot name sites yet: log: embedded")


def assert_one_paragraph(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("tidelock: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Postgres | MariaDb:
    return request.getfixturevalue(request.param)


@pytest.fixture
def feed(server: Postgres | MariaDb, tmp_path: Path) -> Path:
    database = server.database("cli")
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"feed: shop\nsource: mysql://repl@127.0.0.1:1\ntarget: {server.url(database)}\n"
        f"tables: [{{source: shop.*}}]\nschema: {database}\n",
        encoding="utf-8",
    )
    return path


def fill(path: Path) -> None:
    """Bookkeeping of a feed that halted at a statement and has two parked rows."""
    from tidelock.adapters.config import loader

    feed = loader.load(path)
    shape = Shape(TableName("shop", "account"), (Column("id", Kind.INT), Column("note", Kind.TEXT)), ("id",))
    halt = {
        "alarm": Alarm("ddl", "A statement that cannot be applied", "Apply it by hand", "bin.000001:900"),
        "ddl": Ddl("shop", "ALTER TABLE account DROP COLUMN note", "0-101", 77),
    }

    async def write() -> None:
        async with session(feed.target_url) as target:
            for statement in create_statements(target.dialect, feed.schema):
                await target.execute(statement)
            owner = f"INSERT INTO {feed.schema}.tidelock_owner (feed, grp, epoch, halt) VALUES ('shop', 0, 3, %s)"
            await target.execute(owner, msgspec.json.encode(halt).decode())
            parked = (
                f"INSERT INTO {feed.schema}.tidelock_parked (feed, grp, source, number, ordinal, table_schema, "
                "table_name, row_key, error, change_data) VALUES ('shop', 0, '0-101', 55, %s, 'shop', 'account', "
                "'id=1', 'duplicate email', %s)"
            )
            for ordinal, before in enumerate([None, (1, "naïve [red]text[/red]")]):
                await target.execute(parked, ordinal, msgspec.msgpack.encode((shape, before, (1, None))))

    asyncio.run(write())


@pytest.mark.parametrize("server", ["postgres", pytest.param("mariadb", marks=pytest.mark.proof)], indirect=True)
def test_an_operator_s_way_through_a_halt(feed: Path) -> None:
    fill(feed)
    status = tidelock("status", feed)
    assert status.returncode == 4
    for words in (
        "HALTED",
        "A statement that cannot be applied at bin.000001:900. Apply it by hand",
        "DROP COLUMN note",
    ):
        assert words in status.stdout
    told = json.loads(tidelock("status", feed, "--json").stdout)
    assert told["failed_rows"][0]["rows"] == 2
    assert told["parked"] == told["failed_rows"], "the former name, for one release"

    listed = tidelock("rows", "list", feed)
    assert listed.returncode == 4
    assert [line.split()[0] for line in listed.stdout.splitlines() if "duplicate email" in line] == [
        "0-101:55:0",
        "0-101:55:1",
    ]
    assert json.loads(tidelock("rows", "list", feed, "--json", "--limit", "1").stdout)[0]["id"] == "0-101:55:0"

    shown = tidelock("rows", "show", feed, "0-101:55:1")
    assert shown.returncode == 4
    assert any(line.split() == ["note", "*", "naïve", "[red]text[/red]", "NULL"] for line in shown.stdout.splitlines())
    detail = json.loads(tidelock("rows", "show", feed, "0-101:55:1", "--json").stdout)
    assert (detail["before"]["id"], detail["after"]["note"]) == (1, None)

    skipped = tidelock("rows", "skip", feed, "0-101:55:1", "--json")
    assert (skipped.returncode, json.loads(skipped.stdout)["rows"]) == (0, 1)
    assert json.loads(skipped.stdout)["wish"] == json.loads(skipped.stdout)["queued"] == "skip"
    (kept,) = [row for row in json.loads(tidelock("rows", "list", feed, "--json").stdout) if row["queued"]]
    assert (kept["id"], kept["wish"], kept["parked_seconds"]) == ("0-101:55:1", "skip", kept["failed_seconds"])
    retried = tidelock("rows", "retry", feed, "--all")
    assert (retried.returncode, "1 failed row queued for retry" in retried.stdout) == (0, True)
    assert "nobody runs this feed now" in retried.stdout

    assert "ALTER TABLE account DROP COLUMN note" in tidelock("ddl", "show", feed).stdout
    done = tidelock("ddl", "done", feed, "--json")
    assert json.loads(done.stdout) == {"feed": "shop", "passed": "0-101:77", "as": "done"}
    assert_one_paragraph(tidelock("ddl", "skip", feed), 1, "not halted")

    (table,) = json.loads(tidelock("status", feed, "--json").stdout)["failed_rows"]
    assert (table["queued_retry"], table["queued_skip"]) == (table["wished_retry"], table["wished_skip"]) == (1, 1)

    feed.write_text(feed.read_text(encoding="utf-8") + "zero_dates: park\n", encoding="utf-8")
    paused = tidelock("pause", feed)
    assert paused.stderr.count("zero_dates: 'park' is called 'dead_letter' now") == 1
    assert (paused.returncode, "the desired state is paused" in paused.stdout) == (0, True)
    assert json.loads(tidelock("status", feed, "--json").stdout)["desired_state"] == "paused"
    assert json.loads(tidelock("resume", feed, "--json").stdout)["desired_state"] == "running"


def shop(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> tuple[str, str, Path]:
    """(source database, target database, feed) of a source table that the target does not have yet."""
    source, database = mariadb.database("shop"), postgres.database("shop")
    mariadb.execute("CREATE TABLE account (id INT PRIMARY KEY, share VARCHAR(9))", database=source)
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"feed: shop\nsource: {mariadb.url()}\ntarget: {postgres.url(database)}\n"
        f"tables: [{{source: {source}.*, target: public.*}}]\n",
        encoding="utf-8",
    )
    return source, database, path


def test_check_refuses_and_init_mends(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    source, database, feed = shop(mariadb, postgres, tmp_path)
    refused = tidelock("check", feed)
    assert refused.returncode == 1
    assert "cannot run (1 error" in refused.stdout
    assert f"public.account for {source}.account" in refused.stdout
    found = json.loads(tidelock("check", feed, "--json").stdout)
    assert (found["ok"], found["findings"][0]["kind"]) == (False, "table-missing")

    printed = tidelock("init", feed)
    assert printed.returncode == 0
    assert 'CREATE TABLE "public"."account"' in printed.stdout.replace("IF NOT EXISTS ", "")
    assert tidelock("check", feed).returncode == 1, "init alone only prints"

    applied = tidelock("init", feed, "--apply")
    assert (applied.returncode, "statements ran at the target" in applied.stdout) == (0, True), applied.stderr
    allowed = tidelock("check", feed)
    assert (allowed.returncode, "shop: can run" in allowed.stdout) == (0, True), allowed.stdout
    assert postgres.execute("SELECT id, share FROM account", database=database) == []
    assert json.loads(tidelock("init", feed, "--json").stdout) == {"applied": False, "statements": []}


def test_what_init_prints_is_sql(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    _, database, feed = shop(mariadb, postgres, tmp_path)
    postgres.execute_script(tidelock("init", feed).stdout, database=database)
    assert tidelock("check", feed).returncode == 0


def test_a_statement_that_fails_is_named(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    _, database, feed = shop(mariadb, postgres, tmp_path)
    postgres.execute("CREATE TYPE account AS ENUM ('a')", database=database)
    done = tidelock("init", feed, "--apply")
    assert_one_paragraph(done, 1, "already exists")
    assert "account" in done.stderr
    assert "statements ran and stay" in done.stderr


def test_check_and_init_of_a_source_that_is_not_there(feed: Path) -> None:
    done = tidelock("check", feed)
    assert (done.returncode, "127.0.0.1:1" in done.stdout, done.stderr) == (1, True, "")
    assert_one_paragraph(tidelock("init", feed), 1, "127.0.0.1:1")


def test_run_until_caught_up(mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    source, database, feed = shop(mariadb, postgres, tmp_path)
    assert tidelock("init", feed, "--apply").returncode == 0
    assert tidelock("run", feed, "--until-caught-up").returncode == 0
    mariadb.execute("INSERT INTO account VALUES (7, NULL)", database=source)
    done = tidelock("run", feed, "--until-caught-up", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["sample"]["state"] == "caught up"
    assert postgres.execute("SELECT id, share FROM account", database=database) == [(7, None)]
    status = tidelock("status", feed)
    assert (status.returncode, "NOT RUNNING" in status.stdout) == (1, True)


def test_a_feed_that_never_ran(feed: Path) -> None:
    status = tidelock("status", feed)
    assert (status.returncode, "has never run" in status.stdout) == (1, True)
    assert_one_paragraph(tidelock("pause", feed), 1, "knows no feed shop")
    assert_one_paragraph(tidelock("rows", "list", feed), 1, "Has it run yet?")


def test_an_unreachable_target(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        "feed: shop\nsource: mysql://a@h\ntarget: postgresql://a:${env:PW}@127.0.0.1:1/b\ntables: [{source: a.b}]\n"
    )
    for target in ("postgresql", "mysql"):
        path.write_text(path.read_text().replace("postgresql", target))
        done = tidelock("status", path, PW="tell-nobody")
        assert_one_paragraph(done, 1, "127.0.0.1:1")
        assert "tell-nobody" not in done.stderr
        done = tidelock("status", path, "--json", PW="tell-nobody")
        assert "127.0.0.1:1" in json.loads(done.stderr)["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statu"], "Did you mean 'status'? See `tidelock --help`."),
        (["rows", "lst"], "Did you mean 'list'? See `tidelock rows --help`."),
        (["status"], "Missing argument 'FEED'"),
        (["run"], "Missing argument 'FEED'"),
        (["run", "a.yaml", "--until"], "No such option: --until."),
        (["run", "a.yaml", "b.yaml"], "b.yaml"),
        (["rows", "list", "a.yaml", "--limit", "0"], "--limit"),
        (["rows", "skip", "a.yaml"], "--all"),
        (["rows", "retry", "a.yaml", "x:1:2", "--all"], "Say which rows"),
        (["rewind", "a.yaml"], "No such command 'rewind'"),
        (["copy"], "Missing argument 'FEED'"),
        (["copy", "not-there.yaml"], "not-there.yaml: No such file"),
        (["repair"], "Missing argument 'FEED'"),
        (["rows", "take-source", "a.yaml"], "Say which rows"),
        (["status", "not-there.yaml"], "not-there.yaml: No such file"),
        (["run", "not-there.yaml"], "not-there.yaml: No such file"),
        (["check", "not-there.yaml"], "not-there.yaml: No such file"),
        (["init", "not-there.yaml"], "not-there.yaml: No such file"),
        (["replay", "not-there.journal"], "not-there.journal"),
    ],
)
def test_usage_errors_are_one_paragraph_and_exit_2(arguments: list[str], words: str) -> None:
    assert_one_paragraph(tidelock(*arguments), 2, words)


def test_bad_yaml_names_the_line_and_the_nearest_key(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("feed: shop\nsorce: mysql://a@h\n")
    assert_one_paragraph(tidelock("run", path), 2, f"{path}, line 2: sorce: unknown key; did you mean 'source'?")
    done = tidelock("run", path, "--json")
    assert (done.returncode, "sorce" in json.loads(done.stderr)["error"]) == (2, True)


@pytest.mark.usefixtures("own_interpreters")
def test_help_goes_to_stdout_and_the_bare_command_shows_it() -> None:
    done = tidelock("--help")
    assert (done.returncode, done.stderr) == (0, "")
    commands = "init check run status pause resume copy verify repair rows ddl replay demo bench simulate"
    for name in commands.split():
        assert f" {name} " in done.stdout
    assert tidelock("run", "--help").returncode == 0
    assert "Usage" in tidelock().stdout


def test_the_version_comes_with_the_form_of_each_compiled_module() -> None:
    done = tidelock("--version")
    assert (done.returncode, done.stderr) == (0, "")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert done.stdout.startswith(f"tidelock {declared} (Python {platform.python_version()}; forms: ")
    for name, form in compiled_forms.forms().items():
        assert f"{name} {form}" in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_plugin_that_is_not_installed_says_how_to_get_it() -> None:
    with pytest.raises(CommandError, match=r"^`tidelock row-copy` is not installed$") as raised:
        run_plugin("row-copy", [])
    assert "make setup" in raised.value.hint


def test_a_plugin_gets_its_arguments_and_gives_its_exit_code(tmp_path: Path) -> None:
    metadata = tmp_path / "tide_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tide-plugin\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[tidelock.commands]\nsimulate = tide_plugin:command\n")
    (tmp_path / "tide_plugin.py").write_text(
        "def command(seed: int, loud: bool = False) -> int:\n    print(seed, loud)\n    return 3\n"
    )
    done = tidelock("simulate", "7", "--loud", PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.returncode) == ("7 True\n", 3)
    assert_one_paragraph(tidelock("simulate", "seven", PYTHONPATH=str(tmp_path)), 2, "seed")


def test_output_cut_off_by_a_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "tidelock", "--help"], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (1, 141)


def imported(*arguments: str) -> set[str]:
    code = f"import sys; from adapters.cli import command; command({list(arguments)!r}); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_run_does_not_import_what_it_does_not_need_at_once(tmp_path: Path) -> None:
    """The way to the YAML's error is the way every run starts with."""
    path = tmp_path / "shop.yaml"
    path.write_text("feed: shop\nsource: mysql://a@h\ntarget: mysql://a@h\ntables: [{source: a.b}]\nhttp: x\n")
    slow = {"typer", "rich", "aiohttp", "structlog", "pydantic", "prometheus_client", "asyncpg", "sqlglot", "zipfile"}
    assert not slow & imported("run", str(path))
    assert "typer" in imported("run", "--help")


@pytest.mark.parametrize("room", ["mysql", "postgres"])
def test_a_feed_runs_without_the_modules_that_make_a_start_slow(room: str) -> None:
    """A parser of SQL takes as long to import as all the rest; only constraints, filters and new tables need it."""
    first = "tidelock.adapters.app.embedded_run, tidelock.adapters.app.run, tidelock.adapters.checks.feed"
    code = f"import sys, {first}, tidelock.adapters.{room}.target.sink; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    slow = {"typer", "rich", "aiohttp", "prometheus_client", "sqlglot", "faust", "importlib.metadata"}
    assert not slow & set(done.stdout.split())


@pytest.mark.parametrize("words", COMMANDS)
def test_a_plain_line_does_what_the_app_does(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = COMMANDS[words]
    module = importlib.import_module(f"tidelock.adapters.cli.{command.module}")
    signature = inspect.signature(getattr(module, command.body))
    seen: list[dict[str, Any]] = []

    def body(*given: Any, **by_name: Any) -> int:
        seen.append(signature.bind(*given, **by_name).arguments)
        return 0

    monkeypatch.setattr(module, command.body, body)
    named = [word for option in command.words for word in (option, "a word")]
    for options in ([], [*command.switches, *named]):
        line = [*words.split(), "shop.yaml", *options]
        found = plain(line)
        assert found is not None and (found(), cli._app(line)) == (0, 0)
        assert seen[-2] == seen[-1] and seen[-1]["path"] == "shop.yaml"
    assert seen[0] != seen[2]
    for more in (["--help"], ["--no-such"], ["another.yaml"]):
        assert plain([*words.split(), "shop.yaml", *more]) is None
    assert plain(words.split()) is None


def test_a_log_is_read_without_the_modules_that_make_a_start_slow() -> None:
    """Each feed starts a process that reads: it needs no loop, and no public key before a server asks for one."""
    code = "import sys, tidelock.adapters.mysql.binlog.capture_process; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    slow = {"asyncio", "asyncpg", "cryptography.hazmat.bindings._rust", "subprocess", "typer"}
    assert not slow & set(done.stdout.split())


def test_a_run_from_postgresql_imports_libpq_alone_and_the_rest_of_psycopg_once_it_is_used() -> None:
    code = (
        "import sys, tidelock.adapters.postgres.logical.source; before = set(sys.modules); import psycopg; "
        "psycopg.connect; print('psycopg.pq' in before, 'psycopg.types' in before, psycopg.Connection.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "psycopg"]


def test_a_capture_process_imports_nothing_slow_that_it_does_not_use() -> None:
    """Each of those takes a tenth of its imports; the engine's process needs most of them, and waits for this one."""
    code = "import sys, tidelock.adapters.mysql.binlog.capture_process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"asyncio", "inspect", "logging", "typing_extensions", "yaml"} & set(done.stdout.split())


def test_the_collector_does_not_run_while_a_run_is_imported() -> None:
    """It would walk through all that was imported before, which takes 20 ms each time."""
    code = (
        "import gc, tidelock.adapters.process.light_start; walks = []; "
        "gc.callbacks.append(lambda phase, told: walks.append(phase)); "
        "import tidelock.adapters.app.run, tidelock.adapters.app.embedded_run, tidelock.adapters.mysql.target.sink, "
        "tidelock.adapters.mysql.binlog.source, tidelock.adapters.checks.feed; print(len(walks))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


ENCRYPTING = """
import sys
import tidelock.adapters.process.light_start
from pymysql import _auth
assert _auth._have_cryptography and "cryptography.hazmat.bindings._rust" not in sys.modules
from concurrent.futures import ThreadPoolExecutor
public = sys.stdin.buffer.read()
with ThreadPoolExecutor(4) as pool:
    texts = list(pool.map(lambda _: _auth.sha2_rsa_encrypt(b"secret", b"12345678901234567890", public), range(4)))
from cryptography.hazmat.primitives import hashes
assert hashes.SHA1().name == "sha1"
print(*(text.hex() for text in texts))
"""


def test_a_password_is_encrypted_by_what_is_imported_then() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    done = subprocess.run(
        [sys.executable, "-c", ENCRYPTING], cwd=ROOT, input=key.public_key().public_bytes(*form), capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    way = padding.OAEP(mgf=padding.MGF1(algorithm=hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    for text in done.stdout.split():
        mixed = key.decrypt(bytes.fromhex(text.decode()), way)
        assert bytes(a ^ b for a, b in zip(mixed, b"12345678901234567890", strict=False)) == b"secret\0"


@pytest.mark.parametrize("name", reference.pages())
def test_the_reference_pages_are_current(name: str) -> None:
    page = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert page == reference.pages()[name], "run `python -m tidelock.adapters.reference.commands`"


def test_the_reference_names_every_key_and_command() -> None:
    pages: dict[str, Any] = reference.pages()
    for key in ("zero_dates", "synchronous_commit", "weight", "rename"):
        assert f"| `{key}` |" in pages["config.md"]
    for command in ("rows retry", "ddl done", "run", "replay"):
        assert f"## tidelock {command}\n" in pages["cli.md"]
