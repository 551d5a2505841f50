"""`tidelock --version`: says which version is installed, on which Python, with which compiled forms."""

from __future__ import annotations

import platform

from tidelock.adapters.compiled import forms as compiled_forms
from tidelock.adapters.compiled.version import installed


def version_line() -> str:
    """Returns the version and what the speed of this installation depends on, in one line."""
    return f"tidelock {installed()} (Python {platform.python_version()}; {compiled_forms.one_line()})"
