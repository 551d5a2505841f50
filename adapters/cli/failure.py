"""Prints failures: one paragraph on stderr, or `{"error": …}` with `--json`, and an exit code."""

from __future__ import annotations

import sys
from typing import Final

OK, REFUSED, USAGE, DIFFERENT, OPERATOR = 0, 1, 2, 3, 4
# The packages of the extras; everything else is installed with the product.
EXTRAS: Final = {
    **dict.fromkeys(("aiokafka", "faust", "mode"), "stream"),
    **dict.fromkeys(("py4j", "pyarrow", "pyspark"), "bulk"),
    "opentelemetry": "traces",
}


class CommandError(Exception):
    """A command cannot be carried out; `hint` says what to do."""

    def __init__(self, message: str, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


def explained(error: Exception) -> tuple[str, int] | None:
    """Returns (what to print, exit code) of an error meant for the operator; None for a bug, which keeps its traceback.

    Errors are known by their attributes, not by their class, so that no driver is imported to report a typing error:
    ours have a `hint` or an `exit_code`, typer's have `format_message`.
    """
    if hasattr(error, "format_message"):
        return ("" if type(error).__name__ == "NoArgsIsHelpError" else _usage(error)), USAGE
    if isinstance(error, ModuleNotFoundError):
        return _extra(error)
    hint = getattr(error, "hint", None)
    code = getattr(error, "exit_code", None)
    if hint is None and code is None:
        return None
    message = str(getattr(error, "message", None) or error).rstrip(". ")
    return f"{message}. {hint}" if hint else message, code if isinstance(code, int) else REFUSED


def _extra(error: ModuleNotFoundError) -> tuple[str, int] | None:
    """A package of an extra that was not installed."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    mend = f"`pip install 'tidelock[{EXTRAS[package]}]'` brings it"
    return f"this needs {package}, which is not installed: {mend}", REFUSED


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    where = f" See `{context.command_path} --help`." if context else ""
    message: str = error.format_message()  # type: ignore[attr-defined]  # looked for above
    return f"{message}{'' if message.endswith(('.', '?')) else '.'}{where}"


def tell(message: str, json: bool) -> None:
    """Prints an error on stderr, as JSON if asked."""
    if json:
        from json import dumps

        print(dumps({"error": message}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"tidelock: {message}", file=sys.stderr)
