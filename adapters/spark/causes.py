"""Words errors of Spark."""

from __future__ import annotations

import re
from typing import Final

# Of what a Python worker raises, Java knows the whole traceback.
_RAISED: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \n].*\n?)*[\w.]+(?:: (?P<said>.*))?")


def cause(error: Exception) -> str:
    """Returns the last cause, which is the database's or ours, and not a page of Java."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.getMessage() if java is not None else error).strip()
    if raised := list(_RAISED.finditer(text)):
        text = raised[-1]["said"] or text.splitlines()[-1]
    return text.splitlines()[0] if text else type(error).__name__
