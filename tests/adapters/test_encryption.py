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
from tidelock.adapters.spark.jdbc import Database

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


async def test_certificates_travel_without_their_file(mysql: MySql, tmp_path: Path) -> None:
    """As to a machine of Spark's that reads rows and writes them."""
    file = tmp_path / "ca.pem"
    file.write_text(f"a key that stays here\n{(mysql.data / 'ca.pem').read_text()}")
    place = parse(f"{mysql.url()}?sslmode=verify-ca&sslrootcert=ca.pem", tmp_path).carried()
    other = parse("postgresql://u@h/d?sslmode=verify-full&sslrootcert=ca.pem", tmp_path)
    told = [Database(one, True)._properties(True) for one in (place, other)]
    file.unlink()
    assert place.carried() == place and "stays here" not in str(told)
    assert source_cipher(place)
    assert await target_cipher(place)
    assert told[0]["serverSslCert"].startswith("-----BEGIN CERTIFICATE-----")
    assert told[1]["sslfactoryarg"] == told[0]["serverSslCert"] and "sslrootcert" not in told[1]
    assert Database(other)._properties(False)["sslrootcert"] == str(file)
