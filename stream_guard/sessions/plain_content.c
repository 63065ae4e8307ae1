/* The compiled form of plain_content.py: the digest of what an event tells, without an object on the way.

   The event's fields are read where its type keeps them, and written as MessagePack, byte by byte as msgspec writes what a
   JSON parser makes. What is rare (a long content, deep nesting, a large number, a value of another type) is left to the
   encoder. The digest is XXH3 with 64 bits, as xxhash has it. tests/property/test_plain_content.py holds all of it against
   the two packages. */

#include "../struct_slots.h"
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_WIDE_LANES
#endif

#define MOST_BYTES 8192
#define MOST_LEVELS 32 /* lists and objects in one another */

typedef unsigned char *At; /* where to write next; NULL: it cannot be written here */

/* Write a number of so many bytes, the highest first, behind a mark. */
static inline At put_number(At at, unsigned char mark, uint64_t number, int bytes)
{
    *at++ = mark;
    while (bytes-- > 0)
        *at++ = (unsigned char)(number >> 8 * bytes);
    return at;
}

static inline At put_integer(At at, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        return NULL;
    if (number >= 0) {
        if (number < 0x80)
            return put_number(at, (unsigned char)number, 0, 0);
        return number < 0x100       ? put_number(at, 0xCC, (uint64_t)number, 1)
               : number < 0x10000   ? put_number(at, 0xCD, (uint64_t)number, 2)
               : number <= UINT32_MAX ? put_number(at, 0xCE, (uint64_t)number, 4)
                                    : put_number(at, 0xCF, (uint64_t)number, 8);
    }
    if (number >= -32)
        return put_number(at, (unsigned char)number, 0, 0);
    return number >= INT8_MIN    ? put_number(at, 0xD0, (uint64_t)number, 1)
           : number >= INT16_MIN ? put_number(at, 0xD1, (uint64_t)number, 2)
           : number >= INT32_MIN ? put_number(at, 0xD2, (uint64_t)number, 4)
                                 : put_number(at, 0xD3, (uint64_t)number, 8);
}

static inline At put_float(At at, PyObject *value)
{
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    memcpy(&bits, &number, 8);
#if PY_LITTLE_ENDIAN
    bits = __builtin_bswap64(bits);
#endif
    *at = 0xCB;
    memcpy(at + 1, &bits, 8);
    return at + 9;
}

/* Copy a text. Most are short, and a call takes longer than that; two copies may overlap. */
static inline void copy(At at, const char *text, size_t size)
{
    if (size > 16)
        memcpy(at, text, size);
    else if (size >= 8) {
        memcpy(at, text, 8);
        memcpy(at + size - 8, text + size - 8, 8);
    } else if (size >= 4) {
        memcpy(at, text, 4);
        memcpy(at + size - 4, text + size - 4, 4);
    } else
        for (size_t place = 0; place < size; place++)
            at[place] = (unsigned char)text[place];
}

static inline At put_string(At at, At end, PyObject *value)
{
    Py_ssize_t size;
    const char *text;
    if (PyUnicode_IS_COMPACT_ASCII(value)) {
        size = PyUnicode_GET_LENGTH(value);
        text = (const char *)PyUnicode_1BYTE_DATA(value);
    } else if ((text = PyUnicode_AsUTF8AndSize(value, &size)) == NULL) {
        PyErr_Clear(); /* half of a surrogate pair */
        return NULL;
    }
    if (size >= end - at)
        return NULL;
    at = size < 32      ? put_number(at, 0xA0 | (unsigned char)size, 0, 0)
         : size < 0x100 ? put_number(at, 0xD9, (uint64_t)size, 1)
                        : put_number(at, 0xDA, (uint64_t)size, 2);
    copy(at, text, (size_t)size);
    return at + size;
}

static At put(At at, At end, PyObject *value, int levels);

static At put_list(At at, At end, PyObject *const *values, Py_ssize_t size, int levels)
{
    at = size < 16 ? put_number(at, 0x90 | (unsigned char)size, 0, 0) : put_number(at, 0xDC, (uint64_t)size, 2);
    for (Py_ssize_t number = 0; number < size && at != NULL; number++)
        at = put(at, end, values[number], levels);
    return at;
}

static At put_object(At at, At end, PyObject *value, int levels)
{
    Py_ssize_t size = PyDict_GET_SIZE(value), place = 0;
    PyObject *key, *inside;
    at = size < 16 ? put_number(at, 0x80 | (unsigned char)size, 0, 0) : put_number(at, 0xDE, (uint64_t)size, 2);
    while (at != NULL && PyDict_Next(value, &place, &key, &inside)) {
        if (!PyUnicode_CheckExact(key) || end - at < 16 || (at = put_string(at, end - 16, key)) == NULL)
            return NULL;
        at = put(at, end, inside, levels);
    }
    return at;
}

/* Write a value. Before each, there is room for a mark and a number: whatever is longer asks by itself. */
static At put(At at, At end, PyObject *value, int levels)
{
    if (end - at < 16)
        return NULL;
    if (PyUnicode_CheckExact(value))
        return put_string(at, end - 16, value);
    if (PyDict_CheckExact(value) && levels > 0 && PyDict_GET_SIZE(value) < MOST_BYTES)
        return put_object(at, end, value, levels - 1);
    if (PyList_CheckExact(value) && levels > 0 && PyList_GET_SIZE(value) < MOST_BYTES)
        return put_list(at, end, ((PyListObject *)value)->ob_item, PyList_GET_SIZE(value), levels - 1);
    if (PyFloat_CheckExact(value))
        return put_float(at, value);
    if (PyLong_CheckExact(value))
        return put_integer(at, value);
    if (value == Py_None)
        return put_number(at, 0xC0, 0, 0);
    if (value == Py_True || value == Py_False)
        return put_number(at, value == Py_True ? 0xC3 : 0xC2, 0, 0);
    return NULL;
}

