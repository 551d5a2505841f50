"""Hooks of the site beyond mkdocs: decisions enter the navigation by themselves, and paths of the tree stay readable.

A page may link to a file outside of `docs/`, which a reader in the source tree can follow.  The site has no such file,
so there the link is its words and the path.  A list that follows its sentence without an empty line stays a list.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
GLUED = re.compile(r"^((?![-|#> \d]|$).*)\n(?=(?:-|\d+\.) )", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Enters the decisions, newest first."""
    folder = Path(config["docs_dir"]) / "decisions"
    pages = sorted((f"decisions/{page.name}" for page in folder.glob("2*.md")), reverse=True)
    (decisions,) = (one["Decisions"] for one in config["nav"] if isinstance(one, dict) and "Decisions" in one)
    decisions.extend(page for page in pages if page not in decisions)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Writes what a link out of `docs/` names instead of linking there, and an empty line before each list."""
    here = Path(page.file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        words, link = found.groups()
        path = os.path.normpath(here / link.partition("#")[0])
        if not path.startswith(".."):
            return found[0]
        name = path.removeprefix("../")
        return words if name in words else f"{words} (`{name}`)"

    parts = FENCE.split(markdown)  # each second one is a block of code
    parts[::2] = [GLUED.sub(r"\1\n\n", LINK.sub(shown, part)) for part in parts[::2]]
    return "".join(parts)
