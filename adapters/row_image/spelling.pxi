# Numbers, dates and times from the log's bytes to canonical text (`engine.model.records`).

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
    """Put at least `digits` digits; returns how many."""
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
    """Put the groups of `left` digits, from `first` on; returns where they end."""
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
