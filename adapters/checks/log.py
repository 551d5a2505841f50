"""Checks the log in Kafka: brokers, rights, topics, transactions.  Nothing is written."""

from __future__ import annotations

import shlex

import msgspec

from tidelock.adapters.checks.unread import check_unread
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import SeenControl, read
from tidelock.adapters.kafka.topic_identity import replaced
from tidelock.adapters.kafka.topics import (
    CHANGES,
    CONTROL,
    MESSAGE_BYTES,
    RETENTION_MS,
    Topic,
    Topics,
    changes_topic,
    control_topic,
    look,
    refused,
)
from tidelock.adapters.operator.known_target import StrangeTarget, require_known
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.ports.sink import TargetError

LEAST_RETENTION_MS = 86_400_000


class MissingTopic(msgspec.Struct, frozen=True):
    """A topic that does not exist.  `command` makes it.  `refusal`: the broker's reason why we may not, '' if we may.
    """

    name: str
    command: str
    refusal: str = ""


async def check_log(feed: Feed) -> list[Finding]:
    """Lists what keeps the feed's log from being written and read."""
    place = feed.log_url
    if place is None:
        return []
    try:
        topics = await look(place, feed.name)
        missing = await missing_topics(feed, topics)
        seen = await read(feed) if topics.control is not None else SeenControl()
        instead = replaced(topics.changes, seen)
        unread: list[Finding] = []
        if topics.changes is not None and seen.plan is not None and instead is None:
            unread = await check_unread(feed, topics.changes, seen)
    except LogError as problem:
        return [error("log-unusable", str(problem), problem.hint)]
    return [
        *_check_login(place),
        *await _check_target(feed, seen),
        *(_check_lost(feed, place, instead) if instead is not None else ()),
        *unread,
        *_check_cluster(place, topics),
        *(
            error(
                "log-topic",
                f"{place} has no topic {topic.name}, and refuses to make it: {topic.refusal}",
                topic.command,
            )
            for topic in missing
            if topic.refusal
        ),
        *(_check_changes(feed, place, topics.changes) if topics.changes else ()),
        *(_check_control(place, topics.control) if topics.control else ()),
        *(f for topic in (topics.changes, topics.control) if topic for f in _check_topic(place, topic, topics.brokers)),
    ]


async def missing_topics(feed: Feed, topics: Topics) -> list[MissingTopic]:
    """Lists missing topics with the commands that make them.  Raises LogError."""
    assert feed.log_url is not None, "only a log in Kafka has topics"
    partitions = first_partitions(feed)
    refusals = await refused(feed.log_url, feed.name, partitions)
    wanted = (
        (topics.changes, changes_topic(feed.name), partitions, CHANGES),
        (topics.control, control_topic(feed.name), 1, CONTROL),
    )
    return [
        MissingTopic(name, _create(feed.log_url, name, number, topics, settings), refusals.get(name, ""))
        for there, name, number, settings in wanted
        if there is None
    ]


def first_partitions(feed: Feed) -> int:
    """Returns the number of partitions of a new changes topic; the coordinator adds more once it knows the groups."""
    return max(1, feed.partitions)


async def _check_target(feed: Feed, seen: SeenControl) -> list[Finding]:
    """Finds a target that is not the log's.  One that is away is found by those who look at targets."""
    try:
        await require_known(feed, seen)
    except StrangeTarget as strange:
        return [error("log-of-another", str(strange), strange.hint)]
    except TargetError:
        return []
    return []


def _check_lost(feed: Feed, place: Endpoint, instead: str) -> list[Finding]:
    return [
        error(
            "log-lost",
            f"{place}: the changes topic {changes_topic(feed.name)} is gone, with all that it held{instead}",
            "Start a worker if none runs: it halts, and `tidelock status FEED` says whether `tidelock resume FEED` can "
            "publish again from the checkpoint, or what else helps",
        )
    ]


def _check_login(place: Endpoint) -> list[Finding]:
    if place.options.get("sasl") != "plain" or place.ssl_mode != "disable":
        return []
    return [
        warning(
            "log-password",
            f"the password goes to {place} in the clear",
            "Use sasl=scram-sha-512, or an encrypted listener: sslmode=verify-full",
        )
    ]


def _check_cluster(place: Endpoint, topics: Topics) -> list[Finding]:
    findings = []
    for name in ("transaction.state.log.replication.factor", "transaction.state.log.min.isr"):
        needed = int(topics.broker_settings.get(name, "0"))
        if not topics.transactions and needed > topics.brokers:
            findings.append(
                error(
                    "log-transactions",
                    f"{place} cannot run transactions: {name}={needed} with {_counted(topics.brokers)}",
                    f"Set {name}={topics.brokers} in server.properties and restart, or add brokers",
                )
            )
    if topics.brokers == 1:
        findings.append(
            note(
                "log-one-broker",
                f"{place} is a single broker; killed while ending a transaction, it may leave readers waiting for ever",
                "Use three brokers and three replicas where the feed must survive that",
            )
        )
    return findings


