# A growing text, and a value of a row in it: what the texts for all targets have in common.

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

cdef enum:
    MARKS = 3
    TOGETHER = 8  # bytes that are looked at in one

cdef uint64_t ONES = 0x0101010101010101
cdef uint64_t HIGHEST = 0x8080808080808080

# What a byte of text is, and for ESCAPED what stands for it.  `below`, `marks`: every byte that is not PLAIN is less
# than the one, one of the others, or HIGH; each stands in all bytes of a word.
cdef struct Escapes:
    uint8_t kind[256]
    char text[256][3]
    int length[256]
    uint64_t below
    uint64_t marks[MARKS]

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


cdef void _mark(Escapes* table, uint8_t below, const char* marks) noexcept:
    cdef int i
    table.below = ONES * below
    for i in range(MARKS):
        table.marks[i] = ONES * <uint8_t> marks[i]


_mark(&COPY, c"\r" + 1, b"\\\\\\")
_mark(&ARRAY, 1, b"\\\"'")
_mark(&SQL, 1, b"'''")
_mark(&MYSQL, 1, b"'''")


cdef inline bint _all_plain(const uint8_t* data, Escapes* table) noexcept:
    """Are the next bytes, TOGETHER of them, all PLAIN?  No is certain for none of them."""
    cdef uint64_t word, first, second, third
    memcpy(&word, data, TOGETHER)
    first, second, third = word ^ table.marks[0], word ^ table.marks[1], word ^ table.marks[2]
    return (
        word | ((word - table.below) & ~word) | ((first - ONES) & ~first) | ((second - ONES) & ~second)
        | ((third - ONES) & ~third)
    ) & HIGHEST == 0


cdef int _put_text(Text* out, const uint8_t* data, Py_ssize_t size, Escapes* table) except -1:
    """1 where it is no text for the target."""
    cdef Py_ssize_t i = -1, plain = 0, looked = 0
    cdef uint8_t kind
    cdef bint high = False
    _reserve(out, 3 * size)
    while True:
        i += 1
        while i >= looked and size - i >= TOGETHER and _all_plain(data + i, table):
            i += TOGETHER
        if i >= size:
            break
        if i >= looked:
            looked = i + TOGETHER
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
