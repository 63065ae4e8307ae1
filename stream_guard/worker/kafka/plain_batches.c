/* The compiled form of plain_batches.py: the records of plain batches, in one pass over the bytes.

   Whatever is out of the ordinary is left to the client, which knows what to say of it: another version, compression,
   transactions, a wrong checksum, lengths that do not fit. tests/property/test_plain_batches.py holds the two against
   each other. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Places in the head of a batch. */
enum { LENGTH = 8, START = 12, MAGIC = 16, CHECKSUM = 17, ATTRIBUTES = 21, LAST = 23, COUNT = 57, RECORDS = 61 };

#define SPECIAL 0x37 /* attributes of batches that are compressed, in a transaction, or markers */

typedef const unsigned char *At; /* where to read next; NULL: it cannot be read here */

static PyObject *record_type, *no_bytes, *no_headers, *zero;

/* ---- Checksums: CRC-32C, eight bytes at a time ---- */

static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        tables[0][byte] = crc;
    }
    for (int number = 1; number < 8; number++)
        for (int byte = 0; byte < 256; byte++)
            tables[number][byte] = tables[number - 1][byte] >> 8 ^ tables[0][tables[number - 1][byte] & 255];
}

static uint32_t checksum_by_tables(At at, At end)
{
    uint32_t crc = ~0u;
    for (; end - at >= 8; at += 8) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = tables[7][crc & 255] ^ tables[6][crc >> 8 & 255] ^ tables[5][crc >> 16 & 255] ^ tables[4][crc >> 24] ^
              tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    for (; at < end; at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)

#define HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
#define LANE 1024 /* bytes; the instruction waits for its last result, so three lanes are read side by side */

static uint32_t behind_lane[4][256]; /* what becomes of each byte of a checksum when a lane of zeros follows */

static void fill_lanes(void)
{
    for (int place = 0; place < 4; place++)
        for (uint32_t byte = 1; byte < 256; byte++) {
            uint32_t lowest = byte & -byte, crc = lowest << 8 * place;
            for (int zeros = 0; byte == lowest && zeros < LANE; zeros++)
                crc = crc >> 8 ^ tables[0][crc & 255];
            behind_lane[place][byte] =
                byte == lowest ? crc : behind_lane[place][lowest] ^ behind_lane[place][byte ^ lowest];
        }
}

static inline uint32_t moved(uint64_t crc)
{
    return behind_lane[0][crc & 255] ^ behind_lane[1][crc >> 8 & 255] ^ behind_lane[2][crc >> 16 & 255] ^
           behind_lane[3][crc >> 24 & 255];
}

static inline uint64_t word_at(At at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t checksum_by_instruction(At at, At end)
{
    uint64_t crc = ~0u;
    for (; end - at >= 3 * LANE; at += 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (int place = 0; place < LANE; place += 8) {
            crc = __builtin_ia32_crc32di(crc, word_at(at + place));
            second = __builtin_ia32_crc32di(second, word_at(at + place + LANE));
            third = __builtin_ia32_crc32di(third, word_at(at + place + 2 * LANE));
        }
        crc = moved(moved(crc) ^ second) ^ third;
    }
    for (; end - at >= 8; at += 8)
        crc = __builtin_ia32_crc32di(crc, word_at(at));
    for (; at < end; at++)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

#else

#define HAS_INSTRUCTION 0
#define fill_lanes()
#define checksum_by_instruction checksum_by_tables

#endif

static uint32_t (*checksum)(At, At);

/* ---- Numbers ---- */

static inline uint64_t fixed(At at, int bytes)
{
    uint64_t number = 0;
    while (bytes-- > 0)
        number = number << 8 | *at++;
    return number;
}

static inline At varint(At at, At end, int64_t *number)
{
    uint64_t raw = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
        unsigned char byte = *at++;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return at;
        }
    }
    return NULL;
}

/* Read a length and step over as many bytes; -1 is the length of nothing. */
static inline At chunk(At at, At end, At *from, int64_t *size)
{
    if ((at = varint(at, end, size)) == NULL || *size < -1 || *size > end - at)
        return NULL;
    *from = at;
    return *size > 0 ? at + *size : at;
}

/* ---- Records ---- */

static inline PyObject *bytes_of(At from, int64_t size)
{
    return size > 0 ? PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)size) : Py_NewRef(no_bytes);
}

/* Read headers; NULL without an exception where they cannot be read here. */
static PyObject *read_headers(At *at, At end, int64_t count)
{
    if (count > end - *at) /* each has at least two bytes */
        return NULL;
    PyObject *headers = PyTuple_New((Py_ssize_t)count);
    for (int64_t number = 0; headers != NULL && number < count; number++) {
        At name, content;
        int64_t name_size, size;
        if ((*at = chunk(*at, end, &name, &name_size)) == NULL || name_size < 0 ||
            (*at = chunk(*at, end, &content, &size)) == NULL) {
            Py_CLEAR(headers);
            break;
        }
        PyObject *text = PyUnicode_DecodeUTF8((const char *)name, (Py_ssize_t)name_size, NULL);
        PyObject *bytes = text == NULL ? NULL : bytes_of(content, size);
        PyObject *header = bytes == NULL ? NULL : PyTuple_Pack(2, text, bytes);
        Py_XDECREF(text);
        Py_XDECREF(bytes);
        if (header == NULL)
            Py_CLEAR(headers);
        else
            PyTuple_SET_ITEM(headers, number, header);
    }
    return headers;
}

