/* The compiled form of quick_note.py: what every event of a file goes through, without a call for any of its parts. */

#include "../struct_slots.h"

static PyTypeObject *record_type, *event_types[6];
static Py_ssize_t origin_offset, line_offset, session_offset, id_offset;
static PyObject *no_line; /* 0 */

static int is_event(PyObject *value)
{
    for (int number = 0; number < 6; number++)
        if (Py_IS_TYPE(value, event_types[number]))
            return 1;
    return 0;
}

static PyObject *quick_note(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    (void)module;
    if (count != 4 || !PyDict_CheckExact(values[0])) {
        PyErr_SetString(PyExc_TypeError, "quick_note needs a dict and three more");
        return NULL;
    }
    PyObject *record = values[2], *event = values[3];
    if (!Py_IS_TYPE(record, record_type) || !is_event(event))
        Py_RETURN_FALSE;
    PyObject *line = *slot_at(record, line_offset), *event_id = *slot_at(event, id_offset);
    /* A struct takes any value for a field: an id that a decoder gave may be a number. */
    if (line == no_line || !PyUnicode_Check(event_id) || PyUnicode_GET_LENGTH(event_id) == 0 ||
        PyUnicode_READ_CHAR(event_id, 0) == '~')
        Py_RETURN_FALSE;
    PyObject *noted = PyDict_GetItemWithError(values[0], *slot_at(event, session_offset));
    if (noted == NULL || !PyList_CheckExact(noted) || PyList_GET_SIZE(noted) >= PyLong_AsSsize_t(values[1])) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_FALSE;
    }
    if (PyList_Append(noted, event_id) < 0 || PyList_Append(noted, *slot_at(record, origin_offset)) < 0 ||
        PyList_Append(noted, line) < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static int prepare(void)
{
    static const char *const names[] = {"Turn", "ToolCall", "ToolResult", "UserMessage", "GateDecision", "SessionEnd"};
    no_line = PyLong_FromLong(0); /* small numbers are one object each */
    record_type = struct_type("stream_guard.ports", "Record");
    if (record_type == NULL || (origin_offset = offset_in(record_type, "origin")) < 0 ||
        (line_offset = offset_in(record_type, "line")) < 0)
        return -1;
    for (int number = 0; number < 6; number++) {
        PyTypeObject *type = event_types[number] = struct_type("stream_guard.model", names[number]);
        Py_ssize_t session = type != NULL ? offset_in(type, "session_id") : -1;
        Py_ssize_t id = session >= 0 ? offset_in(type, "event_id") : -1;
        if (id < 0)
            return -1;
        if (number > 0 && (session != session_offset || id != id_offset)) {
            PyErr_SetString(PyExc_ImportError, "events keep their ids in different slots");
            return -1;
        }
        session_offset = session;
        id_offset = id;
    }
    return 0;
}

static int execute(PyObject *module)
{
    (void)module;
    if (!went_well(prepare()))
        record_type = NULL; /* no record is of that */
    return PyErr_Occurred() ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"quick_note", (PyCFunction)(void (*)(void))quick_note, METH_FASTCALL,
     PyDoc_STR("Add where a usual event stands to the entries of its session; False: nothing was done.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "quick_note", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_quick_note(void)
{
    return PyModuleDef_Init(&module);
}
