# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Row images as the log holds them, read in place: the compiled form of rows, beside tuples.

Between a log and a target most values are only passed on: the engine looks at a row's keys, the sink writes its other
columns as text.  A `RowImage` is therefore no tuple of values but a place in the bytes that came from the source; it
behaves as that tuple does (index, length, iteration, equality), makes a Python value only for a column that somebody
asks for, and writes texts for a target without making any.

This module is optional.  Where it is not built, and for tables with a column that `Layout` has no code for, rows are
tuples made by `row_compiler`, slower and equal (tests/adapters/test_row_image.py holds one against the other).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset, strlen

from tidelock.engine.model.records import RowChange

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

# What this module is built from, put in by the compiler's command (`adapters.compiled.forms`).
cdef extern from *:
    """
    #ifndef TIDELOCK_SOURCE
    #define TIDELOCK_SOURCE ""
    #endif
    """
    const char* TIDELOCK_SOURCE

SOURCE = TIDELOCK_SOURCE.decode()

# Codes of columns.  `size`: bytes of a fixed column, or of the length before a varying one.
cdef enum:
    SIGNED = 0  # size 1 to 8, little-endian
    UNSIGNED = 1
    TEXT = 2  # varying, UTF-8
    CODED = 3  # varying, another charset: `extra` decodes
    BYTES = 4  # varying
    PADDED = 5  # varying, NULs up to `a` bytes
    DECIMAL = 6  # `a` digits, `b` of them behind the point
    DATE = 7
    DATETIME = 8  # `a` digits of a second's fraction; so are the next two
    TIMESTAMP = 9
    TIME = 10
    YEAR = 11
    BIT = 12  # size 1 to 8, big-endian
    FLOAT = 13
    DOUBLE = 14
    ENUM = 15  # `extra`: labels, the empty one first
    SET = 16  # `extra`: texts by bits; `a`: labels

CODES = {
    "signed": SIGNED, "unsigned": UNSIGNED, "text": TEXT, "coded": CODED, "bytes": BYTES, "padded": PADDED,
    "decimal": DECIMAL, "date": DATE, "datetime": DATETIME, "timestamp": TIMESTAMP, "time": TIME, "year": YEAR,
    "bit": BIT, "float": FLOAT, "double": DOUBLE, "enum": ENUM, "set": SET,
}  # fmt: skip

cdef struct Column:
    int code
    int size
    int a
    int b
    int varying
    int offset  # from the row's start while all columns before are fixed and not NULL; else -1

cdef struct Field:
    const uint8_t* start  # NULL: SQL NULL
    Py_ssize_t size


class RowOverrun(ValueError):
    """The rows do not end where their event ends: the columns are not what the table map said."""


