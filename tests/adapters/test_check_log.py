"""`check` and `init` of a feed whose log is in Kafka: what would go wrong is said beforehand, with what mends it."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from bench.harness.numbers import numbers
from bench.harness.rig import until
from bench.harness.servers import MariaDb, Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.servers.kafka_broker import SHOWN_SECONDS, Broker
from bench.harness.servers.kafka_jars import java, kafka_jars
from bench.harness.servers.place import free_port
from tidelock.adapters.checks import log as check_log
from tidelock.adapters.checks.feed import check
from tidelock.adapters.cli import command
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load, read
from tidelock.adapters.kafka.control import SeenControl
from tidelock.adapters.kafka.topics import CHANGES, CONTROL, Topic, Topics, changes_topic, control_topic, ensure
from tidelock.adapters.ports.finding import Finding

NAMES = numbers()
SUPER = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",  # the broker itself, and our administrator
]
OPERATIONS = {"Describe": 8, "DescribeConfigs": 10}


def feed_at(url: str, options: str = "", name: str = "") -> Feed:
    text = (
        f"feed: {name or f'log{next(NAMES)}'}\nsource: mysql://u:p@h\ntarget: mysql://u:p@h\n"
        f"tables: [{{source: a.*}}]\nlog: {url}\n{options}"
    )
    return read(text, Path("shop.yaml"))


async def found(feed: Feed) -> list[Finding]:
    """Without the note about a single broker, which all of ours are."""
    return [f for f in await check_log.check_log(feed) if f.kind != "log-one-broker"]


async def nothing_is_found(feed: Feed) -> None:
    """Waits until what was changed shows: the controller answers before its broker knows."""
    left = await found(feed)
    deadline = time.monotonic() + SHOWN_SECONDS
    while left and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        left = await found(feed)
    assert left == []


async def make_topics(feed: Feed, server: Broker, partitions: int) -> None:
    """Makes them as a worker does, and returns when all of them show."""
    await ensure(feed.log_url, feed.name, partitions)
    made = {changes_topic(feed.name): partitions, control_topic(feed.name): 1}
    until(lambda: made.items() <= server.topics().items(), f"the topics {made}")


async def only(feed: Feed, level: str, kind: str) -> Finding:
    (finding,) = await found(feed)
    assert (finding.level, finding.kind) == (level, kind), finding
    return finding


def run_hint(finding: Finding, server: Kafka) -> None:
    """Does what the command would: Kafka's configuration tool, for lack of the others a reading of their words."""
    tool, *words = finding.hint.split()
    assert words[:2] == ["--bootstrap-server", server.bootstrap]
    given = dict(itertools.pairwise(words))
    match tool:
        case "kafka-configs.sh":
            words = [java(), "-cp", f"{kafka_jars()}/*", "kafka.admin.ConfigCommand", *words]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        case "kafka-topics.sh":
            assert "--create" in words and given["--replication-factor"] == "1"
            configs = dict(word.split("=") for option, word in itertools.pairwise(words) if option == "--config")
            server.create_topic(given["--topic"], int(given["--partitions"]), **underscored(configs))
        case "kafka-acls.sh":
            assert "--add" in words
            allow(server, given["--allow-principal"], given["--operation"], given["--topic"])


def underscored(configs: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in configs.items()}


def allow(server: Kafka, principal: str, operation: str, topic: str) -> None:
    """Resource type 2: a topic; pattern 3: by its whole name; permission 3: allowed (Kafka's protocol, CreateAcls)."""
    rule = (2, topic, 3, principal, "*", OPERATIONS[operation], 3)
    answer = server.admin(lambda admin: admin._send_to_controller(CreateAclsRequest(*rule)))
    assert [code for code, _ in answer.creation_responses] == [0], answer
    shown = DescribeAclsRequest(*rule)
    until(lambda: bool(server.admin(lambda admin: admin._send_to_controller(shown)).resources), "the rule")


