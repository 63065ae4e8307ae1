/* The compiled form of plain_content.py: the digest of what an event tells, without an object on the way.

   The event's fields are read where its type keeps them, and written as MessagePack, byte by byte as msgspec writes what a
   JSON parser makes. What is rare (a long content, deep nesting, a large number, a value of another type) is left to the
   encoder. The digest is XXH3 with 64 bits, as xxhash has it (xxh3.h). tests/property/test_plain_content.py holds all of it
   against the two packages. */

#include "../struct_slots.h"
#include "xxh3.h"

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
    Py_ssize_t time, agent, run_id, fields[MOST_FIELDS];
    unsigned char head[16]; /* an array of three: the name, the time, what is told */
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
        if (told[0] == NULL) {
            if (PyErr_Occurred()) { /* a key with a comparison of its own: the encoder meets it too */
                PyErr_Clear();
                return 0;
            }
            told[0] = Py_None;
        }
    }
    return 1;
}

/* Write the time of an event behind the head; where there is none, nothing, and the agent and the run. */
static At put_time(At head, At end, const Kind *kind, PyObject *event)
{
    PyObject *time = *slot_at(event, kind->time);
    if (time == NULL)
        return NULL;
    At at = head + kind->head_size;
    if (PyFloat_CheckExact(time))
        return put_float(at, time);
    PyObject *agent = *slot_at(event, kind->agent), *run_id = *slot_at(event, kind->run_id);
    if (time != Py_None || agent == NULL || run_id == NULL)
        return NULL;
    head[0] = 0x95; /* of five */
    at = put(put_number(at, 0xC0, 0, 0), end, agent, 0);
    return at == NULL ? NULL : put(at, end, run_id, 0);
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
    memcpy(content, kind->head, sizeof kind->head);
    At at = put_time(content, content + MOST_BYTES, kind, event);
    if (at != NULL && content + MOST_BYTES - at >= 16)
        at = put_list(at, content + MOST_BYTES, told, described[kind - kinds].told, MOST_LEVELS);
    else
        at = NULL;
    if (at == NULL)
        Py_RETURN_NONE;
    uint64_t digest = digest_of(content, (size_t)(at - content));
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
    kind->head[0] = 0x93;
    kind->head[1] = (unsigned char)(0xA0 | size);
    memcpy(kind->head + 2, what->name, size);
    kind->head_size = (Py_ssize_t)size + 2;
    kind->time = offset_in(kind->type, "time");
    kind->agent = kind->time < 0 ? -1 : offset_in(kind->type, "agent");
    kind->run_id = kind->agent < 0 ? -1 : offset_in(kind->type, "run_id");
    return kind->run_id < 0 ? -1 : 0;
}

static int fill(PyObject *module)
{
    (void)module;
    choose_fold();
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
