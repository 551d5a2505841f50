# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages that make up nearly all of a stream, compiled: what `Assembly`, `messages`, `row_reader` and `row_values`
do for them.

    B · I, U and D of tables that were told · C

`UsualMessages.take` knows those messages only where there is nothing to decide: a message is taken wholly, or is left as
it is to the Python form, which knows each error, each other message and each exception to the rule.  So there are no
errors here, and whatever is not plainly usual is left.

The state is that of the assembly (`StreamState`), so nothing is copied from one form to the other.

`UsualMessages.take_received` takes messages from where libpq holds them (`libpq.Received`), with no Python object
for each.
This module is optional; tests/adapters/test_postgres_messages.py holds one form against the other.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from tidelock.adapters.postgres.logical import messages, row_values
from tidelock.adapters.postgres.logical.relations import Role
from tidelock.adapters.postgres.logical.row_layout import layout as layout_of_images
from tidelock.adapters.postgres.logical.row_reader import key_positions
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import UNKNOWN, RowChange

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, PyObject* overflow) except? -1.0

# What this module is built from, put in by the compiler's command (`adapters.compiled.forms`).
cdef extern from *:
    """
    #ifndef TIDELOCK_SOURCE
    #define TIDELOCK_SOURCE ""
    #endif
    """
    const char* TIDELOCK_SOURCE

SOURCE = TIDELOCK_SOURCE.decode()

cdef enum:  # numbered as in `row_values`
    TEXT, ASCII, PADDED, INT, BOOL, FLOAT, DOUBLE, BINARY, BIT, MOMENT, ZONED

assert (
    row_values.TEXT, row_values.ASCII, row_values.PADDED, row_values.INT, row_values.BOOL, row_values.FLOAT,
    row_values.DOUBLE, row_values.BINARY, row_values.BIT, row_values.MOMENT, row_values.ZONED,
) == tuple(range(ZONED + 1))  # fmt: skip

cdef enum:
    LONGEST_MOMENT = 64
    LONGEST_NUMBER = 64
    LARGEST_IMAGE = 1 << 20  # larger rows are rare, and would be in memory twice
    MOST_COLUMNS = 1664  # of a table, in PostgreSQL
    DATA_HEAD = 25  # kind, place, end of the log, clock: before the plugin's message

ctypedef int (*GetCopyData)(void* connection, char** buffer, int is_async) noexcept
ctypedef void (*FreeMemory)(void* buffer) noexcept

cdef enum Outcome:
    LEFT = 0
    TAKEN = 1

cdef object WANTED = Role.WANTED
cdef object UNWANTED = Role.UNWANTED
cdef int64_t EPOCH_US = messages._EPOCH_US

cdef struct Code:
    int form
    int base
    int scale

cdef struct Field:
    const uint8_t* start
    int32_t size  # NULL or UNCHANGED below zero

cdef enum:
    SQL_NULL = -1
    LEFT_OUT = -2


@cython.final
cdef class StreamState:
    """The state of the assembly, as `stream_state.PlainStreamState` has it."""

    cdef public str file, source
    cdef public int64_t boundary, number, commit_us, server_us, last_number, last_end, last_us
    cdef public uint32_t xid, last_xid
    cdef public bint is_open, parted
    cdef public Py_ssize_t ordinal, first, octets, notices, skip, done_rows, done_octets, quiet
    cdef public list rows, marks, done

    def __init__(self, str file, str source, int64_t boundary, Py_ssize_t skip):
        self.file, self.source, self.boundary, self.skip = file, source, boundary, skip
        self.rows, self.marks, self.done = [], [], []


