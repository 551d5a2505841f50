"""A database's URL, cut into its parts: `scheme://user:password@host:port/database?sslmode=…&sslrootcert=…`.

The parts are percent-decoded, except for secrets (`${file:…}`, `${env:…}`), which are taken as they are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from adapters.secrets import is_one_reference, reveal, set_aside

if TYPE_CHECKING:
    import ssl

Scheme: TypeAlias = Literal["mysql", "mariadb", "postgresql"]
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
OPTIONS = ("sslmode", "sslrootcert")
PORTS: dict[str, int] = {"mysql": 3306, "mariadb": 3306, "postgresql": 5432}
_ALIASES = {"postgres": "postgresql"}
_LATER = ("kafka", "file", "hive")
_URL = re.compile(
    r"(?P<scheme>[a-z]+)://"
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^/?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@/?#\[\]]*)(?::(?P<port>[^:@/?#]*))?"
    r"(?:/(?P<database>[^/?#]*))?(?:\?(?P<query>[^#]*))?"
)


class Endpoint(msgspec.Struct, frozen=True):
    """Where a database is and who we are there.  `options`: of `OPTIONS`.  `repr` and `str` leave the password out."""

    scheme: Scheme
    host: str
    port: int
    user: str = ""
    password: str = ""
    database: str = ""
    options: dict[str, str] = {}

    @property
    def dialect(self) -> Literal["postgres", "mysql"]:
        return "postgres" if self.scheme == "postgresql" else "mysql"

    @property
    def ssl_mode(self) -> str:
        """Encrypted where the server can, unless the URL says otherwise, as libpq and the mysql client do."""
        return self.options.get("sslmode", "prefer")

    def ssl_context(self) -> ssl.SSLContext | None:
        """None: plain text.  Raises OSError or ssl.SSLError when `sslrootcert` is no readable certificate."""
        if self.ssl_mode == "disable":
            return None
        import ssl

        context = ssl.create_default_context(cafile=self.options.get("sslrootcert"))
        context.check_hostname = self.ssl_mode == "verify-full"
        if not self.ssl_mode.startswith("verify"):
            context.verify_mode = ssl.CERT_NONE
        return context

    def __str__(self) -> str:
        user = f"{quote(self.user)}{':***' if self.password else ''}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{user}{host}:{self.port}/{quote(self.database)}"

    def __repr__(self) -> str:
        return f"Endpoint({str(self)!r})"


class UrlError(Exception):
    """`args[0]` says what is wrong with the URL without showing it."""


def parse(text: str, folder: Path) -> Endpoint:
    """The endpoint that `text` names; secrets in files are looked for in `folder`.  Raises UrlError, SecretError."""
    if is_one_reference(text):
        text = reveal(text, folder)
    masked, put_back = set_aside(text, folder)
    found = _URL.fullmatch(masked)
    if not found:
        raise UrlError(
            "not a URL of the form scheme://user:password@host:port/database; "
            "a password with special characters is percent-encoded or kept in ${file:…} or ${env:…}"
        )
    part = {name: put_back(unquote(value)) for name, value in found.groupdict(default="").items() if name != "query"}
    return Endpoint(
        scheme=_scheme(part["scheme"]),
        host=part["host"].strip("[]") or "localhost",
        port=_port(part["port"]) or PORTS[_scheme(part["scheme"])],
        user=part["user"],
        password=part["password"],
        database=part["database"],
        options=_options(put_back(found["query"] or ""), folder),
    )


def _scheme(text: str) -> Scheme:
    if text in _LATER:
        raise UrlError(f"{text}:// is not supported yet; mysql://, mariadb:// and postgresql:// are")
    match _ALIASES.get(text, text):
        case "mysql" | "mariadb" | "postgresql" as scheme:
            return scheme
        case _:
            raise UrlError(f"unknown scheme {text}://; use mysql://, mariadb:// or postgresql://")


def _port(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise UrlError("the port is not a number from 1 to 65535")
    return int(text)


def _options(query: str, folder: Path) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in OPTIONS:
            raise UrlError(f"unknown option ?{name}; known: {', '.join(OPTIONS)}")
        options[name] = unquote(value)
    if options.get("sslmode", "prefer") not in SSL_MODES:
        raise UrlError(f"unknown sslmode; known: {', '.join(SSL_MODES)}")
    if "sslrootcert" in options:
        options["sslrootcert"] = str(folder / options["sslrootcert"])
    return options
