/* One pass over a JSON text that proves it plain: JSON that no reader refuses, in which no object gives a key twice.

   Nothing here allocates, recurses or keeps anything between two calls, and the time is linear: only keys are looked at
   again, each at most MOST_OF_ONE times. What is rare (a large object, deep nesting, an escape in a key, a long number)
   is not plain; a parser then says whether anything is wrong with it. tests/native/twins.py says the same in Python, and
   a search holds the two equal. Only the stable interface of Python
   is used, so one build fits every version from 3.11 on. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__ /* every x86_64 has it */
#include <emmintrin.h>
#endif

#define MOST_LEVELS 64 /* objects and arrays in one another; the parser allows 200 */
#define MOST_KEYS 256  /* of all objects that are open at one place */
#define MOST_OF_ONE 48 /* keys of one object: each may be compared with all before it */
#define MOST_DIGITS 18 /* in a row: no 64 bits overflow, and no exponent gets far */
#define MOST_EXPONENT 2

#ifdef __GNUC__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

typedef const unsigned char *At;

typedef struct {
    At start;
    size_t size;
    uint64_t word; /* its first bytes */
} Key;

typedef struct {
    uint64_t filter; /* a bit for some of the bytes of each key */
    Key *first_key;  /* in the list of keys; NULL in an array */
    Key *limit;      /* no key of this object may stand here */
} Level;

#define EACH(byte) ((uint64_t)0x0101010101010101u * (byte))

static inline uint64_t has_below(uint64_t word, unsigned char limit) /* exact for bytes below 128 */
{
    return (word - EACH(limit)) & ~word & EACH(0x80);
}

static inline uint64_t has_byte(uint64_t word, unsigned char byte)
{
    return has_below(word ^ EACH(byte), 1);
}

/* Return the first byte that may not simply stand in a string: a quote, a backslash, a control character, or one
   beyond ASCII. The end of the record counts as one. */
static NOINLINE At skip_ascii_by_words(At at, At end)
{
    while (end - at >= 8) {
        uint64_t word, odd;
        memcpy(&word, at, 8);
        odd = (word & EACH(0x80)) | has_below(word, 0x20) | has_byte(word, '"') | has_byte(word, '\\');
        if (odd) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return at + (__builtin_ctzll(odd) >> 3); /* what borrowing marks wrongly lies behind what it marks rightly */
#else
            break;
#endif
        }
        at += 8;
    }
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\')
        at++;
    return at;
}

#ifdef __SSE2__
static inline At skip_ascii(At at, At end)
{
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* One bit turned, the quote stands next to the control characters, and they stay among themselves. Signed: what
           is beyond ASCII is below zero. */
        __m128i turned = _mm_xor_si128(bytes, _mm_set1_epi8('"' ^ 0x20));
        __m128i odd = _mm_cmpgt_epi8(_mm_set1_epi8(0x21), turned);
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        int marks = _mm_movemask_epi8(odd);
        if (marks)
            return at + __builtin_ctz((unsigned)marks);
    }
    return skip_ascii_by_words(at, end);
}
#else
#define skip_ascii skip_ascii_by_words
#endif

/* Return what follows one character of UTF-8 beyond ASCII, NULL where it is none (RFC 3629). */
static At skip_beyond_ascii(At at, At end)
{
    unsigned char first = *at;
    int size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || end - at < size)
        return NULL;
    unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < least || at[1] > most)
        return NULL;
    for (int number = 2; number < size; number++)
        if ((at[number] & 0xC0) != 0x80)
            return NULL;
    return at + size;
}

/* Return the number of four hexadecimal digits, -1 where they are none. */
static int hexadecimal(At at, At end)
{
    int number = 0;
    if (end - at < 4)
        return -1;
    for (int place = 0; place < 4; place++) {
        unsigned char digit = at[place], letter = digit | 0x20;
        if (digit >= '0' && digit <= '9')
            number = number * 16 + (digit - '0');
        else if (letter >= 'a' && letter <= 'f')
            number = number * 16 + (letter - 'a' + 10);
        else
            return -1;
    }
    return number;
}

/* Return what follows an escape, NULL where it is none or half of a surrogate pair stands alone. */
static At skip_escape(At at, At end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return memchr("\"\\/bfnrt", at[1], 8) ? at + 2 : NULL;
    int unit = hexadecimal(at + 2, end);
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF))
        return NULL;
    if (unit < 0xD800 || unit > 0xDBFF)
        return at + 6;
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return NULL;
    unit = hexadecimal(at + 8, end);
    return unit >= 0xDC00 && unit <= 0xDFFF ? at + 12 : NULL;
}

/* Return what follows the string whose opening quote was read, NULL where it is not plain. */
static inline At skip_string(At at, At end)
{
    for (;;) {
        at = skip_ascii(at, end);
        if (*at == '"')
            return at + 1;
        if (*at < 0x20) /* at the end too, where a NUL stands */
            return NULL;
        at = *at == '\\' ? skip_escape(at, end) : skip_beyond_ascii(at, end);
        if (at == NULL)
            return NULL;
    }
}

/* Below, single bytes are read without asking for the end: a NUL stands there, as behind all of Python's bytes, and no
   plain text holds one. */

static inline At skip_digits(At at, int most)
{
    At start = at;
    while ((unsigned char)(*at - '0') <= 9)
        at++;
    return at > start && at - start <= most ? at : NULL;
}

