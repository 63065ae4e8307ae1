/* The compiled form of stamps.py: fields of events are written where their types keep them, several at once.

   A call of force_setattr looks one field up by its name. tests/property/test_stamps.py holds the two forms against each
   other. */

#include "../struct_slots.h"
#include <string.h>

#define MOST_FIELDS 16

typedef struct {
    const char *module, *name, *fields[MOST_FIELDS];
} Described;

enum { TURN, CALL, RESULT, OPEN, TYPES };
/* Fields of a turn that the calls in it have too, and come first with both; then each one's own. */
enum { SESSION_ID, TIME, TRACE_ID, RUN_ID, AGENT, AGENT_PATH, LABELS, PART, CAPTURED, SHARED, EVENT_ID = SHARED, INDEX };
enum { TEXT = INDEX + 1, TOOLS };
enum { TOOL = INDEX + 1, CALL_ID, ARGS, PARSE_ERROR, CONTESTED };
enum { STAMPED_INDEX, STAMPED_ATTEMPT, STAMPED_ARGS };

#define HEADER "session_id", "time", "trace_id", "run_id", "agent", "agent_path", "labels", "part", "captured", "event_id", "index"

static const Described described[TYPES] = {
    {"stream_guard.model", "Turn", {HEADER, "text", "tools"}},
    {"stream_guard.model", "ToolCall", {HEADER, "tool", "call_id", "args", "parse_error", "contested"}},
    {"stream_guard.model", "ToolResult", {"index", "attempt", "args"}},
    {"stream_guard.sessions.stored", "OpenCall", {"index", "attempt", "args"}},
};

typedef struct {
    PyTypeObject *type;
    Py_ssize_t fields[MOST_FIELDS];
} Known;

static Known known[TYPES];
static Py_ssize_t attempt_of_call;
static PyObject *blank_call, *copy_call; /* a call without anything in it, and what makes another of it */
static PyObject *word_type, *word_text, *word_tool_use, *word_name, *line_end, *empty;

static inline void write_at(PyObject *object, Py_ssize_t offset, PyObject *value) /* takes the value */
{
    PyObject **place = slot_at(object, offset), *before = *place;
    *place = value;
    Py_XDECREF(before);
}

static inline void write_kept(PyObject *object, Py_ssize_t offset, PyObject *value)
{
    Py_XINCREF(value);
    write_at(object, offset, value);
}

static int is_of(PyObject *object, int type)
{
    if (Py_TYPE(object) == known[type].type)
        return 1;
    PyErr_Format(PyExc_TypeError, "wanted %s, got %s", described[type].name, Py_TYPE(object)->tp_name);
    return 0;
}

static int has_count(Py_ssize_t count, Py_ssize_t wanted)
{
    if (count != wanted)
        PyErr_Format(PyExc_TypeError, "wanted %zd arguments, got %zd", wanted, count);
    return count == wanted;
}

/* Whether a value is a word: 1, 0, or -1 for an error of a value with a comparison of its own. */
static inline int is_word(PyObject *value, PyObject *word)
{
    if (value == word)
        return 1;
    if (!PyUnicode_CheckExact(value))
        return PyObject_RichCompareBool(value, word, Py_EQ);
    Py_ssize_t size = PyUnicode_GET_LENGTH(word);
    return PyUnicode_GET_LENGTH(value) == size && PyUnicode_IS_COMPACT_ASCII(value) &&
           memcmp(PyUnicode_1BYTE_DATA(value), PyUnicode_1BYTE_DATA(word), (size_t)size) == 0;
}

/* The text of a turn while it is read: its first piece, and all of them once there are two. */
typedef struct {
    PyObject *first, *all, *blocks;
} Reading;

static int add_text(Reading *reading, PyObject *piece)
{
    if (reading->first == NULL || PyUnicode_GET_LENGTH(reading->first) == 0) {
        Py_INCREF(piece);
        Py_XSETREF(reading->first, piece);
        return 0;
    }
    if (reading->all == NULL) {
        reading->all = PyList_New(1);
        if (reading->all == NULL)
            return -1;
        Py_INCREF(reading->first);
        PyList_SET_ITEM(reading->all, 0, reading->first);
    }
    return PyList_Append(reading->all, piece);
}

static int read_block(Reading *reading, PyObject *block)
{
    PyObject *kind = PyDict_GetItemWithError(block, word_type);
    if (kind == NULL)
        return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(kind); /* a comparison of its own might change the block */
    int is_text = is_word(kind, word_text), is_use = is_text == 0 ? is_word(kind, word_tool_use) : 0;
    Py_DECREF(kind);
    if (is_text < 0 || is_use < 0)
        return -1;
    if (is_text) {
        PyObject *piece = PyDict_GetItemWithError(block, word_text);
        if (piece == NULL)
            return PyErr_Occurred() ? -1 : 0;
        return PyUnicode_CheckExact(piece) ? add_text(reading, piece) : 0;
    }
    if (!is_use)
        return 0;
    if (reading->blocks == NULL && (reading->blocks = PyList_New(0)) == NULL)
        return -1;
    return PyList_Append(reading->blocks, block);
}

