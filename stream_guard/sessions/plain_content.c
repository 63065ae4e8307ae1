/* The compiled form of plain_content.py: MessagePack of values as a JSON parser makes them, byte by byte as msgspec's.

   It is written from the fields of an event, without a tuple or an encoder between, and once: an event has some
   hundred bytes. What is rare (a long content, deep nesting, a large number, a value of another type) is left to the
   encoder. tests/property/test_plain_content.py holds the two against each other. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

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
    return put_number(at, 0xCB, bits, 8);
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
    memcpy(at, text, (size_t)size);
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

static PyObject *encode_plain(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    unsigned char content[MOST_BYTES];
    At at = content, end = content + MOST_BYTES;
    (void)module;
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "encode_plain needs a kind and a time");
        return NULL;
    }
    at = put_number(at, 0x93, 0, 0);
    if ((at = put(at, end, values[0], 0)) != NULL && (at = put(at, end, values[1], 0)) != NULL)
        at = put_list(at, end, values + 2, count - 2, MOST_LEVELS);
    if (at == NULL)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)content, at - content);
}

static PyMethodDef functions[] = {
    {"encode_plain", (PyCFunction)(void (*)(void))encode_plain, METH_FASTCALL,
     PyDoc_STR("Return the MessagePack of (kind, time, told); None: it is left to the encoder.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plain_content", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain_content(void)
{
    return PyModuleDef_Init(&module);
}
