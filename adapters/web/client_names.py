"""The names of clients that show a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KINDS: Final = {"DNS": "DNS", "email": "EMAIL", "URI": "URI"}
_LONGEST: Final = 1000


def client_name(certificate: Mapping[str, Any] | None) -> str:
    """Returns whom a certificate is for: `CN=…`, else the first of `DNS=…`, `EMAIL=…`, `URI=…`, else `SERIAL=…`.

    `certificate`: as the ssl module tells a verified one; '' without one.  A name that is too long is passed over, not
    cut, since it might then be another's.
    """
    if not certificate:
        return ""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    common = [f"CN={value}" for kind, value in subject if kind == "commonName" and value]
    others = [f"{_KINDS[kind]}={value}" for kind, value in certificate.get("subjectAltName", ()) if kind in _KINDS]
    fitting = [name for name in (*common, *others) if len(name) <= _LONGEST]
    return fitting[0] if fitting else f"SERIAL={certificate.get('serialNumber', '')}"
