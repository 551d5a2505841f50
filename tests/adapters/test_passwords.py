"""Passwords beyond ASCII: each way of ours to log in, with each kind of login that the servers have, and what an error
shows of a password."""

import os
import traceback
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.harness.servers import MariaDb, MySql, Postgres, Server
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.mysql.connection import connect, reader_endpoint, rows
from tidelock.adapters.mysql.ed25519 import sign
from tidelock.adapters.mysql.target.session import open_session
from tidelock.adapters.postgres.target.session import SessionSettings
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.session import session as spark_session
from tidelock.adapters.wiring.session import session

PASSWORD = "grün-Ω-密码-🌊 %:@"
LOGINS = ["mysql_native_password", "ed25519"]


def account(server: MySql | MariaDb, login: str) -> str:
    """A new account's name."""
    if login == "ed25519" and not server.execute("SELECT 1 FROM mysql.plugin WHERE name = 'ed25519'"):
        server.execute("INSTALL SONAME 'auth_ed25519'")
    name = f"user_{login}"
    server.execute(f"DROP USER IF EXISTS {name}")
    if login == "caching_sha2_password":
        server.execute(f"CREATE USER {name} IDENTIFIED BY %s", PASSWORD)
    else:
        server.execute(f"CREATE USER {name} IDENTIFIED VIA {login} USING PASSWORD(%s)", PASSWORD)
    return name


def role(server: Postgres) -> str:
    server.execute("DROP ROLE IF EXISTS green")
    server.execute(f"CREATE ROLE green LOGIN PASSWORD '{PASSWORD}'")
    return "green"


async def log_in(place: Endpoint) -> None:
    """As the source's reader, as the target's sink, as an operator."""
    connection = connect(reader_endpoint(place))
    assert rows(connection, "SELECT 1") == [(1,)]
    connection.close()
    opened = await open_session(place, 10)
    await opened.close()
    async with session(place) as talk:
        assert await talk.fetch("SELECT 1") == [(1,)]


@pytest.mark.parametrize("login", LOGINS)
async def test_mariadb_takes_a_password_beyond_ascii(mariadb: MariaDb, login: str) -> None:
    await log_in(parse(mariadb.url(user=account(mariadb, login), password=PASSWORD), Path()))


@pytest.mark.parametrize("mode", ["prefer", "disable"])
async def test_mysql_takes_a_password_beyond_ascii(mysql: MySql, mode: str) -> None:
    """In full where the server's cache of passwords is empty, by TLS or the server's public key; else the short way."""
    user = account(mysql, "caching_sha2_password")
    place = parse(f"{mysql.url(user=user, password=PASSWORD)}?sslmode={mode}", Path())
    opened = await open_session(place, 10)
    await opened.close()
    mysql.execute("FLUSH PRIVILEGES")
    await log_in(place)


async def test_postgresql_takes_a_password_beyond_ascii(postgres: Postgres) -> None:
    place = parse(postgres.url(user=role(postgres), password=PASSWORD), Path())
    connection = await SessionSettings(place, "test", True, 10).connect()
    await connection.close()
    async with session(place) as talk:
        assert await talk.fetch("SELECT 1") == [(1,)]


@pytest.mark.proof
@pytest.mark.usefixtures("room_for_spark")
def test_spark_logs_in_whatever_the_platforms_charset_is(
    mariadb: MariaDb, mysql: MySql, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [
        *(mariadb.url(user=account(mariadb, login), password=PASSWORD) for login in LOGINS),
        mysql.url(user=account(mysql, "caching_sha2_password"), password=PASSWORD),
        postgres.url(user=role(postgres), password=PASSWORD),
    ]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dfile.encoding=US-ASCII")
    with spark_session(Spark(), "passwords") as spark:
        for url in urls:
            assert spark._jvm.java.nio.charset.Charset.defaultCharset().name() == "US-ASCII"  # type: ignore[union-attr]
            (row,) = Database(parse(url, Path())).read(spark, "SELECT 1 AS one", []).collect()
            assert row.one == 1


async def shown(work: object) -> str:
    """The traceback of the error that this ends with, and everything that led to it."""
    try:
        await work  # type: ignore[misc]
    except Exception as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("nobody was refused")


@pytest.mark.parametrize("kind", ["mariadb", "mysql", "postgres"])
async def test_a_refusal_shows_nothing_of_the_password(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(kind)
    place = parse(server.url(user="nobody", password="Ω密🌊"), Path())

    async def talk() -> None:
        async with session(place):
            pass

    texts = [await shown(talk())]
    if kind == "postgres":
        texts.append(await shown(SessionSettings(place, "test", True, 10).connect()))
    else:
        texts.append(await shown(open_session(place, 10)))
        with pytest.raises(Exception, match="nobody") as caught:
            connect(reader_endpoint(place))
        texts.append("".join(traceback.format_exception(caught.value)))
    for text in texts:
        assert "nobody" in text and not any(part in text for part in ("Ω", "密", "🌊", "03a9", "03A9")), text


def test_a_seed_of_32_bytes_signs_as_rfc_8032_says() -> None:
    for _ in range(8):
        seed, challenge = os.urandom(32), os.urandom(32)
        assert sign(seed, challenge) == Ed25519PrivateKey.from_private_bytes(seed).sign(challenge)
