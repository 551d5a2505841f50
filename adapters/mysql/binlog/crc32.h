/* The CRC-32 of a log's events (reflected polynomial 0xEDB88320, as zlib and the servers compute it), fast for events
 * of a few dozen bytes: three of four events of a one-row transaction are that short.
 *
 *   uint32_t crc32_of(const uint8_t *data, size_t size)
 *
 * x86-64: carry-less multiplication, after Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction" (Intel, 2009).  A message is a polynomial over GF(2); sixteen bytes further on, its first 128 bits are
 * worth what they were times x^128 mod P, which is two multiplications of 64 bits.  What is left is brought down to 32
 * bits by Barrett's reduction.  A start value of all ones is the same as inverting the first four bytes, and zeros in
 * front count for nothing then: so the odd bytes are taken first, and every later block is whole.  Processors with
 * 512-bit registers take four such blocks at once, so that most events are one to three steps.
 * ARM64: the processor's own instruction.  Elsewhere, and on older processors: eight tables (slicing by eight).
 */
#ifndef TIDELOCK_CRC32_H
#define TIDELOCK_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC32_POLYNOMIAL 0xEDB88320u

static uint32_t crc32_tables[8][256];

static void crc32_fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32_POLYNOMIAL : crc >> 1;
        crc32_tables[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc32_tables[slice - 1][byte];
            crc32_tables[slice][byte] = crc >> 8 ^ crc32_tables[0][crc & 255];
        }
}

static uint32_t crc32_by_tables(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = crc ^ (data[0] | (uint32_t) data[1] << 8 | (uint32_t) data[2] << 16 | (uint32_t) data[3] << 24);
        crc = crc32_tables[7][low & 255] ^ crc32_tables[6][low >> 8 & 255] ^ crc32_tables[5][low >> 16 & 255]
            ^ crc32_tables[4][low >> 24] ^ crc32_tables[3][data[4]] ^ crc32_tables[2][data[5]]
            ^ crc32_tables[1][data[6]] ^ crc32_tables[0][data[7]];
    }
    for (; size; size--)
        crc = crc >> 8 ^ crc32_tables[0][(crc ^ *data++) & 255];
    return ~crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC32_HARDWARE 1
#include <immintrin.h>

/* A start value of all ones, and the bytes 0 to 15 with no byte (128) on either side. */
static const uint8_t crc32_ones[16] = {255, 255, 255, 255};
static const uint8_t crc32_shifts[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
};

/* Powers of x mod P, reflected: what 128 and 512 bits further on a block's halves are worth. */
#define CRC32_FOLD_128 _mm_set_epi64x(0x0ccaa009eLL, 0x1751997d0LL)
#define CRC32_FOLD_512 _mm_set_epi64x(0x1c6e41596LL, 0x154442bd4LL)
#define CRC32_FOLD_64 _mm_set_epi64x(0, 0x163cd6124LL)
#define CRC32_BARRETT _mm_set_epi64x(0x1f7011641LL, 0x1db710641LL) /* x^64 / P, and P itself */

#define CRC32_TARGET __attribute__((target("pclmul,sse4.1,ssse3")))

CRC32_TARGET static inline __m128i crc32_fold(__m128i block, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

CRC32_TARGET static inline __m128i crc32_load(const uint8_t *data)
{
    return _mm_loadu_si128((const __m128i *) data);
}

/* 96 bits to 64, to 32. */
CRC32_TARGET static inline uint32_t crc32_of_96_bits(__m128i sum)
{
    const __m128i low32 = _mm_set_epi32(0, 0, 0, -1), barrett = CRC32_BARRETT;
    sum = _mm_xor_si128(_mm_srli_si128(sum, 4), _mm_clmulepi64_si128(_mm_and_si128(sum, low32), CRC32_FOLD_64, 0x00));
    __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low32), barrett, 0x10), low32);
    sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(quotient, barrett, 0x00));
    return ~(uint32_t) _mm_extract_epi32(sum, 1);
}

