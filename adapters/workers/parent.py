"""The parent as the publisher process sees it: what it is told, and the leave that it gives."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from typing import Final

import msgspec

from tidelock.adapters.ports.capture_messages import Stored
from tidelock.adapters.workers.group_commit import Flush
from tidelock.adapters.workers.log_end import LogEnd
from tidelock.adapters.workers.publisher_messages import (
    AT_STATEMENT,
    PUBLISHED,
    AtStatement,
    FormsKept,
    Published,
    PublishOn,
)
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.model.table_partitioning import TablePartitioning

REPORT_SECONDS: Final = 0.2
_FROM_PARENT: Final = msgspec.msgpack.Decoder(PublishOn | FormsKept | Stored)


class Parent:
    """The other side of the socket.  `gone` is done when it has closed it.  `stored`: the checkpoint that it has told
    last.  `kept`: set once it has told that forms are kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stored: Position | None = None
        self.kept = threading.Event()
        self._writer = writer
        self._plans: asyncio.Queue[TablePartitioning] = asyncio.Queue()
        self.gone = asyncio.create_task(self._listen(reader))

    @classmethod
    async def on(cls, channel: socket.socket) -> Parent:
        """Returns the parent at the other end of `channel`."""
        return cls(*await asyncio.open_connection(sock=channel))

    def tell(self, kind: int, message: msgspec.Struct) -> None:
        """Sends a message to the parent."""
        body = msgspec.msgpack.encode(message)
        self._writer.write((len(body) + 1).to_bytes(4, "little") + bytes((kind,)) + body)

    async def leave(self, position: Position, statement: Ddl) -> TablePartitioning:
        """Tells that a statement waits, and returns the plan to go on under."""
        self.tell(AT_STATEMENT, AtStatement(position, statement))
        return await self._plans.get()

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length = int.from_bytes(await reader.readexactly(4), "little")
                told = _FROM_PARENT.decode(await reader.readexactly(length))
                if isinstance(told, Stored):
                    self.stored = told.position
                elif isinstance(told, FormsKept):
                    self.kept.set()
                else:
                    self._plans.put_nowait(told.plan)


class PublishReport:
    """The commits since the last report; they are reported `REPORT_SECONDS` after they happened at the latest."""

    def __init__(self, parent: Parent, end: LogEnd) -> None:
        self._parent = parent
        self._position, self._end_us = end.position, end.end_us
        self._rows: Counter[TableName] = Counter()
        self._due: asyncio.TimerHandle | None = None

    def add(self, flush: Flush) -> None:
        """Adds a committed flush."""
        self._position, self._end_us = flush.position, flush.end_us
        self._rows.update(flush.rows)
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(REPORT_SECONDS, self.send)

    def send(self) -> None:
        """Sends the report, if there is anything to say."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._parent.tell(PUBLISHED, Published(self._position, dict(self._rows), self._end_us))
        self._rows.clear()
