# Values of columns from PostgreSQL's text, as `row_values` reads them.  What is not usual raises ValueError.

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
