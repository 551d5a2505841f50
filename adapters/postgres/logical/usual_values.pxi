# Values of columns from PostgreSQL's text, as `row_values` reads them.  What is not usual raises ValueError.

cdef inline object _text(const uint8_t* start, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char*> start, size, "strict")
    except UnicodeDecodeError:
        return PyBytes_FromStringAndSize(<const char*> start, size)


cdef inline object _ascii(const uint8_t* start, Py_ssize_t size):
    return PyUnicode_DecodeASCII(<const char*> start, size, "strict")


cdef int64_t _int(Field* f) except? -1:
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
        return _text(f.start, _bare(f))
    if code.form == BOOL:
        return _truth(f)
    if code.form == MOMENT:
        return _moment(f.start, size, code)
    if code.form == ZONED:
        return _zoned(f.start, size, code)
    if code.form == BINARY:
        return _binary(f)
    if code.form == BIT:
        return _bit(f)
    return _number(code.form, f)


cdef inline int32_t _bare(Field* f) noexcept:
    """The size of a text without the spaces that pad it."""
    cdef int32_t size = f.size
    while size and f.start[size - 1] == c" ":
        size -= 1
    return size


cdef inline int _truth(Field* f) except -1:
    if f.size == 1 and f.start[0] == c"t":
        return 1
    if f.size == 1 and f.start[0] == c"f":
        return 0
    raise ValueError


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


cdef int32_t _bytes_of(Field* f) except -1:
    """How many bytes the hexadecimal digits make."""
    if f.size < 2 or f.size % 2 or f.start[0] != c"\\" or f.start[1] != c"x":
        raise ValueError
    return (f.size - 2) // 2


cdef int _unhex(Field* f, char* out, int32_t size) except -1:
    cdef int32_t i
    cdef int byte
    for i in range(size):
        byte = _digit(f.start[2 + 2 * i]) << 4 | _digit(f.start[3 + 2 * i])
        if byte > 255:
            raise ValueError
        out[i] = <char> byte
    return 0


cdef object _binary(Field* f):
    cdef int32_t size = _bytes_of(f)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    _unhex(f, made, size)
    return made


cdef uint64_t _bit(Field* f) except? 1:
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


cdef int32_t _missing(const uint8_t* text, int32_t size, Code* code) except -1:
    """How many characters of its fraction a moment leaves out."""
    cdef int32_t whole = code.base + code.scale + (code.scale > 0)
    if not _is_plain(text, size, code.base):
        return 0
    if size > whole or whole > LONGEST_MOMENT:
        raise ValueError
    return whole - size


cdef inline void _fill_up(char* made, int32_t size, int32_t missing, Code* code) noexcept:
    """Put the rest of its fraction behind a moment of `size` characters."""
    memset(made + size, c"0", missing)
    if missing and size == code.base:
        made[size] = c"."


cdef object _moment(const uint8_t* text, int32_t size, Code* code):
    cdef char made[LONGEST_MOMENT]
    cdef int32_t missing = _missing(text, size, code)
    if not missing:
        return _ascii(text, size)
    memcpy(made, text, size)
    _fill_up(made, size, missing, code)
    return PyUnicode_DecodeASCII(made, size + missing, "strict")


cdef int32_t _zoneless(const uint8_t* text, int32_t size) except -1:
    """How many characters of a moment are its value's: without the zone, where the rest is a plain moment."""
    if size < 3 or memcmp(text + size - 3, b"+00", 3) != 0:
        raise ValueError  # infinity, years before 1: rare
    return size - 3 if size >= 5 and text[4] == c"-" else size


cdef object _zoned(const uint8_t* text, int32_t size, Code* code):
    cdef int32_t bare = _zoneless(text, size)
    return _moment(text, bare, code) if bare < size else _ascii(text, size)
