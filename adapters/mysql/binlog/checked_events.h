/* Checksums of a stretch of a log's packets, all at once: the processor then works on several events at a time, for none
 * needs the one before.
 *
 *   size_t checked_events(const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
 *
 * The end of the last event from `at` on that is whole and has the checksum that its bytes give.  It stops before one
 * that is not, and before one of `last_kind`, which may say otherwise of those behind it.  `tail`: the size of a
 * checksum, four bytes.
 *
 * In 512-bit registers events are not reduced to their checksums one by one.  An event with its checksum behind it is a
 * multiple of the polynomial P, so is any sum of such events, each times a power of x, and one reduction tells whether
 * the sum is.  No damage that an event's own checksum shows is hidden by this, as long as it is in one event: P does not
 * divide x.  Two events with the same damage do not cancel either: their powers of x differ by less than 2^32 - 1, and
 * before that no power of x comes again (P is primitive).  Different damage in several events cancels as rarely as
 * damage fits a checksum by chance, once in 2^32.  Where the sum is not a multiple, each event is looked at alone.
 */
#ifndef TIDELOCK_CHECKED_EVENTS_H
#define TIDELOCK_CHECKED_EVENTS_H

#include "crc32.h"

enum { /* of a packet, and of the event in it */
    EVENT_AT = 5,
    KIND_AT = 9,
    SIZE_AT = 14,
    PACKET_HEADER_SIZE = 24,
    LONGEST_PACKET = 0xFFFFFF,
};

/* Whether an event that may be checked is whole at `at`; and where its packet ends. */
static inline int event_is_whole(
    const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind, size_t *end)
{
    uint32_t packet, event;
    if (at + PACKET_HEADER_SIZE + tail > size)
        return 0;
    memcpy(&packet, data + at, 4);
    memcpy(&event, data + at + SIZE_AT, 4);
    packet &= LONGEST_PACKET;
    *end = at + 4 + packet;
    return !data[at + 4] && packet != LONGEST_PACKET && *end <= size && data[at + KIND_AT] != last_kind
        && *end >= at + PACKET_HEADER_SIZE + tail && event == packet - 1;
}

/* The loop stands in a function for each way to compute the checksum, as code for wide registers is not put into
 * functions that any processor may run. */
#define CHECKED_ONE_BY_ONE(crc)                                                       \
    for (size_t end; event_is_whole(data, size, at, tail, last_kind, &end); at = end) \
        if (!has_checksum(data + at + EVENT_AT, end - at - EVENT_AT - tail, crc))     \
            break;                                                                    \
    return at;

#define has_checksum(event, length, crc) (crc(event, length) == stored_checksum((event) + (length)))

static inline uint32_t stored_checksum(const uint8_t *data)
{
    uint32_t stored;
    memcpy(&stored, data, 4);
    return stored;
}

#define OF_HARDWARE(data, size) crc32_narrow(data, size, CRC32_HARDWARE_WAY)
#define OF_TABLES(data, size) crc32_narrow(data, size, CRC32_TABLES)

#ifdef CRC32_WIDE
enum {
    STRETCH_SIZE = 1 << 20, /* of packets in one sum; filled up to 64 bytes each they stay far below 2^29 bits */
    ALONE_SIZE = 448,       /* an event from this size on is computed with four registers of its own */
};

/* Four sums; an event goes to the one that waited longest, so none waits for the event before. */
typedef struct {
    __m512i a, b, c, d;
} event_sums;

/* Adds an event with its checksum, `size` bytes. */
CRC32_WIDE_TARGET static inline void event_sums_add(event_sums *sums, const uint8_t *data, size_t size)
{
    const __m512i near = _mm512_broadcast_i32x4(CRC32_FOLD_512);
    const __m512i inverted = _mm512_maskz_set1_epi32(1 << 15, -1); /* a checksum is stored inverted */
    const uint8_t *end = data + size;
    __m512i sum = crc32_fold_wide(sums->a, near, crc32_first_64(data, size));
    for (data += 64 - (-size & 63); data < end; data += 64)
        sum = crc32_fold_wide(sum, near, _mm512_loadu_si512(data));
    sums->a = sums->b;
    sums->b = sums->c;
    sums->c = sums->d;
    sums->d = _mm512_xor_si512(sum, inverted);
}

/* Whether all that was added is as its checksums say. */
CRC32_WIDE_TARGET static inline int event_sums_fit(event_sums sums)
{
    const __m512i far = _mm512_broadcast_i32x4(CRC32_FOLD_2_29);
    __m512i sum = crc32_fold_wide(crc32_fold_wide(crc32_fold_wide(sums.a, far, sums.b), far, sums.c), far, sums.d);
    return crc32_of_512_bits(sum) == CRC32_OF_ZERO;
}

CRC32_WIDE_TARGET static size_t checked_one_by_one_wide(
    const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
{
    CHECKED_ONE_BY_ONE(crc32_wide)
}

CRC32_WIDE_TARGET static size_t checked_events_wide(
    const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
{
    const __m512i zero = _mm512_setzero_si512();
    for (;;) {
        event_sums sums = {zero, zero, zero, zero};
        size_t from = at;
        for (size_t end; at - from < STRETCH_SIZE; at = end) {
            if (!event_is_whole(data, size, at, tail, last_kind, &end))
                break;
            const uint8_t *event = data + at + EVENT_AT;
            size_t length = data + end - event;
            if (length < ALONE_SIZE && crc32_fits_wide(length))
                event_sums_add(&sums, event, length);
            else if (!has_checksum(event, length - tail, crc32_wide))
                break;
        }
        if (!event_sums_fit(sums))
            return checked_one_by_one_wide(data, size, from, tail, last_kind);
        if (at - from < STRETCH_SIZE)
            return at;
    }
}
#endif

static size_t checked_events(const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
{
#ifdef CRC32_WIDE
    if (crc32_way == CRC32_WIDE_WAY)
        return checked_events_wide(data, size, at, tail, last_kind);
#endif
    if (crc32_way == CRC32_HARDWARE_WAY) {
        CHECKED_ONE_BY_ONE(OF_HARDWARE)
    }
    CHECKED_ONE_BY_ONE(OF_TABLES)
}

#endif
