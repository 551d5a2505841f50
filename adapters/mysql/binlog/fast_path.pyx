# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The events that make up nearly all of a log, compiled: what `LogDecoder.run`, the handlers and `Assembly` do for them.

    GTID · BEGIN · the statement's text · TABLE_MAP of a table that was seen · rows · XID

A source's one-row transaction is four or five events, and a handler in Python costs more than the row in it.
`UsualEvents.take` knows those events only where there is nothing to decide: an event is taken wholly, or is left as it
is to the Python form, which goes on there, and knows each error, each other event and each exception to the rule.  So
there are no errors here, and whatever is not plainly usual is left.

The state is that of the decoder and its assembly (`LogState`), so nothing is copied from one form to the other.
This module is optional; tests/adapters/test_fast_path.py holds one form against the other.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.packets import LONGEST
from tidelock.adapters.mysql.binlog.tables import Role
from tidelock.engine.model.log_batch import SourceTransaction

cdef extern from "checked_events.h":
    size_t checked_events(const uint8_t* data, size_t size, size_t at, size_t tail, uint8_t last_kind) nogil
    uint32_t crc32_of(const uint8_t* data, size_t size, int way) nogil
    void crc32_prepare() nogil
    int crc32_way

crc32_prepare()

# What this module is built from, put in by the compiler's command (`adapters.compiled.forms`).
cdef extern from *:
    """
    #ifndef TIDELOCK_SOURCE
    #define TIDELOCK_SOURCE ""
    #endif
    """
    const char* TIDELOCK_SOURCE

SOURCE = TIDELOCK_SOURCE.decode()

cdef packed struct Header:  # of a packet, and of the event in it
    uint32_t packet  # its length, and its number in the highest byte
    uint8_t status
    uint32_t when
    uint8_t kind
    uint32_t server
    uint32_t size
    uint32_t log_end
    uint16_t flags

cdef packed struct MariaDbGtid:
    uint64_t number
    uint32_t domain
    uint8_t flags

cdef packed struct MySqlGtid:
    uint8_t flags
    uint8_t uuid[16]
    uint64_t number
    uint8_t clocks[17]
    uint64_t commit_us  # in the lower 55 bits; the next one says that the first server's follows

cdef enum:
    NONE = 0  # operations, one more than `row_compiler` has them
    INSERT = 1
    UPDATE = 2
    DELETE = 3
    TABLE_AND_FLAGS = 8  # bytes, before what TABLE_MAP and rows events hold

cdef enum Outcome:
    LEFT = 0
    TAKEN = 1
    GROWN = 2  # taken, and a chunk may be full now

cdef struct Kind:
    uint8_t operation
    uint8_t version  # of rows events; 2 has extra data, its length included in front

cdef Kind ROWS[256]
cdef int k
for k in range(256):
    ROWS[k].operation = NONE
ROWS[<int> events.WRITE_ROWS_V1] = Kind(INSERT, 1)
ROWS[<int> events.UPDATE_ROWS_V1] = Kind(UPDATE, 1)
ROWS[<int> events.DELETE_ROWS_V1] = Kind(DELETE, 1)
ROWS[<int> events.WRITE_ROWS] = Kind(INSERT, 2)
ROWS[<int> events.UPDATE_ROWS] = Kind(UPDATE, 2)
ROWS[<int> events.DELETE_ROWS] = Kind(DELETE, 2)

cdef int MYSQL_GTID = events.GTID
cdef int MARIADB_GTID = events.MARIADB_GTID
cdef int QUERY = events.QUERY
cdef int ANNOTATE_ROWS = events.ANNOTATE_ROWS
cdef int ROWS_QUERY = events.ROWS_QUERY
cdef int TABLE_MAP = events.TABLE_MAP
cdef int FORMAT = events.FORMAT_DESCRIPTION
cdef int XID = events.XID
cdef int UNUSUAL_GROUP = events.MARIADB_STANDALONE | events.MARIADB_PREPARED_XA
cdef uint64_t COMMIT_TIME = (1 << 55) - 1
cdef uint64_t HAS_FIRST = 1 << 55
cdef Py_ssize_t FIRST_AT = 49
cdef Py_ssize_t FIRST_SIZE = 7
cdef uint32_t PACKET_LENGTH = LONGEST
cdef object WANTED = Role.WANTED
cdef object UNWANTED = Role.UNWANTED


@cython.final
cdef class LogState:
    """The state of decoder and assembly, as `log_state.PlainLogState` has it."""

    cdef public str file, source
    cdef public int64_t offset, boundary
    cdef public uint32_t when
    cdef public Py_ssize_t tail, ordinal, first, octets, done_rows, done_octets, quiet
    cdef public bint begun, settled, is_open, known_by_gtid, is_xa, parted
    cdef public uint64_t commit_us, moment_us, server_us
    cdef public object number  # negative for an anonymous group of a damaged log
    cdef public object closed
    cdef public list rows, marks, done

    def __init__(self, str file, int64_t offset, bint settled):
        self.file, self.offset, self.boundary, self.settled = file, offset, offset, settled
        self.source = ""
        self.number = 0
        self.rows, self.marks, self.done = [], [], []


