"""The site of `make site`: each page is in its navigation, and it is built without a warning."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = ROOT / "docs/requirements.lock"


class Loader(yaml.SafeLoader):
    """Reads what mkdocs' own loader makes objects of as nothing."""


Loader.add_multi_constructor("!!python/", lambda *_: None)
Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site/hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entered(entry: Any) -> Iterator[str]:
    """Yields the pages of an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry if isinstance(entry, list) else entry.values():
            yield from entered(below)


def test_each_page_is_in_the_navigation_once() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    assert config["strict"] is True
    sections = [name for one in config["nav"] if isinstance(one, dict) for name in one]
    assert sections == ["Tutorial", "How to", "Reference", "Explanation", "Decisions"]
    pages = list(entered(hooks().on_config({"docs_dir": str(DOCS), "nav": config["nav"]})["nav"]))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(pages) == sorted(there), "enter it in mkdocs.yml"


def test_what_is_outside_of_the_pages_is_named_and_not_linked() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/copy.md"))
    text = (
        "See [code](../../engine/replay.py), [it](../explanation/design.md), [`engine/x.py`](../../engine/x.py).\n"
        "Thus:\n- one\n- two\n```sh\nhere:\n- none\n```\n"
    )
    shown = hooks().on_page_markdown(text, page, None, None)
    assert shown.startswith("See code (`engine/replay.py`), [it](../explanation/design.md), `engine/x.py`.\n")
    assert "Thus:\n\n- one\n- two\n```sh\nhere:\n- none\n```" in shown


def test_the_site_s_packages_are_locked_by_their_hashes() -> None:
    lock = MADE.read_text(encoding="utf-8")
    packages = re.findall(r"^([a-z][\w.-]*)==\S+ \\$(?=\n    --hash=sha256:)", lock, re.MULTILINE)
    assert len(packages) == len(re.findall(r"==", lock)) > 10
    assert set((DOCS / "requirements.in").read_text(encoding="utf-8").split()) <= set(packages)
    assert "://" not in lock


@pytest.mark.proof
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link to an anchor that is not there is one."""
    command = ["make", "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=1200, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert all((ROOT / "site" / page).is_file() for page in pages)
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs/index.md").open("a", encoding="utf-8") as index:
        index.write("\n[nowhere](explanation/design.md#design-99)\n")
    command = [str(ROOT / ".venv-site/bin/mkdocs"), "build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=600, check=False)
    assert done.returncode != 0 and "does not contain an anchor '#design-99'" in done.stderr, done.stderr
