"""What Spark raises, in a few words."""

from __future__ import annotations


def cause(error: Exception) -> str:
    """The last cause, which is the database's or ours, and not a page of Java."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.getMessage() if java is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
