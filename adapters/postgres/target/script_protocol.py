"""Scripts with any number of COPYs in one round trip, on a connection that asyncpg has opened.

In the simple protocol the data of every COPY may follow right behind the script: the server takes each when it comes to
it, and passes over what is left should a statement fail (PostgreSQL's manual, "Message Flow").  asyncpg waits for the
server before it sends data, and knows of one COPY a script.  So while a script runs that `session` sends, the transport
speaks to `ScriptProtocol` in place of asyncpg, and goes back to it when the server is ready for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg

_HEAD: Final = 5  # a letter, then the length without it
_ERROR, _READY = b"EZ"


class ScriptProtocol(asyncio.Protocol):
    """Hears the answers to scripts on one connection, which nobody else uses meanwhile."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._transport: asyncio.Transport = connection._transport
        self._driver: asyncio.Protocol = connection._protocol
        self._rest = b""
        self._error: Exception | None = None
        self._answer: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Listen: a script is sent next, and then `answer` is awaited, at once."""
        if self._transport.is_closing():
            raise asyncpg.InterfaceError("the connection is closed")
        self._rest, self._error = b"", None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.set_protocol(self)

    async def answer(self) -> None:
        """Wait until the script has run.  Raises the server's error, as asyncpg would; where the connection is lost, or
        the caller is cancelled, it is closed."""
        assert self._answer is not None, "begin first"
        try:
            await self._answer
        except BaseException:
            self._transport.abort()
            raise
        finally:
            self._transport.set_protocol(self._driver)
            self._answer = None
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # else it and its frames would hold each other, and the script

    def data_received(self, data: bytes) -> None:
        """Take the server's messages; an error is kept, readiness ends the script."""
        data = self._rest + data
        at = 0
        while len(data) - at >= _HEAD:
            end = at + 1 + int.from_bytes(data[at + 1 : at + _HEAD], "big")
            if end > len(data):
                break
            if data[at] == _ERROR:
                self._error = _error_of(data[at + _HEAD : end])
            elif data[at] == _READY:
                self._end(None)
            at = end
        self._rest = data[at:]

    def connection_lost(self, error: Exception | None) -> None:
        """End the script, and tell the driver."""
        self._driver.connection_lost(error)
        self._end(self._error or asyncpg.ConnectionDoesNotExistError("the connection was closed amid a script"))

    def _end(self, error: Exception | None) -> None:
        if self._answer is None or self._answer.done():
            return
        if error is None:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)


def _error_of(fields: bytes) -> Any:
    """An ErrorResponse holds texts that each begin with the letter of what they are."""
    texts = (field.decode(errors="replace") for field in fields.split(b"\0") if field)
    return asyncpg.PostgresError.new({text[0]: text[1:] for text in texts})
