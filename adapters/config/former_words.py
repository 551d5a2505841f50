"""Words of the last release that still work, for one release more.

A former value in the YAML is taken as its new word, with a hint on stderr.  A renamed field of a command's JSON appears
under both names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("zero_dates", "park"): "dead_letter",
    ("on_conflict", "park"): "dead_letter",
}
"""Maps a key of the feed's YAML and a former value to the value now."""


def renewed(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns a feed's `data` in today's words, and by key the hint on each word that was replaced."""
    result, hints = dict(data), dict[str, str]()
    for key, value in data.items():
        now = VALUES.get((key, value)) if isinstance(value, str) else None
        if now is not None:
            result[key] = now
            hints[key] = f"{value!r} is called {now!r} now, and will be refused by the next release"
    return result, hints


def share(record: msgspec.Struct, **former: str) -> None:
    """Gives renamed fields of `record` their value under both names.

    `former`: the new name, and as its value the former one.  A record that was read from an older file or process has
    its value under the former name only.
    """
    for name, old in former.items():
        value = getattr(record, name) or getattr(record, old)
        msgspec.structs.force_setattr(record, name, value)
        msgspec.structs.force_setattr(record, old, value)
