"""Dependencies of a distribution, as the metadata of the installed packages says."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(requirements: Iterable[str], extras: Iterable[str] = ()) -> dict[str, metadata.Distribution]:
    """The installed distributions, by name, that these requirements bring along with these extras, and so on."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    requirements = list(requirements)
    waiting = [(requirement, extra) for extra in ("", *extras) for requirement in requirements]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = metadata.distribution(name)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(more, wanted) for more in found[name].requires or ()]
    return found
