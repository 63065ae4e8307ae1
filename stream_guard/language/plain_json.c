/* The compiled form of plain_json.py: one pass over a JSON text that proves it plain, or proves nothing.

   Nothing here allocates or recurses, and the time is linear: only keys are looked at again, each at most MOST_OF_ONE
   times. What is rare (a large object, deep nesting, an escape in a key, a long number) is left to the parser, which also
   says what is wrong. So this may err on one side only: "plain" of what the parser refuses would be a hole.
   tests/property/test_plain_json.py looks for such texts. */

#define PY_SSIZE_T_CLEAN
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
} Key;

typedef struct {
    uint64_t filter; /* a bit for some of the bytes of each key */
    int first_key;   /* in the list of keys; -1 in an array */
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
        __m128i odd = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)); /* signed: those beyond ASCII are below zero */
        odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
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
static At skip_string(At at, At end)
{
    for (;;) {
        at = skip_ascii(at, end);
        if (at >= end || *at < 0x20)
            return NULL;
        if (*at == '"')
            return at + 1;
        at = *at == '\\' ? skip_escape(at, end) : skip_beyond_ascii(at, end);
        if (at == NULL)
            return NULL;
    }
}

static At skip_digits(At at, At end, int most)
{
    At start = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > start && at - start <= most ? at : NULL;
}

static At skip_number(At at, At end)
{
    if (*at == '-')
        at++;
    if (at < end && *at == '0')
        at++;
    else if ((at = skip_digits(at, end, MOST_DIGITS)) == NULL)
        return NULL;
    if (at < end && *at == '.' && (at = skip_digits(at + 1, end, MOST_DIGITS)) == NULL)
        return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        at = skip_digits(at, end, MOST_EXPONENT);
    }
    return at;
}

static At skip_word(At at, At end, const char *word, ptrdiff_t size)
{
    return end - at >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static At skip_scalar(At at, At end)
{
    switch (*at) {
    case '"':
        return skip_string(at + 1, end);
    case 't':
        return skip_word(at, end, "true", 4);
    case 'f':
        return skip_word(at, end, "false", 5);
    case 'n':
        return skip_word(at, end, "null", 4);
    default:
        return skip_number(at, end);
    }
}

static inline At skip_space(At at, At end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Take a key into its object; 0 where the object has it already, or has too many. */
static int take_key(Level *level, Key *keys, int *count, At start, size_t size)
{
    int known = *count - level->first_key;
    if (*count >= MOST_KEYS || known >= MOST_OF_ONE)
        return 0;
    uint32_t place = size ? start[0] | start[size / 2] << 8 | start[size - 1] << 16 | (uint32_t)size << 24 : 0;
    uint64_t bit = (uint64_t)1 << (place * 0x9E3779B1u >> 26);
    if (level->filter & bit)
        for (Key *key = keys + level->first_key; key < keys + *count; key++)
            if (key->size == size && key->start[0] == start[0] && memcmp(key->start, start, size) == 0)
                return 0;
    level->filter |= bit;
    keys[*count] = (Key){start, size};
    ++*count;
    return 1;
}

/* Return what follows a key and its colon, NULL where it is not plain or was given before. */
static At skip_key(At at, At end, Level *level, Key *keys, int *count)
{
    if (at >= end || *at != '"')
        return NULL;
    At start = ++at;
    while ((at = skip_ascii(at, end)) < end && *at >= 0x80)
        if ((at = skip_beyond_ascii(at, end)) == NULL)
            return NULL;
    if (at >= end || *at != '"' || !take_key(level, keys, count, start, (size_t)(at - start)))
        return NULL; /* an escape too: the parser compares what is meant */
    at++;
    at = skip_space(at, end);
    return at < end && *at == ':' ? skip_space(at + 1, end) : NULL;
}

static int is_plain(At at, At end)
{
    Level levels[MOST_LEVELS];
    Key keys[MOST_KEYS];
    int depth = 0, count = 0;
    at = skip_space(at, end);
    for (;;) {
        /* Here a value begins. */
        if (at >= end)
            return 0;
        if (*at == '{' || *at == '[') {
            if (depth == MOST_LEVELS)
                return 0;
            int is_object = *at == '{';
            Level *level = &levels[depth++];
            level->filter = 0;
            level->first_key = is_object ? count : -1;
            at = skip_space(at + 1, end);
            if (at >= end)
                return 0;
            if (*at != (is_object ? '}' : ']')) {
                if (is_object && (at = skip_key(at, end, level, keys, &count)) == NULL)
                    return 0;
                continue;
            }
            at++;
            depth--;
        } else if ((at = skip_scalar(at, end)) == NULL)
            return 0;
        /* Here a value has ended; close what ends with it. */
        for (;;) {
            at = skip_space(at, end);
            if (depth == 0)
                return at == end;
            Level *level = &levels[depth - 1];
            int is_object = level->first_key >= 0;
            if (at >= end)
                return 0;
            if (*at == ',') {
                at = skip_space(at + 1, end);
                if (is_object && (at = skip_key(at, end, level, keys, &count)) == NULL)
                    return 0;
                break;
            }
            if (*at != (is_object ? '}' : ']'))
                return 0;
            if (is_object)
                count = level->first_key;
            at++;
            depth--;
        }
    }
}

static PyObject *call(PyObject *module, PyObject *value)
{
    (void)module;
    if (!PyBytes_Check(value))
        Py_RETURN_FALSE; /* the parser says what it takes */
    At start = (At)PyBytes_AS_STRING(value);
    return PyBool_FromLong(is_plain(start, start + PyBytes_GET_SIZE(value)));
}

static PyMethodDef functions[] = {
    {"is_plain", call, METH_O,
     PyDoc_STR("Whether a quick look proves that the parser finds nothing to refuse; False proves nothing.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plain_json", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain_json(void)
{
    return PyModuleDef_Init(&module);
}
