"""The bodies of small binlog events, and the event types' numbers.

Every event begins with 19 bytes: time (4), type (1), server id (4), size (4), end position (4), flags (2).  Functions
here take the buffer, the place after that header, and the end without the checksum.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelock.adapters.mysql.charsets import charset_of, decoder

HEADER: Final = Struct("<IBIIIH").unpack_from
HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR, FORMAT_DESCRIPTION, XID = 2, 3, 4, 5, 13, 14, 15, 16
BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP, INCIDENT, HEARTBEAT, ROWS_QUERY = 17, 18, 19, 26, 27, 29
WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1, WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS = 23, 24, 25, 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, XA_PREPARE = 33, 34, 35, 36, 37, 38
PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED = 39, 40, 41, 42
ANNOTATE_ROWS, BINLOG_CHECKPOINT, MARIADB_GTID, GTID_LIST, START_ENCRYPTION, QUERY_COMPRESSED = range(160, 166)
WRITE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED_V1 = 166, 167, 168
WRITE_ROWS_COMPRESSED, UPDATE_ROWS_COMPRESSED, DELETE_ROWS_COMPRESSED = 169, 170, 171

ARTIFICIAL: Final = 0x20
IGNORABLE: Final = 0x80

# They change no rows by themselves and end no transaction.
WITHOUT_EFFECT: Final = frozenset(
    (
        STOP, INTVAR, RAND, USER_VAR, ROWS_QUERY, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE,
        ANNOTATE_ROWS, BINLOG_CHECKPOINT, GTID_LIST, START_ENCRYPTION,
    )
)  # fmt: skip

# They stand between transactions.
OF_THE_FILE: Final = frozenset(
    (ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, HEARTBEAT_V2, INCIDENT, GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID)
)

MARIADB_STANDALONE: Final = 1
MARIADB_PREPARED_XA: Final = 64


# Source and number as in `engine.model.records.Transaction`, and when it was committed here, and first of all servers,
# in microseconds since the epoch.
Gtid: TypeAlias = tuple[str, int, int, int]


class Query(NamedTuple):
    """A statement in the log, with the schema that was the default for it, and the bits of the session's `sql_mode`.
    `zone`: the session's time zone; '' where the statement did without."""

    schema: str
    statement: str
    sql_mode: int | None = None
    zone: str = ""


def rotation(b: bytes, p: int, end: int) -> tuple[str, int]:
    """The next file and the offset to go on at."""
    offset = int.from_bytes(b[p : p + 8], "little")
    if end - p < 9 or offset >> 62:
        raise ValueError(f"the log goes on at offset {offset}")
    return b[p + 8 : end].decode(), offset


def is_by_mariadb(b: bytes, p: int) -> bool:
    """Tell whether MariaDB wrote the file, from its FORMAT_DESCRIPTION event, which names the version of the server."""
    return b"MariaDB" in b[p + 2 : p + 52]


_sources: dict[bytes, str] = {}
_MOST_SOURCES: Final = 10_000


def _source(uuid: bytes) -> str:
    if len(_sources) > _MOST_SOURCES:
        _sources.clear()
    source = _sources[uuid] = str(UUID(bytes=uuid))
    return source


# Flags, UUID, number, two logical clocks with their type, and the commit time in the lower 55 bits of what follows; the
# bit above says that the first server's comes behind it.
_MYSQL_GTID: Final = Struct("<x16sQ17xQ").unpack_from
_COMMIT_TIME: Final = (1 << 55) - 1
_HAS_FIRST: Final = 1 << 55
_FIRST_AT: Final = 49


def mysql_gtid(b: bytes, p: int) -> Gtid:
    """GTID and ANONYMOUS_GTID."""
    uuid, number, time = _MYSQL_GTID(b, p)
    if number >> 63:
        raise ValueError(f"a GTID with number {number}")
    commit_us = first = time & _COMMIT_TIME
    if time & _HAS_FIRST:
        first = int.from_bytes(b[p + _FIRST_AT : p + _FIRST_AT + 7], "little")
    return _sources.get(uuid) or _source(uuid), number, commit_us, first


def _varlen(b: bytes, p: int) -> tuple[int, int]:
    """MySQL's variable-length integer: as many further bytes as the first has trailing ones."""
    first = b[p]
    extra = 0
    while first >> extra & 1 and extra < 8:
        extra += 1
    value = int.from_bytes(b[p : p + 1 + extra], "little") >> min(extra + 1, 8)
    return value, p + 1 + extra


_FIRST_FIELD: Final = 7 << 1  # as it is written
_TAG: Final = re.compile(r"([a-z_][a-z0-9_]{0,31})?", re.ASCII)


