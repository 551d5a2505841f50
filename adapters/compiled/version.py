"""The version of Tidelock that is installed."""

from __future__ import annotations

import functools
from importlib import metadata


@functools.cache
def installed() -> str:
    """Returns the version; without an installation, that there is none."""
    try:
        return metadata.version("tidelock")
    except metadata.PackageNotFoundError:
        return "not installed, run from its source"
