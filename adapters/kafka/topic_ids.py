"""Asks a broker for the ids of topics: a topic that was deleted and made anew has the same name and another id.

aiokafka speaks the metadata of Kafka 1.0; ids are in that of Kafka 2.8 and later (version 10 of the request).  A broker
without them answers nothing here: then only a topic's shape tells whether it is the one that it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

METADATA: Final = 3
VERSION: Final = 10
_NO_ID: Final = bytes(16)


class _Id:
    """The 16 bytes of an id, as the protocol's types are: encoded and decoded."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _TopicIdsResponse(Response):  # type: ignore[misc]
    API_KEY = METADATA
    API_VERSION = VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", _Id),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _TopicIdsRequestV10(RequestStruct):  # type: ignore[misc]
    API_KEY = METADATA
    API_VERSION = VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _TopicIdsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Id), ("topic", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicIdsRequest(Request[_TopicIdsRequestV10]):  # type: ignore[misc]
    API_KEY = METADATA

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)

    def build(self, request_struct_class: type[_TopicIdsRequestV10]) -> _TopicIdsRequestV10:
        topics: list[Any] = [(_NO_ID, name, {}) for name in self._names]
        return request_struct_class(topics, False, False, False, {})


async def ids_of(admin: AIOKafkaAdminClient, names: Iterable[str]) -> dict[str, str]:
    """Returns the ids of topics that there are, by name; none where the broker has none.  Raises KafkaError."""
    try:
        answer: Any = await admin._send_request(_TopicIdsRequest(names))
    except NotImplementedError:  # said by aiokafka of a broker that speaks no version of ours
        return {}
    found = {}
    for code, name, id_, *_ in answer.topics:
        if not code and id_ != _NO_ID:
            found[name] = str(uuid.UUID(bytes=id_))
    return found
