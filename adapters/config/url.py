"""Parses a server's URL: `scheme://user:password@host:port/database?sslmode=…&sslrootcert=…`.

A URL of Kafka, `kafka://user:password@host:port,host:port…/?sasl=…`, names several brokers to ask first, and the kind
of login.  A URL of Hive, `hive:///FOLDER`, names a folder of this machine, in `database`, with neither host nor port.

The parts are percent-decoded, except for secrets (`${file:…}`, `${env:…}`), which are taken as they are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from tidelock.adapters.config.secrets import is_one_reference, reveal, set_aside

if TYPE_CHECKING:
    import ssl

Scheme: TypeAlias = Literal["mysql", "mariadb", "postgresql", "kafka", "hive"]
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
SASL_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512")
TLS_OPTIONS = ("sslmode", "sslrootcert")
TIMEOUTS = ("connect_timeout", "read_timeout")
OPTIONS = (*TLS_OPTIONS, *TIMEOUTS)
SLOT = "slot"  # of a PostgreSQL source; no URL says it, but the feed's name
KAFKA_OPTIONS = (*TLS_OPTIONS, "sasl")
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
PORTS: dict[str, int] = {"mysql": 3306, "mariadb": 3306, "postgresql": 5432, "kafka": 9092, "hive": 9083}
_ALIASES = {"postgres": "postgresql"}
_LATER = ("file",)
_FOLDER = re.compile(r"hive://(?P<folder>/[^?#;']+)")
_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9/._~+@-]+")
_URL = re.compile(
    r"(?P<scheme>[a-z]+)://"
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^/?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:,@/?#\[\]]*)(?::(?P<port>[^:,@/?#]*))?(?P<others>(?:,[^,@/?#]+)*)"
    r"(?:/(?P<database>[^/?#]*))?(?:\?(?P<query>[^#]*))?"
)
_PEM = "-----BEGIN CERTIFICATE-----"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SECONDS = re.compile(r"[1-9]\d{0,3}|[1-7]\d{4}|8[0-5]\d{3}|86[0-3]\d{2}|86400")
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(?P<port>[^:]*))?")


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a server and the account to log in with.  `repr` and `str` leave the password out.

    `options`: of `OPTIONS`, for Kafka of `KAFKA_OPTIONS`; of a PostgreSQL source `SLOT` too.  `others`: further brokers
    of Kafka, `host:port` each.
    """

    scheme: Scheme
    host: str
    port: int
    user: str = ""
    password: str = ""
    database: str = ""
    options: dict[str, str] = {}
    others: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers, each as `host:port`."""
        return (_address(self.host, self.port), *self.others)

    @property
    def dialect(self) -> Literal["postgres", "mysql"]:
        """The SQL dialect of the server."""
        return "postgres" if self.scheme == "postgresql" else "mysql"

    @property
    def ssl_mode(self) -> str:
        """The URL's `sslmode`; without one, encrypted where the server can, as libpq and the mysql client do.

        A listener of Kafka is either encrypted or not: it is, where a certificate to check it by is given.
        """
        if self.scheme == "kafka":
            return self.options.get("sslmode", "verify-full" if "sslrootcert" in self.options else "disable")
        return self.options.get("sslmode", "prefer")

    @property
    def connect_seconds(self) -> float:
        """Seconds that connecting and logging in may take."""
        return float(self.options.get("connect_timeout", CONNECT_SECONDS))

    @property
    def read_seconds(self) -> float:
        """Seconds that an answer may be missing before the server is asked whether it still works on it."""
        return float(self.options.get("read_timeout", READ_SECONDS))

    def ssl_context(self) -> ssl.SSLContext | None:
        """Returns the TLS settings; None: plain text.  Raises OSError or ssl.SSLError when `sslrootcert` is no readable
        certificate.
        """
        if self.ssl_mode == "disable":
            return None
        authority = self.options.get("sslrootcert")
        if not self.ssl_mode.startswith("verify"):
            context = unverified_context()
            if authority is not None:  # a mistake in the URL shows now, not on the day the mode is changed
                cafile, cadata = _authority(authority)
                context.load_verify_locations(cafile, cadata=cadata)
            return context
        import ssl

        cafile, cadata = _authority(authority)
        context = ssl.create_default_context(cafile=cafile, cadata=cadata)
        context.check_hostname = self.ssl_mode == "verify-full"
        return context

    def carried(self) -> Endpoint:
        """Returns it with the certificates themselves in `sslrootcert`, for a machine that does not have their file.

        Raises OSError where the file cannot be read here.
        """
        authority = self.options.get("sslrootcert", "")
        if not authority or is_pem(authority):
            return self
        text = Path(authority).read_text(encoding="ascii", errors="replace")
        return msgspec.structs.replace(self, options={**self.options, "sslrootcert": certificates(text)})

    def __str__(self) -> str:
        if self.scheme == "hive" and not self.host:
            return f"hive://{quote(self.database)}"
        user = f"{quote(self.user)}{':***' if self.password else ''}@" if self.user else ""
        return f"{self.scheme}://{user}{','.join(self.servers)}/{quote(self.database)}"

    def __repr__(self) -> str:
        return f"Endpoint({str(self)!r})"


def is_pem(authority: str) -> bool:
    """Tells whether an `sslrootcert` is certificates, not the name of their file."""
    return authority.startswith(_PEM)


def certificates(text: str) -> str:
    """Returns the certificates of a PEM file, without what else is in it (a key, say)."""
    return "\n".join(_CERTIFICATE.findall(text)) or text


def _authority(authority: str | None) -> tuple[str | None, str | None]:
    """Returns the name of a file, or certificates, one of which an `sslrootcert` is."""
    return (None, authority) if authority is not None and is_pem(authority) else (authority, None)


def unverified_context() -> ssl.SSLContext:
    """Returns TLS settings that take any certificate, without loading the system's authorities, which takes 20 ms."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class UrlError(Exception):
    """A URL is wrong; `args[0]` says what, without showing it."""


