"""Secrets in the YAML: `${file:PATH}` and `${env:NAME}`, looked up when a feed is loaded and never shown.

A URL is cut into its parts *before* a secret is put in, so a password with `@`, `/` or `%` in it needs no escaping.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

_REFERENCE = re.compile(r"\$\{(file|env):([^{}]+)\}")
_WORD = re.compile("\ue000([0-9]+)\ue001")  # private use characters: no URL holds them


class SecretError(Exception):
    """A secret cannot be read; `args[0]` names its file or variable, never its value."""


def has_reference(text: str) -> bool:
    """Tells whether `text` refers to a secret."""
    return _REFERENCE.search(text) is not None


def is_one_reference(text: str) -> bool:
    """Tells whether `text` is a single reference and nothing else: the whole URL is the secret."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(text: str, folder: Path) -> str:
    """Returns `text` with every reference replaced.  Relative files are looked for in `folder`.  Raises SecretError."""
    return _REFERENCE.sub(lambda found: _value(found[1], found[2].strip(), folder), text)


def set_aside(text: str, folder: Path) -> tuple[str, Callable[[str], str]]:
    """Returns `text` with opaque words in place of its references, and a function that puts the values into a part of
    it.

    Raises SecretError at once, not when the function is called.
    """
    values: list[str] = []

    def mask(found: re.Match[str]) -> str:
        values.append(_value(found[1], found[2].strip(), folder))
        return f"\ue000{len(values) - 1}\ue001"

    masked = _REFERENCE.sub(mask, text)
    return masked, lambda part: _WORD.sub(lambda found: values[int(found[1])], part)


def _value(kind: str, name: str, folder: Path) -> str:
    if kind == "env":
        if name not in os.environ:
            raise SecretError(f"the environment variable {name} is not set")
        return os.environ[name]
    try:
        return (folder / name).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SecretError(f"the file {name} cannot be read: {reason}") from None
