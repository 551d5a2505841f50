# Rows as images (`row_image`), written from PostgreSQL's text: columns as `row_layout` has them, values as
# `usual_values.pxi` makes them.  What is not usual raises ValueError.

cdef enum:
    NOT_PUT = -1
    SIZE_BYTES = 4  # before a text


cdef inline int32_t _put_bytes(char* at, const uint8_t* start, int32_t size) noexcept:
    memcpy(at, &size, SIZE_BYTES)
    memcpy(at + SIZE_BYTES, start, size)
    return SIZE_BYTES + size


cdef inline int _require_ascii(const uint8_t* start, int32_t size) except -1:
    cdef int32_t i
    cdef uint8_t high = 0
    for i in range(size):
        high |= start[i]
    if high & 0x80:
        raise ValueError
    return 0


cdef int32_t _put(char* at, Code* code, Field* f) except? NOT_PUT:
    """Write a value that is there; returns how many bytes it takes, NOT_PUT for one that an image cannot hold.
    There is room for the text, its size and LONGEST_MOMENT more."""
    cdef int64_t whole
    cdef uint64_t bits
    cdef double number
    cdef int32_t size
    if code.form == INT:
        whole = _int(f)
        memcpy(at, &whole, sizeof(whole))
        return sizeof(whole)
    if code.form == TEXT:
        return _put_bytes(at, f.start, f.size)
    if code.form == ASCII:
        _require_ascii(f.start, f.size)
        return _put_bytes(at, f.start, f.size)
    if code.form == MOMENT:
        return _put_moment(at, f.start, f.size, code)
    if code.form == ZONED:
        size = _zoneless(f.start, f.size)
        if size < f.size:
            return _put_moment(at, f.start, size, code)
        _require_ascii(f.start, size)
        return _put_bytes(at, f.start, size)
    if code.form == PADDED:
        return _put_bytes(at, f.start, _bare(f))
    if code.form == BOOL:
        at[0] = <char> _truth(f)
        return 1
    if code.form == BINARY:
        size = _bytes_of(f)
        memcpy(at, &size, SIZE_BYTES)
        _unhex(f, at + SIZE_BYTES, size)
        return SIZE_BYTES + size
    if code.form == BIT:
        bits = _bit(f)
        memcpy(at, &bits, sizeof(bits))
        return sizeof(bits)
    value = _number(code.form, f)
    if not isinstance(value, float):  # NaN, or infinite
        return NOT_PUT
    number = value
    memcpy(at, &number, sizeof(number))
    return sizeof(number)


cdef int32_t _put_moment(char* at, const uint8_t* text, int32_t size, Code* code) except -1:
    cdef int32_t missing = _missing(text, size, code)
    cdef int32_t whole = size + missing
    _require_ascii(text, size)
    memcpy(at, &whole, SIZE_BYTES)
    memcpy(at + SIZE_BYTES, text, size)
    _fill_up(at + SIZE_BYTES, size, missing, code)
    return SIZE_BYTES + whole
