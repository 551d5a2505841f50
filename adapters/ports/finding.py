"""Findings of `check`."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Level: TypeAlias = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True):
    """One finding.  `kind` is a stable word for scripts; `message` says what and where; `hint` holds the statement that
    corrects it.
    """

    level: Level
    kind: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.message}." + (f" {self.hint}" if self.hint else "")


class CheckReport(msgspec.Struct, frozen=True):
    """All findings: errors first, then warnings, then notes, each in the order found."""

    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that keep the feed from running."""
        return tuple(f for f in self.findings if f.level == "error")

    @property
    def ok(self) -> bool:
        """Tells whether there are no errors."""
        return not self.errors


def report(findings: list[Finding]) -> CheckReport:
    """Sorts findings into a report."""
    order = ("error", "warning", "note")
    return CheckReport(tuple(sorted(dict.fromkeys(findings), key=lambda f: order.index(f.level))))


def error(kind: str, message: str, hint: str) -> Finding:
    """Makes an error."""
    return Finding("error", kind, message, hint)


def warning(kind: str, message: str, hint: str) -> Finding:
    """Makes a warning."""
    return Finding("warning", kind, message, hint)


def note(kind: str, message: str, hint: str = "") -> Finding:
    """Makes a note."""
    return Finding("note", kind, message, hint)
