"""The broker that the tests of a scaled-out feed stand on: it starts, ends, comes back and leaves nothing behind."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.harness.rig import until
from bench.harness.servers import ServerFailed, ServerMissing, install, kafka_jars
from bench.harness.servers.kafka import Kafka
from bench.harness.servers.shared_kafka import shared_kafka

LEAVES = """
import os, signal
from bench.harness.servers.kafka import Kafka
server = Kafka()
server.start()
print(server.pid, server.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def gone(pid: int) -> bool:
    """Tells whether the process has ended; one that nobody reaps (no init in a container) has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def write(kafka: Kafka, topic: str, *values: bytes) -> None:
    """In one transaction."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"{topic}-writer")
    await producer.start()
    try:
        async with producer.transaction():
            for value in values:
                await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def read(kafka: Kafka, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.proof
async def test_committed_records_and_topics_survive_restart_and_kill_on_the_same_port(
    make_kafka: Callable[..., Kafka],
) -> None:
    kafka = make_kafka()
    kafka.create_topic("log", 1, retention_ms=-1)
    bootstrap, pids = kafka.bootstrap, [kafka.pid]
    await write(kafka, "log", b"one")
    kafka.restart()
    pids.append(kafka.pid)
    await write(kafka, "log", b"two")
    kafka.kill()  # which leaves a transaction to be ended
    kafka.start()
    assert all(map(gone, pids)) and kafka.pid not in pids
    assert kafka.bootstrap == bootstrap
    assert kafka.topics() == {"log": 1}
    assert kafka.topic_settings("log")["retention.ms"] == "-1"
    assert await read(kafka, "log", 2) == [b"one", b"two"]
    last = kafka.pid
    kafka.close()
    assert gone(last) and not kafka.folder.exists()


def test_topics_are_made_only_on_purpose(kafka: Kafka) -> None:
    kafka.create_topic("on-purpose", 3)
    assert kafka.topics()["on-purpose"] == 3
    kafka.delete_topic("on-purpose")
    assert "on-purpose" not in kafka.topics()


@pytest.mark.proof
def test_one_for_all_who_name_its_folder_ends_with_the_last_of_them(tmp_path: Path) -> None:
    with shared_kafka(tmp_path) as one:
        with shared_kafka(tmp_path) as other:
            assert other.bootstrap == one.bootstrap
        one.create_topic("kept")
        assert one.topics() == {"kept": 1}

    def over() -> bool:
        with socket.socket() as asking:
            return asking.connect_ex((one.host, one.port)) != 0

    until(over, "the end of the broker")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keeper.log", "starting", "users"]


@pytest.mark.proof
def test_nothing_outlives_a_killed_owner() -> None:
    owner = subprocess.run(
        [sys.executable, "-c", LEAVES],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    pid, folder = owner.stdout.split()
    deadline = time.monotonic() + 30
    while not gone(int(pid)) or os.path.exists(folder):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_broker_that_cannot_start_says_why() -> None:
    kafka = Kafka(extra=["process.roles=waiter"])
    with pytest.raises(ServerFailed, match="waiter"):
        kafka.start()
    kafka.close()
    assert not kafka.folder.exists()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDELOCK_CACHE", str(tmp_path))
    return tmp_path


def test_jars_that_are_not_the_locked_ones_are_fetched_anew(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TIDELOCK_CACHE")
    locked = kafka_jars.kafka_jars()
    monkeypatch.setenv("TIDELOCK_CACHE", str(empty_cache))
    wrong = empty_cache / locked.name
    shutil.copytree(locked, wrong)
    next(wrong.glob("kafka-clients-*.jar")).write_bytes(b"another")
    with pytest.raises(ServerMissing, match=r"not those of kafka\.sha256: kafka-clients-[\d.]+\.jar"):
        kafka_jars.kafka().verified()
    fetched = []

    def fetch() -> None:
        fetched.append(True)
        shutil.rmtree(wrong)
        shutil.copytree(locked, wrong)

    recipe = install.RECIPES["kafka"]._replace(fetch=fetch)
    monkeypatch.setitem(install.RECIPES, "kafka", recipe)
    for _ in range(2):
        assert install.main(["kafka"]) == 0
    assert fetched == [True]
    assert f"servers: kafka at {wrong}" in capfd.readouterr().out


def test_without_the_jars_the_fixture_says_what_fetches_them(empty_cache: Path) -> None:
    with pytest.raises(ServerMissing, match="make servers"):
        Kafka().start()