@cython.final
cdef class Layout:
    """How rows of a table's columns are read (`row_reader.RowReader`)."""

    cdef object number
    cdef object image  # makes an image of a row's bytes; None: rows are tuples
    cdef int count
    cdef bint has_key  # its identity is `key`, and it has one
    cdef bint tells_all  # its identity is `full`
    cdef bint shows_gaps  # an old row that has its key alone is not whole
    cdef Code* codes
    cdef uint8_t* is_key
    cdef char* room  # for one row
    cdef Py_ssize_t size  # of the room

    def __cinit__(self, number, shape, images, shows_gaps):
        cdef int i
        self.number = number
        self.count = len(shape.columns)
        found = layout_of_images(number, shape.columns) if images and shape.identity != "key" else None
        self.image = found.image if found is not None else None
        self.codes = <Code*> PyMem_Malloc(max(self.count, 1) * sizeof(Code))
        self.is_key = <uint8_t*> PyMem_Malloc(max(self.count, 1))
        if self.codes == NULL or self.is_key == NULL:
            raise MemoryError
        key = key_positions(shape)
        self.has_key = shape.identity == "key" and bool(key)
        self.tells_all = shape.identity == "full"
        self.shows_gaps = shows_gaps
        for i, column in enumerate(shape.columns):
            found = row_values.code(column)
            self.codes[i].form, self.codes[i].base, self.codes[i].scale = found.form, found.base, found.scale
            self.is_key[i] = i in key

    def __dealloc__(self):
        PyMem_Free(self.codes)
        PyMem_Free(self.is_key)
        PyMem_Free(self.room)

    cdef object whole(self, Field* fields):
        """A row of which every value is told, as an image where it can be one.  Raises ValueError."""
        cdef object made = self.as_image(fields) if self.image is not None else None
        return self.row(fields) if made is None else made

    cdef object as_image(self, Field* fields):
        """None where it has to be a tuple.  Raises ValueError."""
        cdef Py_ssize_t nulls = (self.count + 7) // 8
        cdef Py_ssize_t most = nulls
        cdef char* at
        cdef int32_t taken
        cdef int i
        for i in range(self.count):
            most += SIZE_BYTES + LONGEST_MOMENT + max(fields[i].size, 0)
        if most > LARGEST_IMAGE:
            return None
        self.reserve(most)
        memset(self.room, 0, nulls)
        at = self.room + nulls
        for i in range(self.count):
            if fields[i].size < 0:
                if fields[i].size == LEFT_OUT:
                    return None
                self.room[i >> 3] |= <char> (1 << (i & 7))
                continue
            taken = _put(at, self.codes + i, fields + i)
            if taken == NOT_PUT:
                return None
            at += taken
        return self.image(PyBytes_FromStringAndSize(self.room, at - self.room))

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef char* room
        if size > self.size:
            room = <char*> PyMem_Realloc(self.room, size)
            if room == NULL:
                raise MemoryError
            self.room, self.size = room, size
        return 0

    cdef tuple row(self, Field* fields):
        """Raises ValueError."""
        cdef tuple made = PyTuple_New(self.count)
        cdef object value
        cdef int i
        for i in range(self.count):
            value = self.value(i, fields + i)
            Py_INCREF(value)
            PyTuple_SET_ITEM(made, i, value)
        return made

    cdef tuple key(self, Field* fields):
        """The key of an old row: what is NULL there is not of it."""
        cdef tuple made = PyTuple_New(self.count)
        cdef object value
        cdef int i
        for i in range(self.count):
            value = UNKNOWN if fields[i].size == SQL_NULL else self.value(i, fields + i)
            Py_INCREF(value)
            PyTuple_SET_ITEM(made, i, value)
        return made

    cdef tuple key_of(self, tuple after):
        """The key of a new row that has the old one's."""
        cdef tuple made = PyTuple_New(self.count)
        cdef object value
        cdef int i
        for i in range(self.count):
            value = after[i] if self.is_key[i] else UNKNOWN
            Py_INCREF(value)
            PyTuple_SET_ITEM(made, i, value)
        return made

    cdef inline object value(self, int i, Field* f):
        cdef Code* code = self.codes + i
        if f.size < 0:
            return None if f.size == SQL_NULL else UNKNOWN
        if code.form == INT:
            return _int(f)
        if code.form == TEXT:
            return _text(f.start, f.size)
        return _other(code, f)


