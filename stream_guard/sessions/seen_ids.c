/* The compiled form of seen_ids.py: digests beside each other, without an object for each.

   A dictionary of them takes three times the memory, and its numbers are as many objects to free when a session ends.
   tests/property/test_seen_ids.py holds the two against each other. */

#include "xxh3.h"

#define FEW 16           /* are looked through one by one */
#define MOST (1U << 30) /* places are numbers of 32 bits */

/* One generation. The arrays lie in one block: ids, contents, and from more than a few on the places by id. */
typedef struct {
    uint64_t *ids, *contents;
    uint32_t *places; /* one more than where an id stands, twice as many as there is room for; 0: free */
    uint32_t size, room;
} Generation;

typedef struct {
    PyObject_HEAD
    Generation recent, older;
} SeenIds;

static uint64_t stir; /* odd, another in each process: nobody can know which ids meet */

static inline uint32_t first_place(const Generation *known, uint64_t id)
{
    return (uint32_t)(id * stir >> 32) & (2 * known->room - 1);
}

/* Return where an id stands, or -1. */
static inline int64_t find(const Generation *known, uint64_t id)
{
    if (known->room <= FEW) {
        for (uint32_t at = 0; at < known->size; at++)
            if (known->ids[at] == id)
                return at;
        return -1;
    }
    for (uint32_t place = first_place(known, id);; place = (place + 1) & (2 * known->room - 1)) {
        uint32_t found = known->places[place];
        if (found == 0)
            return -1;
        if (known->ids[found - 1] == id)
            return found - 1;
    }
}

static void note_place(Generation *known, uint32_t at)
{
    uint32_t place = first_place(known, known->ids[at]);
    while (known->places[place] != 0)
        place = (place + 1) & (2 * known->room - 1);
    known->places[place] = at + 1;
}

