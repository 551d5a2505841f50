"""The connection string of libpq for a source's URL, and the settings that every session of ours has.

The settings are part of the format of the log: a walsender spells dates, intervals, floats and bytes as its *session*
says, and a role or a database may say otherwise ( `DateStyle = SQL, DMY`
makes another day of 01/02).  What a session asks for at its start goes before what a role says.  `search_path` decides
how the name of a table is spelled as a value (`regclass`).
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

from tidelock.adapters.config.url import Endpoint, is_pem
from tidelock.adapters.postgres.column_types import OUTPUT_SETTINGS, READING_SETTINGS

_UNBOUNDED: Final = {"lock_timeout": "0", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
"""The log is read for as long as there is one, whatever a role's statements may take."""
_SETTINGS: Final = {**READING_SETTINGS, **_UNBOUNDED}
_KEEPALIVE: Final = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
_AUTHORITIES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_SYSTEM: Final = "system"  # libpq's word for what its TLS library trusts
_NO_AUTHORITY: Final = "/nonexistent"  # else libpq verifies by a certificate in the user's home, if there is one


def conninfo(place: Endpoint, *, replication: bool, application: str = "tidelock") -> bytes:
    """The connection string; `replication`: of a walsender that answers SQL too.  Raises OSError, ssl.SSLError where
    `sslrootcert` cannot be read."""
    words = {
        "host": place.host,
        "port": str(place.port),
        "user": place.user,
        "password": place.password,
        "dbname": place.database,
        "connect_timeout": str(max(2, round(place.connect_seconds))),
        "application_name": application,
        "options": " ".join(f"-c {name}={_escaped(value)}" for name, value in _SETTINGS.items()),
        "client_encoding": OUTPUT_SETTINGS["client_encoding"],
        "gssencmode": "disable",
        **_KEEPALIVE,
        **_tls(place),
    }
    if replication:
        words["replication"] = "database"
    if not place.password:
        del words["password"]
    return " ".join(f"{name}={_quoted(value)}" for name, value in words.items()).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _tls(place: Endpoint) -> dict[str, str]:
    """As `Endpoint.ssl_context` does it: without `verify-…` no certificate is looked at, whatever files are there."""
    mode = place.ssl_mode
    place.ssl_context()  # a mistake in the URL shows here, in the words that other servers' URLs have
    if not mode.startswith("verify"):
        return {"sslmode": mode, "sslrootcert": _NO_AUTHORITY}
    return {"sslmode": mode, "sslrootcert": _authority(place.options.get("sslrootcert", ""), mode)}


def _authority(named: str, mode: str) -> str:
    """The file that certificates are checked by; `named`: a file, certificates, or '' for those of the system."""
    if is_pem(named):
        return _kept(named)
    if named:
        return named
    known = (ssl.get_default_verify_paths().cafile, *_AUTHORITIES)
    found = next((path for path in known if path and Path(path).is_file()), "")
    return found or (_SYSTEM if mode == "verify-full" else _AUTHORITIES[0])


_files: dict[str, str] = {}


def _kept(certificates: str) -> str:
    """A file with these certificates, as libpq takes them from files alone.  It is in memory, whatever disks are full,
    and goes with this process."""
    if certificates not in _files:
        held = os.memfd_create("certificates")
        os.write(held, certificates.encode("ascii"))
        _files[certificates] = f"/proc/self/fd/{held}"
    return _files[certificates]
