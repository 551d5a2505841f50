"""The publisher process: the source's log → records of the partitions, in a process of its own.

Started as `python -m tidelock.adapters.workers.publisher_process FD SCHEME`, where SCHEME is that of the source's URL,
it waits on the socket FD for its `PublishOrder`, so that its start-up overlaps other work.  What happens, and in which
order:

1. The transactional producer starts, which fences any older publisher of the feed and ends its open transaction.
2. Only then is the log's end read: nobody can move it any more, and it says where the source is read on from.
3. A thread reads and decodes the source (`capturing`); this loop commits what it collected, one Kafka transaction
   after another.
4. After a statement it waits for `GoOn`; the end of the log tells a later process that one waits.

It holds no state, so every failure has one answer: it says why and ends, and the next one begins at 1.  A commit whose
answer was lost is decided there too.  It also ends when the other side closes the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from typing import Final

from tidelock.adapters.process import light_start  # noqa: F401  # isort: skip

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tidelock.adapters.kafka.connection import LogError, client_options, reach, stopped
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import WireError
from tidelock.adapters.ports.capture_messages import FAILED, FORMS, LOG, UNANSWERED, Failed, Learned, Unanswered
from tidelock.adapters.process.ending import ended
from tidelock.adapters.process.frames import receive
from tidelock.adapters.process.told_by_parent import parents_channel
from tidelock.adapters.wiring.sources import load_reader
from tidelock.adapters.workers.capturing import Capturing
from tidelock.adapters.workers.group_commit import FlushBuffer
from tidelock.adapters.workers.log_end import LogEnd, Short, Uneven, read_end
from tidelock.adapters.workers.parent import Parent, PublishReport
from tidelock.adapters.workers.producing import ANSWER_SECONDS, commit, explained, message_limit, producer_of, sees
from tidelock.adapters.workers.publisher_messages import SHORT, PublishOrder
from tidelock.engine.cluster.log_partitioner import LogPartitioner

# So that a record stays below 1 MiB where rows allow: values take up to four times the bytes that the binlog has.
RECORD_LOG_BYTES: Final = 256 << 10
CLOSE_SECONDS: Final = 1.0
SWITCH_SECONDS: Final = 0.0005  # the loop, which waits for answers, gets its turn beside the thread that decodes
_ORDER: Final = msgspec.msgpack.Decoder(PublishOrder)


def main() -> None:
    """Runs the process."""
    logging.disable(logging.CRITICAL)  # aiokafka logs each of its many tries; what matters is told to the parent
    sys.setswitchinterval(SWITCH_SECONDS)
    load_reader(sys.argv[2])
    with parents_channel() as channel:
        asyncio.run(_run(_ORDER.decode(receive(channel)), channel))


async def _run(order: PublishOrder, channel: socket.socket) -> None:
    """Publishes until something fails or the parent is gone; the last frame says why."""
    parent = await Parent.on(channel)
    publishing = asyncio.create_task(publish(order, parent))
    await asyncio.wait([publishing, parent.gone], return_when=asyncio.FIRST_COMPLETED)
    if publishing.done():
        parent.tell(FAILED, publishing.result())
        await parent.close()
    else:
        await ended(publishing)


async def publish(order: PublishOrder, parent: Parent) -> Failed:
    """Publishes, and returns why it ended."""
    try:
        await reach(order.log)
        kafka = client_options(order.log)
        limit = await message_limit(kafka, order.topic)
        producer = producer_of(kafka, order.transactional_id, limit)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await producer.start()  # from here on nobody else publishes
            await sees(producer, order.topic, order.plan.partitions)
            async with Places(kafka, order.topic, order.skipped, dict(enumerate(order.bases))) as places:
                end = await read_end(places, order.plan, order.capture.start, order.reached)
            return await _publish_from(end, order, parent, producer, limit)
        finally:
            await _close(producer)
    except (KafkaError, TimeoutError) as error:
        return explained(error)
    except LogError as error:
        return Failed(type(error).__name__, str(error), error.hint, retryable=True, at=LOG)
    except Short as error:
        return Failed(SHORT, str(error), "", retryable=False, at=LOG)
    except (Uneven, WireError) as error:
        return Failed(type(error).__name__, str(error), error.hint, retryable=False)


async def _publish_from(
    end: LogEnd, order: PublishOrder, parent: Parent, producer: AIOKafkaProducer, limit: int
) -> Failed:
    report = PublishReport(parent, end)
    report.send()
    plan = order.plan
    if end.statement is not None:
        plan = await parent.leave(end.position, end.statement)
        await sees(producer, order.topic, plan.partitions)
    source = order.capture.source
    buffer = FlushBuffer(
        LogPartitioner(plan, end.position),
        plan,
        f"{source.host}:{source.port}",
        limit,
        order.flush_bytes,
        order.flush_ms / 1e3,
        order.capture.cuts,
        order.topic,
    )
    capture = msgspec.structs.replace(
        order.capture, start=end.position, chunk_bytes=min(order.capture.chunk_bytes, RECORD_LOG_BYTES)
    )
    loop = asyncio.get_running_loop()

    def tell(waits: Unanswered) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(parent.tell, UNANSWERED, waits)

    def learned(what: Learned) -> threading.Event:
        parent.kept.clear()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(parent.tell, FORMS, what)
        return parent.kept

    capturing = Capturing(capture, buffer, lambda: parent.stored, tell, learned)
    threading.Thread(target=capturing.run, name="capture", daemon=True).start()
    while True:
        flush = await buffer.take()
        if isinstance(flush, Failed):
            report.send()
            return flush
        await commit(producer, order.topic, flush)
        report.add(flush)
        if flush.statement is not None:
            report.send()
            plan = await parent.leave(flush.position, flush.statement)
            await sees(producer, order.topic, plan.partitions)
            buffer.go_on(plan)


async def _close(producer: AIOKafkaProducer) -> None:
    """Closes without waiting for what could not be sent: it is not committed, and the next publisher undoes it."""
    with contextlib.suppress(KafkaError, TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(stopped(producer), CLOSE_SECONDS)


if __name__ == "__main__":
    main()
