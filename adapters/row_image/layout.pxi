# Layouts and row images: where the columns of a row stand in the log's bytes, and the Python value of one.

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

    def image(self, bytes row):
        """The image of a row that stands alone.  Raises RowOverrun, ValueError, IndexError for what is none."""
        cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(row)
        if self.walk(data, data + PyBytes_GET_SIZE(row)) != data + PyBytes_GET_SIZE(row):
            raise RowOverrun("more than a row")
        return _image(self, row, 0, PyBytes_GET_SIZE(row))

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
        """Find where a column of the row is: of a varying one, what is behind its length."""
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

    cdef inline Field next_field(self, const uint8_t* row, int index, int* next, const uint8_t** at) noexcept:
        """As `field`, for columns that are asked for in their order: `next`, the one that begins at `at`, moves on."""
        cdef Field found
        cdef Column* column
        cdef Py_ssize_t size
        if index < next[0]:
            return self.field(row, index)
        while True:
            column = self.columns + next[0]
            found.start, found.size = NULL, 0
            if not row[next[0] >> 3] >> (next[0] & 7) & 1:
                size = column.size
                found.start, found.size = at[0], size
                if column.varying:
                    found.start += size
                    found.size = <Py_ssize_t> _little(at[0], size)
                at[0] = found.start + found.size
            next[0] += 1
            if next[0] > index:
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


def sizes(list rows):
    """How many bytes each row's image takes; None where a row is none of ours."""
    cdef list found = []
    for row in rows:
        if not isinstance(row, RowImage):
            return None
        found.append((<RowImage> row).size)
    return found


cdef inline RowImage _image(Layout layout, bytes buffer, Py_ssize_t start, Py_ssize_t size):
    cdef RowImage row = RowImage.__new__(RowImage)
    row.layout = layout
    row.buffer = buffer
    row.start = start
    row.size = size
    return row
