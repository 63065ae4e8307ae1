/* The compiled form of deadlines.py: a heap whose times are numbers beside each other.

   Python's heap compares tuples, 60 ns each time and a dozen times for a deadline that is taken away. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>

typedef struct {
    double time;
    PyObject *session_id;
} Deadline;

typedef struct {
    PyObject_HEAD
    Deadline *heap; /* each is no later than those at twice its place plus one and plus two */
    Py_ssize_t size, room;
} Deadlines;

static inline int is_before(Deadline one, Deadline other)
{
    if (one.time != other.time)
        return one.time < other.time;
    return PyUnicode_Compare(one.session_id, other.session_id) < 0;
}

static void rise(Deadline *heap, Py_ssize_t place)
{
    Deadline risen = heap[place];
    while (place > 0) {
        Py_ssize_t above = (place - 1) / 2;
        if (!is_before(risen, heap[above]))
            break;
        heap[place] = heap[above];
        place = above;
    }
    heap[place] = risen;
}

static void sink(Deadline *heap, Py_ssize_t size, Py_ssize_t place)
{
    Deadline sunk = heap[place];
    for (;;) {
        Py_ssize_t below = 2 * place + 1;
        if (below >= size)
            break;
        if (below + 1 < size && is_before(heap[below + 1], heap[below]))
            below++;
        if (!is_before(heap[below], sunk))
            break;
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = sunk;
}

static PyObject *push(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    Deadlines *deadlines = (Deadlines *)self;
    if (count != 2 || !PyUnicode_Check(values[1])) {
        PyErr_SetString(PyExc_TypeError, "push needs a deadline and a session's id");
        return NULL;
    }
    double time = PyFloat_AsDouble(values[0]);
    if (time == -1.0 && PyErr_Occurred())
        return NULL;
    if (deadlines->size == deadlines->room) {
        Py_ssize_t room = deadlines->room ? 2 * deadlines->room : 64;
        Deadline *heap = PyMem_Realloc(deadlines->heap, (size_t)room * sizeof(Deadline));
        if (heap == NULL)
            return PyErr_NoMemory();
        deadlines->heap = heap;
        deadlines->room = room;
    }
    Py_INCREF(values[1]);
    deadlines->heap[deadlines->size] = (Deadline){time, values[1]};
    rise(deadlines->heap, deadlines->size++);
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    Deadlines *deadlines = (Deadlines *)self;
    double until = INFINITY;
    if (count > 1) {
        PyErr_SetString(PyExc_TypeError, "pop takes one time at most");
        return NULL;
    }
    if (count == 1) {
        until = PyFloat_AsDouble(values[0]);
        if (until == -1.0 && PyErr_Occurred())
            return NULL;
    }
    if (deadlines->size == 0 || deadlines->heap[0].time > until)
        Py_RETURN_NONE;
    PyObject *session_id = deadlines->heap[0].session_id;
    if (--deadlines->size > 0) {
        deadlines->heap[0] = deadlines->heap[deadlines->size];
        sink(deadlines->heap, deadlines->size, 0);
    }
    return session_id;
}

static PyObject *first(PyObject *self, PyObject *nothing)
{
    Deadlines *deadlines = (Deadlines *)self;
    (void)nothing;
    return PyFloat_FromDouble(deadlines->size ? deadlines->heap[0].time : INFINITY);
}

static PyObject *bring_forward(PyObject *self, PyObject *value)
{
    Deadlines *deadlines = (Deadlines *)self;
    double seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred())
        return NULL;
    for (Py_ssize_t place = 0; place < deadlines->size; place++)
        deadlines->heap[place].time -= seconds;
    for (Py_ssize_t place = deadlines->size / 2 - 1; place >= 0; place--)
        sink(deadlines->heap, deadlines->size, place); /* two may be of the same time now */
    Py_RETURN_NONE;
}

static Py_ssize_t length(PyObject *self)
{
    return ((Deadlines *)self)->size;
}

static void deallocate(PyObject *self)
{
    Deadlines *deadlines = (Deadlines *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t place = 0; place < deadlines->size; place++)
        Py_DECREF(deadlines->heap[place].session_id);
    PyMem_Free(deadlines->heap);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"push", (PyCFunction)(void (*)(void))push, METH_FASTCALL, PyDoc_STR("Add a deadline. A session may have several.")},
    {"pop", (PyCFunction)(void (*)(void))pop, METH_FASTCALL,
     PyDoc_STR("Take the earliest deadline away and return whose it was; None when it is after the given time.")},
    {"first", first, METH_NOARGS, PyDoc_STR("Return the earliest deadline; infinity when there is none.")},
    {"bring_forward", bring_forward, METH_O, PyDoc_STR("Let all deadlines be that much earlier.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Deadlines with the ids of their sessions; of the same time, in the order of the ids."},
    {Py_tp_new, PyType_GenericNew},
    {Py_sq_length, length},
    {0, NULL},
};

static PyType_Spec type_spec = {"stream_guard.sessions.deadlines.Deadlines", sizeof(Deadlines), 0, Py_TPFLAGS_DEFAULT, slots};

static int fill(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&type_spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Deadlines", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "deadlines", NULL, 0, NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_deadlines(void)
{
    return PyModuleDef_Init(&module);
}
