# Row images as MySQL's literals, for sessions with NO_BACKSLASH_ESCAPES.

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