def _check_changes(feed: Feed, place: Endpoint, topic: Topic) -> list[Finding]:
    findings = _wrong_policy(place, topic, CHANGES)
    retention = int(topic.settings.get("retention.ms", "-1"))
    if 0 <= retention < LEAST_RETENTION_MS:
        findings.append(
            warning(
                "log-retention",
                f"{topic.name} at {place} is deleted after {retention // 1000} s; workers that are stopped for "
                "longer than that lose changes",
                _alter(place, topic.name, {"retention.ms": str(RETENTION_MS)}),
            )
        )
    size = int(topic.settings.get("retention.bytes", "-1"))
    if size >= 0:
        findings.append(
            warning(
                "log-retention",
                f"{topic.name} at {place} is deleted beyond {size} bytes in a partition, applied or not",
                _alter(place, topic.name, {"retention.bytes": "-1"}),
            )
        )
    if 0 < feed.partitions < topic.partitions:
        findings.append(
            error(
                "log-partitions",
                f"{topic.name} at {place} has {topic.partitions} partitions, and Kafka never takes one away",
                f"Set `partitions: {topic.partitions}`",
            )
        )
    return findings


def _check_control(place: Endpoint, topic: Topic) -> list[Finding]:
    findings = _wrong_policy(place, topic, CONTROL)
    if topic.partitions != 1:
        findings.append(
            error(
                "log-partitions",
                f"{topic.name} at {place} has {topic.partitions} partitions instead of one",
                f"Stop all workers, then {_topics_command(place, topic.name)} --delete; the next one makes it anew",
            )
        )
    return findings


def _wrong_policy(place: Endpoint, topic: Topic, wanted: dict[str, str]) -> list[Finding]:
    policy = topic.settings.get("cleanup.policy", wanted["cleanup.policy"])
    if policy == wanted["cleanup.policy"]:
        return []
    return [
        error(
            "log-cleanup",
            f"{topic.name} at {place} has cleanup.policy={policy}; it needs {wanted['cleanup.policy']}",
            _alter(place, topic.name, {"cleanup.policy": wanted["cleanup.policy"]}),
        )
    ]


def _check_topic(place: Endpoint, topic: Topic, brokers: int) -> list[Finding]:
    findings = []
    if not topic.settings:
        findings.append(
            note(
                "log-settings",
                f"the settings of {topic.name} at {place} are hidden from {place.user or 'us'}, and not checked",
                f"kafka-acls.sh --bootstrap-server {place.servers[0]} --add --allow-principal "
                f"User:{place.user or 'ANONYMOUS'} --operation DescribeConfigs --topic {topic.name}",
            )
        )
    if 0 < int(topic.settings.get("max.message.bytes", "0")) < MESSAGE_BYTES:
        findings.append(
            error(
                "log-message-size",
                f"{topic.name} at {place} takes records of {topic.settings['max.message.bytes']} bytes; "
                f"a large row needs {MESSAGE_BYTES}",
                _alter(place, topic.name, {"max.message.bytes": str(MESSAGE_BYTES)}),
            )
        )
    if topic.replicas == 1 and brokers > 1:
        findings.append(
            warning(
                "log-replicas",
                f"{topic.name} at {place} is kept by only one of {_counted(brokers)}: with it the log is lost",
                f"kafka-reassign-partitions.sh --bootstrap-server {place.servers[0]} --execute "
                "--reassignment-json-file FILE  # with two or three replicas for each partition",
            )
        )
    return findings


def _create(place: Endpoint, name: str, partitions: int, topics: Topics, settings: dict[str, str]) -> str:
    given = " ".join(f"--config {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
    size = f"--partitions {partitions} --replication-factor {topics.default_replicas}"
    return f"{_topics_command(place, name)} --create {size} {given}"


def _topics_command(place: Endpoint, name: str) -> str:
    return f"kafka-topics.sh --bootstrap-server {place.servers[0]} --topic {name}"


def _alter(place: Endpoint, topic: str, settings: dict[str, str]) -> str:
    given = ",".join(f"{name}={value}" for name, value in settings.items())
    return (
        f"kafka-configs.sh --bootstrap-server {place.servers[0]} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {given}"
    )


def _counted(brokers: int) -> str:
    return "1 broker" if brokers == 1 else f"{brokers} brokers"