def parse(text: str, folder: Path) -> Endpoint:
    """Returns the endpoint that `text` names; secrets in files are looked for in `folder`.  Raises UrlError,
    SecretError.
    """
    if is_one_reference(text):
        text = reveal(text, folder)
    masked, put_back = set_aside(text, folder)
    if place := _FOLDER.fullmatch(masked):
        folder_of_tables = put_back(unquote(place["folder"])).rstrip("/")
        if not _PLAIN_FOLDER.fullmatch(folder_of_tables):
            raise UrlError(
                "a warehouse's folder can only have letters a to z, digits and . _ ~ + @ - in its names: Hive's "
                "metastore writes others in another way than the disk has them, and tables would read empty"
            )
        return Endpoint(scheme="hive", host="", port=0, database=folder_of_tables)
    found = _URL.fullmatch(masked)
    if not found:
        raise UrlError(
            "not a URL of the form scheme://user:password@host:port/database; "
            "a password with special characters is percent-encoded or kept in ${file:…} or ${env:…}"
        )
    part = {
        name: put_back(unquote(value))
        for name, value in found.groupdict(default="").items()
        if name not in ("query", "others")
    }
    scheme = _scheme(part["scheme"])
    endpoint = Endpoint(
        scheme=scheme,
        host=part["host"].strip("[]") or "localhost",
        port=_port(part["port"]) or PORTS[scheme],
        user=part["user"],
        password=part["password"],
        database=part["database"],
        options=_options(put_back(found["query"] or ""), KAFKA_OPTIONS if scheme == "kafka" else OPTIONS, folder),
        others=tuple(_server(text, PORTS[scheme]) for text in put_back(found["others"]).split(",")[1:]),
    )
    if scheme == "hive" and (endpoint.user or endpoint.options or not (part["host"] and endpoint.database)):
        raise UrlError("of the form hive:///FOLDER or hive://METASTORE:9083/DATABASE, without user and options")
    if scheme == "kafka":
        _check_kafka(endpoint)
    elif endpoint.others:
        raise UrlError(f"{scheme}:// names one host; only kafka:// may name several")
    return endpoint


def _check_kafka(endpoint: Endpoint) -> None:
    if endpoint.database:
        raise UrlError("a URL of Kafka names no database; its topics are named after the feed")
    if endpoint.options.get("sslmode") == "prefer":
        modes = " or ".join(mode for mode in SSL_MODES if mode != "prefer")
        raise UrlError(f"a listener of Kafka is either encrypted or not: sslmode is {modes}")
    if ("sasl" in endpoint.options) != bool(endpoint.user and endpoint.password):
        raise UrlError(f"user and password go together with ?sasl={'|'.join(SASL_MECHANISMS)}")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server(text: str, port: int) -> str:
    found = _SERVER.fullmatch(text)
    if not found:
        raise UrlError("the hosts are not of the form host:port,host:port")
    return _address(found["host"].strip("[]"), _port(found["port"] or "") or port)


def _scheme(text: str) -> Scheme:
    if text in _LATER:
        raise UrlError(f"{text}:// is not supported yet; mysql://, mariadb://, postgresql://, kafka:// and hive:// are")
    match _ALIASES.get(text, text):
        case "mysql" | "mariadb" | "postgresql" | "kafka" | "hive" as scheme:
            return scheme
        case _:
            raise UrlError(f"unknown scheme {text}://; use mysql://, mariadb://, postgresql://, kafka:// or hive://")


def _port(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise UrlError("the port is not a number from 1 to 65535")
    return int(text)


def _options(query: str, known: tuple[str, ...], folder: Path) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in known:
            raise UrlError(f"unknown option ?{name}; known: {', '.join(known)}")
        options[name] = unquote(value)
    if options.get("sslmode", "prefer") not in SSL_MODES:
        raise UrlError(f"unknown sslmode; known: {', '.join(SSL_MODES)}")
    if options.get("sasl", "plain") not in SASL_MECHANISMS:
        raise UrlError(f"unknown sasl; known: {', '.join(SASL_MECHANISMS)}")
    for name in TIMEOUTS:
        if not _SECONDS.fullmatch(options.get(name, "1")):
            raise UrlError(f"{name} is a number of seconds from 1 to 86400")
    if "sslrootcert" in options:
        options["sslrootcert"] = str(folder / options["sslrootcert"])
    return options


Dialect: TypeAlias = Literal["postgres", "mysql"]