def tagged_gtid(b: bytes, p: int) -> Gtid:
    """GTID_TAGGED: version, size, last field that matters, then (field, value) in the order of their numbers."""
    start = p
    _, p = _varlen(b, p)
    size, p = _varlen(b, p)
    _, p = _varlen(b, p)
    uuid, tag, number = b"", "", 0
    while True:
        field, p = _varlen(b, p)
        match field:
            case 0 | 4 | 5:  # flags, two logical clocks
                _, p = _varlen(b, p)
            case 1:
                octets = []
                for _ in range(16):
                    octet, p = _varlen(b, p)
                    octets.append(octet)
                uuid = bytes(octets)
            case 2:  # signed: the lowest bit is the sign
                number, p = _varlen(b, p)
                number >>= 1
            case 3:
                length, p = _varlen(b, p)
                tag, p = b[p : p + length].decode(), p + length
            case 6:
                commit_us, p = _varlen(b, p)
                break  # field 7, the first server's, is there where it differs
            case _:
                raise ValueError(f"field {field} in a tagged GTID before its commit time")
    first = _varlen(b, p + 1)[0] if p < start + size and b[p] == _FIRST_FIELD else commit_us
    if number >> 63 or (commit_us | first) >> 55 or not _TAG.fullmatch(tag):
        raise ValueError(f"a GTID with tag {tag!r} and number {number}, committed at {commit_us}")
    source = _source(uuid)
    return f"{source}:{tag}" if tag else source, number, commit_us, first



# Its server id is in the header: 14 bytes before the body.
_MARIADB_GTID: Final = Struct("<I10xQIB").unpack_from
_domains: dict[tuple[int, int], str] = {}


def mariadb_gtid(b: bytes, p: int) -> tuple[str, int, int]:
    """Source, number, flags."""
    server, number, domain, flags = _MARIADB_GTID(b, p - 14)
    source = _domains.get((domain, server))
    if source is None:
        if len(_domains) > _MOST_SOURCES:
            _domains.clear()
        source = _domains[domain, server] = f"{domain}-{server}"
    return source, number, flags


_GROUP_COMMIT: Final = 2
_START_ALTER: Final = 2


def begins_alter(b: bytes, p: int, end: int, flags: int) -> bool:
    """Tell whether MariaDB logs an ALTER TABLE where it begins, and will once more where it ends
    (`binlog_alter_two_phase`).  `flags`: as `mariadb_gtid` returns them."""
    at = p + 13 + (8 if flags & _GROUP_COMMIT else 0)
    return at < end and bool(b[at] & _START_ALTER)


_STATUS_SIZES: Final = {0: 4, 1: 8, 3: 4}
_MODE_STATUS, _CHARSET_STATUS, _ZONE_STATUS, _CATALOG_STATUS = 1, 4, 5, 6
_CHARSET_SIZE: Final = 6


def query(b: bytes, p: int, end: int, plain: bytes | None = None) -> Query:
    """Read a QUERY event.  `plain`: the statement, where the event holds it compressed."""
    schema_size, status_size = b[p + 8], int.from_bytes(b[p + 11 : p + 13], "little")
    status = p + 13
    schema = status + status_size
    text = b[schema + schema_size + 1 : end] if plain is None else plain
    charset, mode, zone = _session(b, status, schema)
    return Query(b[schema : schema + schema_size].decode(), _decoded(text, charset), mode, zone)


def query_text_at(b: bytes, p: int) -> int:
    """Find where a QUERY event's text begins."""
    return p + 13 + int.from_bytes(b[p + 11 : p + 13], "little") + b[p + 8] + 1


def _session(b: bytes, p: int, end: int) -> tuple[str, int | None, str]:
    """The charset of the statement, the session's `sql_mode` and time zone, in status variables that four others may
    precede."""
    charset, mode, zone = "utf8mb4", None, ""
    while p < end:
        code = b[p]
        if code == _CHARSET_STATUS:
            charset = charset_of(int.from_bytes(b[p + 1 : p + 3], "little")) or charset
            p += 1 + _CHARSET_SIZE
        elif code == _ZONE_STATUS:
            zone = b[p + 2 : p + 2 + b[p + 1]].decode("ascii", "replace")
            break
        elif code == _CATALOG_STATUS:
            p += 2 + b[p + 1]
        elif code in _STATUS_SIZES:
            if code == _MODE_STATUS:
                mode = int.from_bytes(b[p + 1 : p + 9], "little")
            p += 1 + _STATUS_SIZES[code]
        else:
            break
    return charset, mode, zone


def _decoded(text: bytes, charset: str) -> str:
    try:
        return decoder(charset)(text) if charset != "binary" else text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="backslashreplace")