static int read_content(Reading *reading, PyObject *content)
{
    if (PyUnicode_CheckExact(content))
        return add_text(reading, content);
    if (!PyList_CheckExact(content))
        return 0;
    for (Py_ssize_t number = 0; number < PyList_GET_SIZE(content); number++) {
        PyObject *block = PyList_GET_ITEM(content, number);
        if (!PyDict_CheckExact(block))
            continue;
        Py_INCREF(block);
        int failed = read_block(reading, block);
        Py_DECREF(block);
        if (failed)
            return -1;
    }
    return 0;
}

/* Return the name that a block's tool is judged by. */
static PyObject *tool_of(PyObject *block, PyObject *names)
{
    PyObject *written = PyDict_GetItemWithError(block, word_name);
    if (written == NULL && PyErr_Occurred())
        return NULL;
    if (written == NULL || !PyUnicode_CheckExact(written))
        written = empty;
    Py_INCREF(written);
    PyObject *seen = PyDict_Check(names) ? PyDict_GetItemWithError(names, written) : NULL;
    Py_XINCREF(seen);
    if (seen == NULL && !PyErr_Occurred())
        seen = PyObject_GetItem(names, written); /* it is judged when it is first asked for */
    if (seen == NULL) {
        Py_DECREF(written);
        return NULL;
    }
    if (seen != Py_None) {
        Py_SETREF(written, PyObject_GetAttrString(seen, "tool"));
    }
    Py_DECREF(seen);
    return written;
}

static PyObject *tools_of(PyObject *blocks, PyObject *names)
{
    Py_ssize_t size = blocks == NULL ? 0 : PyList_GET_SIZE(blocks);
    PyObject *tools = PyTuple_New(size);
    for (Py_ssize_t number = 0; number < size && tools != NULL; number++) {
        PyObject *tool = tool_of(PyList_GET_ITEM(blocks, number), names);
        if (tool == NULL)
            Py_CLEAR(tools);
        else
            PyTuple_SET_ITEM(tools, number, tool);
    }
    return tools;
}

static int is_empty_text(PyObject *value)
{
    return value != NULL && PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) == 0;
}

static int write_turn(PyObject *turn, const Reading *reading, PyObject *names)
{
    const Py_ssize_t *fields = known[TURN].fields;
    PyObject *text = reading->first, *tools = *slot_at(turn, fields[TOOLS]);
    if (reading->all != NULL) {
        if ((text = PyUnicode_Join(line_end, reading->all)) == NULL)
            return -1;
    } else
        Py_XINCREF(text = text == NULL ? empty : text);
    if (PyUnicode_GET_LENGTH(text) > 0 || !is_empty_text(*slot_at(turn, fields[TEXT])))
        write_at(turn, fields[TEXT], text);
    else
        Py_DECREF(text);
    if (reading->blocks != NULL || tools == NULL || !PyTuple_CheckExact(tools) || PyTuple_GET_SIZE(tools) > 0) {
        if ((tools = tools_of(reading->blocks, names)) == NULL)
            return -1;
        write_at(turn, fields[TOOLS], tools);
    }
    return 0;
}

static PyObject *stamp_turn(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    Reading reading = {NULL, NULL, NULL};
    (void)module;
    if (!has_count(count, 4) || !is_of(values[0], TURN))
        return NULL;
    int failed = read_content(&reading, values[1]) < 0 || write_turn(values[0], &reading, values[3]) < 0;
    Py_XDECREF(reading.first);
    Py_XDECREF(reading.all);
    if (failed) {
        Py_XDECREF(reading.blocks);
        return NULL;
    }
    write_kept(values[0], known[TURN].fields[INDEX], values[2]);
    if (reading.blocks == NULL)
        Py_RETURN_NONE;
    return reading.blocks;
}

/* Return the id of the call in a block: that of the turn's event, and the number of the block. */
static PyObject *id_in(PyObject *event_id, PyObject *number)
{
    long place = PyLong_AsLong(number);
    if (place == -1 && PyErr_Occurred())
        return NULL;
    if (place < 0 || place > 9 || !PyUnicode_IS_COMPACT_ASCII(event_id))
        return PyUnicode_FromFormat("%S/%ld", event_id, place);
    Py_ssize_t size = PyUnicode_GET_LENGTH(event_id);
    PyObject *made = PyUnicode_New(size + 2, 127);
    if (made == NULL)
        return NULL;
    Py_UCS1 *at = PyUnicode_1BYTE_DATA(made);
    memcpy(at, PyUnicode_1BYTE_DATA(event_id), (size_t)size);
    at[size] = '/';
    at[size + 1] = (Py_UCS1)('0' + place);
    return made;
}

