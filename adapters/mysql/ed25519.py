"""The login `client_ed25519` of MariaDB: the password is the seed, of any length, and a random challenge is signed.

That is Ed25519 (RFC 8032, section 5.1.6) but for the seed, which there has 32 bytes: libraries take no other.  A login
is one signature, so plain integers serve: some milliseconds.  The curve is -x² + y² = 1 + d·x²·y² over integers modulo
2²⁵⁵ - 19; a point is (X, Y, Z, T) with x = X/Z, y = Y/Z, x·y = T/Z.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias

from pymysql.protocol import MysqlPacket

PLUGIN: Final = "client_ed25519"
Point: TypeAlias = tuple[int, int, int, int]

_P: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_BASE_Y: Final = 4 * pow(5, -1, _P) % _P
_BASE_X: Final = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_BASE: Final[Point] = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def sign(password: bytes, challenge: bytes) -> bytes:
    """The 64 bytes that answer `challenge`."""
    digest = hashlib.sha512(password).digest()
    secret = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    public = _encoded(_times(secret, _BASE))
    once = _number(digest[32:], challenge) % _ORDER
    commitment = _encoded(_times(once, _BASE))
    answer = (once + _number(commitment, public, challenge) * secret) % _ORDER
    return commitment + answer.to_bytes(32, "little")


class Login:
    """A login for PyMySQL's `auth_plugin_map`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: MysqlPacket) -> MysqlPacket:
        """Answer the challenge in a packet of the login."""
        self._connection.write_packet(sign(self._connection.password, rest_of(packet)))
        answer: MysqlPacket = self._connection._read_packet()
        answer.check_error()
        return answer


def rest_of(packet: MysqlPacket) -> bytes:
    """Return what of the packet has not been read: the challenge."""
    rest: bytes = packet.read_all()  # type: ignore[no-untyped-call]
    return rest


def _number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def _times(factor: int, point: Point) -> Point:
    product: Point = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            product = _sum(product, point)
        point = _sum(point, point)
        factor >>= 1
    return product


def _sum(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _encoded(point: Point) -> bytes:
    """y, and in the highest bit whether x is odd."""
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")
