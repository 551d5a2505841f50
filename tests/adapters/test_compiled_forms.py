"""A compiled form is used where it was built from the source beside it, and otherwise refused with a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tidelock.adapters.compiled import build as compiled
from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.metrics import metrics

ROOT = Path(__file__).parents[2]
ASK = """
from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.mysql.binlog import decoder
from tidelock.adapters.row_image import images
print({what})
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy of what the reader needs of this checkout, with what was compiled for it."""
    for source in compiled_forms.SOURCES:
        compiled.build(source)
    for package in ("engine", "adapters"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "tidelock" / package, ignore=ignored)
    shutil.copy(ROOT / "tidelock/__init__.py", tmp_path / "tidelock")
    return tmp_path


def asked(checkout: Path, what: str) -> tuple[str, str]:
    """Returns what an expression prints there, and what is said beside it."""
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
    return next(checkout.rglob(f"{name}.*.so"))


def source_of(checkout: Path, name: str) -> Path:
    return next(checkout.rglob(name))


def test_what_was_built_from_this_source_is_used(checkout: Path) -> None:
    said, beside = asked(checkout, "compiled_forms.one_line(), decoder.UsualEvents, bool(images.CODES)")
    assert said.startswith("forms: row_image compiled, fast_path compiled, row_decoder compiled <class")
    assert said.endswith("True")
    assert beside == ""


def test_what_was_built_from_another_part_of_its_source_is_refused(checkout: Path) -> None:
    part = source_of(checkout, "spelling.pxi")
    part.write_text(part.read_text() + "\n")
    said, beside = asked(checkout, "bool(images.CODES), compiled_forms.one_line()")
    assert said == "False forms: row_image Python (built from another source), fast_path compiled, row_decoder compiled"
    assert beside.count("row_image was built from another version of its source") == 1


@pytest.mark.parametrize(
    "changed",
    ["fast_path.pyx", *(pytest.param(name, marks=pytest.mark.proof) for name in ("checked_events.h", "crc32.h"))],
)
def test_what_was_built_from_another_source_is_refused_with_a_word(checkout: Path, changed: str) -> None:
    source = source_of(checkout, changed)
    source.write_text(source.read_text() + "\n")
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.one_line()")
    assert said == "None forms: row_image compiled, fast_path Python (built from another source), row_decoder compiled"
    assert beside.count("fast_path was built from another version of its source") == 1
    assert "make setup" in beside


def test_what_was_built_before_modules_knew_their_source_is_refused(checkout: Path) -> None:
    module = built(checkout, "row_image")
    known = compiled_forms.digest(source_of(checkout, "row_image.pyx")).encode()
    module.write_bytes(module.read_bytes().replace(known, b"\0" * len(known)))
    said, beside = asked(checkout, "bool(images.CODES), compiled_forms.form('row_image')")
    assert said == "False Python (built from another source)"
    assert "row_image was built from another version" in beside


def test_what_cannot_be_loaded_is_told(checkout: Path) -> None:
    built(checkout, "fast_path").write_bytes(b"no module")
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.form('fast_path')")
    assert said == "None Python (cannot be loaded)"
    assert "fast_path cannot be loaded" in beside


def test_what_was_not_built_is_no_trouble(checkout: Path) -> None:
    built(checkout, "fast_path").unlink()
    said, beside = asked(checkout, "decoder.UsualEvents, compiled_forms.form('fast_path')")
    assert (said, beside) == ("None Python (not built)", "")


def test_an_installation_without_sources_uses_what_was_built(checkout: Path) -> None:
    for source in list(checkout.rglob("*.pyx")):
        source.unlink()
    said = asked(checkout, "compiled_forms.one_line()")[0]
    assert said == "forms: row_image compiled, fast_path compiled, row_decoder compiled"


def test_a_changed_source_is_built_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the times of the files are: a checkout may be older than what was built in it."""
    source = source_of(checkout, "fast_path.pyx")
    assert compiled.build(source) == built(checkout, "fast_path")
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
    labels = ',row_image="compiled",fast_path="compiled",row_decoder="compiled"} 1'
    told = next(line for line in metrics(Sample(), "shop").splitlines() if line.startswith("tidelock_build_info"))
    assert told.endswith(labels) and f'version="{metadata.version("tidelock")}"' in told
