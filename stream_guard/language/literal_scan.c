/* The compiled form of literal_scan.py: looks for many literals at once, and skips most bytes (Wu and Manber, 1994).

   A table tells of two neighbouring bytes how far the end of the window may move without missing a literal. Where it may
   not move, the literals whose window ends so are compared. What is prepared is a bytes object, so it has no type and no
   lifetime of its own. Text that is not plain ASCII is not searched: it may be read as something else (lookalikes.py). */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PLACES 4096
#define MOST_LITERALS 255
#define LONGEST 16 /* of a longer literal its first bytes are looked for */
#define SHORTEST 3
#define MOST_LEVELS 32 /* lists and objects in one another */

typedef struct {
    uint8_t size;
    uint8_t next; /* the next literal whose window ends with the same two bytes, 0: none */
    unsigned char bytes[LONGEST];
} Literal;

typedef struct {
    uint32_t window; /* the size of the shortest literal */
    uint8_t shift[PLACES];
    uint8_t first[PLACES]; /* the first literal of a chain, counted from 1 */
    Literal literals[MOST_LITERALS + 1];
} Table;

static inline unsigned char small(unsigned char byte)
{
    return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

/* Capital and small letters have one place. So have a few other signs, which only means that more is compared. */
static inline unsigned place_of(unsigned char before, unsigned char last)
{
    return (((unsigned)(before | 0x20) << 5) ^ (last | 0x20)) & (PLACES - 1);
}

static void add_literal(Table *table, unsigned number)
{
    Literal *literal = &table->literals[number];
    unsigned window = table->window;
    for (unsigned at = 1; at < window; at++) {
        unsigned place = place_of(literal->bytes[at - 1], literal->bytes[at]), shift = window - 1 - at;
        if (shift < table->shift[place])
            table->shift[place] = (uint8_t)shift;
    }
    unsigned place = place_of(literal->bytes[window - 2], literal->bytes[window - 1]);
    literal->next = table->first[place];
    table->first[place] = (uint8_t)number;
}

static PyObject *prepare(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *literals = PySequence_Fast(given, "literals are a sequence of bytes");
    if (literals == NULL)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(literals);
    PyObject *made = PyBytes_FromStringAndSize(NULL, sizeof(Table));
    if (made == NULL || count < 1 || count > MOST_LITERALS)
        goto refused;
    Table *table = (Table *)PyBytes_AS_STRING(made);
    memset(table, 0, sizeof(Table));
    table->window = LONGEST;
    for (Py_ssize_t number = 1; number <= count; number++) {
        PyObject *one = PySequence_Fast_GET_ITEM(literals, number - 1);
        if (!PyBytes_Check(one) || PyBytes_GET_SIZE(one) < SHORTEST)
            goto refused;
        Py_ssize_t size = PyBytes_GET_SIZE(one) > LONGEST ? LONGEST : PyBytes_GET_SIZE(one);
        Literal *literal = &table->literals[number];
        literal->size = (uint8_t)size;
        memcpy(literal->bytes, PyBytes_AS_STRING(one), (size_t)size);
        if ((uint32_t)size < table->window)
            table->window = (uint32_t)size;
    }
    memset(table->shift, (int)table->window - 1, PLACES);
    for (Py_ssize_t number = 1; number <= count; number++)
        add_literal(table, (unsigned)number);
    Py_DECREF(literals);
    return made;
refused:
    Py_XDECREF(made);
    Py_DECREF(literals);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "needs 1 to %d literals of at least %d bytes", MOST_LITERALS, SHORTEST);
    return NULL;
}

#if defined(__GNUC__)

typedef unsigned char Block __attribute__((vector_size(16)));

/* Whether one of sixteen bytes is a control character that a reader does not see. */
static inline int has_invisible_in(Block bytes)
{
    Block odd = (Block)((bytes < 0x20) & (bytes != '\n') & (bytes != '\t') & (bytes != '\r')) | (Block)(bytes == 0x7F);
    uint64_t halves[2];
    memcpy(halves, &odd, 16);
    return (halves[0] | halves[1]) != 0;
}

#endif

/* Whether a control character stands in the text that a reader does not see: tabs and line ends are seen. */
static int has_invisible(const unsigned char *at, const unsigned char *end)
{
#if defined(__GNUC__)
    for (; end - at >= 16; at += 16) {
        Block bytes;
        memcpy(&bytes, at, 16);
        if (has_invisible_in(bytes))
            return 1;
    }
#endif
    for (; at < end; at++)
        if ((*at < 0x20 && *at != '\n' && *at != '\t' && *at != '\r') || *at == 0x7F)
            return 1;
    return 0;
}

static int occurs(const Table *table, const unsigned char *text, size_t size)
{
    size_t window = table->window, end = window - 1;
    while (end < size) {
        unsigned place = place_of(text[end - 1], text[end]);
        unsigned shift = table->shift[place];
        if (shift) {
            end += shift;
            continue;
        }
        const unsigned char *start = text + (end + 1 - window);
        for (unsigned number = table->first[place]; number; number = table->literals[number].next) {
            const Literal *literal = &table->literals[number];
            if ((size_t)(text + size - start) < literal->size)
                continue;
            unsigned at = 0;
            while (at < literal->size && small(start[at]) == literal->bytes[at])
                at++;
            if (at == literal->size)
                return 1;
        }
        end++;
    }
    return 0;
}

static int may_occur_in_text(const Table *table, PyObject *text)
{
    if (!PyUnicode_IS_COMPACT_ASCII(text))
        return 1;
    const unsigned char *bytes = PyUnicode_1BYTE_DATA(text);
    size_t size = (size_t)PyUnicode_GET_LENGTH(text);
    return has_invisible(bytes, bytes + size) || occurs(table, bytes, size);
}

/* Whether a literal may occur in a string of a JSON value. What is nested too deeply is not looked into. */
static int may_occur_in(const Table *table, PyObject *value, int level)
{
    if (PyUnicode_Check(value))
        return may_occur_in_text(table, value);
    if (PyDict_Check(value)) {
        PyObject *key, *entry;
        Py_ssize_t place = 0;
        if (level == MOST_LEVELS)
            return 1;
        while (PyDict_Next(value, &place, &key, &entry))
            if (!PyUnicode_Check(key) || may_occur_in_text(table, key) || may_occur_in(table, entry, level + 1))
                return 1;
    }
    else if (PyList_Check(value)) {
        if (level == MOST_LEVELS)
            return 1;
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(value); place++)
            if (may_occur_in(table, PyList_GET_ITEM(value, place), level + 1))
                return 1;
    }
    return 0;
}

static PyObject *may_occur(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyBytes_Check(given[0]) || PyBytes_GET_SIZE(given[0]) != sizeof(Table)) {
        PyErr_SetString(PyExc_TypeError, "takes what prepare() returned, and a value");
        return NULL;
    }
    return PyBool_FromLong(may_occur_in((const Table *)PyBytes_AS_STRING(given[0]), given[1], 0));
}

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_O, PyDoc_STR("Return what may_occur needs for literals.")},
    {"may_occur", (PyCFunction)(void (*)(void))may_occur, METH_FASTCALL,
     PyDoc_STR("Whether one of the literals may occur in a string of a JSON value; False proves that none does.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "literal_scan", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_literal_scan(void)
{
    return PyModuleDef_Init(&definition);
}