typedef struct {
    PyObject *origin;
    int64_t start; /* records before this offset are left out */
    Py_ssize_t limit, head;
} Wanted;

/* Append the record at a place to the list and return the place behind it. */
static At read_record(At at, At end, int64_t base, Wanted *wanted, PyObject *found)
{
    int64_t length, attributes, time, delta, key_size, size, count;
    At key, value;
    if ((at = varint(at, end, &length)) == NULL || length < 0 || length > end - at)
        return NULL;
    end = at + length;
    /* The client reads the attributes as a number too. */
    if ((at = varint(at, end, &attributes)) == NULL || (at = varint(at, end, &time)) == NULL ||
        (at = varint(at, end, &delta)) == NULL || (at = chunk(at, end, &key, &key_size)) == NULL ||
        (at = chunk(at, end, &value, &size)) == NULL || (at = varint(at, end, &count)) == NULL || count < 0)
        return NULL;
    if (base + delta < wanted->start && count == 0)
        return at == end ? at : NULL;
    PyObject *headers = count ? read_headers(&at, end, count) : Py_NewRef(no_headers);
    if (headers == NULL || at != end || base + delta < wanted->start) {
        Py_XDECREF(headers);
        return headers != NULL && at == end ? at : NULL;
    }
    wanted->start = base + delta + 1;
    int whole = size <= wanted->limit;
    PyObject *arguments[] = {
        bytes_of(value, whole || size < wanted->head ? size : wanted->head),
        wanted->origin,
        PyLong_FromLongLong(base + delta),
        zero,
        key_size < 0 ? Py_NewRef(Py_None) : bytes_of(key, key_size),
        headers,
        whole ? NULL : PyLong_FromLongLong(size),
    };
    int made = arguments[0] != NULL && arguments[2] != NULL && arguments[4] != NULL && (whole || arguments[6] != NULL);
    PyObject *record = made ? PyObject_Vectorcall(record_type, arguments, whole ? 6 : 7, NULL) : NULL;
    Py_XDECREF(arguments[0]);
    Py_XDECREF(arguments[2]);
    Py_XDECREF(arguments[4]);
    Py_DECREF(headers);
    Py_XDECREF(arguments[6]);
    made = record != NULL && PyList_Append(found, record) == 0;
    Py_XDECREF(record);
    return made ? at : NULL;
}

/* Append the records of a batch; 0 where it cannot be read here. */
static int read_batch(At at, At end, Wanted *wanted, PyObject *found)
{
    if (end - at < RECORDS || at[MAGIC] != 2 || fixed(at + ATTRIBUTES, 2) & SPECIAL ||
        checksum(at + ATTRIBUTES, end) != (uint32_t)fixed(at + CHECKSUM, 4))
        return 0;
    int64_t base = (int64_t)fixed(at, 8);
    int32_t last = (int32_t)fixed(at + LAST, 4), count = (int32_t)fixed(at + COUNT, 4);
    if (base < 0 || base > INT64_MAX / 2)
        return 0;
    for (at += RECORDS; count > 0 && at != NULL; count--)
        at = read_record(at, end, base, wanted, found);
    wanted->start = base + last + 1;
    return at == end;
}

static PyObject *unpack_plain(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    (void)self;
    if (count != 5 || !PyBytes_CheckExact(arguments[0]) || !PyUnicode_CheckExact(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "wanted: the bytes, an offset, the origin, the limit and the head's size");
        return NULL;
    }
    Wanted wanted = {arguments[2], PyLong_AsLongLong(arguments[1]), PyLong_AsSsize_t(arguments[3]),
                     PyLong_AsSsize_t(arguments[4])};
    if (PyErr_Occurred())
        return NULL;
    At at = (At)PyBytes_AS_STRING(arguments[0]), end = at + PyBytes_GET_SIZE(arguments[0]);
    PyObject *found = PyList_New(0);
    if (found == NULL)
        return NULL;
    while (end - at >= START) {
        int32_t length = (int32_t)fixed(at + LENGTH, 4);
        if (length > end - at - START)
            break; /* incomplete */
        if (length < 0 || !read_batch(at, at + START + length, &wanted, found)) {
            Py_DECREF(found);
            if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_ValueError)) /* a header's name that is not UTF-8 */
                return NULL;
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        at += START + length;
    }
    return Py_BuildValue("NL", found, (long long)wanted.start);
}

static PyMethodDef functions[] = {
    {"unpack_plain", (PyCFunction)(void (*)(void))unpack_plain, METH_FASTCALL,
     "Return the records from an offset on, and the offset behind the last batch; None for the client to read them."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "plain_batches",
    .m_doc = "Records out of plain batches, as a broker sends them.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_plain_batches(void)
{
    PyObject *ports = PyImport_ImportModule("stream_guard.ports");
    record_type = ports == NULL ? NULL : PyObject_GetAttrString(ports, "Record");
    Py_XDECREF(ports);
    no_bytes = PyBytes_FromStringAndSize(NULL, 0);
    no_headers = PyTuple_New(0);
    zero = PyLong_FromLong(0);
    if (record_type == NULL || no_bytes == NULL || no_headers == NULL || zero == NULL)
        return NULL;
    fill_tables();
    fill_lanes();
    checksum = HAS_INSTRUCTION ? checksum_by_instruction : checksum_by_tables;
    return PyModule_Create(&module);
}
