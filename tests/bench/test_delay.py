"""The delaying proxy keeps every byte, in order, for its time; nothing here says how fast it is."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.delay import Delay


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends one connection's bytes back, until their end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                while piece := connection.recv(1 << 16):
                    connection.sendall(piece)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10.0)


def to(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10.0)


def test_every_byte_arrives_in_order_and_not_before_its_time() -> None:
    sent = bytes(range(256)) * 20_000
    with echo() as port, Delay("127.0.0.1", port, 30.0) as delay, to(delay.port) as connection:
        begun = time.monotonic()
        threading.Thread(target=lambda: (connection.sendall(sent), connection.shutdown(socket.SHUT_WR))).start()
        got = connection.recv(1)
        waited = time.monotonic() - begun
        while piece := connection.recv(1 << 16):
            got += piece
    assert got == sent
    assert waited >= 0.06, "30 ms each way"


def test_no_answer_of_many_comes_before_its_time() -> None:
    """A loop's clock of whole milliseconds that stands still while callbacks run would let some through too early."""
    waits = []
    with echo() as port, Delay("127.0.0.1", port, 1.5) as delay, to(delay.port) as connection:
        for _ in range(300):
            begun = time.monotonic()
            connection.sendall(b"?")
            assert connection.recv(1) == b"?"
            waits.append(time.monotonic() - begun)
    assert min(waits) >= 0.003, "1.5 ms each way"


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Delay("127.0.0.1", port, 1.0) as delay, to(delay.port) as connection:
        assert connection.recv(1) == b""
