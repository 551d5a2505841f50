/* Checksums of a stretch of a log's packets, all at once: the processor then works on several events at a time, for none
 * needs the one before.
 *
 *   size_t checked_events(const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
 *
 * The end of the last event from `at` on that is whole and has the checksum that its bytes give.  It stops before one
 * that is not, and before one of `last_kind`, which may say otherwise of those behind it.  `tail`: the size of a
 * checksum, four bytes.
 *
 * The loop stands in a function for each way to compute the checksum, as code for wide registers is not put into
 * functions that any processor may run.
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

#define CHECKED_EVENTS(crc)                                                                       \
    while (at + PACKET_HEADER_SIZE + tail <= size) {                                              \
        uint32_t packet, event, stored;                                                           \
        memcpy(&packet, data + at, 4);                                                            \
        memcpy(&event, data + at + SIZE_AT, 4);                                                   \
        packet &= LONGEST_PACKET;                                                                 \
        size_t start = at + EVENT_AT, end = at + 4 + packet;                                      \
        if (data[at + 4] || packet == LONGEST_PACKET || end > size || data[at + KIND_AT] == last_kind) \
            return at;                                                                            \
        if (end < at + PACKET_HEADER_SIZE + tail || event != packet - 1)                          \
            return at;                                                                            \
        memcpy(&stored, data + end - tail, 4);                                                    \
        if (crc(data + start, end - tail - start) != stored)                                      \
            return at;                                                                            \
        at = end;                                                                                 \
    }                                                                                             \
    return at;

#define OF_HARDWARE(data, size) crc32_narrow(data, size, CRC32_HARDWARE_WAY)
#define OF_TABLES(data, size) crc32_narrow(data, size, CRC32_TABLES)

#ifdef CRC32_WIDE
CRC32_WIDE_TARGET static size_t checked_events_wide(
    const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
{
    CHECKED_EVENTS(crc32_wide)
}
#endif

static size_t checked_events(const uint8_t *data, size_t size, size_t at, size_t tail, uint8_t last_kind)
{
#ifdef CRC32_WIDE
    if (crc32_way == CRC32_WIDE_WAY)
        return checked_events_wide(data, size, at, tail, last_kind);
#endif
    if (crc32_way == CRC32_HARDWARE_WAY) {
        CHECKED_EVENTS(OF_HARDWARE)
    }
    CHECKED_EVENTS(OF_TABLES)
}

#endif