/* Of 16 bytes and more. */
CRC32_TARGET static uint32_t crc32_by_multiplying(const uint8_t *data, size_t size)
{
    const __m128i fold = CRC32_FOLD_128, ones = crc32_load(crc32_ones);
    size_t odd = size & 15;
    __m128i sum = _mm_xor_si128(crc32_load(data), ones);
    const uint8_t *end = data + size;
    data += 16;
    if (odd) {
        /* The first `odd` bytes behind zeros; then a block that begins with what is left of the start value. */
        sum = _mm_shuffle_epi8(sum, crc32_load(crc32_shifts + odd));
        data += odd;
        sum = crc32_fold(sum, fold, _mm_xor_si128(
            crc32_load(data - 16), _mm_shuffle_epi8(ones, crc32_load(crc32_shifts + 16 + odd))));
    }
    if (end - data >= 64) {
        const __m128i far = CRC32_FOLD_512;
        __m128i a = sum, b = crc32_load(data), c = crc32_load(data + 16), d = crc32_load(data + 32);
        for (data += 48; end - data >= 64; data += 64) {
            a = crc32_fold(a, far, crc32_load(data));
            b = crc32_fold(b, far, crc32_load(data + 16));
            c = crc32_fold(c, far, crc32_load(data + 32));
            d = crc32_fold(d, far, crc32_load(data + 48));
        }
        sum = crc32_fold(crc32_fold(crc32_fold(a, fold, b), fold, c), fold, d);
    }
    for (; data < end; data += 16)
        sum = crc32_fold(sum, fold, crc32_load(data));
    return crc32_of_96_bits(_mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, fold, 0x10)));
}

#if (defined(__clang__) && __clang_major__ >= 8) || (!defined(__clang__) && __GNUC__ >= 9)
#define CRC32_WIDE 1
#define CRC32_FOLD_2048 _mm_set_epi64x(0x1322d1430LL, 0x11542778aLL)
#define CRC32_FOLD_2_29 _mm_set_epi64x(0x104d16ae6LL, 0x0fe273162LL) /* 2^29 bits further on */
#define CRC32_OF_ZERO 0xFFFFFFFFu                                    /* the inverse of what is left of nothing */
/* What the eight halves of the last 64 bytes are worth at the place of the last one. */
#define CRC32_JOIN_512 _mm512_set_epi64( \
    0, 0x0ccaa009eLL, 0x1751997d0LL, 0x15a546366LL, 0x0f1da05aaLL, 0x174359406LL, 0x03db1ecdcLL, 0x1c6e41596LL)
#define CRC32_WIDE_TARGET __attribute__((target("avx2,avx512f,avx512bw,vpclmulqdq,pclmul,sse4.1,ssse3")))

static const uint8_t crc32_wide_ones[128] = {[64] = 255, 255, 255, 255};

