/* XXH3 with 64 bits, from its published description (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), without a seed. */

#ifndef STREAM_GUARD_XXH3_H
#define STREAM_GUARD_XXH3_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_WIDE_LANES
#endif

#define PRIME32_1 0x9E3779B1U
#define PRIME32_2 0x85EBCA77U
#define PRIME32_3 0xC2B2AE3DU
#define PRIME64_1 0x9E3779B185EBCA87U
#define PRIME64_2 0xC2B2AE3D27D4EB4FU
#define PRIME64_3 0x165667B19E3779F9U
#define PRIME64_4 0x85EBCA77C2B2AE63U
#define PRIME64_5 0x27D4EB2F165667C5U

#define STRIPE 64                      /* bytes */
#define STRIPES_OF_BLOCK 16
#define SECRET_SIZE 192
#define LEAST_SECRET 136

static const unsigned char secret[SECRET_SIZE] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9,
    0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78,
    0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
    0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f,
    0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
    0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff,
    0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint64_t word_at(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
#if PY_BIG_ENDIAN
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t half_word_at(const unsigned char *at)
{
    uint32_t half;
    memcpy(&half, at, 4);
#if PY_BIG_ENDIAN
    half = __builtin_bswap32(half);
#endif
    return half;
}

static inline uint64_t turned(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline uint64_t folded_product(uint64_t one, uint64_t other)
{
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t spread(uint64_t digest)
{
    digest = (digest ^ digest >> 37) * 0x165667919E3779F9U;
    return digest ^ digest >> 32;
}

static inline uint64_t mixed(const unsigned char *at, const unsigned char *key)
{
    return folded_product(word_at(at) ^ word_at(key), word_at(at + 8) ^ word_at(key + 8));
}

/* Up to 16 bytes. */
static uint64_t digest_of_few(const unsigned char *at, size_t size)
{
    if (size > 8) {
        uint64_t low = word_at(at) ^ word_at(secret + 24) ^ word_at(secret + 32);
        uint64_t high = word_at(at + size - 8) ^ word_at(secret + 40) ^ word_at(secret + 48);
        return spread(size + __builtin_bswap64(low) + high + folded_product(low, high));
    }
    if (size >= 4) {
        uint64_t digest = (half_word_at(at + size - 4) + (half_word_at(at) << 32)) ^ word_at(secret + 8) ^ word_at(secret + 16);
        digest = (digest ^ turned(digest, 49) ^ turned(digest, 24)) * 0x9FB21C651E98DF25U;
        digest = (digest ^ ((digest >> 35) + size)) * 0x9FB21C651E98DF25U;
        return digest ^ digest >> 28;
    }
    uint64_t digest = word_at(secret + 56) ^ word_at(secret + 64);
    if (size > 0)
        digest = ((uint64_t)at[0] << 16 | (uint64_t)at[size / 2] << 24 | at[size - 1] | size << 8) ^ half_word_at(secret) ^
                 half_word_at(secret + 4);
    digest = (digest ^ digest >> 33) * PRIME64_2;
    digest = (digest ^ digest >> 29) * PRIME64_3;
    return digest ^ digest >> 32;
}

/* 17 to 240 bytes. */
static uint64_t digest_of_some(const unsigned char *at, size_t size)
{
    uint64_t digest = size * PRIME64_1;
    if (size <= 128) {
        for (size_t pair = (size - 1) / 32 + 1; pair-- > 0;)
            digest += mixed(at + 16 * pair, secret + 32 * pair) + mixed(at + size - 16 * (pair + 1), secret + 32 * pair + 16);
        return spread(digest);
    }
    for (size_t number = 0; number < 8; number++)
        digest += mixed(at + 16 * number, secret + 16 * number);
    digest = spread(digest);
    for (size_t number = 8; number < size / 16; number++)
        digest += mixed(at + 16 * number, secret + 16 * (number - 8) + 3);
    return spread(digest + mixed(at + size - 16, secret + LEAST_SECRET - 17));
}

typedef void (*Fold)(uint64_t lanes[8], const unsigned char *at, size_t stripes, const unsigned char *key);

/* Fold stripes into the lanes; the key moves on by a word with each. */
static void fold(uint64_t lanes[8], const unsigned char *at, size_t stripes, const unsigned char *key)
{
    for (; stripes > 0; stripes--, at += STRIPE, key += 8)
        for (int lane = 0; lane < 8; lane++) {
            uint64_t word = word_at(at + 8 * lane), keyed = word ^ word_at(key + 8 * lane);
            lanes[lane ^ 1] += word;
            lanes[lane] += (keyed & 0xFFFFFFFFU) * (keyed >> 32);
        }
}

#ifdef HAS_WIDE_LANES
__attribute__((target("avx2"))) static void fold_wide(
    uint64_t lanes[8], const unsigned char *at, size_t stripes, const unsigned char *key)
{
    __m256i wide[2] = {_mm256_loadu_si256((__m256i *)lanes), _mm256_loadu_si256((__m256i *)(lanes + 4))};
    for (; stripes > 0; stripes--, at += STRIPE, key += 8)
        for (int half = 0; half < 2; half++) {
            __m256i words = _mm256_loadu_si256((const __m256i *)(at + 32 * half));
            __m256i keyed = _mm256_xor_si256(words, _mm256_loadu_si256((const __m256i *)(key + 32 * half)));
            __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
            __m256i swapped = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
            wide[half] = _mm256_add_epi64(wide[half], _mm256_add_epi64(product, swapped));
        }
    _mm256_storeu_si256((__m256i *)lanes, wide[0]);
    _mm256_storeu_si256((__m256i *)(lanes + 4), wide[1]);
}
#endif

static Fold best_fold = fold;

static uint64_t digest_of_many(const unsigned char *at, size_t size)
{
    uint64_t lanes[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    const unsigned char *end = at + size;
    size_t stripes = (size - 1) / STRIPE;
    for (; stripes >= STRIPES_OF_BLOCK; stripes -= STRIPES_OF_BLOCK, at += STRIPES_OF_BLOCK * STRIPE) {
        best_fold(lanes, at, STRIPES_OF_BLOCK, secret);
        for (int lane = 0; lane < 8; lane++)
            lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ word_at(secret + SECRET_SIZE - STRIPE + 8 * lane)) * PRIME32_1;
    }
    best_fold(lanes, at, stripes, secret);
    best_fold(lanes, end - STRIPE, 1, secret + SECRET_SIZE - STRIPE - 7);
    uint64_t digest = size * PRIME64_1;
    for (int pair = 0; pair < 4; pair++)
        digest += folded_product(
            lanes[2 * pair] ^ word_at(secret + 11 + 16 * pair), lanes[2 * pair + 1] ^ word_at(secret + 19 + 16 * pair));
    return spread(digest);
}

static inline uint64_t digest_of(const unsigned char *at, size_t size)
{
    return size <= 16 ? digest_of_few(at, size) : size <= 240 ? digest_of_some(at, size) : digest_of_many(at, size);
}

/* To be called once, before the first digest. */
static inline void choose_fold(void)
{
#ifdef HAS_WIDE_LANES
    if (__builtin_cpu_supports("avx2"))
        best_fold = fold_wide;
#endif
}

#endif
