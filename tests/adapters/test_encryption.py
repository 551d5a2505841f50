"""TLS to a server that offers it: what each `sslmode` asks for, and that nothing is loaded which is not looked at."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from pymysql import err

from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.mysql.connection import connect, reader_endpoint, rows
from tidelock.adapters.mysql.target.session import open_session
from tidelock.adapters.ports.source_errors import SourceError

CIPHER = "SHOW STATUS LIKE 'Ssl_cipher'"


@pytest.fixture
def no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise AssertionError("the system's authorities were loaded")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)


def endpoint(server: MySql | MariaDb, mode: str) -> Endpoint:
    return parse(f"{server.url()}?sslmode={mode}", Path())


def source_cipher(place: Endpoint) -> str:
    connection = connect(reader_endpoint(place))
    try:
        return str(rows(connection, CIPHER)[0][1])
    finally:
        connection.close()


async def target_cipher(place: Endpoint) -> str:
    session = await open_session(place, 10)
    try:
        return str((await session.ask(CIPHER)).rows[0][1])
    finally:
        await session.close()


@pytest.mark.usefixtures("no_authorities")
@pytest.mark.parametrize("mode", ["prefer", "require"])
async def test_unchecked_certificates_encrypt_without_the_systems_authorities(mysql: MySql, mode: str) -> None:
    place = endpoint(mysql, mode)
    assert source_cipher(place)
    assert await target_cipher(place)


@pytest.mark.usefixtures("no_authorities")
async def test_disabled_is_plain_text(mysql: MySql) -> None:
    place = endpoint(mysql, "disable")
    assert not source_cipher(place)
    assert not await target_cipher(place)


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
async def test_a_certificate_that_is_checked_must_be_known(mysql: MySql, mode: str) -> None:
    """The server signed its own."""
    place = endpoint(mysql, mode)
    with pytest.raises(SourceError):
        source_cipher(place)
    with pytest.raises(err.OperationalError):
        await target_cipher(place)


async def test_only_prefer_and_disable_take_a_server_without_tls(mariadb: MariaDb) -> None:
    assert not source_cipher(endpoint(mariadb, "prefer"))
    with pytest.raises(SourceError):
        source_cipher(endpoint(mariadb, "require"))


def test_an_authority_is_read_even_where_it_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for mode in ("require", "verify-ca"):
        with pytest.raises(ssl.SSLError):
            parse(f"postgresql://u@h/d?sslmode={mode}&sslrootcert=ca.pem", tmp_path).ssl_context()