async def test_a_log_that_is_not_there_yet_can_be_made(kafka: Kafka) -> None:
    assert await found(feed_at(kafka.url())) == []


async def test_nothing_to_say_about_what_we_made(kafka: Kafka) -> None:
    feed = feed_at(kafka.url(), "partitions: 3\n")
    await make_topics(feed, kafka, 3)
    assert await found(feed) == []


@pytest.mark.proof
async def test_looking_makes_no_topic(make_kafka: Callable[..., Kafka]) -> None:
    kafka = make_kafka(extra=["auto.create.topics.enable=true"])
    assert await found(feed_at(kafka.url())) == []
    assert kafka.topics() == {}


async def test_a_single_broker_is_worth_a_note(kafka: Kafka) -> None:
    (finding,) = await check_log.check_log(feed_at(kafka.url()))
    assert (finding.level, finding.kind) == ("note", "log-one-broker")


async def test_nobody_there() -> None:
    finding = await only(feed_at(f"kafka://127.0.0.1:{free_port()}"), "error", "log-unusable")
    assert "cannot be reached" in finding.message


WRONG_CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "compacted": ({"cleanup_policy": "compact"}, "error", "log-cleanup"),
    "deleted too soon": ({"retention_ms": 60_000}, "warning", "log-retention"),
    "deleted when large": ({"retention_bytes": 1_000_000}, "warning", "log-retention"),
    "small records": ({"max_message_bytes": 1_000_000}, "error", "log-message-size"),
}
GOOD = {"cleanup_policy": "delete", "retention_ms": -1, "max_message_bytes": 16 << 20}


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.proof] * (name != "compacted")) for name in WRONG_CHANGES]
)
async def test_wrong_settings_are_said_with_the_command_that_mends_them(kafka: Kafka, case: str) -> None:
    settings, level, kind = WRONG_CHANGES[case]
    feed = feed_at(kafka.url())
    await make_topics(feed, kafka, 1)
    kafka.delete_topic(changes_topic(feed.name))
    kafka.create_topic(changes_topic(feed.name), 1, **GOOD | settings)
    finding = await only(feed, level, kind)
    assert changes_topic(feed.name) in finding.message
    run_hint(finding, kafka)
    await nothing_is_found(feed)


async def test_a_control_topic_that_forgets_or_is_spread_is_refused(kafka: Kafka) -> None:
    feed = feed_at(kafka.url())
    kafka.create_topic(control_topic(feed.name), 2, cleanup_policy="delete", max_message_bytes=16 << 20)
    findings = await found(feed)
    assert [(f.level, f.kind) for f in findings] == [("error", "log-cleanup"), ("error", "log-partitions")]


async def test_partitions_are_never_taken_away(kafka: Kafka) -> None:
    feed = feed_at(kafka.url(), "partitions: 2\n")
    await make_topics(feed, kafka, 3)
    assert (await only(feed, "error", "log-partitions")).hint == "Set `partitions: 3`"
    assert await found(msgspec.structs.replace(feed, partitions=3)) == []


@pytest.fixture(scope="module")
def strict() -> Iterator[Kafka]:
    """A broker that lets our user in and then allows it nothing."""
    with Kafka(extra=SUPER, security="scram") as server:
        yield server


@pytest.mark.proof
async def test_an_account_without_rights_cannot_make_topics(strict: Kafka) -> None:
    feed = feed_at(strict.url())
    findings = await found(feed)
    assert [(f.level, f.kind) for f in findings] == [("error", "log-topic")] * 2
    for finding in findings:
        assert "Authorization failed" in finding.message
        run_hint(finding, strict)
    assert {changes_topic(feed.name), control_topic(feed.name)} <= strict.topics().keys()


