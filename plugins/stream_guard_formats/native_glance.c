/* The compiled form of native_glance.py: whose native records are, from the fields before their session.

   It must answer exactly as the pattern there does, for every process that shares a recording asks for itself, and a
   record that two of them claim, or none, is judged twice or never. tests/property/test_native_glance.py holds the two
   against each other. Nothing here recurses, and the time is linear. */

#include "../../stream_guard/struct_slots.h"
#include <stdint.h>
#ifdef __SSE2__ /* every x86_64 has it */
#include <emmintrin.h>
#endif

typedef const unsigned char *At;

/* Single bytes are read without asking for the end: a NUL stands there, as behind all of Python's bytes, and no field
   goes on with one. In strings, where a NUL may stand, the end is asked for. */

static uint32_t crc_of_byte[256];
static PyObject *value_name, *headers_name, *origin_name;
static PyTypeObject *record_type; /* NULL: fields are asked for by name */
static Py_ssize_t value_offset, headers_offset, origin_offset;

#define WORD(text) text, sizeof(text) - 1

#define LEAST_LINE 32 /* {"kind":"turn","session_id":"a"} and its newline */

static const struct {
    const char *text;
    size_t size;
} kinds[] = {
    {WORD("user_message\"")}, {WORD("turn\"")},        {WORD("tool_call\"")},
    {WORD("decision\"")},     {WORD("tool_result\"")}, {WORD("session_end\"")},
};

/* The checksum of zlib.crc32. */
static uint32_t checksum(At at, At end)
{
    uint32_t crc = 0xFFFFFFFFu;
    while (at < end)
        crc = crc_of_byte[(crc ^ *at++) & 0xFF] ^ (crc >> 8);
    return crc ^ 0xFFFFFFFFu;
}

