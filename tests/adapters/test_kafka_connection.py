"""From the feed's `log` to connected clients, and what the operator hears when there is no connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import faust
import pytest
from aiokafka import AIOKafkaProducer
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth

from bench.harness.servers.certificates import authority
from bench.harness.servers.kafka import Kafka
from bench.harness.servers.place import free_port
from tidelock.adapters.checks import log as check_log
from tidelock.adapters.config.loader import read
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.kafka import connection, topics
from tidelock.adapters.kafka.connection import LogError, client_options, faust_options, reach
from tidelock.adapters.kafka.topics import Topics, changes_topic, control_topic, ensure, look

SECURED = ("sasl_plain", "scram_tls", *(pytest.param(kind, marks=pytest.mark.proof) for kind in ("tls", "scram")))


class Brokers(dict[str, Kafka]):
    """One of each kind of security, started when it is first asked for."""

    def __missing__(self, kind: str) -> Kafka:
        server = Kafka(security=kind)
        server.start()
        self[kind] = server
        return server


@pytest.fixture(scope="module")
def secured() -> Iterator[dict[str, Kafka]]:
    started = Brokers()
    yield started
    for server in started.values():
        server.close()


def at(url: str) -> Endpoint:
    return parse(url, Path())


async def refused(url: str) -> LogError:
    with pytest.raises(LogError) as caught:
        await reach(at(url))
    assert caught.value.hint
    return caught.value


async def send(endpoint: Endpoint) -> None:
    producer = AIOKafkaProducer(**client_options(endpoint), transactional_id="a")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(changes_topic("f"), b"x", partition=1)
    finally:
        await producer.stop()


@pytest.mark.parametrize(
    ("kind", "sasl"),
    [
        pytest.param("sasl_plain", "plain", marks=pytest.mark.proof),
        pytest.param("tls", None, marks=pytest.mark.proof),
        ("scram_tls", "scram-sha-256"),
        ("scram_tls", "scram-sha-512"),
        pytest.param("scram", "scram-sha-256", marks=pytest.mark.proof),
        pytest.param("scram", "scram-sha-512", marks=pytest.mark.proof),
    ],
)
async def test_every_kind_of_login_writes_and_looks(secured: dict[str, Kafka], kind: str, sasl: str | None) -> None:
    endpoint = at(secured[kind].url(sasl=sasl))
    await ensure(endpoint, "f", 2)
    await send(endpoint)
    there = await look(endpoint, "f")
    assert there.changes is not None and there.changes.partitions == 2
    assert there.transactions


@pytest.mark.parametrize("kind", SECURED)
def test_faust_gets_the_same_as_the_clients(secured: dict[str, Kafka], kind: str) -> None:
    endpoint = at(secured[kind].url())
    app = faust.App("a", **faust_options(endpoint))
    ours = client_options(endpoint)
    theirs = credentials_to_aiokafka_auth(app.conf.broker_credentials)
    assert {name: theirs[name] for name in theirs if name != "ssl_context"} == {
        name: ours[name] for name in ours if name not in ("ssl_context", "bootstrap_servers")
    }
    assert (theirs["ssl_context"] is None) == (ours["ssl_context"] is None)
    assert [f"{url.host}:{url.port}" for url in app.conf.broker] == ours["bootstrap_servers"]


async def test_the_next_broker_is_asked_where_one_is_away(kafka: Kafka) -> None:
    await reach(at(f"kafka://127.0.0.1:{free_port()},{kafka.bootstrap}/"))


@pytest.mark.parametrize("kind", ["sasl_plain", "scram_tls", pytest.param("scram", marks=pytest.mark.proof)])
async def test_a_wrong_password_is_said_and_not_shown(
    secured: dict[str, Kafka], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await refused(secured[kind].url(password="wr0ng-secret"))
    assert "refused the login" in str(error)
    assert "wr0ng-secret" not in str(error) + error.hint + caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_unknown_kind_of_login_is_said(secured: dict[str, Kafka]) -> None:
    assert "refused the login" in str(await refused(secured["scram_tls"].url(sasl="plain")))


async def test_a_certificate_of_a_stranger_is_refused(secured: dict[str, Kafka], tmp_path: Path) -> None:
    stranger = authority(tmp_path, "stranger")
    url = secured["scram_tls"].url().replace(str(secured["scram_tls"].ca), str(stranger))
    error = await refused(url)
    assert "not to be trusted" in str(error)
    assert "sslrootcert" in error.hint
    await reach(at(url.replace("verify-full", "require")))  # which is what that mode is for


async def test_a_host_that_is_not_in_the_certificate_is_refused(secured: dict[str, Kafka]) -> None:
    error = await refused(secured["scram_tls"].url().replace("127.0.0.1", "0.0.0.0"))  # leads there, and is not in it
    assert "not to be trusted" in str(error)
    assert "0.0.0.0" in str(error)
    await reach(at(secured["scram_tls"].url().replace("127.0.0.1", "localhost")))
    await reach(at(secured["scram_tls"].url().replace("127.0.0.1", "0.0.0.0").replace("verify-full", "verify-ca")))


async def test_plain_text_at_an_encrypted_listener(secured: dict[str, Kafka]) -> None:
    error = await refused(f"kafka://{secured['scram_tls'].bootstrap}/")
    assert "ended the conversation" in str(error)
    assert "sslmode" in error.hint


async def test_encryption_at_a_plain_listener(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_MS", 500)  # such a broker waits for the rest of the request
    error = await refused(f"kafka://{kafka.bootstrap}/?sslmode=require")
    assert "no answer in time" in str(error)
    assert "is that listener encrypted?" in error.hint


async def test_no_login_where_one_is_wanted(secured: dict[str, Kafka]) -> None:
    error = await refused(f"kafka://{secured['sasl_plain'].bootstrap}/")
    assert "ended the conversation" in str(error)
    assert "sasl" in error.hint


async def test_nobody_there() -> None:
    error = await refused(f"kafka://127.0.0.1:{free_port()}/")
    assert "cannot be reached" in str(error)


async def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "none.pem"):
        with pytest.raises(LogError, match="cannot be used"):
            client_options(parse(f"kafka://h/?sslrootcert={name}", tmp_path))


def test_a_feed_without_kafka_has_no_client() -> None:
    with pytest.raises(LogError, match="embedded"):
        client_options(None)


async def shown(endpoint: Endpoint, feed: str, partitions: int) -> Topics:
    """Once the broker shows what its controller has done."""
    async with asyncio.timeout(30.0):
        while (there := await look(endpoint, feed)).changes is None or there.changes.partitions != partitions:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return there


async def test_topics_are_made_once_and_only_grow(kafka: Kafka) -> None:
    endpoint = at(kafka.url())
    there = await look(endpoint, "grow")
    assert (there.changes, there.control, there.brokers) == (None, None, 1)
    for partitions, then in ((2, 2), (3, 3), (1, 3)):
        await ensure(endpoint, "grow", partitions)
        there = await shown(endpoint, "grow", then)
    assert there.changes is not None and there.control is not None
    assert (there.changes.name, there.changes.partitions) == ("tidelock.grow.changes", 3)
    assert (there.control.name, there.control.partitions) == ("tidelock.grow.control", 1)
    for topic, wanted in ((there.changes, topics.CHANGES), (there.control, topics.CONTROL)):
        assert {name: topic.settings[name] for name in wanted} == wanted
        assert topic.replicas == 1


async def test_settings_that_someone_changed_stay(kafka: Kafka) -> None:
    kafka.create_topic(changes_topic("kept"), 2, retention_ms=1234)
    await ensure(at(kafka.url()), "kept", 1)
    assert kafka.topic_settings(changes_topic("kept"))["retention.ms"] == "1234"
    assert kafka.topics()[control_topic("kept")] == 1


async def test_a_password_in_the_clear_is_warned_of(secured: dict[str, Kafka]) -> None:
    server = secured["sasl_plain"]
    ends = "source: mysql://u:p@h\ntarget: mysql://u:p@h\ntables: [{source: a.*}]"
    text = f"feed: clear\n{ends}\nlog: {server.url()}\n"
    findings = await check_log.check_log(read(text, Path("shop.yaml")))
    (finding,) = (one for one in findings if one.kind != "log-one-broker")
    assert (finding.level, finding.kind) == ("warning", "log-password")
    assert server.password not in str(finding) and "***" in finding.message