static At skip_number(At at)
{
    if (*at == '-')
        at++;
    if (*at == '0')
        at++;
    else if ((at = skip_digits(at, MOST_DIGITS)) == NULL)
        return NULL;
    if (*at == '.' && (at = skip_digits(at + 1, MOST_DIGITS)) == NULL)
        return NULL;
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '+' || *at == '-')
            at++;
        at = skip_digits(at, MOST_EXPONENT);
    }
    return at;
}

static At skip_word(At at, At end, const char *word, ptrdiff_t size)
{
    return end - at >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static NOINLINE At skip_more_space(At at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

static inline At skip_space(At at) /* mostly there is one or none */
{
    if (*at == ' ')
        at++;
    return *at > ' ' ? at : skip_more_space(at);
}

static NOINLINE uint64_t few_bytes(At start, size_t size)
{
    uint64_t word = 0;
    memcpy(&word, start, size);
    return word;
}

/* Return the first bytes of a key as a number: with its size, most of what there is to compare. */
static inline uint64_t first_bytes(At start, size_t size, At end)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (end - start >= 8) {
        uint64_t word;
        memcpy(&word, start, 8);
        return size < 8 ? word & (((uint64_t)1 << size * 8) - 1) : word;
    }
#endif
    return few_bytes(start, size < 8 ? size : 8);
}

static NOINLINE int is_known(const Key *key, const Key *last, Key wanted)
{
    for (; key < last; key++)
        if (key->word == wanted.word && key->size == wanted.size && memcmp(key->start, wanted.start, wanted.size) == 0)
            return 1;
    return 0;
}

/* Return what follows a key and its colon, NULL where it is not plain or was given before. */
static inline At skip_key(At at, At end, Level *level, Key **next)
{
    if (*at != '"')
        return NULL;
    At start = ++at;
    while (*(at = skip_ascii(at, end)) >= 0x80)
        if ((at = skip_beyond_ascii(at, end)) == NULL)
            return NULL;
    if (*at != '"' || *next >= level->limit)
        return NULL; /* an escape too: the parser compares what is meant */
    size_t size = (size_t)(at - start);
    Key key = {start, size, first_bytes(start, size, end)};
    uint64_t bit = (uint64_t)1 << ((key.word + size) * 0x9E3779B97F4A7C15u >> 58);
    if ((level->filter & bit) && is_known(level->first_key, *next, key))
        return NULL;
    level->filter |= bit;
    *(*next)++ = key;
    at = skip_space(at + 1);
    return *at == ':' ? skip_space(at + 1) : NULL;
}

static NOINLINE At skip_scalar(At at, At end)
{
    switch (*at) {
    case 't':
        return skip_word(at, end, "true", 4);
    case 'f':
        return skip_word(at, end, "false", 5);
    case 'n':
        return skip_word(at, end, "null", 4);
    default:
        return skip_number(at);
    }
}

static int is_plain(At at, At end)
{
    Level levels[MOST_LEVELS + 1]; /* the first is around the text */
    Key keys[MOST_KEYS];
    Level *level = levels, *last = levels + MOST_LEVELS;
    Key *next = keys;
    level->first_key = NULL;
    at = skip_space(at);
    for (;;) {
        /* Here a value begins, in an object with its key. */
        if (level->first_key != NULL && (at = skip_key(at, end, level, &next)) == NULL)
            return 0;
        if (*at == '"') {
            if ((at = skip_string(at + 1, end)) == NULL)
                return 0;
        } else if (*at == '{' || *at == '[') {
            if (level == last)
                return 0;
            level++;
            level->filter = 0;
            level->first_key = *at == '{' ? next : NULL;
            level->limit = keys + MOST_KEYS - next < MOST_OF_ONE ? keys + MOST_KEYS : next + MOST_OF_ONE;
            At inside = skip_space(at + 1);
            if (*inside != *at + 2) { /* in ASCII, what closes stands two places behind what opens */
                at = inside;
                continue;
            }
            at = inside + 1;
            level--;
        } else if ((at = skip_scalar(at, end)) == NULL)
            return 0;
        /* Here a value has ended; close what ends with it. */
        for (;;) {
            at = skip_space(at);
            if (level == levels)
                return at == end;
            if (*at == ',') {
                at = skip_space(at + 1);
                break;
            }
            if (level->first_key == NULL) {
                if (*at != ']')
                    return 0;
            } else {
                if (*at != '}')
                    return 0;
                next = level->first_key;
            }
            at++;
            level--;
        }
    }
}

static PyObject *is_plain_json(PyObject *module, PyObject *value)
{
    char *start;
    Py_ssize_t size;
    (void)module;
    if (PyBytes_AsStringAndSize(value, &start, &size) < 0)
        return NULL;
    return PyBool_FromLong(is_plain((At)start, (At)start + size));
}

static PyMethodDef functions[] = {
    {"is_plain_json", is_plain_json, METH_O, PyDoc_STR("Whether a JSON text is plain; tests/native/twins.py says what that is.")},
    {NULL, NULL, 0, NULL},
};

/* Without any state, every interpreter of a process and every thread may call it at the same time. */
static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "stream_guard._native.plain_json", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain_json(void)
{
    return PyModuleDef_Init(&definition);
}