static inline At skip_space(At at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

static inline At skip_word(At at, At end, const char *word, size_t size)
{
    return end - at >= (Py_ssize_t)size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

/* Return what follows a byte and the space around it, NULL where it is another. */
static inline At skip_mark(At at, unsigned char mark)
{
    at = skip_space(at);
    return *at == mark ? skip_space(at + 1) : NULL;
}

/* Return what follows a string without escapes, NULL where it is none. */
static At skip_string(At at, At end)
{
    if (*at != '"')
        return NULL;
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if (*at == '\\')
            return NULL;
    }
    return NULL;
}

static inline int is_of_number(unsigned char byte)
{
    return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' || byte == 'e' || byte == 'E';
}

/* Return what follows a value that holds no others, NULL where it is none. */
static At skip_value(At at, At end)
{
    switch (*at) {
    case '"':
        return skip_string(at, end);
    case 't':
        return skip_word(at, end, WORD("true"));
    case 'f':
        return skip_word(at, end, WORD("false"));
    case 'n':
        return skip_word(at, end, WORD("null"));
    }
    At start = at;
    while (is_of_number(*at))
        at++;
    return at > start ? at : NULL;
}

/* Return what follows the kind at the top of a record and its comma, NULL where it does not begin with one. */
static At skip_kind(At at, At end)
{
    if (*at != '{' || (at = skip_word(skip_space(at + 1), end, WORD("\"kind\""))) == NULL)
        return NULL;
    if ((at = skip_mark(at, ':')) == NULL || *at++ != '"')
        return NULL;
    for (size_t number = 0; number < sizeof kinds / sizeof *kinds; number++) {
        At behind = skip_word(at, end, kinds[number].text, kinds[number].size);
        if (behind != NULL)
            return skip_mark(behind, ',');
    }
    return NULL;
}

/* Return where the plain id of the session begins, NULL where it is not found so. */
static At find_session(At at, At end)
{
    if ((at = skip_kind(at, end)) == NULL)
        return NULL;
    for (;;) {
        At behind = skip_word(at, end, WORD("\"session_id\""));
        if (behind != NULL)
            return (at = skip_mark(behind, ':')) != NULL && *at == '"' ? at + 1 : NULL;
        if ((at = skip_string(at, end)) == NULL || (at = skip_mark(at, ':')) == NULL)
            return NULL;
        if ((at = skip_value(at, end)) == NULL || (at = skip_mark(at, ',')) == NULL)
            return NULL;
    }
}

static inline int names_session(At quote, At end)
{
    return skip_word(quote, end, WORD("\"session")) || skip_word(quote, end, WORD("\"thread_id\"")) ||
           skip_word(quote, end, WORD("\"conversation_id\""));
}

/* Whether anything that may be the name of a session stands from here on. */
static int may_name_another(At at, At end)
{
#ifdef __SSE2__
    for (; end - at >= 17; at += 16) {
        __m128i quotes = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8('"'));
        __m128i next = _mm_loadu_si128((const __m128i *)(at + 1));
        __m128i first = _mm_or_si128(_mm_cmpeq_epi8(next, _mm_set1_epi8('s')), _mm_cmpeq_epi8(next, _mm_set1_epi8('t')));
        first = _mm_or_si128(first, _mm_cmpeq_epi8(next, _mm_set1_epi8('c')));
        unsigned marks = (unsigned)_mm_movemask_epi8(_mm_and_si128(quotes, first));
        for (; marks; marks &= marks - 1)
            if (names_session(at + __builtin_ctz(marks), end))
                return 1;
    }
#endif
    while (at < end && (at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        if (names_session(at, end))
            return 1;
        at++;
    }
    return 0;
}

/* Return 1 for a session of ours, 0 for one of others, -1 where a glance does not tell. */
static int whose(At at, At end, At ours, size_t buckets)
{
    At id = find_session(at, end), behind = id;
    if (id == NULL)
        return -1;
    while (*behind >= ' ' && *behind <= '~' && *behind != '"' && *behind != '\\')
        behind++;
    /* Behind a line there may be another, whose bytes are not of this one: it was left if the end was passed. */
    if (behind == id || behind >= end || *behind != '"' || may_name_another(behind + 1, end))
        return -1;
    return ours[checksum(id, behind) % buckets] != 0;
}

/* Return a field of a record: a reference of the caller's own. */
static inline PyObject *field_of(PyObject *record, Py_ssize_t offset, PyObject *name)
{
    PyObject *kept = Py_IS_TYPE(record, record_type) ? *slot_at(record, offset) : NULL;
    return kept != NULL ? Py_NewRef(kept) : PyObject_GetAttr(record, name);
}

/* The same for a record; -2 with an error set. */
static int whose_record(PyObject *record, PyObject *origin, At ours, size_t buckets)
{
    int answer = -2;
    PyObject *value = field_of(record, value_offset, value_name);
    PyObject *headers = value == NULL ? NULL : field_of(record, headers_offset, headers_name);
    PyObject *own_origin = headers == NULL ? NULL : field_of(record, origin_offset, origin_name);
    if (own_origin != NULL) {
        int same = own_origin == origin ? 1 : PyObject_RichCompareBool(own_origin, origin, Py_EQ);
        int bare = same <= 0 ? same : PyObject_Not(headers);
        if (bare > 0 && PyBytes_Check(value)) {
            At start = (At)PyBytes_AS_STRING(value);
            answer = whose(start, start + PyBytes_GET_SIZE(value), ours, buckets);
        } else if (bare >= 0)
            answer = -1;
    }
    Py_XDECREF(value);
    Py_XDECREF(headers);
    Py_XDECREF(own_origin);
    return answer;
}

static int add_number(PyObject *list, Py_ssize_t number)
{
    PyObject *added = PyLong_FromSsize_t(number);
    int failed = added == NULL ? -1 : PyList_Append(list, added);
    Py_XDECREF(added);
    return failed;
}

static PyObject *glance(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *records, *ours;
    Py_ssize_t at, stop;
    if (!PyArg_ParseTuple(arguments, "O!nnS:glance", &PyList_Type, &records, &at, &stop, &ours))
        return NULL;
    if (at < 0 || at >= stop || stop > PyList_GET_SIZE(records) || PyBytes_GET_SIZE(ours) == 0) {
        PyErr_SetString(PyExc_ValueError, "a glance needs at least one record and one bucket");
        return NULL;
    }
    PyObject *own = PyList_New(0);
    PyObject *origin = own == NULL ? NULL : PyObject_GetAttr(PyList_GET_ITEM(records, at), origin_name);
    int answer = origin == NULL ? -2 : 0;
    while (answer >= 0 && at < stop && at < PyList_GET_SIZE(records)) {
        PyObject *record = Py_NewRef(PyList_GET_ITEM(records, at));
        answer = whose_record(record, origin, (At)PyBytes_AS_STRING(ours), (size_t)PyBytes_GET_SIZE(ours));
        Py_DECREF(record);
        if (answer == 1 && add_number(own, at) < 0)
            answer = -2;
        at += answer >= 0;
    }
    Py_XDECREF(origin);
    if (answer == -2) {
        Py_XDECREF(own);
        return NULL;
    }
    return Py_BuildValue("(Nn)", own, at);
}

static PyObject *glance_lines(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *chunk, *ours;
    Py_ssize_t start, found = 0;
    if (!PyArg_ParseTuple(arguments, "SnS:glance_lines", &chunk, &start, &ours))
        return NULL;
    if (start < 0 || start > PyBytes_GET_SIZE(chunk) || PyBytes_GET_SIZE(ours) == 0) {
        PyErr_SetString(PyExc_ValueError, "a glance at lines needs a place in the chunk and one bucket");
        return NULL;
    }
    At at = (At)PyBytes_AS_STRING(chunk) + start, end = at - start + PyBytes_GET_SIZE(chunk), newline;
    PyObject *told = PyBytes_FromStringAndSize(NULL, (end - at) / LEAST_LINE + 1);
    if (told == NULL)
        return NULL;
    char *answers = PyBytes_AS_STRING(told);
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        int answer = whose(at, newline + 1, (At)PyBytes_AS_STRING(ours), (size_t)PyBytes_GET_SIZE(ours));
        if (answer < 0)
            break;
        answers[found++] = (char)answer;
        at = newline + 1;
    }
    _PyBytes_Resize(&told, found);
    return told;
}

static int prepare(PyObject *module)
{
    (void)module;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? 0xEDB88320u ^ (crc >> 1) : crc >> 1;
        crc_of_byte[byte] = crc;
    }
    value_name = PyUnicode_InternFromString("value");
    headers_name = PyUnicode_InternFromString("headers");
    origin_name = PyUnicode_InternFromString("origin");
    if (value_name == NULL || headers_name == NULL || origin_name == NULL)
        return -1;
    record_type = struct_type("stream_guard.ports", "Record");
    if (!went_well(record_type == NULL || (value_offset = offset_in(record_type, "value")) < 0 ||
                   (headers_offset = offset_in(record_type, "headers")) < 0 ||
                   (origin_offset = offset_in(record_type, "origin")) < 0))
        record_type = NULL;
    return PyErr_Occurred() ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"glance", glance, METH_VARARGS,
     PyDoc_STR("Return which records are certainly of our sessions, and where the first stands that is not certain.")},
    {"glance_lines", glance_lines, METH_VARARGS,
     PyDoc_STR("Return a byte for each line up to the first that is not certain: 1 for those of our sessions.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native_glance", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native_glance(void)
{
    return PyModuleDef_Init(&module);
}