@pytest.mark.proof
async def test_hidden_settings_are_not_passed_over_in_silence(strict: Kafka) -> None:
    feed = feed_at(strict.url())
    for name, settings in ((changes_topic(feed.name), CHANGES), (control_topic(feed.name), CONTROL)):
        strict.create_topic(name, 1, **underscored(settings))
        allow(strict, f"User:{strict.user}", "Describe", name)
    findings = await found(feed)
    assert [(f.level, f.kind) for f in findings] == [("note", "log-settings")] * 2
    for finding in findings:
        run_hint(finding, strict)
    await nothing_is_found(feed)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (Topics(None, None, 3, {}, False), []),
        (Topics(Topic("c", 1, 1, CHANGES), Topic("d", 1, 3, CONTROL), 3, {}, True), [("warning", "log-replicas")]),
        (
            Topics(None, None, 2, {"transaction.state.log.replication.factor": "3"}, False),
            [("error", "log-transactions")],
        ),
        (Topics(None, None, 2, {"transaction.state.log.replication.factor": "3"}, True), []),
        (Topics(None, None, 2, {"transaction.state.log.min.isr": "3"}, False), [("error", "log-transactions")]),
    ],
)
async def test_several_brokers(
    monkeypatch: pytest.MonkeyPatch, topics: Topics, expected: list[tuple[str, str]]
) -> None:
    async def look(*_: object) -> Topics:
        return topics

    async def refused(*_: object) -> dict[str, str]:
        return {}

    async def read(*_: object) -> SeenControl:
        return SeenControl()

    monkeypatch.setattr(check_log, "look", look)
    monkeypatch.setattr(check_log, "read", read)
    monkeypatch.setattr(check_log, "refused", refused)
    findings = await check_log.check_log(feed_at("kafka://h"))
    assert [(f.level, f.kind) for f in findings] == expected


# ------------------------------------------------------------------------------------------------- the commands


@pytest.fixture
def path(kafka: Kafka, mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> Path:
    source, database = mariadb.database("log"), postgres.database("log")
    mariadb.execute("CREATE TABLE account (id int PRIMARY KEY)", database=source)
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"feed: cli{next(NAMES)}\nsource: {mariadb.url()}\ntarget: {postgres.url(database)}\n"
        f"tables: [{{source: {source}.*, target: public.*}}]\nlog: {kafka.url()}\npartitions: 2\n"
    )
    return path


def tidelock(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = command(words)
    said = capsys.readouterr()
    return code, said.out + said.err


def test_init_makes_the_topics_and_check_is_content(
    path: Path, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = load(path)
    code, said = tidelock(capsys, "init", str(path))
    assert code == 0
    assert f"-- log: topic {changes_topic(feed.name)}\n-- kafka-topics.sh" in said
    assert changes_topic(feed.name) not in kafka.topics(), "init alone only prints"
    code, said = tidelock(capsys, "init", str(path), "--apply")
    assert (code, "2 topics made in Kafka" in said) == (0, True), said
    topics = kafka.topics()
    assert (topics[changes_topic(feed.name)], topics[control_topic(feed.name)]) == (2, 1)
    code, said = tidelock(capsys, "check", str(path))
    assert (code, "can run (1 note)" in said) == (0, True), said
    code, said = tidelock(capsys, "init", str(path), "--apply")
    assert (code, "nothing is missing" in said) == (0, True), said


async def test_check_judges_the_log_also_where_the_sides_are_away() -> None:
    away = f"127.0.0.1:{free_port()}"
    text = f"feed: a\nsource: mysql://u:p@{away}\ntarget: mysql://u:p@{away}\ntables: [{{source: a.*}}]\n"
    report = await check(read(f"{text}log: kafka://{away}\n", Path("shop.yaml")))
    assert [f.kind for f in report.errors] == ["source-unreachable", "target-unreachable", "log-unusable"]


def test_run_names_the_command_that_a_log_in_kafka_needs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = tidelock(capsys, "run", str(path))
    assert (code, "tidelock worker FEED" in said) == (2, True), said