/* XXH3, from its published description (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), without a seed. */

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

/* 16 to 240 bytes. */
static uint64_t digest_of_few(const unsigned char *at, size_t size)
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

/* What the events of a type tell, and where they keep it. */

#define MOST_FIELDS 4

typedef struct {
    const char *name, *fields[MOST_FIELDS + 1];
    int told; /* so many of the fields */
} Described;

enum { CALL = 0, TURN = 1, KINDS = 4 };

static const Described described[KINDS] = {
    {"ToolCall", {"tool", "call_id", "args", "contested"}, 3},
    {"Turn", {"response"}, 1}, /* of which it tells the content */
    {"ToolResult", {"call_id", "status", "output"}, 3},
    {"UserMessage", {"text"}, 1},
};

typedef struct {
    PyTypeObject *type;
    Py_ssize_t time, fields[MOST_FIELDS];
    unsigned char head[16];
    Py_ssize_t head_size;
} Kind;

static Kind kinds[KINDS];
static PyObject *content_name;

/* Put what an event tells into the array; return 0 where something is rare. */
static int tell(const Kind *kind, PyObject *event, PyObject *told[MOST_FIELDS])
{
    const Described *what = described + (kind - kinds);
    for (int field = 0; field < what->told; field++)
        if ((told[field] = *slot_at(event, kind->fields[field])) == NULL)
            return 0;
    if (kind == kinds + CALL) { /* arguments that came as text are read first */
        PyObject *contested = *slot_at(event, kind->fields[3]);
        return !PyUnicode_Check(told[2]) && contested != NULL && PyUnicode_CheckExact(contested) &&
               PyUnicode_GET_LENGTH(contested) == 0;
    }
    if (kind == kinds + TURN) {
        if (!PyDict_CheckExact(told[0]))
            return 0;
        told[0] = PyDict_GetItemWithError(told[0], content_name);
        if (told[0] == NULL)
            told[0] = Py_None; /* a name that is text cannot fail to be looked up */
    }
    return 1;
}

static PyObject *digest_plain(PyObject *module, PyObject *event)
{
    unsigned char content[MOST_BYTES];
    PyObject *told[MOST_FIELDS];
    const Kind *kind = kinds;
    (void)module;
    while (kind < kinds + KINDS && kind->type != Py_TYPE(event))
        kind++;
    if (kind == kinds + KINDS || !tell(kind, event, told))
        Py_RETURN_NONE;
    PyObject *time = *slot_at(event, kind->time);
    if (time == NULL || !PyFloat_CheckExact(time))
        Py_RETURN_NONE;
    memcpy(content, kind->head, sizeof kind->head);
    At at = put_float(content + kind->head_size, time);
    at = put_list(at, content + MOST_BYTES, told, described[kind - kinds].told, MOST_LEVELS);
    if (at == NULL)
        Py_RETURN_NONE;
    size_t size = (size_t)(at - content); /* 16 at least: kind and time */
    uint64_t digest = size <= 240 ? digest_of_few(content, size) : digest_of_many(content, size);
    return PyLong_FromUnsignedLongLong(digest ? digest : 1);
}

static int learn(Kind *kind, const Described *what, PyObject *model)
{
    PyObject *type = PyObject_GetAttrString(model, what->name);
    if (type == NULL)
        return -1;
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_ImportError, "%s is not a type", what->name);
        Py_DECREF(type);
        return -1;
    }
    kind->type = (PyTypeObject *)type; /* kept, as the module is */
    for (int field = 0; field < MOST_FIELDS && what->fields[field] != NULL; field++)
        if ((kind->fields[field] = offset_in(kind->type, what->fields[field])) < 0)
            return -1;
    size_t size = strlen(what->name);
    kind->head[0] = 0x93; /* an array of three: the name, the time, what is told */
    kind->head[1] = (unsigned char)(0xA0 | size);
    memcpy(kind->head + 2, what->name, size);
    kind->head_size = (Py_ssize_t)size + 2;
    return (kind->time = offset_in(kind->type, "time")) < 0 ? -1 : 0;
}

static int fill(PyObject *module)
{
    (void)module;
#ifdef HAS_WIDE_LANES
    if (__builtin_cpu_supports("avx2"))
        best_fold = fold_wide;
#endif
    content_name = PyUnicode_InternFromString("content");
    PyObject *model = PyImport_ImportModule("stream_guard.model");
    int failed = content_name == NULL || model == NULL;
    for (int number = 0; number < KINDS && !failed; number++)
        failed = learn(kinds + number, described + number, model) < 0;
    Py_XDECREF(model);
    if (!went_well(failed))
        memset(kinds, 0, sizeof kinds); /* no event is of these: all are left to the encoder */
    return PyErr_Occurred() ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"digest_plain", digest_plain, METH_O,
     PyDoc_STR("Return the digest of what an event tells, never 0; None: it is left to the encoder.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plain_content", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain_content(void)
{
    return PyModuleDef_Init(&module);
}
