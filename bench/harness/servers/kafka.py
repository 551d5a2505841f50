"""Kafka: one broker that is its own controller (KRaft), from the locked jars.

Three listeners: CLIENT with the wanted security, INTERNAL without any (the broker to itself, and our administration),
CONTROLLER.  All are on loopback.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from bench.harness.servers.certificates import authority, server_certificate
from bench.harness.servers.kafka_broker import PROTOCOLS, Broker, Security
from bench.harness.servers.kafka_jars import java, kafka_jars, kafka_version
from bench.harness.servers.kafka_recovery import crashed, fence
from bench.harness.servers.place import free_port, run, template
from bench.harness.servers.process import START_SECONDS, Process, ServerFailed

HEAP = "512m"
CLUSTER = "tidelockAAAAAAAAAAAAAA"  # any UUID in base64; each broker is alone
JVM = [f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"
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


class Kafka(Process, Broker):
    """Killed, it takes 5 s to come back: see `kafka_recovery`.

    `extra` are settings of the broker, `name=value`."""

    scheme = "kafka"
    accounts = ()
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL  # keeps nothing outside its folder

    def __init__(self, extra: Sequence[str] = (), *, security: Security = "plain") -> None:
        Process.__init__(self, extra)
        Broker.__init__(self, self.port, f"{self.host}:{free_port()}", security, self.folder / "ca.pem")
        self._controller = f"{self.host}:{free_port()}"

    def start(self) -> None:
        if crashed(self.data):
            java = self._java("kafka.Kafka", "info")
            said = fence(java, self.data, self._controller, self.account, START_SECONDS)
            if said:
                raise ServerFailed(f"{self.scheme} on port {self.port} could not be fenced.\n{said}")
        super().start()

    def _probe(self) -> None:
        for address in (self.bootstrap, self.internal):  # aiokafka logs each refusal
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
            f"listeners=CLIENT://{self.bootstrap},INTERNAL://{self.internal},CONTROLLER://{self._controller}",
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
