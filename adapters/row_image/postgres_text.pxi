# Row images as PostgreSQL's texts: lines of COPY, rows of VALUES, elements of an array.

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
    cdef int next
    cdef const uint8_t* place
    cdef int[4096] at
    if count > 4096 or count == 0:
        return 1
    for i in range(count):
        at[i] = positions[i]
    for row in rows:
        if not isinstance(row, RowImage):
            return 1
        image = <RowImage> row
        next, place = 0, image.data() + image.layout.width
        _put(out, style.begin, strlen(style.begin))
        for i in range(count):
            if i:
                _put(out, style.between, 1)
            f = image.layout.next_field(image.data(), at[i], &next, &place)
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
