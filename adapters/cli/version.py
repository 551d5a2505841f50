"""`tidelock --version`: says which version is installed, on which Python, with which compiled forms."""

from __future__ import annotations

import platform
from importlib import metadata

from tidelock.adapters.compiled import forms as compiled_forms


def version_line() -> str:
    """Returns the version and what the speed of this installation depends on, in one line."""
    return f"tidelock {_installed()} (Python {platform.python_version()}; {compiled_forms.one_line()})"


def _installed() -> str:
    try:
        return metadata.version("tidelock")
    except metadata.PackageNotFoundError:
        return "not installed, run from its source"
