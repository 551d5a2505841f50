"""Roles of who asks: each may do what the ones before it may."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

Role: TypeAlias = Literal["read", "operate", "admin"]
TEXTS: Final[dict[Role, str]] = {
    "read": "may look, at failed rows too.",
    "operate": "may also have feeds start, stop, pause and go on, failed rows tried again, and rows compared.",
    "admin": "may also decide that changes are dropped or rows replaced, and that schema changes are passed over.",
}
_ORDER: Final = get_args(Role)


class Holder(NamedTuple):
    """Who asks.  `name`: of a token, or of a certificate (`CN=…`), or `loopback`."""

    name: str
    role: Role

    def may(self, needed: Role) -> bool:
        """Tells whether the role suffices."""
        return _ORDER.index(self.role) >= _ORDER.index(needed)
