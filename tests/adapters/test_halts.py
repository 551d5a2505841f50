"""Halts and refusals: the page that lists them is held to the code; advice that no other test follows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import typer.main

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from tidelock.adapters.cli.app import app
from tidelock.adapters.mysql import errors
from tidelock.adapters.ports import source_errors
from tidelock.adapters.postgres.logical import damage
from tidelock.adapters.process.way_out import of_hive, of_workers
from tidelock.adapters.reference.halts import ALL, Halt, reference
from tidelock.engine.model.errors import RESYNC

ROOT = Path(__file__).parents[2]
COPY_SECONDS = 180.0
SOURCE_ERRORS = {
    name
    for module in (source_errors, errors, damage)
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, Exception)
}
RAISED = {
    *SOURCE_ERRORS,
    *("TargetError", "StrangeTarget", "WireError", "LogError", "Uneven", "TooLarge", "RunsAlready", "Untraceable"),
    "SiteRefused",
}
MADE = re.compile(rf"\b({'|'.join({*RAISED, 'Alarm'})})\(")
# Told to whoever runs a command or a reader of Spark's, and no halt of a feed.
ASIDE = {
    "adapters/operator/store.py", "adapters/operator/feed_control.py", "adapters/wiring/session.py",
    "adapters/spark_stream/topic.py",
    "adapters/mysql/binlog/log_times.py", "adapters/mysql/binlog/visible.py",
}  # fmt: skip


# Findings of a run's own check, before it begins.
FOUND_FIRST = (("feed-scaled-out",), ("tables-changed",), ("unlogged",), ("checkpoint-gone",))


def test_the_page_is_made_of_the_tables() -> None:
    page = ROOT / "docs/reference/halts.md"
    assert page.read_text() == reference(), "python -m tidelock.adapters.reference.halts > docs/reference/halts.md"


def raised() -> Iterator[tuple[str, str, str]]:
    """Places of halts and refusals: `file:line`, its kind, and its message with … for what is not constant."""
    for path in sorted([*ROOT.glob("engine/**/*.py"), *ROOT.glob("adapters/**/*.py")]):
        file = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if file in ASIDE or not MADE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            arguments = [*node.args, *(word.value for word in node.keywords)]
            if name == "Alarm" and len(arguments) > 1:
                yield f"{file}:{node.lineno}", kind_of(arguments[0]), text_of(arguments[1])
            elif name in RAISED and arguments:
                yield f"{file}:{node.lineno}", name, text_of(arguments[0])


def kind_of(node: ast.expr) -> str:
    """'' where the kind is another error's, as of a source error that a feed passes on."""
    return str(node.value) if isinstance(node, ast.Constant) else ""


def text_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in parts)
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
        case _:
            return "…"


def told(halt: Halt, kind: str, text: str) -> bool:
    return kind in halt.kinds and (not halt.words or text == "…" or any(word in text for word in halt.words))


def test_every_halt_is_on_the_page() -> None:
    lines = [where for where in raised() if where[1] and not any(told(halt, *where[1:]) for halt in ALL)]
    assert not lines, "adapters/reference/halts.py has no line for these"


def test_every_line_of_the_page_is_of_a_halt() -> None:
    made = list(raised())
    for halt in ALL:
        for word in halt.words or ("",):
            of = [text for _, kind, text in made if kind in halt.kinds and word in text]
            assert of or halt.kinds in FOUND_FIRST, f"nothing says {word!r} of {halt.kinds}"


def test_every_test_of_the_page_is_there() -> None:
    for halt in ALL:
        if halt.test:
            file, _, name = halt.test.partition("::")
            function, _, id_ = name.rstrip("]").partition("[")
            text = (ROOT / "tests/adapters" / file).read_text()
            assert f"def {function}(" in text and f'"{id_}"' in f'{text}""', halt.test


def commands() -> set[str]:
    """`status`, `ddl`, `ddl done`, …"""
    group = typer.main.get_command(app)
    found: set[str] = set()
    for name, one in group.commands.items():  # type: ignore[attr-defined]
        found |= {name, *(f"{name} {below}" for below in getattr(one, "commands", ()))}
    return found


def test_every_command_that_advice_names_is_one() -> None:
    known = commands()
    seen = 0
    for path in [*ROOT.glob("engine/**/*.py"), *ROOT.glob("adapters/**/*.py")]:
        for named in re.findall(r"`tidelock ((?:rows |ddl )?[a-z][a-z-]*)", path.read_text()):
            seen += 1
            assert named in known, f"{path}: tidelock {named}"
    assert seen > 50


def test_the_how_to_names_halts_by_words_of_theirs() -> None:
    page = (ROOT / "docs/how-to/troubleshoot.md").read_text()
    table = page.partition("## By the words of a halt")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    assert len(words) > 5
    assert [word for word in words if word not in reference()] == []


def test_a_hint_names_resync_as_it_is_done_there() -> None:
    for hint in (errors.WAY_OUT, errors.SEE_THE_LOG, f"Then {RESYNC}"):
        assert "resync" in hint
        assert "end all its workers, `tidelock resync FEED`" in of_workers(hint)
        assert "resync" not in of_hive(hint) and "feed of a new name" in of_hive(hint)
    for path in ROOT.glob("adapters/mysql/**/*.py"):
        assert "tidelock resync" not in path.read_text(), f"{path}: RESYNC, which has another form for workers"


def test_a_table_that_the_target_lost_while_the_feed_ran(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "lost")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1)")
    process = rig.run()
    until(rig.equal, "the first row")
    rig.at_target("ALTER TABLE account RENAME TO elsewhere")
    rig.at_source("INSERT INTO account VALUES (2, 2)")
    assert process.code(30.0) == 4
    kind, message, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert kind == "target" and "account" in message and "`tidelock run FEED`" in hint
    checked = rig.command("check")
    assert checked.code == 1 and f"{rig.schema}.account" in checked.out, checked
    rig.at_target("ALTER TABLE elsewhere RENAME TO account")
    rig.catch_up()
    rig.assert_exact()


def test_a_column_that_the_target_lost(mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]) -> None:
    """The statement that `check` prints is run, and the values that went with the column are copied."""
    rig = make_rig(mariadb, postgres, "column")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_target("ALTER TABLE account DROP COLUMN v")
    rig.at_source("INSERT INTO account VALUES (3, 3)")
    assert rig.catch_up_code() == 4
    kind, message, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert kind == "schema" and "has no column v" in message and "`tidelock check FEED`" in hint
    checked = rig.command("check", "@", "--json")
    assert checked.code == 1, checked
    (mend,) = re.findall(r"ALTER TABLE [^;]*;", checked.out)
    rig.at_target(mend.replace('\\"', '"'))
    asked = rig.command("copy", "@", "--table", f"{rig.schema}.account", "--yes")
    assert "nobody runs" in asked.out + asked.err or "`tidelock run" in asked.out + asked.err, asked
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()




def test_a_checkpoint_that_somebody_removed(mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]) -> None:
    """A run would begin at `start` once more, and leave out what came since."""
    rig = make_rig(mariadb, postgres, "removed")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.start_at = "now"
    rig.catch_up()
    rig.at_source("INSERT INTO account VALUES (1, 1)")
    rig.catch_up()
    rig.at_target(f"DELETE FROM tidelock.tidelock_checkpoint WHERE feed = '{rig.name}'")
    rig.at_source("INSERT INTO account VALUES (2, 2)")
    assert rig.catch_up_code() == 1, rig.said()
    assert "holds no checkpoint of it any more" in rig.said() and "`tidelock resync FEED`" in rig.said()
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
