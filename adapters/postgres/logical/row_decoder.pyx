# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages that make up nearly all of a stream, compiled: what `Assembly`, `messages`, `row_reader` and `row_values`
do for them.

    B · I, U and D of tables that were told · C

`UsualMessages.take` knows those messages only where there is nothing to decide: a message is taken wholly, or is left as
it is to the Python form, which knows each error, each other message and each exception to the rule.  So there are no
errors here, and whatever is not plainly usual is left.

The state is that of the assembly (`StreamState`), so nothing is copied from one form to the other.
This module is optional; tests/adapters/test_postgres_messages.py holds one form against the other.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from tidelock.adapters.postgres.logical import messages, row_values
from tidelock.adapters.postgres.logical.relations import Role
from tidelock.adapters.postgres.logical.row_reader import key_positions
from tidelock.engine.model.records import UNKNOWN, RowChange, SourceTransaction

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
    MOST_COLUMNS = 1664  # of a table, in PostgreSQL

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
    cdef int count
    cdef bint has_key  # its identity is `key`, and it has one
    cdef Code* codes
    cdef uint8_t* is_key

    def __cinit__(self, number, shape):
        cdef int i
        self.number = number
        self.count = len(shape.columns)
        self.codes = <Code*> PyMem_Malloc(max(self.count, 1) * sizeof(Code))
        self.is_key = <uint8_t*> PyMem_Malloc(max(self.count, 1))
        if self.codes == NULL or self.is_key == NULL:
            raise MemoryError
        key = key_positions(shape)
        self.has_key = shape.identity == "key" and bool(key)
        for i, column in enumerate(shape.columns):
            found = row_values.code(column)
            self.codes[i].form, self.codes[i].base, self.codes[i].scale = found.form, found.base, found.scale
            self.is_key[i] = i in key

    def __dealloc__(self):
        PyMem_Free(self.codes)
        PyMem_Free(self.is_key)

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


cdef inline object _text(const uint8_t* start, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char*> start, size, "strict")
    except UnicodeDecodeError:
        return PyBytes_FromStringAndSize(<const char*> start, size)


cdef inline object _ascii(const uint8_t* start, Py_ssize_t size):
    return PyUnicode_DecodeASCII(<const char*> start, size, "strict")


cdef inline object _int(Field* f):
    cdef const uint8_t* at = f.start
    cdef const uint8_t* end = at + f.size
    cdef bint negative = at < end and at[0] == c"-"
    cdef uint64_t value = 0
    at += negative
    if at == end or end - at > 19:
        raise ValueError
    while at < end:
        if not c"0" <= at[0] <= c"9":
            raise ValueError
        value = value * 10 + (at[0] - c"0")
        at += 1
    if value > (<uint64_t> 1 << 63) - 1 + negative:
        raise ValueError
    if negative:
        return <int64_t> (0 - value)
    return <int64_t> value


cdef object _other(Code* code, Field* f):
    cdef int32_t size = f.size
    cdef bytes raw
    if code.form == ASCII:
        return _ascii(f.start, size)
    if code.form == PADDED:
        while size and f.start[size - 1] == c" ":
            size -= 1
        return _text(f.start, size)
    if code.form == BOOL:
        if size == 1 and f.start[0] == c"t":
            return 1
        if size == 1 and f.start[0] == c"f":
            return 0
        raise ValueError
    if code.form == MOMENT:
        return _moment(f.start, size, code)
    if code.form == ZONED:
        return _zoned(f.start, size, code)
    if code.form == BINARY:
        return _binary(f)
    if code.form == BIT:
        return _bit(f)
    return _number(code.form, f)


cdef object _number(int form, Field* f):
    """What is not a plain number (NaN, the infinities), and what two 32-bit numbers are as near to, goes the long way."""
    cdef char text[LONGEST_NUMBER + 1]
    cdef bytes raw
    cdef double value, near
    if f.size <= LONGEST_NUMBER and _is_number(f.start, f.start + f.size):
        memcpy(text, f.start, f.size)
        text[f.size] = 0
        value = PyOS_string_to_double(text, NULL, NULL)
        if form == DOUBLE and value - value == 0:
            return value
        near = <double> <float> value
        if near == value or (near - near == 0 and <double> <float> (value + (value - near)) != value + (value - near)):
            return near
    raw = PyBytes_FromStringAndSize(<const char*> f.start, f.size)
    return row_values._float(raw) if form == FLOAT else row_values._double(raw)


