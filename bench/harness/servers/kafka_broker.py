"""A running broker of Kafka as tests ask it, whoever has started it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from bench.harness.servers.place import HOST
from bench.harness.servers.process import ServerFailed

Security: TypeAlias = Literal["plain", "sasl_plain", "scram", "tls", "scram_tls"]
Result = TypeVar("Result")

SHOWN_SECONDS = 30.0
PROTOCOLS: dict[Security, tuple[str, tuple[str, ...]]] = {
    "plain": ("PLAINTEXT", ()),
    "sasl_plain": ("SASL_PLAINTEXT", ("PLAIN",)),
    "scram": ("SASL_PLAINTEXT", ("SCRAM-SHA-256", "SCRAM-SHA-512")),
    "tls": ("SSL", ()),
    "scram_tls": ("SASL_SSL", ("SCRAM-SHA-256", "SCRAM-SHA-512")),
}


class Broker:
    """`ca` is the authority's certificate (TLS only).  `internal`: a listener without security, as `HOST:PORT`."""

    user = "tidelock"
    password = "p@ss/w%rd"
    host = HOST

    def __init__(self, port: int, internal: str, security: Security = "plain", ca: Path = Path()) -> None:
        self.port, self.internal, self.security, self.ca = port, internal, security, ca

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

    def set_topic(self, name: str, **configs: Any) -> None:
        """`configs` with underscores for dots.  Settings that are not named get the broker's defaults."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}

        async def alter(admin: AIOKafkaAdminClient) -> None:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, named)])

        self.admin(alter)

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
                raise ServerFailed(f"kafka on port {self.port} did not show {what} in {SHOWN_SECONDS:.0f} s")
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

    def members(self, group: str) -> list[str]:
        """Ids of a consumer group's members; that of one with a name of its own begins with the name."""

        async def ask(admin: AIOKafkaAdminClient) -> list[str]:
            (answer,) = await admin.describe_consumer_groups([group])
            return [member[0] for found in answer.groups for member in found[5]]

        return self.admin(ask)

    def admin(self, work: Callable[[AIOKafkaAdminClient], Awaitable[Result]]) -> Result:
        """Do `work` as the administrator; also where an event loop runs already."""

        async def connected() -> Result:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.internal)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        with ThreadPoolExecutor(1, "kafka admin") as pool:
            return pool.submit(asyncio.run, connected()).result()