static int make_room(Generation *known, uint32_t room)
{
    size_t each = 2 * sizeof(uint64_t) + (room > FEW ? 2 * sizeof(uint32_t) : 0);
    Generation grown = {NULL, NULL, NULL, known->size, room};
    grown.ids = room > MOST ? NULL : PyMem_Malloc(room * each);
    if (grown.ids == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    grown.contents = grown.ids + room;
    if (known->size > 0) {
        memcpy(grown.ids, known->ids, known->size * sizeof(uint64_t));
        memcpy(grown.contents, known->contents, known->size * sizeof(uint64_t));
    }
    if (room > FEW) {
        grown.places = (uint32_t *)(grown.contents + room);
        memset(grown.places, 0, 2 * room * sizeof(uint32_t));
        for (uint32_t at = 0; at < grown.size; at++)
            note_place(&grown, at);
    }
    PyMem_Free(known->ids);
    *known = grown;
    return 0;
}

/* Put an id behind the others; it is not among them. */
static int append(Generation *known, uint64_t id, uint64_t content)
{
    if (known->size == known->room && make_room(known, known->room ? 2 * known->room : FEW / 2) < 0)
        return -1;
    known->ids[known->size] = id;
    known->contents[known->size] = content;
    known->size++;
    if (known->room > FEW)
        note_place(known, known->size - 1);
    return 0;
}

static void forget(Generation *known)
{
    PyMem_Free(known->ids);
    *known = (Generation){NULL, NULL, NULL, 0, 0};
}

static int read_digest(PyObject *event_id, uint64_t *digest)
{
    if (!PyUnicode_Check(event_id)) {
        PyErr_SetString(PyExc_TypeError, "an id is a text");
        return -1;
    }
    if (PyUnicode_IS_COMPACT_ASCII(event_id)) {
        *digest = digest_of((const unsigned char *)PyUnicode_1BYTE_DATA(event_id), (size_t)PyUnicode_GET_LENGTH(event_id));
        return 0;
    }
    PyObject *bytes = PyUnicode_AsEncodedString(event_id, "utf-8", "surrogatepass");
    if (bytes == NULL)
        return -1;
    *digest = digest_of((const unsigned char *)PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return 0;
}

static PyObject *add(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    SeenIds *seen = (SeenIds *)self;
    uint64_t id;
    if (count != 3 || !PyLong_Check(values[1]) || !PyLong_Check(values[2])) {
        PyErr_SetString(PyExc_TypeError, "takes an id and two numbers");
        return NULL;
    }
    unsigned long long content = PyLong_AsUnsignedLongLong(values[1]);
    long long most = PyLong_AsLongLong(values[2]);
    if (PyErr_Occurred() || read_digest(values[0], &id) < 0)
        return NULL;
    if (find(&seen->recent, id) >= 0 || find(&seen->older, id) >= 0)
        Py_RETURN_FALSE;
    if (append(&seen->recent, id, content) < 0)
        return NULL;
    if ((long long)seen->recent.size >= most) {
        forget(&seen->older);
        seen->older = seen->recent;
        seen->recent = (Generation){NULL, NULL, NULL, 0, 0};
    }
    Py_RETURN_TRUE;
}

static PyObject *content(PyObject *self, PyObject *event_id)
{
    SeenIds *seen = (SeenIds *)self;
    uint64_t id;
    if (read_digest(event_id, &id) < 0)
        return NULL;
    const Generation *generations[] = {&seen->recent, &seen->older};
    for (int number = 0; number < 2; number++) {
        int64_t at = find(generations[number], id);
        if (at >= 0)
            return PyLong_FromUnsignedLongLong(generations[number]->contents[at]);
    }
    Py_RETURN_NONE;
}

static PyObject *stored(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    const Generation *recent = &((SeenIds *)self)->recent, *older = &((SeenIds *)self)->older;
    const Py_ssize_t each = sizeof(uint64_t), sizes[] = {recent->size * each, older->size * each};
    PyObject *ids = PyBytes_FromStringAndSize((const char *)recent->ids, sizes[0]);
    PyObject *older_ids = PyBytes_FromStringAndSize((const char *)older->ids, sizes[1]);
    PyObject *contents = PyBytes_FromStringAndSize(NULL, sizes[0] + sizes[1]);
    PyObject *all = NULL;
    if (ids != NULL && older_ids != NULL && contents != NULL) {
        if (sizes[0])
            memcpy(PyBytes_AS_STRING(contents), recent->contents, (size_t)sizes[0]);
        if (sizes[1])
            memcpy(PyBytes_AS_STRING(contents) + sizes[0], older->contents, (size_t)sizes[1]);
        all = PyTuple_Pack(3, ids, older_ids, contents);
    }
    Py_XDECREF(ids);
    Py_XDECREF(older_ids);
    Py_XDECREF(contents);
    return all;
}

/* Put ids and contents into a generation that is empty; of an id that stands there twice, the last content counts. */
static int fill(Generation *known, PyObject *ids, const char *contents)
{
    Py_ssize_t count = PyBytes_GET_SIZE(ids) / (Py_ssize_t)sizeof(uint64_t);
    for (Py_ssize_t number = 0; number < count; number++) {
        uint64_t id, value = 0;
        memcpy(&id, PyBytes_AS_STRING(ids) + number * (Py_ssize_t)sizeof id, sizeof id);
        if (contents != NULL)
            memcpy(&value, contents + number * (Py_ssize_t)sizeof value, sizeof value);
        int64_t at = find(known, id);
        if (at >= 0)
            known->contents[at] = value;
        else if (append(known, id, value) < 0)
            return -1;
    }
    return 0;
}

static PyObject *restore(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    SeenIds *seen = (SeenIds *)self;
    for (Py_ssize_t number = 0; number < 3; number++)
        if (count != 3 || !PyBytes_Check(values[number]) || PyBytes_GET_SIZE(values[number]) % 8) {
            PyErr_SetString(count == 3 && PyBytes_Check(values[number]) ? PyExc_ValueError : PyExc_TypeError,
                            "takes the bytes of recent and older ids and of contents, eight each");
            return NULL;
        }
    Py_ssize_t sizes[] = {PyBytes_GET_SIZE(values[0]), PyBytes_GET_SIZE(values[1])};
    const char *contents = NULL; /* an earlier version kept none */
    if (PyBytes_GET_SIZE(values[2]) == sizes[0] + sizes[1])
        contents = PyBytes_AS_STRING(values[2]);
    forget(&seen->recent);
    forget(&seen->older);
    if (fill(&seen->recent, values[0], contents) < 0 ||
        fill(&seen->older, values[1], contents == NULL ? NULL : contents + sizes[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    forget(&((SeenIds *)self)->recent);
    forget(&((SeenIds *)self)->older);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL,
     PyDoc_STR("Remember what an id stands for; False: it is known, and nothing changes.")},
    {"content", content, METH_O, PyDoc_STR("Return the digest of what an id stands for; None for a new id.")},
    {"stored", stored, METH_NOARGS, PyDoc_STR("Return the ids of both generations, and the contents.")},
    {"restore", (PyCFunction)(void (*)(void))restore, METH_FASTCALL,
     PyDoc_STR("Know what was stored, and nothing else.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot type_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("The last event ids in two generations.")},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "stream_guard.sessions.seen_ids.SeenIds",
    .basicsize = sizeof(SeenIds),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = type_slots,
};

static int execute(PyObject *module)
{
    choose_fold();
    PyObject *name = PyUnicode_FromString("stream_guard"); /* its hash is another in each process */
    Py_hash_t hash = name == NULL ? -1 : PyObject_Hash(name);
    Py_XDECREF(name);
    if (hash == -1)
        return -1;
    stir = ((uint64_t)hash * PRIME64_1) | 1;
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = type == NULL || PyModule_AddObjectRef(module, "SeenIds", type) < 0 ? -1 : 0;
    Py_XDECREF(type);
    return failed;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "seen_ids", NULL, 0, NULL, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_seen_ids(void)
{
    return PyModuleDef_Init(&module);
}