cdef bint _is_number(const uint8_t* at, const uint8_t* end) noexcept:
    """`-?[0-9]+(.[0-9]+)?(e[+-]?[0-9]+)?`"""
    at += at < end and at[0] == c"-"
    if not _digits(&at, end):
        return False
    if at < end and at[0] == c".":
        at += 1
        if not _digits(&at, end):
            return False
    if at < end and at[0] == c"e":
        at += 1
        at += at < end and (at[0] == c"+" or at[0] == c"-")
        if not _digits(&at, end):
            return False
    return at == end


cdef bint _digits(const uint8_t** at, const uint8_t* end) noexcept:
    """Go over digits; says whether there are any."""
    cdef const uint8_t* begin = at[0]
    while at[0] < end and c"0" <= at[0][0] <= c"9":
        at[0] += 1
    return at[0] > begin


cdef inline int _digit(uint8_t byte) noexcept:
    if c"0" <= byte <= c"9":
        return byte - c"0"
    if c"a" <= byte <= c"f":
        return byte - c"a" + 10
    if c"A" <= byte <= c"F":
        return byte - c"A" + 10
    return 256


cdef object _binary(Field* f):
    cdef bytes made
    cdef char* out
    cdef Py_ssize_t i, size = (f.size - 2) // 2
    cdef int byte
    if f.size < 2 or f.size % 2 or f.start[0] != c"\\" or f.start[1] != c"x":
        raise ValueError
    made = PyBytes_FromStringAndSize(NULL, size)
    out = made
    for i in range(size):
        byte = _digit(f.start[2 + 2 * i]) << 4 | _digit(f.start[3 + 2 * i])
        if byte > 255:
            raise ValueError
        out[i] = <char> byte
    return made


cdef object _bit(Field* f):
    cdef uint64_t value = 0
    cdef int32_t i
    if not 0 < f.size <= 64:
        raise ValueError
    for i in range(f.size):
        if f.start[i] != c"0" and f.start[i] != c"1":
            raise ValueError
        value = value << 1 | (f.start[i] - c"0")
    return value


cdef bint _is_plain(const uint8_t* text, int32_t size, int base) noexcept:
    """A moment of a year from 1 to 9999, with a fraction or without."""
    cdef int32_t i
    if size < base or text[base - 3] != c":" or (base == 19 and text[4] != c"-"):
        return False
    if size == base:
        return True
    if text[base] != c"." or size == base + 1:
        return False
    for i in range(base + 1, size):
        if not c"0" <= text[i] <= c"9":
            return False
    return True


cdef object _moment(const uint8_t* text, int32_t size, Code* code):
    cdef char made[LONGEST_MOMENT]
    cdef int32_t whole = code.base + code.scale + (code.scale > 0)
    if not _is_plain(text, size, code.base):
        return _ascii(text, size)
    if size > whole or whole > LONGEST_MOMENT:
        raise ValueError
    if size == whole:
        return _ascii(text, size)
    memset(made, c"0", LONGEST_MOMENT)
    memcpy(made, text, size)
    if size == code.base:
        made[size] = c"."
    return PyUnicode_DecodeASCII(made, whole, "strict")


cdef object _zoned(const uint8_t* text, int32_t size, Code* code):
    if size >= 3 and memcmp(text + size - 3, b"+00", 3) == 0:
        if size >= 5 and text[4] == c"-":
            return _moment(text, size - 3, code)
        return _ascii(text, size)
    raise ValueError  # infinity, years before 1: rare


@cython.final
cdef class UsualMessages:
    """Takes messages for `assembly`, in its state."""

    cdef object assembly, plain
    cdef StreamState state
    cdef dict tables, layouts
    cdef Py_ssize_t chunk_rows, chunk_octets, first_ordinal, most_quiet
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
        self.tables, self.layouts = assembly.relations.tables, {}
        self.chunk_rows, self.chunk_octets = assembly.chunk_rows, assembly.chunk_bytes
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
        if not state.is_open or end - b != 26 or b[1] or _eight(b + 2) != state.number:
            return LEFT
        behind = _eight(b + 10)
        if behind <= state.number:
            return LEFT
        state.server_us = state.commit_us
        if state.rows or state.marks or state.parted or first:
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
        if self.is_full() or state.quiet >= self.most_quiet:
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
                self.layout = self.layouts[table.number] = Layout(table.number, table.shape)
        elif table.role is not UNWANTED:
            self.table = None  # a marker's row is rare
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
        if mark == c"K" and not layout.has_key:
            raise ValueError
        if kind == c"D":
            return RowChange(
                layout.number, layout.key(self.old) if mark == c"K" else layout.row(self.old), None, state.ordinal
            )
        if kind == c"I":
            return RowChange(layout.number, None, layout.row(self.new), state.ordinal)
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
        return RowChange(layout.number, layout.row(self.old), layout.row(self.new), state.ordinal)

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
