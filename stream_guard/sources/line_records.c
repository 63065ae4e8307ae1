/* The compiled form of line_records.py: each line is found, copied and made a record in one go. */

#include "../struct_slots.h"

#define MOST_FIELDS 16

static PyObject *record_class, *left_out; /* stands for a line that nobody needs */
static PyTypeObject *record_type; /* the same */
static int has_slots;
static Py_ssize_t value_offset, origin_offset, position_offset, line_offset;
static struct {
    Py_ssize_t offset;
    PyObject *value;
} others[MOST_FIELDS]; /* what stands in the other fields of a line */
static int count_of_others;

/* Return a record of a line. */
static PyObject *make_record(const char *start, Py_ssize_t size, PyObject *origin, long long position, long long line)
{
    if (!has_slots)
        return PyObject_CallFunction(record_class, "y#Onn", start, size, origin, (Py_ssize_t)position, (Py_ssize_t)line);
    PyObject *record = new_struct(record_type);
    if (record == NULL)
        return NULL;
    *slot_at(record, origin_offset) = Py_NewRef(origin);
    for (int number = 0; number < count_of_others; number++)
        *slot_at(record, others[number].offset) = Py_NewRef(others[number].value);
    if ((*slot_at(record, value_offset) = PyBytes_FromStringAndSize(start, size)) == NULL ||
        (*slot_at(record, position_offset) = PyLong_FromLongLong(position)) == NULL ||
        (*slot_at(record, line_offset) = PyLong_FromLongLong(line)) == NULL)
        Py_CLEAR(record);
    return record;
}

static PyObject *line_records(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    (void)module;
    if (count != 7 || !PyBytes_CheckExact(values[0]) || !PyBytes_CheckExact(values[6])) {
        PyErr_SetString(PyExc_TypeError, "line_records needs bytes, five more, and bytes");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(values[1]);
    long long position = PyLong_AsLongLong(values[3]), line = PyLong_AsLongLong(values[4]);
    long long step = PyLong_AsLongLong(values[5]);
    PyObject *records = PyErr_Occurred() ? NULL : PyList_New(0);
    if (records == NULL)
        return NULL;
    Py_ssize_t whole = PyBytes_GET_SIZE(values[0]);
    const char *needed = PyBytes_AS_STRING(values[6]), *told = needed + PyBytes_GET_SIZE(values[6]);
    if (start < 0 && (start += whole) < 0) /* as in a slice */
        start = 0;
    const char *at = PyBytes_AS_STRING(values[0]), *end = at + whole, *newline;
    at += start < whole ? start : whole;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        Py_ssize_t size = newline + 1 - at;
        line += step;
        int is_needed = needed == told || *needed++ != 0;
        PyObject *record = is_needed ? make_record(at, size, values[2], position, line) : Py_NewRef(left_out);
        if (record == NULL || PyList_Append(records, record) < 0) {
            Py_XDECREF(record);
            Py_DECREF(records);
            return NULL;
        }
        Py_DECREF(record);
        position += size;
        at = newline + 1;
    }
    return records;
}

/* Note what stands in the fields of a record of which only the value is given. */
static int note_others(PyObject *record, PyObject *fields)
{
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(fields); number++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(fields, number));
        Py_ssize_t offset = name != NULL ? offset_in(record_type, name) : -1;
        if (offset < 0)
            return -1;
        if (offset == value_offset || offset == origin_offset || offset == position_offset || offset == line_offset)
            continue;
        if (count_of_others == MOST_FIELDS) {
            PyErr_SetString(PyExc_ImportError, "records have more fields than line_records.c has room for");
            return -1;
        }
        others[count_of_others].offset = offset;
        others[count_of_others++].value = Py_NewRef(*slot_at(record, offset));
    }
    return 0;
}

static int prepare(void)
{
    if (record_type == NULL || (value_offset = offset_in(record_type, "value")) < 0 ||
        (origin_offset = offset_in(record_type, "origin")) < 0 ||
        (position_offset = offset_in(record_type, "position")) < 0 || (line_offset = offset_in(record_type, "line")) < 0)
        return -1;
    PyObject *fields = PyObject_GetAttrString((PyObject *)record_type, "__struct_fields__");
    PyObject *record = fields != NULL ? PyObject_CallFunction((PyObject *)record_type, "y", "") : NULL;
    int failed = record == NULL ? -1 : note_others(record, fields);
    Py_XDECREF(record);
    Py_XDECREF(fields);
    return failed;
}

static int execute(PyObject *module)
{
    (void)module;
    if (has_slots)
        return 0; /* once is enough */
    PyObject *ports = PyImport_ImportModule("stream_guard.ports");
    record_class = ports != NULL ? PyObject_GetAttrString(ports, "Record") : NULL;
    Py_XDECREF(ports);
    left_out = record_class != NULL ? PyObject_CallFunction(record_class, "y", "") : NULL;
    if (left_out == NULL)
        return -1;
    record_type = struct_type("stream_guard.ports", "Record");
    has_slots = went_well(prepare());
    return PyErr_Occurred() ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"line_records", (PyCFunction)(void (*)(void))line_records, METH_FASTCALL,
     PyDoc_STR("Return the lines of a chunk as records, without what follows the last newline.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "line_records", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_line_records(void)
{
    return PyModuleDef_Init(&module);
}
