"""A compiled form is used where it was built from the source beside it, and otherwise refused with a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import compiled, compiled_forms
from adapters.progress import Sample
from adapters.web.metrics import metrics

ROOT = Path(compiled_forms.__file__).parent.parent
ASK = "from adapters.mysql import decoder, row_layout; from adapters import compiled_forms; print({what})"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the reader needs of this checkout, with what was compiled for it."""
    for source in compiled_forms.SOURCES:
        compiled.build(source)
    for package in ("engine", "adapters"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def asked(checkout: Path, what: str) -> tuple[str, str]:
    """What an expression prints there, and what is said beside it."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(what=what)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.strip(), done.stderr


def built(checkout: Path, name: str) -> Path:
    return next((checkout / "adapters" / "mysql").glob(f"{name}.*.so"))


def test_what_was_built_from_this_source_is_used(checkout: Path) -> None:
    said, beside = asked(checkout, "compiled_forms.one_line(), decoder.UsualEvents, bool(row_layout.CODES)")
    assert said.startswith("forms: row_image compiled, usual_events compiled <class") and said.endswith("True")
    assert beside == ""


@pytest.mark.parametrize("changed", ["usual_events.pyx", "crc32.h"])
def test_what_was_built_from_another_source_is_refused_with_a_word(checkout: Path, changed: str) -> None:
    source = checkout / "adapters" / "mysql" / changed
    source.write_text(source.read_text() + "\n")
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.one_line()")
    assert said == "None forms: row_image compiled, usual_events Python (built from another source)"
    assert beside.count("usual_events was built from another version of its source") == 1
    assert "make setup" in beside


def test_what_was_built_before_modules_knew_their_source_is_refused(checkout: Path) -> None:
    module = built(checkout, "row_image")
    known = compiled_forms.digest(checkout / "adapters" / "mysql" / "row_image.pyx").encode()
    module.write_bytes(module.read_bytes().replace(known, b"\0" * len(known)))
    said, beside = asked(checkout, "bool(row_layout.CODES), compiled_forms.form('row_image')")
    assert said == "False Python (built from another source)"
    assert "row_image was built from another version" in beside


def test_what_cannot_be_loaded_is_told(checkout: Path) -> None:
    built(checkout, "usual_events").write_bytes(b"no module")
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.form('usual_events')")
    assert said == "None Python (cannot be loaded)"
    assert "usual_events cannot be loaded" in beside


def test_what_was_not_built_is_no_trouble(checkout: Path) -> None:
    built(checkout, "usual_events").unlink()
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.form('usual_events')")
    assert (said, beside) == ("None Python (not built)", "")


def test_an_installation_without_sources_uses_what_was_built(checkout: Path) -> None:
    for source in (checkout / "adapters" / "mysql").glob("*.pyx"):
        source.unlink()
    assert asked(checkout, "compiled_forms.one_line()")[0] == "forms: row_image compiled, usual_events compiled"


def test_a_changed_source_is_built_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the times of the files are: a checkout may be older than what was built in it."""
    source = checkout / "adapters" / "mysql" / "usual_events.pyx"
    assert compiled.build(source) == built(checkout, "usual_events")
    source.write_text(source.read_text() + "\n")
    os.utime(source, (0, 0))
    ran: list[list[str]] = []

    def run(command: list[str]) -> None:
        ran.append(command)
        Path(command[-1]).write_bytes(b"made")

    monkeypatch.setattr(compiled, "_run", run)
    assert compiled.build(source).read_bytes() == b"made"
    assert f'-DTIDELOCK_SOURCE="{compiled_forms.digest(source)}"' in ran[1]


def test_the_metrics_say_which_forms_are_in_use() -> None:
    assert 'tidelock_build_info{row_image="compiled",usual_events="compiled"} 1' in metrics(Sample(state="running"))