@cython.final
cdef class UsualEvents:
    """Takes the usual events of one decoder, whose assembly and state stay the same."""

    cdef object assembly, tables
    cdef LogState state
    cdef dict maps, known
    cdef set unreached
    cdef Py_ssize_t chunk_rows, chunk_octets, quiet_groups
    # the last source of each flavour, and the last table, as they were met
    cdef str mariadb_source, mysql_source
    cdef uint32_t domain, server
    cdef uint8_t uuid[16]
    cdef uint64_t table_id
    cdef object table, role
    cdef bytes payload, one, two
    cdef tuple readers
    # the last group that ended here, and its last event's body
    cdef str closed_source
    cdef object closed_number
    cdef uint64_t closed_moment_us
    cdef int64_t closed_end
    cdef bint closed, closed_by_gtid
    cdef Py_ssize_t body, body_end
    # the body of the event with which a chunk is full
    cdef Py_ssize_t last_body
    # the buffer that was looked through last, and up to where its events have the checksums that their bytes give
    cdef bytes checked
    cdef Py_ssize_t checked_to
    # transactions of `run_source`, one after the other, that the GTID set does not hold yet
    cdef str run_source
    cdef uint64_t run_first, run_last

    def __init__(self, assembly, tables, dict maps, set unreached):
        """`maps`: tables by the id that the log has for them now.  `unreached`: MariaDB's domains that were not seen."""
        self.assembly, self.tables, self.state = assembly, tables, assembly.state
        self.maps, self.unreached = maps, unreached
        self.chunk_rows, self.chunk_octets = assembly._chunk_rows, assembly._chunk_bytes
        self.quiet_groups = assembly._quiet_groups

    def take(self, bytes b, Py_ssize_t at):
        """Takes packets from `at` on; returns where it stopped: at a packet that is not all there or holds no usual
        event, or behind one that made a chunk ready."""
        if self.assembly._skip:  # a group that was read before in part
            return at
        self.known = self.tables._tables
        self.table = self.payload = None
        self.closed = False
        self.last_body = 0
        at = self.events(b, at)
        self.end_run()
        if self.closed:
            self.note_closed(b)
        if self.is_full():
            if self.state.is_open:
                self.assembly.part = b, self.last_body, at - self.state.tail
                self.assembly._relieve()
            else:
                self.assembly.flush()
        return at

    cdef Py_ssize_t events(self, bytes b, Py_ssize_t at) except -1:
        cdef LogState state = self.state
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(b)
        cdef Py_ssize_t size, last, p, end
        cdef Header header
        cdef Outcome outcome
        if state.tail and (b is not self.checked or at >= self.checked_to):
            self.checked = b
            self.checked_to = checked_events(data, PyBytes_GET_SIZE(b), at, state.tail, FORMAT)
        size = self.checked_to if state.tail else PyBytes_GET_SIZE(b)
        last = size - <Py_ssize_t> sizeof(Header)
        while at <= last:
            memcpy(&header, data + at, sizeof(Header))
            p = at + sizeof(Header)
            end = at + 4 + (header.packet & PACKET_LENGTH)
            if not state.tail and not _is_whole(header, size - at):  # else it was checked
                return at
            if header.log_end != state.offset + header.size:
                return at
            outcome = self.event(header, b, p, end - state.tail)
            if outcome == LEFT:
                return at
            state.offset, state.when = header.log_end, header.when
            at = end
            if outcome == GROWN and self.is_full():
                self.last_body = p
                return at
        return at

    cdef Outcome event(self, Header header, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        """Its body is from `p` to `end`."""
        cdef LogState state = self.state
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(b)
        if ROWS[header.kind].operation != NONE:
            return self.rows_event(ROWS[header.kind].operation, ROWS[header.kind].version, b, p, end)
        if header.kind == TABLE_MAP:
            return self.table_map(b, p, end)
        if header.kind == ANNOTATE_ROWS or header.kind == ROWS_QUERY:
            return TAKEN
        if header.kind == XID:
            return self.commit(header, p, end)
        if header.kind == MARIADB_GTID:
            return self.mariadb_gtid(header, b, p, end)
        if header.kind == MYSQL_GTID:
            return self.mysql_gtid(b, p, end)
        if header.kind == QUERY and end - p >= 6 and memcmp(data + end - 6, b"\0BEGIN", 6) == 0:
            state.begun = True
            return TAKEN
        return LEFT

    # -- groups --------------------------------------------------------------------------------------------------

    cdef Outcome mariadb_gtid(self, Header header, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        cdef MariaDbGtid found
        if state.is_open or end - p < <Py_ssize_t> sizeof(MariaDbGtid):
            return LEFT
        memcpy(&found, PyBytes_AS_STRING(b) + p, sizeof(MariaDbGtid))
        if found.flags & UNUSUAL_GROUP:
            return LEFT
        if self.mariadb_source is None or found.domain != self.domain or header.server != self.server:
            self.mariadb_source = events.mariadb_gtid(b, p)[0]
            self.domain, self.server = found.domain, header.server
        if self.unreached:
            self.unreached.discard(found.domain)
        state.begun = True
        self.begin(self.mariadb_source, found.number, 0, <uint64_t> header.when * 1_000_000)
        return TAKEN

    cdef Outcome mysql_gtid(self, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        cdef MySqlGtid found
        cdef uint64_t commit_us, first_us = 0
        if state.is_open or end - p < <Py_ssize_t> sizeof(MySqlGtid):
            return LEFT
        memcpy(&found, PyBytes_AS_STRING(b) + p, sizeof(MySqlGtid))
        if found.number >> 63:
            return LEFT
        if self.mysql_source is None or memcmp(found.uuid, self.uuid, 16):
            self.mysql_source = events.mysql_gtid(b, p)[0]
            memcpy(self.uuid, found.uuid, 16)
        state.begun = False
        commit_us = found.commit_us & COMMIT_TIME
        if not found.commit_us & HAS_FIRST:
            first_us = commit_us
        elif end - p >= FIRST_AT + FIRST_SIZE:
            memcpy(&first_us, PyBytes_AS_STRING(b) + p + FIRST_AT, FIRST_SIZE)
        else:
            return LEFT
        self.begin(self.mysql_source, found.number, commit_us, first_us)
        return TAKEN

    cdef int begin(self, str source, uint64_t number, uint64_t commit_us, uint64_t moment_us) except -1:
        cdef LogState state = self.state
        state.is_open = state.settled = state.known_by_gtid = True
        state.source, state.number, state.commit_us, state.moment_us = source, number, commit_us, moment_us
        state.parted = state.is_xa = False
        state.ordinal = state.octets = state.first = 0
        return 0

    cdef Outcome commit(self, Header header, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        if not state.is_open or state.is_xa or state.marks or state.parted or state.first:
            return LEFT
        if not state.commit_us:
            state.commit_us = <uint64_t> header.when * 1_000_000
        state.server_us = state.commit_us
        state.boundary = state.offset + header.size
        if state.rows:
            state.done_rows += len(state.rows)
            state.done_octets += state.octets
            state.first = state.ordinal
            state.done.append(
                SourceTransaction(
                    state.source, state.number, state.file, state.boundary, state.rows, 0, state.first, True,
                    state.commit_us,
                )
            )  # fmt: skip
            state.rows = []
            state.octets = 0
        state.is_open = False
        self.closed, self.closed_by_gtid, self.closed_end = True, state.known_by_gtid, state.boundary
        self.closed_source, self.closed_number, self.closed_moment_us = state.source, state.number, state.moment_us
        self.body, self.body_end = p, end
        if state.known_by_gtid:
            self.add_gtid()
        state.quiet += 1
        return GROWN

    cdef int add_gtid(self) except -1:
        cdef LogState state = self.state
        cdef uint64_t number = state.number
        if self.run_source is not state.source or number != self.run_last + 1:
            self.end_run()
            self.run_source, self.run_first = state.source, number
        self.run_last = number
        return 0

    cdef int end_run(self) except -1:
        if self.run_source is not None:
            self.assembly._gtids.extend(self.run_source, self.run_first, self.run_last)
            self.run_source = None
        return 0

    cdef int note_closed(self, bytes b) except -1:
        """Once a buffer, not once a group."""
        cdef LogState state = self.state
        state.closed = (
            state.file, self.closed_end, self.closed_source, self.closed_number, self.closed_moment_us,
            bool(self.closed_by_gtid), (b, self.body, self.body_end),
        )  # fmt: skip
        return 0

    # -- rows ----------------------------------------------------------------------------------------------------

    cdef Outcome table_map(self, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        """A table whose map was seen before, perhaps under another id."""
        cdef LogState state = self.state
        cdef const char* payload = PyBytes_AS_STRING(b) + p + TABLE_AND_FLAGS
        cdef Py_ssize_t size = end - p - TABLE_AND_FLAGS
        cdef uint64_t number
        if size < 0 or state.is_xa:
            return LEFT
        number = _table_id(b, p)
        if (
            self.payload is not None and number == self.table_id and size == PyBytes_GET_SIZE(self.payload)
            and memcmp(payload, PyBytes_AS_STRING(self.payload), size) == 0
        ):
            return TAKEN
        found = b[p + TABLE_AND_FLAGS : end]
        table = self.known.get(found)
        if table is None:  # a map that does not name its columns is known under this id alone
            table = self.maps.get(number)
            if table is None or table.unnamed != found:
                return LEFT
        self.maps[number] = table
        self.use(number, table)
        self.payload = found
        return TAKEN

    cdef int use(self, uint64_t number, table) except -1:
        self.table_id, self.table, self.payload = number, table, None
        self.role, self.one, self.two, self.readers = table.role, table.one, table.two, table.readers
        return 0

    cdef Outcome rows_event(self, int operation, int version, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        cdef Py_ssize_t then
        cdef uint64_t number
        if not state.is_open or state.is_xa or end - p < TABLE_AND_FLAGS + 2:
            return LEFT
        number = _table_id(b, p)
        if self.table is None or number != self.table_id:
            table = self.maps.get(number)
            if table is None:
                return LEFT
            self.use(number, table)
        p += TABLE_AND_FLAGS
        if version == 2:
            p += _two_bytes(b, p)
        if p >= end:
            return LEFT
        if self.role is WANTED:
            return self.read(operation, b, p, end)
        if self.role is UNWANTED:
            return self.count(operation, b, p, end)
        return LEFT

    cdef Outcome read(self, int operation, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        cdef bytes prelude = self.two if operation == UPDATE else self.one
        cdef Py_ssize_t size = PyBytes_GET_SIZE(prelude), kept = len(state.rows)
        try:
            if end - p > size and _begins(b, p, prelude):
                p += size
            else:
                p = self.table.check_images(b, p, 2 if operation == UPDATE else 1)
            state.ordinal = self.readers[operation - 1](b, p, end, state.ordinal, state.rows.append)
        except Exception:  # the Python form reads it once more, and says what is wrong
            del state.rows[kept:]
            return LEFT
        if state.ordinal:
            state.octets += end - p
        return GROWN

    cdef Outcome count(self, int operation, bytes b, Py_ssize_t p, Py_ssize_t end) except? LEFT:
        cdef LogState state = self.state
        try:
            state.ordinal = self.table.skip(b, p, end, 2 if operation == UPDATE else 1, state.ordinal)
        except Exception:
            return LEFT
        return TAKEN

    # -- chunks --------------------------------------------------------------------------------------------------

    cdef bint is_full(self) noexcept:
        """Something is to be handed out now: before the open group, or a part of that."""
        cdef LogState state = self.state
        return (
            state.done_rows + len(state.rows) >= self.chunk_rows
            or state.done_octets + state.octets >= self.chunk_octets
            or state.quiet >= self.quiet_groups
        )


def crc32(bytes b, int way):
    """Compute what `zlib.crc32` does, in the way `way`, at most `best_crc32_way()`."""
    return crc32_of(<const uint8_t*> PyBytes_AS_STRING(b), PyBytes_GET_SIZE(b), way)


def best_crc32_way():
    """Return 0 for tables, 1 for this processor's instructions, 2 for those with 512 bits."""
    return crc32_way


def checked_end(bytes b):
    """Return the end of the last packet whose event, like all before it, has the checksum that its bytes give."""
    return checked_events(<const uint8_t*> PyBytes_AS_STRING(b), PyBytes_GET_SIZE(b), 0, 4, FORMAT)


cdef inline bint _is_whole(Header header, Py_ssize_t size) noexcept:
    """One event of a packet of its own, which is among the `size` bytes that begin with it."""
    cdef Py_ssize_t length = header.packet & PACKET_LENGTH
    if header.status or length == PACKET_LENGTH or 4 + length > size:
        return False
    return 4 + length >= <Py_ssize_t> sizeof(Header) and header.size == length - 1


cdef inline uint64_t _table_id(bytes b, Py_ssize_t p) noexcept:
    cdef uint64_t number = 0
    memcpy(&number, PyBytes_AS_STRING(b) + p, 6)
    return number


cdef inline Py_ssize_t _two_bytes(bytes b, Py_ssize_t p) noexcept:
    cdef uint16_t number
    memcpy(&number, PyBytes_AS_STRING(b) + p, 2)
    return number


cdef bint _begins(bytes b, Py_ssize_t p, bytes prelude) noexcept:
    """The count of columns is the table's, and the bitmaps have all of them; MySQL sets bits of none, too."""
    cdef const uint8_t* found = <const uint8_t*> PyBytes_AS_STRING(b) + p
    cdef const uint8_t* full = <const uint8_t*> PyBytes_AS_STRING(prelude)
    cdef Py_ssize_t i, count = 1 if full[0] < 251 else 3
    if memcmp(found, full, count):
        return False
    for i in range(count, PyBytes_GET_SIZE(prelude)):
        if found[i] & full[i] != full[i]:
            return False
    return True