@cython.final
cdef class Layout:
    """The columns of a table as its rows in the log have them.

    `columns`: (code, size, a, b, extra) of each.  `inserts`, `updates` and `deletes` read an event's rows as the
    functions of `row_compiler` do: from `p` to `end` of `b`, ordinals from `n`; each row goes to `add`; the next ordinal
    is returned.  They raise RowOverrun or ValueError.
    """

    cdef readonly object number
    cdef Column* columns
    cdef int count, width
    cdef readonly list extras

    def __cinit__(self, number, columns):
        cdef int i, offset
        self.number = number
        self.count = len(columns)
        self.width = (self.count + 7) // 8
        self.extras = [extra for _, _, _, _, extra in columns]
        self.columns = <Column*> PyMem_Malloc(max(self.count, 1) * sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        offset = self.width
        for i, (code, size, a, b, _) in enumerate(columns):
            self.columns[i].code = code
            self.columns[i].size = size
            self.columns[i].a = a
            self.columns[i].b = b
            self.columns[i].varying = TEXT <= code <= PADDED
            self.columns[i].offset = offset
            if offset >= 0:
                offset = -1 if self.columns[i].varying else offset + size

    def __dealloc__(self):
        PyMem_Free(self.columns)

    def __len__(self):
        return self.count

    def inserts(self, bytes b, Py_ssize_t p, Py_ssize_t end, n, add):
        cdef object number = self.number
        cdef RowImage row
        while p < end:
            row = self.take(b, &p, end)
            add(RowChange(number, None, row, n))
            n += 1
        return n

    def deletes(self, bytes b, Py_ssize_t p, Py_ssize_t end, n, add):
        cdef object number = self.number
        cdef RowImage row
        while p < end:
            row = self.take(b, &p, end)
            add(RowChange(number, row, None, n))
            n += 1
        return n

    def updates(self, bytes b, Py_ssize_t p, Py_ssize_t end, n, add):
        cdef object number = self.number
        cdef RowImage before, row
        while p < end:
            before = self.take(b, &p, end)
            row = self.take(b, &p, end)
            add(RowChange(number, before, row, n))
            n += 1
        return n

    cdef RowImage take(self, bytes b, Py_ssize_t* p, Py_ssize_t end):
        """The row at `p`, which moves behind it."""
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(b)
        cdef Py_ssize_t start = p[0]
        cdef const uint8_t* stop = self.walk(data + start, data + end)
        p[0] = stop - data
        return _image(self, b, start, p[0] - start)

    cdef const uint8_t* walk(self, const uint8_t* row, const uint8_t* end) except NULL:
        """The end of the row.  What would make no value is refused here."""
        cdef const uint8_t* at = row + self.width
        cdef Column* column = self.columns
        cdef Py_ssize_t size
        cdef int i
        if at > end:
            raise RowOverrun("a row ends behind its event")
        for i in range(self.count):
            if not row[i >> 3] >> (i & 7) & 1:
                if column.varying:
                    if column.size > end - at:
                        raise RowOverrun("a row ends behind its event")
                    size = column.size + <Py_ssize_t> _little(at, column.size)
                else:
                    size = column.size
                if size > end - at:
                    raise RowOverrun("a row ends behind its event")
                if column.code == ENUM and <Py_ssize_t> _little(at, size) >= len(self.extras[i]):
                    raise IndexError("an ENUM value that has no label")
                if column.code == SET and column.a < 64 and _little(at, size) >> column.a:
                    raise ValueError("a SET value with more members than the column has labels")
                at += size
            column += 1
        return at

    cdef Field field(self, const uint8_t* row, int index) noexcept:
        """Where a column of the row is: of a varying one, what is behind its length."""
        cdef Field found
        cdef Column* column = self.columns + index
        cdef const uint8_t* at
        cdef int i
        if row[index >> 3] >> (index & 7) & 1:
            found.start = NULL
            found.size = 0
            return found
        if column.offset >= 0 and not self.nulls_before(row, index):
            at = row + column.offset
        else:
            at = row + self.width
            column = self.columns
            for i in range(index):
                if not row[i >> 3] >> (i & 7) & 1:
                    at += column.size + (<Py_ssize_t> _little(at, column.size) if column.varying else 0)
                column += 1
        if column.varying:
            found.size = <Py_ssize_t> _little(at, column.size)
            found.start = at + column.size
        else:
            found.size = column.size
            found.start = at
        return found

    cdef bint nulls_before(self, const uint8_t* row, int index) noexcept:
        cdef int i
        for i in range(index >> 3):
            if row[i]:
                return True
        return row[index >> 3] & ((1 << (index & 7)) - 1) != 0

    cdef object value(self, const uint8_t* row, int index):
        cdef Field f = self.field(row, index)
        return None if f.start == NULL else self.of(self.columns + index, index, f)

    cdef object of(self, Column* column, int index, Field f):
        cdef char text[96]
        cdef bytes raw
        if column.code == SIGNED:
            return _signed(f.start, f.size)
        if column.code == UNSIGNED:
            return _little(f.start, f.size)
        if column.code == TEXT:
            try:
                return PyUnicode_DecodeUTF8(<const char*> f.start, f.size, "strict")
            except UnicodeDecodeError:
                return PyBytes_FromStringAndSize(<const char*> f.start, f.size)
        if column.code == CODED:
            raw = PyBytes_FromStringAndSize(<const char*> f.start, f.size)
            return self.extras[index](raw)
        if column.code == BYTES:
            return PyBytes_FromStringAndSize(<const char*> f.start, f.size)
        if column.code == PADDED:
            raw = PyBytes_FromStringAndSize(<const char*> f.start, f.size)
            return raw if f.size >= column.a else raw + bytes(column.a - f.size)
        if column.code == YEAR:
            return f.start[0] + 1900 if f.start[0] else 0
        if column.code == BIT:
            return _big(f.start, f.size)
        if column.code == FLOAT:
            return <double> (<const float*> f.start)[0]
        if column.code == DOUBLE:
            return (<const double*> f.start)[0]
        if column.code == ENUM:
            return self.extras[index][_little(f.start, f.size)]
        if column.code == SET:
            return self.extras[index][_little(f.start, f.size)]
        return PyUnicode_DecodeASCII(text, _spell(text, column, f), "strict")

    cdef tuple values(self, const uint8_t* row):
        return tuple([self.value(row, i) for i in range(self.count)])


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class RowImage:
    """One row; equal to the tuple of its values."""

    cdef Layout layout
    cdef bytes buffer
    cdef Py_ssize_t start, size

    cdef inline const uint8_t* data(self) noexcept:
        return <const uint8_t*> PyBytes_AS_STRING(self.buffer) + self.start

    def __len__(self):
        return self.layout.count

    def __getitem__(self, index):
        cdef Py_ssize_t i
        if isinstance(index, slice):
            return self.layout.values(self.data())[index]
        i = index
        if i < 0:
            i += self.layout.count
        if not 0 <= i < self.layout.count:
            raise IndexError("row index out of range")
        return self.layout.value(self.data(), <int> i)

    def __iter__(self):
        return iter(self.layout.values(self.data()))

    def __eq__(self, other):
        cdef RowImage image
        if isinstance(other, RowImage):
            image = <RowImage> other
            return self.layout.values(self.data()) == image.layout.values(image.data())
        return self.layout.values(self.data()) == other

    def __hash__(self):
        return hash(self.layout.values(self.data()))

    def __repr__(self):
        return repr(self.layout.values(self.data()))

    def __reduce__(self):
        return tuple, (self.layout.values(self.data()),)


cdef inline RowImage _image(Layout layout, bytes buffer, Py_ssize_t start, Py_ssize_t size):
    cdef RowImage row = RowImage.__new__(RowImage)
    row.layout = layout
    row.buffer = buffer
    row.start = start
    row.size = size
    return row


# ------------------------------------------------------------------------------------------------ between processes

cdef packed struct Head:
    uint32_t table
    uint64_t ordinal
    uint32_t before  # bytes of the image, 0: none
    uint32_t after


def pack(rows):
    """Changes → bytes; None where a row of them is no RowImage."""
    cdef Py_ssize_t size = 0
    cdef RowImage image
    cdef list parts = []
    cdef object change, before, after
    cdef Head head
    cdef bytes out
    cdef char* at
    for change in rows:
        before, after = change.before, change.after
        size += sizeof(Head)
        if before is not None:
            if not isinstance(before, RowImage):
                return None
            size += (<RowImage> before).size
        if after is not None:
            if not isinstance(after, RowImage):
                return None
            size += (<RowImage> after).size
        parts.append((change, before, after))
    out = PyBytes_FromStringAndSize(NULL, size)
    at = PyBytes_AS_STRING(out)
    for change, before, after in parts:
        head.table = change.table
        head.ordinal = change.ordinal
        head.before = <uint32_t> (<RowImage> before).size if before is not None else 0
        head.after = <uint32_t> (<RowImage> after).size if after is not None else 0
        memcpy(at, &head, sizeof(Head))
        at += sizeof(Head)
        if before is not None:
            image = <RowImage> before
            memcpy(at, image.data(), image.size)
            at += image.size
        if after is not None:
            image = <RowImage> after
            memcpy(at, image.data(), image.size)
            at += image.size
    return out


@cython.final
@cython.no_gc
cdef class PackedRows:
    """What `pack` made of a batch's rows, not taken apart (`engine.model.records.PackedRows`).

    `layouts`: by table number.  The images that are made of it stay in its bytes.
    """

    cdef bytes packed
    cdef dict layouts
    cdef Py_ssize_t count
    cdef readonly tuple tables

    def __cinit__(self, bytes packed, dict layouts):
        self.packed = packed
        self.layouts = layouts

    def __init__(self, bytes packed, dict layouts):
        """Raises KeyError for a table that has no layout, ValueError for what does not end with a row."""
        cdef Py_ssize_t at = 0
        cdef Head head
        cdef uint32_t table = 0
        cdef dict tables = {}
        while at + <Py_ssize_t> sizeof(Head) <= PyBytes_GET_SIZE(packed):
            at = self.head(at, &head)
            if not self.count or head.table != table:
                table = head.table
                tables[(<Layout?> self.layouts[table]).number] = None
            self.count += 1
        if at != PyBytes_GET_SIZE(packed):
            raise ValueError("packed rows that end within a row")
        self.tables = tuple(tables)

    def __len__(self):
        return self.count

    def __eq__(self, other):
        return tuple(self) == (tuple(other) if isinstance(other, PackedRows) else other)

    def __iter__(self):
        return iter(self.rows(RowChange, None, None))

    def changes(self, make, dict bindings, transactions):
        return self.rows(make, bindings, Places(transactions))

    cdef list rows(self, make, dict bindings, Places places):
        """Without `places` they are as `make` takes those of a batch: by their table's number."""
        cdef Py_ssize_t at = 0, image, size = PyBytes_GET_SIZE(self.packed)
        cdef Head head
        cdef Layout layout = None
        cdef object before, after, binding = None
        cdef uint32_t table = 0
        cdef list rows = []
        while at < size:
            image = at + <Py_ssize_t> sizeof(Head)
            at = self.head(at, &head)
            if layout is None or head.table != table:
                table = head.table
                layout = <Layout> self.layouts[table]
                binding = bindings[table] if bindings is not None else layout.number
            before = _image(layout, self.packed, image, head.before) if head.before else None
            after = _image(layout, self.packed, image + head.before, head.after) if head.after else None
            if places is None:
                rows.append(make(binding, before, after, head.ordinal))
            else:
                places.step()
                rows.append(make(binding, before, after, places.source, places.number, head.ordinal))
        return rows

    def pile(self):
        return Pile()

    def pour(self, dict piles, make, dict bindings, transactions):
        cdef Py_ssize_t at = 0, image, size = PyBytes_GET_SIZE(self.packed)
        cdef Head head
        cdef Places places = Places(transactions)
        cdef Layout layout = None
        cdef Pile pile = None
        cdef object before, after, binding = None
        cdef uint32_t table = 0, kind = 0
        cdef list rest = []
        while at < size:
            image = at + <Py_ssize_t> sizeof(Head)
            at = self.head(at, &head)
            places.step()
            if layout is None or head.table != table:
                table = head.table
                layout = <Layout> self.layouts[table]
                binding = bindings[table]
                pile = piles.get(binding)
                if pile is not None:
                    kind = pile.kind(binding, layout)
            if pile is not None:
                pile.add(kind, places, &head, PyBytes_AS_STRING(self.packed) + image)
                continue
            before = _image(layout, self.packed, image, head.before) if head.before else None
            after = _image(layout, self.packed, image + head.before, head.after) if head.after else None
            rest.append(make(binding, before, after, places.source, places.number, head.ordinal))
        return rest

    cdef Py_ssize_t head(self, Py_ssize_t at, Head* head) noexcept:
        """Read the head of the row at `at`; returns where the next one is."""
        memcpy(head, PyBytes_AS_STRING(self.packed) + at, sizeof(Head))
        return at + <Py_ssize_t> sizeof(Head) + head.before + head.after


cdef packed struct Place:
    uint64_t number
    uint64_t ordinal
    uint32_t source  # index of `Pile.sources`
    uint32_t kind  # of `Pile.bindings` and `Pile.layouts`
    uint32_t before
    uint32_t after


@cython.final
@cython.no_gc
cdef class Pile:
    """Rows of one table copied out of the messages that they came in, side by side, each behind its place in the log
    (`engine.model.records.Pile`)."""

    cdef list sources, bindings, layouts
    cdef object source  # the last of them
    cdef char* data
    cdef Py_ssize_t filled, room
    cdef readonly Py_ssize_t rows

    def __cinit__(self):
        self.sources, self.bindings, self.layouts = [], [], []

    def __dealloc__(self):
        PyMem_Free(self.data)

    @property
    def size(self):
        return self.room

    def changes(self, make):
        cdef bytes buffer = PyBytes_FromStringAndSize(self.data, self.filled)
        cdef Py_ssize_t at = 0
        cdef Place place
        cdef object before, after
        cdef Layout layout
        cdef list changes = []
        while at < self.filled:
            memcpy(&place, self.data + at, sizeof(Place))
            at += sizeof(Place)
            layout = <Layout> self.layouts[place.kind]
            before = _image(layout, buffer, at, place.before) if place.before else None
            at += place.before
            after = _image(layout, buffer, at, place.after) if place.after else None
            at += place.after
            changes.append(
                make(self.bindings[place.kind], before, after, self.sources[place.source], place.number, place.ordinal)
            )
        return changes

    cdef uint32_t kind(self, binding, Layout layout) except? 0xFFFFFFFF:
        """A table's rows may come under more than one shape."""
        cdef Py_ssize_t i
        for i in range(len(self.bindings)):
            if self.bindings[i] is binding and self.layouts[i] is layout:
                return <uint32_t> i
        self.bindings.append(binding)
        self.layouts.append(layout)
        return <uint32_t> (len(self.bindings) - 1)

    cdef int add(self, uint32_t kind, Places places, Head* head, const char* images) except -1:
        cdef Place place
        cdef Py_ssize_t size = <Py_ssize_t> head.before + head.after
        cdef Py_ssize_t more = sizeof(Place) + size, room
        cdef char* data
        if self.filled + more > self.room:
            room = max(2 * self.room, self.filled + more)
            data = <char*> PyMem_Realloc(self.data, room)
            if data == NULL:
                raise MemoryError
            self.data, self.room = data, room
        if self.source is not places.source:
            if self.source != places.source:
                self.source = places.source
                self.sources.append(places.source)
        place.number = places.number
        place.ordinal = head.ordinal
        place.source = <uint32_t> (len(self.sources) - 1)
        place.kind = kind
        place.before, place.after = head.before, head.after
        memcpy(self.data + self.filled, &place, sizeof(Place))
        memcpy(self.data + self.filled + sizeof(Place), images, size)
        self.filled += more
        self.rows += 1
        return 0


@cython.final
cdef class Places:
    """Walks rows and tells the transaction of each."""

    cdef object transactions, source
    cdef uint64_t number
    cdef Py_ssize_t next, row, until

    def __cinit__(self, transactions):
        self.transactions = transactions
        self.next = self.row = self.until = 0

    cdef int step(self) except -1:
        """To the first row, to the next one.  Raises ValueError where rows have no transaction."""
        while self.row >= self.until:
            if self.next >= len(self.transactions):
                raise ValueError("rows without a transaction")
            transaction = self.transactions[self.next]
            self.source, self.number = transaction.source, transaction.number
            self.next += 1
            self.until = self.transactions[self.next].first if self.next < len(self.transactions) else PY_SSIZE_T_MAX
        self.row += 1
        return 0


# ---------------------------------------------------------------------------------------------- texts for a target

cdef struct Text:
    char* data
    Py_ssize_t size
    Py_ssize_t room


cdef int _reserve(Text* out, Py_ssize_t more) except -1:
    cdef Py_ssize_t room
    cdef char* data
    if out.size + more > out.room:
        room = max(out.room * 2, out.size + more + 4096)
        data = <char*> PyMem_Realloc(out.data, room)
        if data == NULL:
            raise MemoryError
        out.data, out.room = data, room
    return 0


cdef inline int _put(Text* out, const char* data, Py_ssize_t size) except -1:
    _reserve(out, size)
    memcpy(out.data + out.size, data, size)
    out.size += size
    return 0


cdef enum:
    PLAIN = 0
    REFUSED = 1  # no target's text, or one that must be looked at
    HIGH = 2  # a byte of a longer character
    ESCAPED = 3

# What a byte of text is, and for ESCAPED what stands for it.
cdef struct Escapes:
    uint8_t kind[256]
    char text[256][3]
    int length[256]

cdef Escapes COPY, ARRAY, SQL, MYSQL


cdef void _escape(Escapes* table, uint8_t byte, const char* text) noexcept:
    cdef int n = 0
    while text[n]:
        table.text[byte][n] = text[n]
        n += 1
    table.kind[byte] = ESCAPED
    table.length[byte] = n


cdef void _fill(Escapes* table) noexcept:
    cdef int i
    memset(table, 0, sizeof(Escapes))
    for i in range(128, 256):
        table.kind[i] = HIGH


_fill(&COPY)
_fill(&ARRAY)
_fill(&SQL)
_fill(&MYSQL)
COPY.kind[0] = ARRAY.kind[0] = SQL.kind[0] = REFUSED
_escape(&COPY, b"\\", b"\\\\")
_escape(&COPY, b"\t", b"\\t")
_escape(&COPY, b"\n", b"\\n")
_escape(&COPY, b"\r", b"\\r")
# An element in double quotes of an array, inside a literal in single quotes.
_escape(&ARRAY, b"\\", b"\\\\")
_escape(&ARRAY, b'"', b'\\"')
_escape(&ARRAY, b"'", b"''")
_escape(&SQL, b"'", b"''")
_escape(&MYSQL, b"'", b"''")  # under NO_BACKSLASH_ESCAPES nothing else in a string has a meaning


cdef int _put_text(Text* out, const uint8_t* data, Py_ssize_t size, Escapes* table) except -1:
    """1 where it is no text for the target."""
    cdef Py_ssize_t i, plain = 0
    cdef uint8_t kind
    cdef bint high = False
    _reserve(out, 3 * size)
    for i in range(size):
        kind = table.kind[data[i]]
        if kind != PLAIN:
            if kind == REFUSED:
                return 1
            if kind == HIGH:
                high = True
                continue
            memcpy(out.data + out.size, data + plain, i - plain)
            out.size += i - plain
            memcpy(out.data + out.size, table.text[data[i]], table.length[data[i]])
            out.size += table.length[data[i]]
            plain = i + 1
    memcpy(out.data + out.size, data + plain, size - plain)
    out.size += size - plain
    return high and not _is_utf8(data, size)


cdef bint _is_utf8(const uint8_t* data, Py_ssize_t size):
    try:
        PyUnicode_DecodeUTF8(<const char*> data, size, "strict")
    except UnicodeDecodeError:
        return False
    return True


cdef int _put_field(Text* out, Layout layout, int index, Field f, Escapes* table, const char* quote) except -1:
    """A value that is not NULL; texts and times in `quote`s.  1 where the caller has to look at it."""
    cdef Column* column = layout.columns + index
    cdef bytes text
    cdef int refused
    if column.code == TEXT:
        _put(out, quote, quote[0] != 0)
        refused = _put_text(out, f.start, f.size, table)
        _put(out, quote, quote[0] != 0)
        return refused
    if column.code == ENUM or column.code == SET or column.code == CODED:
        value = layout.of(column, index, f)
        if not isinstance(value, str):
            return 1
        text = value.encode()
        _put(out, quote, quote[0] != 0)
        refused = _put_text(out, <const uint8_t*> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), table)
        _put(out, quote, quote[0] != 0)
        return refused
    _reserve(out, 96)
    if column.code == SIGNED:
        out.size += _put_signed(out.data + out.size, _signed(f.start, f.size))
        return 0
    if column.code == UNSIGNED:
        out.size += _put_unsigned(out.data + out.size, _little(f.start, f.size), 0)
        return 0
    if column.code == YEAR:
        out.size += _put_unsigned(out.data + out.size, f.start[0] + 1900 if f.start[0] else 0, 0)
        return 0
    if column.code == BIT:
        out.size += _put_unsigned(out.data + out.size, _big(f.start, f.size), 0)
        return 0
    if column.code == DECIMAL:
        out.size += _spell(out.data + out.size, column, f)
        return 0
    if column.code == FLOAT or column.code == DOUBLE:
        text = str(layout.of(column, index, f)).encode()
        _put(out, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        return 0
    if DATE <= column.code <= TIME:
        if _has_zeros(column, f):
            return 1
        _put(out, quote, quote[0] != 0)
        out.size += _spell(out.data + out.size, column, f)
        _put(out, quote, quote[0] != 0)
        return 0
    return 1


# How rows of a PostgreSQL text are written.
cdef struct Style:
    Escapes* escapes
    const char* begin  # of a row
    const char* between  # two values
    const char* end
    const char* quote
    const char* null

cdef Style LINES, TUPLES
LINES.escapes, LINES.begin, LINES.between, LINES.end, LINES.quote, LINES.null = &COPY, b"", b"\t", b"\n", b"", b"\\N"
TUPLES.escapes, TUPLES.begin, TUPLES.between, TUPLES.end, TUPLES.quote, TUPLES.null = &SQL, b"(", b",", b"),", b"'", b"NULL"


cdef int _put_rows(Text* out, list rows, positions, Style* style) except -1:
    """1 where a value needs a closer look, or a row is none of ours."""
    cdef Py_ssize_t i, count = len(positions)
    cdef RowImage image
    cdef Field f
    cdef int[4096] at
    if count > 4096 or count == 0:
        return 1
    for i in range(count):
        at[i] = positions[i]
    for row in rows:
        if not isinstance(row, RowImage):
            return 1
        image = <RowImage> row
        _put(out, style.begin, strlen(style.begin))
        for i in range(count):
            if i:
                _put(out, style.between, 1)
            f = image.layout.field(image.data(), at[i])
            if f.start == NULL:
                _put(out, style.null, strlen(style.null))
                continue
            _put(out, style.quote, strlen(style.quote))
            if _put_field(out, image.layout, at[i], f, style.escapes, b""):
                return 1
            _put(out, style.quote, strlen(style.quote))
        _put(out, style.end, strlen(style.end))
    return 0


def copy_lines(list rows, positions):
    """PostgreSQL's COPY text of these columns, a line a row; None where a value needs a closer look, or a row is none
    of ours."""
    cdef Text out
    out.data, out.size, out.room = NULL, 0, 0
    try:
        if _put_rows(&out, rows, positions, &LINES):
            return None
        return PyBytes_FromStringAndSize(out.data, out.size)
    finally:
        PyMem_Free(out.data)


def values(list rows, positions):
    """Rows of a PostgreSQL VALUES list, `('1','a',NULL),('2','b','c')`; None as above."""
    cdef Text out
    out.data, out.size, out.room = NULL, 0, 0
    try:
        if not rows or _put_rows(&out, rows, positions, &TUPLES):
            return None
        return PyUnicode_DecodeUTF8(out.data, out.size - 1, "strict")
    finally:
        PyMem_Free(out.data)


def array(list rows, int position):
    """One column as the literal of a PostgreSQL array, `'{1,NULL,2}'`; None as above."""
    cdef Text out
    cdef RowImage image
    cdef Field f
    cdef bint first = True
    out.data, out.size, out.room = NULL, 0, 0
    try:
        _put(&out, b"'{", 2)
        for row in rows:
            if not isinstance(row, RowImage):
                return None
            image = <RowImage> row
            if not first:
                _put(&out, b",", 1)
            first = False
            f = image.layout.field(image.data(), position)
            if f.start == NULL:
                _put(&out, b"NULL", 4)
            elif _put_field(&out, image.layout, position, f, &ARRAY, b'"'):
                return None
        _put(&out, b"}'", 2)
        return PyUnicode_DecodeUTF8(out.data, out.size, "strict")
    finally:
        PyMem_Free(out.data)


# How a literal of MySQL is written.
cdef enum:
    BARE = 0  # a number
    QUOTED = 1
    HEX = 2  # x'…'
    UNHEX = 3  # UNHEX('…')

LITERALS = {"bare": BARE, "quoted": QUOTED, "hex": HEX, "unhex": UNHEX}
cdef const char* _DIGITS = b"0123456789abcdef"


cdef int _put_hex(Text* out, Field f, Py_ssize_t width) except -1:
    """Two digits a byte, NULs up to `width` bytes."""
    cdef Py_ssize_t i, zeros = max(width - f.size, 0)
    _reserve(out, 2 * (f.size + zeros))
    for i in range(f.size):
        out.data[out.size + 2 * i] = _DIGITS[f.start[i] >> 4]
        out.data[out.size + 2 * i + 1] = _DIGITS[f.start[i] & 15]
    memset(out.data + out.size + 2 * f.size, 48, 2 * zeros)
    out.size += 2 * (f.size + zeros)
    return 0


cdef int _put_literal(Text* out, Layout layout, int index, Field f, int form) except -1:
    """A value that is not NULL.  1 where the caller has to look at it."""
    cdef Column* column = layout.columns + index
    cdef bint number = column.code == SIGNED or column.code == UNSIGNED or column.code == YEAR or column.code == BIT
    if form == HEX or form == UNHEX:
        if column.code != BYTES and column.code != PADDED:
            return 1
        _put(out, b"x'" if form == HEX else b"UNHEX('", 2 if form == HEX else 7)
        _put_hex(out, f, column.a if column.code == PADDED else 0)
        _put(out, b"'" if form == HEX else b"')", 1 if form == HEX else 2)
        return 0
    if form == BARE:
        return _put_field(out, layout, index, f, &MYSQL, b"") if number or column.code == DECIMAL else 1
    if DATE <= column.code <= TIME:
        _reserve(out, 96)
        _put(out, b"'", 1)
        out.size += _spell(out.data + out.size, column, f)
        _put(out, b"'", 1)
        return 0
    if column.code == DECIMAL or column.code == FLOAT or column.code == DOUBLE:
        _put(out, b"'", 1)
        _put_field(out, layout, index, f, &MYSQL, b"")
        _put(out, b"'", 1)
        return 0
    return 1 if number else _put_field(out, layout, index, f, &MYSQL, b"'")


def literals(rows, positions, forms):
    """`(1,'a',NULL)` of these columns, a text a row, for sessions with NO_BACKSLASH_ESCAPES; `forms`: of `LITERALS`,
    one a column.  None as above."""
    cdef Text out
    cdef Py_ssize_t i, count = len(positions)
    cdef RowImage image
    cdef Field f
    cdef list texts = []
    cdef int[4096] at, form
    if count > 4096 or count == 0:
        return None
    for i in range(count):
        at[i] = positions[i]
        form[i] = forms[i]
    out.data, out.size, out.room = NULL, 0, 0
    try:
        for row in rows:
            if not isinstance(row, RowImage):
                return None
            image = <RowImage> row
            out.size = 0
            for i in range(count):
                _put(&out, b"," if i else b"(", 1)
                f = image.layout.field(image.data(), at[i])
                if f.start == NULL:
                    _put(&out, b"NULL", 4)
                elif _put_literal(&out, image.layout, at[i], f, form[i]):
                    return None
            _put(&out, b")", 1)
            texts.append(PyUnicode_DecodeUTF8(out.data, out.size, "strict"))
        return texts
    finally:
        PyMem_Free(out.data)


# ---------------------------------------------------------------------------------------------------------- spelling

cdef inline uint64_t _little(const uint8_t* p, Py_ssize_t size) noexcept:
    cdef uint64_t value = 0
    memcpy(&value, p, size)
    return value


cdef inline int64_t _signed(const uint8_t* p, Py_ssize_t size) noexcept:
    cdef int shift = 64 - 8 * <int> size
    return <int64_t> (_little(p, size) << shift) >> shift


cdef inline uint64_t _big(const uint8_t* p, Py_ssize_t size) noexcept:
    cdef uint64_t value = 0
    cdef Py_ssize_t i
    for i in range(size):
        value = value << 8 | p[i]
    return value


cdef int _put_unsigned(char* out, uint64_t value, int digits) noexcept:
    """At least `digits` digits; returns how many."""
    cdef char text[24]
    cdef int n = 0, i
    while value or n < digits or n == 0:
        text[n] = <char> (48 + value % 10)
        value //= 10
        n += 1
    for i in range(n):
        out[i] = text[n - 1 - i]
    return n


cdef int _put_signed(char* out, int64_t value) noexcept:
    if value >= 0:
        return _put_unsigned(out, <uint64_t> value, 0)
    out[0] = b"-"
    return 1 + _put_unsigned(out + 1, 0 - <uint64_t> value, 0)


cdef int _put_clock(char* out, int hours, int minutes, int seconds) noexcept:
    cdef int n = _put_unsigned(out, hours, 2)
    out[n] = b":"
    _put_unsigned(out + n + 1, minutes, 2)
    out[n + 3] = b":"
    _put_unsigned(out + n + 4, seconds, 2)
    return n + 6


cdef int _put_day(char* out, int year, int month, int day) noexcept:
    cdef int n = _put_unsigned(out, year, 4)
    out[n] = b"-"
    _put_unsigned(out + n + 1, month, 2)
    out[n + 3] = b"-"
    _put_unsigned(out + n + 4, day, 2)
    return n + 6


cdef int _put_fraction(char* out, uint64_t stored, int digits) noexcept:
    """An odd number of digits is stored times ten."""
    if not digits:
        return 0
    out[0] = b"."
    return 1 + _put_unsigned(out + 1, stored // 10 if digits & 1 else stored, digits)


cdef int _spell(char* out, Column* column, Field f) noexcept:
    """DECIMAL, DATE, DATETIME, TIMESTAMP or TIME as canonical text (`engine.model.records`); returns its length."""
    cdef int bits = 8 * ((column.a + 1) // 2), n
    cdef uint64_t v, fraction
    cdef int64_t packed
    if column.code == DECIMAL:
        return _spell_decimal(out, f.start, column.a, column.b)
    if column.code == DATE:
        v = _little(f.start, 3)
        return _put_day(out, <int> (v >> 9), <int> (v >> 5 & 15), <int> (v & 31))
    if column.code == DATETIME:
        v = _big(f.start, f.size)
        fraction = v & ((<uint64_t> 1 << bits) - 1)
        v >>= bits
        n = _put_day(out, <int> ((v >> 22 & 0x1FFFF) // 13), <int> ((v >> 22 & 0x1FFFF) % 13), <int> (v >> 17 & 31))
        out[n] = b" "
        n += 1 + _put_clock(out + n + 1, <int> (v >> 12 & 31), <int> (v >> 6 & 63), <int> (v & 63))
        return n + _put_fraction(out + n, fraction, column.a)
    if column.code == TIMESTAMP:
        v = _big(f.start, 4)
        n = _spell_seconds(out, v)
        return n + _put_fraction(out + n, _big(f.start + 4, f.size - 4), column.a)
    packed = <int64_t> _big(f.start, f.size) - (<int64_t> 0x800000 << bits)
    n = 0
    if packed < 0:
        out[0] = b"-"
        n = 1
        packed = -packed
    v = <uint64_t> packed
    fraction = v & ((<uint64_t> 1 << bits) - 1)
    v >>= bits
    n += _put_clock(out + n, <int> (v >> 12), <int> (v >> 6 & 63), <int> (v & 63))
    return n + _put_fraction(out + n, fraction, column.a)


cdef int _spell_seconds(char* out, uint64_t seconds) noexcept:
    """Since the epoch, in UTC; 0 is the zero date.  Days to a date: as Howard Hinnant's civil_from_days."""
    cdef int64_t days, era, doe, yoe, doy, mp
    cdef int n, month, rest = <int> (seconds % 86400)
    if not seconds:
        memcpy(out, <const char*> b"0000-00-00 00:00:00", 19)
        return 19
    days = <int64_t> (seconds // 86400) + 719468
    era = days // 146097
    doe = days - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = <int> (mp + 3 if mp < 10 else mp - 9)
    n = _put_day(out, <int> (yoe + era * 400 + (month <= 2)), month, <int> (doy - (153 * mp + 2) // 5 + 1))
    out[n] = b" "
    return n + 1 + _put_clock(out + n + 1, rest // 3600, rest // 60 % 60, rest % 60)


cdef const int* _BYTES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]


cdef const uint32_t* _POWERS = [
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000
]


cdef int _spell_decimal(char* out, const uint8_t* p, int precision, int scale) noexcept:
    """Groups of nine digits in four bytes, left-over digits in fewer; the top bit set, all inverted if negative.

    A damaged group may hold more than its digits: what is over counts in the group before, as in the Python form.
    """
    cdef uint64_t[16] groups
    cdef int[16] digits
    cdef int whole = 0, count, i = 0, n = 0, at = 0
    cdef bint negative = not p[0] & 0x80, zero = True
    whole = _put_groups(groups, digits, 0, p, &at, precision - scale, True, negative)
    count = _put_groups(groups, digits, whole, p, &at, scale, False, negative)
    for i in range(count):
        zero = zero and groups[i] == 0
    if negative and not zero:
        out[0] = b"-"
        n = 1
    i = 0
    while i < whole - 1 and groups[i] == 0:
        i += 1
    n += _put_unsigned(out + n, groups[i] if whole else 0, 0)
    for i in range(i + 1, whole):
        n += _put_unsigned(out + n, groups[i], digits[i])
    if scale:
        out[n] = b"."
        n += 1
    for i in range(whole, count):
        n += _put_unsigned(out + n, groups[i], digits[i])
    return n


cdef int _put_groups(
    uint64_t* groups, int* digits, int first, const uint8_t* p, int* at, int left, bint odd_first, bint negative
) noexcept:
    """Those of `left` digits, from `first` on; returns where they end."""
    cdef int n = first, i
    cdef uint8_t byte
    while left > 0:
        digits[n] = (left % 9 or 9) if odd_first else min(left, 9)
        groups[n] = 0
        for i in range(_BYTES[digits[n]]):
            byte = p[at[0]] ^ (0x80 if at[0] == 0 else 0)
            groups[n] = groups[n] << 8 | (byte ^ 0xFF if negative else byte)
            at[0] += 1
        left -= digits[n]
        n += 1
    for i in range(n - 1, first, -1):
        if groups[i] >= _POWERS[digits[i]]:
            groups[i - 1] += groups[i] // _POWERS[digits[i]]
            groups[i] %= _POWERS[digits[i]]
    return n


cdef bint _has_zeros(Column* column, Field f) noexcept:
    """A date with a zero year, month or day."""
    cdef uint64_t v
    if column.code == TIME:
        return False
    if column.code == TIMESTAMP:
        return _big(f.start, 4) == 0
    if column.code == DATE:
        v = _little(f.start, 3)
        return v >> 9 == 0 or v >> 5 & 15 == 0 or v & 31 == 0
    v = _big(f.start, 5)
    return (v >> 22 & 0x1FFFF) // 13 == 0 or (v >> 22 & 0x1FFFF) % 13 == 0 or v >> 17 & 31 == 0
