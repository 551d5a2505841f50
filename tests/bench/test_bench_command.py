"""`tidelock bench`: its subcommands, their exit codes, and what is said where one cannot run."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import command as benches
from bench.harness.servers import ServerMissing
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.plugins import run_plugin

BENCHMARK = """
import os, signal
from bench.harness.servers import ServerMissing

SHORT = ("--code", "{code}")

def command(code: int = 0, hurt: str = "") -> int:
    print("{name}", code)
    if hurt == "missing":
        raise ServerMissing("no server here")
    if hurt == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    return code
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two benchmarks in the places of `micro` and `e2e`."""
    for code, name in enumerate(("micro", "e2e")):
        (tmp_path / f"tide_{name}.py").write_text(BENCHMARK.format(name=name, code=code * 3))
        monkeypatch.setitem(benches.MODULES, name, (f"tide_{name}", ""))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("micro", "e2e"):
        sys.modules.pop(f"tide_{name}", None)


@pytest.mark.usefixtures("modules")
def test_a_subcommand_gets_its_arguments_and_gives_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_plugin("bench", ["e2e", "--code", "7"]) == 7
    assert capsys.readouterr().out == "e2e 7\n"


@pytest.mark.usefixtures("modules")
def test_alone_it_runs_the_short_set_and_ends_with_the_worst_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_plugin("bench", []) == 3
    assert capsys.readouterr().out == "micro 0\ne2e 3\n"


@pytest.mark.usefixtures("modules")
def test_a_missing_server_is_told_with_what_to_do() -> None:
    with pytest.raises(CommandError, match="no server here") as raised:
        run_plugin("bench", ["micro", "--hurt", "missing"])
    assert "make servers" in raised.value.hint and not isinstance(raised.value, ServerMissing)


@pytest.mark.usefixtures("modules")
def test_sigterm_ends_a_benchmark_as_ctrl_c_does(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert run_plugin("bench", ["micro", "--hurt", "terminated"]) == 130
    assert "stopped" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_benchmark_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benches.MODULES, "scale", ("tide_nowhere", ""))
    with pytest.raises(CommandError, match="needs the module tide_nowhere") as raised:
        run_plugin("bench", ["scale"])
    assert "make setup" in raised.value.hint
