"""The version of Tidelock that is installed."""

from __future__ import annotations

import functools


@functools.cache
def installed() -> str:
    """Returns the version; without an installation, that there is none."""
    from importlib import metadata  # with what it imports it takes as long as a fourth of our own modules

    try:
        return metadata.version("tidelock")
    except metadata.PackageNotFoundError:
        return "not installed, run from its source"