include "usual_values.pxi"
include "image_values.pxi"


@cython.final
cdef class UsualMessages:
    """Takes messages for `assembly`, in its state."""

    cdef object assembly, plain
    cdef StreamState state
    cdef list ready
    cdef dict tables, layouts
    cdef Py_ssize_t chunk_rows, chunk_octets, first_ordinal, most_quiet
    cdef bint images  # rows may be images
    # the table that rows came of last, and its oid
    cdef object table
    cdef Layout layout
    cdef uint32_t oid
    cdef bint is_wanted
    # the fields of the old row, and of the new one
    cdef Field old[MOST_COLUMNS]
    cdef Field new[MOST_COLUMNS]

    def __init__(self, assembly):
        from tidelock.adapters.postgres.logical import assembly as limits

        self.assembly, self.state, self.plain = assembly, assembly.state, assembly.take_plain
        self.ready = assembly.ready
        self.tables, self.layouts = assembly.relations.tables, {}
        self.chunk_rows, self.chunk_octets = assembly.chunk_rows, assembly.chunk_bytes
        self.images = assembly.images
        self.first_ordinal, self.most_quiet = limits.NOTICES, limits.QUIET_TRANSACTIONS

    def take(self, payload, lsn):
        """As `Assembly.take_plain` does."""
        cdef Py_buffer view
        cdef const uint8_t* b
        cdef Outcome outcome
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            b = <const uint8_t*> view.buf
            outcome = self.message(b, b + view.len)
        finally:
            PyBuffer_Release(&view)
        if outcome == LEFT:
            self.table = None  # it may tell of tables
            self.plain(payload, lsn)

    def take_row(self, bytes b):
        """Take a row of a table that was left to the Python form, and is known by now; tells whether it was."""
        cdef const uint8_t* data = b
        return self.message(data, data + len(b)) == TAKEN

    def take_received(self, size_t connection, size_t take, size_t free, Py_ssize_t most):
        """Take messages that libpq has received, `most` at once, until a chunk is ready or one is not usual.

        `connection`: libpq's own; `take`, `free`: the addresses of PQgetCopyData and PQfreemem.  Returns how many were
        taken, the greatest place that one of them named, what libpq said last (0: no message has come, below: none
        comes any more), and the message that is left.
        """
        cdef char* message = NULL
        cdef const uint8_t* b
        cdef Py_ssize_t taken = 0
        cdef int size = 1
        cdef int64_t place = 0
        cdef Outcome outcome
        while taken < most and not self.ready:
            size = (<GetCopyData> take)(<void*> connection, &message, 1)
            if size <= 0:
                break
            b = <const uint8_t*> message
            outcome = LEFT
            try:
                if size > DATA_HEAD and b[0] == c"w":
                    outcome = self.message(b + DATA_HEAD, b + size)
                    if outcome == TAKEN:
                        place = max(place, _eight(b + 1), _eight(b + 9))
                        taken += 1
                if outcome == LEFT:
                    return taken, place, size, PyBytes_FromStringAndSize(message, size)
            finally:
                (<FreeMemory> free)(message)
        return taken, place, size, None

    cdef Outcome message(self, const uint8_t* b, const uint8_t* end) except? LEFT:
        cdef StreamState state = self.state
        if b == end or state.skip:  # a transaction that was read before in part
            return LEFT
        if b[0] == c"I" or b[0] == c"U" or b[0] == c"D":
            return self.row(b, end)
        if b[0] == c"B":
            return self.begin(b, end)
        if b[0] == c"C":
            return self.commit(b, end)
        return LEFT

    cdef Outcome begin(self, const uint8_t* b, const uint8_t* end) except? LEFT:
        cdef StreamState state = self.state
        cdef int64_t number = _eight(b + 1) if end - b == 21 else -1
        cdef int64_t when = _eight(b + 9) if number >= 0 else -1
        if state.is_open or number < state.boundary or when < 0 or when >> 62:
            return LEFT
        state.is_open, state.parted = True, False
        state.number, state.commit_us, state.xid = number, when + EPOCH_US, _four(b + 17)
        state.ordinal, state.octets, state.notices, state.first = self.first_ordinal, 0, 0, 0
        return TAKEN

    cdef Outcome commit(self, const uint8_t* b, const uint8_t* end) except? LEFT:
        cdef StreamState state = self.state
        cdef int64_t behind
        cdef Py_ssize_t first = state.first
        cdef bint ends_chunk = state.parted or first
        if not state.is_open or end - b != 26 or b[1] or _eight(b + 2) != state.number:
            return LEFT
        behind = _eight(b + 10)
        if behind <= state.number:
            return LEFT
        state.server_us = state.commit_us
        if state.rows or state.marks or ends_chunk:
            state.done_rows += len(state.rows)
            state.done_octets += state.octets
            state.first = max(first, state.ordinal)
            state.done.append(
                SourceTransaction(
                    state.source, state.number, state.file, behind, state.rows, first, state.first - first, True,
                    state.commit_us, None, tuple(state.marks) if state.marks else (),
                )
            )  # fmt: skip
            state.rows = []
            if state.marks:
                state.marks = []
            state.octets = 0
        state.is_open = False
        state.boundary = state.last_end = behind
        state.last_number, state.last_us, state.last_xid = state.number, state.commit_us, state.xid
        state.first = 0
        state.quiet += 1
        if ends_chunk or self.is_full() or state.quiet >= self.most_quiet:
            self.assembly.flush()
        return TAKEN

    cdef int use(self, uint32_t oid) except -1:
        """Make the table of this oid the one at hand; none where it is not a usual one."""
        table = self.tables.get(oid)
        self.oid, self.table, self.layout = oid, table, None
        if table is None:
            return 0
        self.is_wanted = table.role is WANTED
        if self.is_wanted:
            self.layout = self.layouts.get(table.number)
            if self.layout is None:
                self.layout = self.layouts[table.number] = Layout(table.number, table.shape, self.images, table.shows_gaps)
                if self.images and self.layout.image is None:
                    self.have_tuples()
        elif table.role is not UNWANTED:
            self.table = None  # a marker's row is rare
        return 0

    cdef int have_tuples(self) except -1:
        """Make no images any more: a batch is sent as images only where all its rows are."""
        cdef Layout layout
        self.images = False
        for layout in self.layouts.values():
            layout.image = None
        return 0

    cdef Outcome row(self, const uint8_t* b, const uint8_t* end) except? LEFT:
        cdef StreamState state = self.state
        cdef const uint8_t* at = b + 6
        cdef uint8_t kind = b[0], mark
        cdef bint has_old = False
        cdef uint32_t oid
        cdef object change
        if not state.is_open or end - b < 8:
            return LEFT
        oid, mark = _four(b + 1), b[5]
        if self.table is None or oid != self.oid:
            self.use(oid)
            if self.table is None:
                return LEFT
        if not self.is_wanted:
            state.ordinal += 1
            return TAKEN
        if mark != c"N":
            if kind == c"I" or (mark != c"O" and mark != c"K"):
                return LEFT
            at = self.fields(self.old, at, end, False)
            if at == NULL:
                return LEFT
            has_old = True
            if kind == c"U":
                if at == end or at[0] != c"N":
                    return LEFT
                at += 1
        elif kind == c"D":
            return LEFT
        if kind != c"D":
            at = self.fields(self.new, at, end, kind == c"U")
        if at != end:  # none, or more than a row
            return LEFT
        try:
            change = self.change(kind, mark, has_old)
        except Exception:  # the Python form reads it once more, and says what is wrong
            return LEFT
        state.ordinal += 1
        state.octets += end - b
        if change is not None:
            state.rows.append(change)
        if self.is_full():
            self.assembly.relieve()
        return TAKEN

    cdef object change(self, uint8_t kind, uint8_t mark, bint has_old):
        """The change of the fields at hand; None for one that changes nothing.  Raises whatever is not usual."""
        cdef StreamState state = self.state
        cdef Layout layout = self.layout
        cdef tuple after
        cdef bint same
        if mark == c"O" and not layout.tells_all:
            mark = c"K"  # `row_reader.RowReader.change`
        if layout.shows_gaps and has_old and self.is_bare():
            raise ValueError
        if mark == c"K" and not layout.has_key:
            raise ValueError
        if kind == c"D":
            return RowChange(
                layout.number, layout.key(self.old) if mark == c"K" else layout.whole(self.old), None, state.ordinal
            )
        if kind == c"I":
            return RowChange(layout.number, None, layout.whole(self.new), state.ordinal)
        if not has_old:
            if not layout.has_key:
                raise ValueError
            after = layout.row(self.new)
            return RowChange(layout.number, layout.key_of(after), after, state.ordinal)
        same = self.fill()
        if mark == c"K":
            return RowChange(layout.number, layout.key(self.old), layout.row(self.new), state.ordinal)
        if self.leaves_out():
            raise ValueError
        if same:
            return None
        return RowChange(layout.number, layout.whole(self.old), layout.whole(self.new), state.ordinal)

    cdef bint is_bare(self) noexcept:
        """Has the old row NULL in all columns but the key's?"""
        cdef int i
        for i in range(self.layout.count):
            if not self.layout.is_key[i] and self.old[i].size != SQL_NULL:
                return False
        return True

    cdef bint fill(self) noexcept:
        """Give the new row the values that it leaves out; says whether it is the old one then."""
        cdef Field* old = self.old
        cdef Field* new = self.new
        cdef bint same = True
        cdef int i
        for i in range(self.layout.count):
            if new.size == LEFT_OUT and old.size >= 0:
                new[0] = old[0]
            elif same:
                same = new.size == old.size and (new.size <= 0 or memcmp(new.start, old.start, new.size) == 0)
            old += 1
            new += 1
        return same

    cdef bint leaves_out(self) noexcept:
        """Does the new row still leave out a value?"""
        cdef int i
        for i in range(self.layout.count):
            if self.new[i].size == LEFT_OUT:
                return True
        return False

    cdef const uint8_t* fields(self, Field* found, const uint8_t* at, const uint8_t* end, bint may_leave_out) noexcept:
        """Find the values of a row; returns where it ends, NULL where it is none of the table's."""
        cdef int i, count = self.layout.count
        cdef int32_t size
        if end - at < 2 or (at[0] << 8 | at[1]) != count or count > MOST_COLUMNS:
            return NULL
        at += 2
        for i in range(count):
            if at == end:
                return NULL
            if at[0] == c"t":
                if end - at < 5:
                    return NULL
                size = <int32_t> _four(at + 1)
                at += 5
                if size < 0 or size > end - at:
                    return NULL
                found.start, found.size = at, size
                at += size
            else:
                if at[0] == c"n":
                    found.size = SQL_NULL
                elif at[0] == c"u" and may_leave_out:
                    found.size = LEFT_OUT
                else:
                    return NULL
                at += 1
            found += 1
        return at

    cdef bint is_full(self) noexcept:
        cdef StreamState state = self.state
        return (
            state.done_rows + len(state.rows) >= self.chunk_rows
            or state.done_octets + state.octets >= self.chunk_octets
        )


cdef inline uint32_t _four(const uint8_t* at) noexcept:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline int64_t _eight(const uint8_t* at) noexcept:
    return <int64_t> (<uint64_t> _four(at) << 32 | _four(at + 4))