static PyObject *call_in(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    const Py_ssize_t *from = known[TURN].fields, *to = known[CALL].fields;
    (void)module;
    if (!has_count(count, 7) || !is_of(values[0], TURN))
        return NULL;
    PyObject *event_id = *slot_at(values[0], from[EVENT_ID]);
    if (event_id == NULL || !PyUnicode_Check(event_id)) {
        PyErr_SetString(PyExc_TypeError, "the turn has no event id");
        return NULL;
    }
    PyObject *call = PyObject_CallOneArg(copy_call, blank_call);
    if (call == NULL)
        return NULL;
    for (int field = 0; field < SHARED; field++) {
        PyObject *value = *slot_at(values[0], from[field]);
        if (value != NULL)
            write_kept(call, to[field], value);
    }
    PyObject *own_id = id_in(event_id, values[1]);
    if (own_id == NULL) {
        Py_DECREF(call);
        return NULL;
    }
    write_at(call, to[EVENT_ID], own_id);
    for (int field = TOOL; field <= CONTESTED; field++)
        write_kept(call, to[field], values[2 + field - TOOL]);
    return call;
}

static PyObject *stamp_call(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    const Py_ssize_t *from = known[OPEN].fields;
    (void)module;
    if (!has_count(count, 2) || !is_of(values[0], CALL) || !is_of(values[1], OPEN))
        return NULL;
    write_kept(values[0], known[CALL].fields[INDEX], *slot_at(values[1], from[STAMPED_INDEX]));
    write_kept(values[0], attempt_of_call, *slot_at(values[1], from[STAMPED_ATTEMPT]));
    Py_RETURN_NONE;
}

static PyObject *stamp_result(PyObject *module, PyObject *const *values, Py_ssize_t count)
{
    (void)module;
    if (!has_count(count, 2) || !is_of(values[0], RESULT) || !is_of(values[1], OPEN))
        return NULL;
    for (int field = STAMPED_INDEX; field <= STAMPED_ARGS; field++)
        write_kept(values[0], known[RESULT].fields[field], *slot_at(values[1], known[OPEN].fields[field]));
    Py_RETURN_NONE;
}

static int learn(Known *one, const Described *what)
{
    PyObject *model = PyImport_ImportModule(what->module);
    PyObject *type = model == NULL ? NULL : PyObject_GetAttrString(model, what->name);
    Py_XDECREF(model);
    if (type == NULL)
        return -1;
    one->type = (PyTypeObject *)type; /* kept, as the module is */
    for (int field = 0; field < MOST_FIELDS && what->fields[field] != NULL; field++)
        if ((one->fields[field] = offset_in(one->type, what->fields[field])) < 0)
            return -1;
    return 0;
}

static int make_blank_call(void)
{
    PyObject *type = (PyObject *)known[CALL].type, *nothing = PyTuple_New(0);
    PyObject *fields = Py_BuildValue("{s:s,s:s}", "session_id", "", "tool", "");
    if (nothing != NULL && fields != NULL)
        blank_call = PyObject_Call(type, nothing, fields);
    Py_XDECREF(nothing);
    Py_XDECREF(fields);
    copy_call = PyObject_GetAttrString(type, "__copy__");
    return blank_call == NULL || copy_call == NULL ? -1 : 0;
}

static int fill(PyObject *module)
{
    (void)module;
    word_type = PyUnicode_InternFromString("type");
    word_text = PyUnicode_InternFromString("text");
    word_tool_use = PyUnicode_InternFromString("tool_use");
    word_name = PyUnicode_InternFromString("name");
    line_end = PyUnicode_InternFromString("\n");
    empty = PyUnicode_InternFromString("");
    if (!word_type || !word_text || !word_tool_use || !word_name || !line_end || !empty)
        return -1;
    for (int number = 0; number < TYPES; number++)
        if (learn(known + number, described + number) < 0)
            return -1;
    attempt_of_call = offset_in(known[CALL].type, "attempt");
    return attempt_of_call < 0 ? -1 : make_blank_call();
}

static PyMethodDef functions[] = {
    {"stamp_turn", (PyCFunction)(void (*)(void))stamp_turn, METH_FASTCALL,
     PyDoc_STR("Number a turn, join its text and name its tools; return its tool-use blocks, if it has any.")},
    {"call_in", (PyCFunction)(void (*)(void))call_in, METH_FASTCALL,
     PyDoc_STR("Return the call that a block of a turn announces; its arguments may have been read from a text.")},
    {"stamp_call", (PyCFunction)(void (*)(void))stamp_call, METH_FASTCALL,
     PyDoc_STR("Number a call as the attempt that it is.")},
    {"stamp_result", (PyCFunction)(void (*)(void))stamp_result, METH_FASTCALL,
     PyDoc_STR("Number a result as the attempt that it answers, and give it the arguments of that.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "stamps", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_stamps(void)
{
    return PyModuleDef_Init(&module);
}