CRC32_WIDE_TARGET static inline __m512i crc32_fold_wide(__m512i blocks, __m512i by, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(blocks, by, 0x00), high = _mm512_clmulepi64_epi128(blocks, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* the sum of all three */
}

/* Whether the start value, which is four bytes long, is in the first 64 bytes. */
static inline int crc32_fits_wide(size_t size)
{
    return size > 3 && (size & 63) - 1 > 2;
}

/* The first block, of sizes that fit: what comes before a multiple of 64, behind zeros, with the start value in it. */
CRC32_WIDE_TARGET static inline __m512i crc32_first_64(const uint8_t *data, size_t size)
{
    size_t zeros = -size & 63;
    __m512i block = _mm512_maskz_loadu_epi8(~0ULL << zeros, data - zeros);
    return _mm512_xor_si512(block, _mm512_loadu_si512(crc32_wide_ones + 64 - zeros));
}

/* 512 bits to 32: to 96 first, where the last half stays as it is. */
CRC32_WIDE_TARGET static inline uint32_t crc32_of_512_bits(__m512i sum)
{
    sum = crc32_fold_wide(sum, CRC32_JOIN_512, _mm512_maskz_unpackhi_epi64(1 << 6, sum, sum));
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    return crc32_of_96_bits(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

/* Of sizes that fit. */
CRC32_WIDE_TARGET static inline uint32_t crc32_by_multiplying_wide(const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    __m512i sum = crc32_first_64(data, size);
    const __m512i near = _mm512_broadcast_i32x4(CRC32_FOLD_512);
    data += 64 - (-size & 63);
    if (end - data >= 448) {
        /* Four at a time: none waits for the one before. */
        const __m512i far = _mm512_broadcast_i32x4(CRC32_FOLD_2048);
        __m512i a = sum, b = _mm512_loadu_si512(data), c = _mm512_loadu_si512(data + 64);
        __m512i d = _mm512_loadu_si512(data + 128);
        for (data += 192; end - data >= 256; data += 256) {
            a = crc32_fold_wide(a, far, _mm512_loadu_si512(data));
            b = crc32_fold_wide(b, far, _mm512_loadu_si512(data + 64));
            c = crc32_fold_wide(c, far, _mm512_loadu_si512(data + 128));
            d = crc32_fold_wide(d, far, _mm512_loadu_si512(data + 192));
        }
        sum = crc32_fold_wide(crc32_fold_wide(crc32_fold_wide(a, near, b), near, c), near, d);
    }
    for (; data < end; data += 64)
        sum = crc32_fold_wide(sum, near, _mm512_loadu_si512(data));
    return crc32_of_512_bits(sum);
}
#endif

static int crc32_has_hardware(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
}

#ifdef CRC32_WIDE
static int crc32_has_wide_hardware(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("vpclmulqdq") && crc32_has_hardware();
}
#endif

#define crc32_by_hardware(data, size) (size >= 16 ? crc32_by_multiplying(data, size) : crc32_by_tables(data, size))

#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CRC32_HARDWARE 1
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

static inline uint32_t crc32_step_8(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t crc32_step_1(uint32_t crc, uint32_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}

static uint32_t crc32_by_hardware(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = crc32_step_8(crc, word);
    }
    for (; size; size--)
        crc = crc32_step_1(crc, *data++);
    return ~crc;
}

static int crc32_has_hardware(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

/* Ways to compute it; each is the faster, and the rarer. */
enum { CRC32_TABLES = 0, CRC32_HARDWARE_WAY = 1, CRC32_WIDE_WAY = 2 };

/* The best way of this processor. */
static int crc32_way = CRC32_TABLES;

/* Once, before anything else is called. */
static void crc32_prepare(void)
{
    crc32_fill_tables();
#ifdef CRC32_HARDWARE
    if (crc32_has_hardware())
        crc32_way = CRC32_HARDWARE_WAY;
#endif
#ifdef CRC32_WIDE
    if (crc32_has_wide_hardware())
        crc32_way = CRC32_WIDE_WAY;
#endif
}

static inline uint32_t crc32_narrow(const uint8_t *data, size_t size, int way)
{
#ifdef CRC32_HARDWARE
    if (way != CRC32_TABLES)
        return crc32_by_hardware(data, size);
#endif
    return crc32_by_tables(data, size);
}

#ifdef CRC32_WIDE
CRC32_WIDE_TARGET static inline uint32_t crc32_wide(const uint8_t *data, size_t size)
{
    return crc32_fits_wide(size) ? crc32_by_multiplying_wide(data, size) : crc32_by_hardware(data, size);
}
#endif

/* `way`: at most `crc32_way`. */
static uint32_t crc32_of(const uint8_t *data, size_t size, int way)
{
#ifdef CRC32_WIDE
    if (way == CRC32_WIDE_WAY)
        return crc32_wide(data, size);
#endif
    return crc32_narrow(data, size, way);
}

#endif
