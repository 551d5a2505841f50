"""A feed's file as it may be shown: secrets as references, passwords in addresses as `***`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tidelock.adapters.config.document import DocumentError, parse

MASK: Final = "***"
_REFERENCE: Final = re.compile(r"\$\{(?:file|env):[^{}]+\}")
_WORD: Final = re.compile("\ue000([0-9]+)\ue001")
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^:@/?#]*):(?P<password>[^/?#]*)@(?P<rest>[^@]*)", re.DOTALL
)
_SECRET_KEY: Final = re.compile(r"pass(word|wd|phrase)?\b|secret|token|credential|private|key$", re.IGNORECASE)


def shown_config(path: Path) -> dict[str, Any] | None:
    """Returns the keys of a file; None where it cannot be read."""
    try:
        data, _ = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, DocumentError):
        return None
    return _shown(data, "") if isinstance(data, dict) else None


def masked(text: str) -> str:
    """Returns a text in which no password of an address is left; a reference stays as it is written."""
    if "://" not in text or "@" not in text:
        return text
    if "\ue000" in text:  # which is ours below
        return MASK
    found: list[str] = []

    def set_aside(reference: re.Match[str]) -> str:
        found.append(reference[0])
        return f"\ue000{len(found) - 1}\ue001"

    plain = _REFERENCE.sub(set_aside, text)
    if "@" in plain:
        address = _ADDRESS.fullmatch(plain)
        if address is not None:
            kept = address["password"] if _WORD.fullmatch(address["password"]) else MASK
            plain = f"{address['scheme']}{address['user']}:{kept}@{address['rest']}"
        elif not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^:@/?#]*@[^:@]*(?::[^@]*)?", plain):
            return MASK
    return _WORD.sub(lambda word: found[int(word[1])], plain)


def _shown(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _shown(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_shown(one, key) for one in value]
    if key_is_secret(key) and not _REFERENCE.fullmatch(value):
        return MASK
    return masked(value)


def key_is_secret(key: str) -> bool:
    """Tells whether a key, such as one of Spark's settings, names a secret; a feed's own keys do not."""
    return "." in key and _SECRET_KEY.search(key) is not None
