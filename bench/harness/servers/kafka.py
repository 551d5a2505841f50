"""Kafka: one broker that is its own controller (KRaft), from the locked jars.

Three listeners: CLIENT with the wanted security, INTERNAL without any (the broker to itself, and our administration),
CONTROLLER.  All are on loopback.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from bench.harness.servers.certificates import authority, server_certificate
from bench.harness.servers.kafka_jars import java, kafka_jars, kafka_version
from bench.harness.servers.kafka_recovery import crashed, fence
from bench.harness.servers.place import free_port, run, template
from bench.harness.servers.process import START_SECONDS, Process, ServerFailed

Security: TypeAlias = Literal["plain", "sasl_plain", "scram", "tls", "scram_tls"]
Result = TypeVar("Result")

SHOWN_SECONDS = 30.0
HEAP = "512m"
CLUSTER = "tidelockAAAAAAAAAAAAAA"  # any UUID in base64; each broker is alone
JVM = [f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"
PROTOCOLS: dict[Security, tuple[str, tuple[str, ...]]] = {
    "plain": ("PLAINTEXT", ()),
    "sasl_plain": ("SASL_PLAINTEXT", ("PLAIN",)),
    "scram": ("SASL_PLAINTEXT", ("SCRAM-SHA-256", "SCRAM-SHA-512")),
    "tls": ("SSL", ()),
    "scram_tls": ("SASL_SSL", ("SCRAM-SHA-256", "SCRAM-SHA-512")),
}
SETTINGS = """\
process.roles=broker,controller
node.id=1
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
message.max.bytes=16777216
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
metadata.max.idle.interval.ms=0
"""
# With the last one a controller that has nothing to do does not write records all the time, half of what a broker costs
# at rest.


class Kafka(Process):
    """Killed, it takes 5 s to come back: see `kafka_recovery`.

    `extra` are settings of the broker, `name=value`.  `ca` is the authority's certificate (TLS only)."""

    scheme = "kafka"
    accounts = ()
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL  # keeps nothing outside its folder
    user = "tidelock"
    password = "p@ss/w%rd"

    def __init__(self, extra: Sequence[str] = (), *, security: Security = "plain") -> None:
        super().__init__(extra)
        self.security = security
        self.ca = self.folder / "ca.pem"
        self._internal = f"{self.host}:{free_port()}"
        self._controller = f"{self.host}:{free_port()}"

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, user: str | None = None, password: str | None = None, *, sasl: str | None = None) -> str:
        """The URL for a feed; without `user` the one that the broker knows, where it wants one.

        `sasl`: the mechanism as the URL spells it, by default the last (strongest) that the broker has.
        """
        protocol, mechanisms = PROTOCOLS[self.security]
        login, options = "", []
        if "SSL" in protocol:
            options += ["sslmode=verify-full", f"sslrootcert={quote(str(self.ca))}"]
        if mechanisms:
            login = f"{quote(user or self.user, safe='')}:{quote(password or self.password, safe='')}@"
            options.append(f"sasl={sasl or mechanisms[-1].lower()}")
        return f"kafka://{login}{self.bootstrap}/" + (f"?{'&'.join(options)}" if options else "")

    def create_topic(self, name: str, partitions: int = 1, **configs: Any) -> None:
        """`configs` with underscores for dots: `retention_ms=1000`.  Raises what aiokafka raises."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}

        async def create(admin: AIOKafkaAdminClient) -> None:
            answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=named)])
            ((_, code, message),) = answer.topic_errors
            if code:
                raise for_code(code)(message)

        self.admin(create)
        self._until(lambda: name in self.topics(), f"topic {name}")

    def delete_topic(self, name: str) -> None:
        async def delete(admin: AIOKafkaAdminClient) -> None:
            ((_, code),) = (await admin.delete_topics([name])).topic_error_codes
            if code:
                raise for_code(code)(name)

        self.admin(delete)
        self._until(lambda: name not in self.topics(), f"the end of topic {name}")

    def delete_records(self, topic: str, partition: int) -> None:
        """Cut off all that the partition holds now, as retention would."""

        async def delete(admin: AIOKafkaAdminClient) -> None:
            await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(-1)})

        self.admin(delete)

    def _until(self, true: Callable[[], bool], what: str) -> None:
        """The controller answers before its broker knows.  Raises ServerFailed where that does not follow."""
        deadline = time.monotonic() + SHOWN_SECONDS
        while not true():
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.scheme} on port {self.port} did not show {what} in {SHOWN_SECONDS:.0f} s")
            time.sleep(0.02)

    def topics(self) -> dict[str, int]:
        """Name: number of partitions, without Kafka's own."""

        async def ask(admin: AIOKafkaAdminClient) -> dict[str, int]:
            found = await admin.describe_topics()
            return {t["topic"]: len(t["partitions"]) for t in found if not t["is_internal"]}

        return self.admin(ask)

    def topic_settings(self, name: str) -> dict[str, str]:
        """Read the settings that hold for a topic, the broker's defaults included."""

        async def ask(admin: AIOKafkaAdminClient) -> dict[str, str]:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            return {entry[0]: entry[1] for entry in answer.resources[0][4]}

        return self.admin(ask)

    def admin(self, work: Callable[[AIOKafkaAdminClient], Awaitable[Result]]) -> Result:
        """Do `work` as the administrator; also where an event loop runs already."""

        async def connected() -> Result:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._internal)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        with ThreadPoolExecutor(1, "kafka admin") as pool:
            return pool.submit(asyncio.run, connected()).result()

    def start(self) -> None:
        if crashed(self.data):
            java = self._java("kafka.Kafka", "info")
            said = fence(java, self.data, self._controller, self.account, START_SECONDS)
            if said:
                raise ServerFailed(f"{self.scheme} on port {self.port} could not be fenced.\n{said}")
        super().start()

    def _probe(self) -> None:
        for address in (self.bootstrap, self._internal):  # aiokafka logs each refusal
            host, _, port = address.partition(":")
            socket.create_connection((host, int(port)), timeout=1).close()
        self.topics()

    def _template(self) -> Path:
        return template(f"kafka-{kafka_version()}", self.account, self._format)

    def _format(self, data: Path) -> None:
        """An empty data folder that knows our user under every SCRAM mechanism."""
        settings = data.parent / "format.properties"
        settings.write_text(self._settings(data))
        users = [
            word
            for mechanism in PROTOCOLS["scram"][1]
            for word in ("--add-scram", f"{mechanism}=[name={self.user},password={self.password}]")
        ]
        run(
            [*self._java("kafka.tools.StorageTool"), "format", "-t", CLUSTER, "-c", str(settings), *users],
            self.account,
            data.parent,
        )

    def _prepare(self) -> None:
        super()._prepare()
        if "SSL" in PROTOCOLS[self.security][0]:
            server_certificate(self.folder, authority(self.folder))
        (self.folder / "server.properties").write_text(self._settings(self.data))

    def _settings(self, data: Path) -> str:
        protocol, mechanisms = PROTOCOLS[self.security]
        lines = [
            f"listeners=CLIENT://{self.bootstrap},INTERNAL://{self._internal},CONTROLLER://{self._controller}",
            f"controller.quorum.voters=1@{self._controller}",
            f"listener.security.protocol.map=CLIENT:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={data}",
        ]
        if mechanisms:
            lines += [f"sasl.enabled.mechanisms={','.join(mechanisms)}", *map(self._login, mechanisms)]
        if "SSL" in protocol:
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.folder / 'server.pem'}"]
        return SETTINGS + "\n".join([*lines, *self.extra]) + "\n"

    def _login(self, mechanism: str) -> str:
        kind, users = ("plain.Plain", f' user_{self.user}="{self.password}"')
        if mechanism != "PLAIN":
            kind, users = ("scram.Scram", "")  # its users are in the data
        module = f"org.apache.kafka.common.security.{kind}LoginModule"
        return f"listener.name.client.{mechanism.lower()}.sasl.jaas.config={module} required{users};"

    def _java(self, main: str, level: str = "warn") -> list[str]:
        return [java(), *JVM, f"{LOG_LEVEL}={level}", "-cp", f"{kafka_jars()}/*", main]

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self.folder / "server.properties")]
