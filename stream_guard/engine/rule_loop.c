/* The compiled form of rule_loop.py: gates, handlers and states of a plan, without the interpreter's way of calling.

   The steps of a plan lie in one array. A compiled handler is called by its address, any other as Python does it. Gates
   that only ask for the agent, a label or what is remembered are not called at all. A new state whose fields all begin
   with a value that cannot change is a copy of the first.
   tests/property/test_rule_loop.py holds the two against each other. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>
#include <string.h>

enum { ANSWERED, RAISED, DOUBTED, OPENED };

typedef enum { BY_CALL, BY_AGENT, BY_LABEL, BY_MEMORY } Shortcut;

typedef PyObject *(*Quick)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

typedef struct {
    Quick quick; /* the handler, if it is compiled */
    PyObject *self; /* what it belongs to; the handler holds it */
    PyObject *number;
    Py_hash_t hash;      /* of the number */
    PyObject *new_state; /* NULL: it keeps none */
    PyObject *first;     /* a new state to copy; NULL: it has to be made */
    PyObject *handle;
    PyObject *rule;
} Step;

typedef struct {
    Shortcut how;
    PyObject *name, *expected;
    PyObject *gate;
    Py_ssize_t light, inside, outside, after; /* where its steps without a state begin, and so on */
    PyObject *may_open; /* a tuple; NULL: empty */
    PyObject *opened;   /* NULL: not told */
} Group;

typedef struct {
    PyObject_HEAD
    PyObject *no_state;
    Step *steps;
    Group *groups;
    Py_ssize_t stateless, own, step_count, group_count;
} RuleLoop;

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    RuleLoop *loop = (RuleLoop *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(loop->no_state);
    for (Py_ssize_t at = 0; at < loop->step_count; at++) {
        Py_VISIT(loop->steps[at].number);
        Py_VISIT(loop->steps[at].new_state);
        Py_VISIT(loop->steps[at].first);
        Py_VISIT(loop->steps[at].handle);
        Py_VISIT(loop->steps[at].rule);
    }
    for (Py_ssize_t at = 0; at < loop->group_count; at++) {
        Py_VISIT(loop->groups[at].name);
        Py_VISIT(loop->groups[at].expected);
        Py_VISIT(loop->groups[at].gate);
        Py_VISIT(loop->groups[at].may_open);
        Py_VISIT(loop->groups[at].opened);
    }
    return 0;
}

static int clear(PyObject *object)
{
    RuleLoop *loop = (RuleLoop *)object;
    Step *steps = loop->steps;
    Group *groups = loop->groups;
    Py_ssize_t step_count = loop->step_count, group_count = loop->group_count;
    loop->steps = NULL;
    loop->groups = NULL;
    loop->stateless = loop->own = loop->step_count = loop->group_count = 0;
    Py_CLEAR(loop->no_state);
    for (Py_ssize_t at = 0; at < step_count; at++) {
        Py_XDECREF(steps[at].number);
        Py_XDECREF(steps[at].new_state);
        Py_XDECREF(steps[at].first);
        Py_XDECREF(steps[at].handle);
        Py_XDECREF(steps[at].rule);
    }
    for (Py_ssize_t at = 0; at < group_count; at++) {
        Py_XDECREF(groups[at].name);
        Py_XDECREF(groups[at].expected);
        Py_XDECREF(groups[at].gate);
        Py_XDECREF(groups[at].may_open);
        Py_XDECREF(groups[at].opened);
    }
    PyMem_Free(steps);
    PyMem_Free(groups);
    return 0;
}

static void dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

#define FIELDS(object) ((PyObject **)((char *)(object) + sizeof(PyObject)))
#define FIELD_COUNT(type) (((type)->tp_basicsize - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(PyObject *))

/* Whether a value is the same to all who hold it. */
static int cannot_change(PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyUnicode_CheckExact(value) || (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0);
}

/* Whether an object is nothing but fields, each with its default, and none of these can change. */
static int is_plain(PyObject *made, PyTypeObject *type, PyObject *names, PyObject *defaults)
{
    Py_ssize_t count = FIELD_COUNT(type);
    if (!Py_IS_TYPE(made, type) || PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) || type->tp_itemsize != 0 ||
        type->tp_dictoffset != 0 || type->tp_weaklistoffset != 0 || !PyTuple_CheckExact(names) ||
        !PyTuple_CheckExact(defaults) || PyTuple_GET_SIZE(names) != count || PyTuple_GET_SIZE(defaults) != count ||
        type->tp_basicsize != (Py_ssize_t)sizeof(PyObject) + count * (Py_ssize_t)sizeof(PyObject *))
        return 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *found = _PyType_Lookup(type, PyTuple_GET_ITEM(names, at));
        if (found == NULL || !Py_IS_TYPE(found, &PyMemberDescr_Type))
            return 0;
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        PyObject *value = PyTuple_GET_ITEM(defaults, at);
        if (member->type != T_OBJECT_EX || member->offset < (Py_ssize_t)sizeof(PyObject) ||
            *(PyObject **)((char *)made + member->offset) != value || !cannot_change(value))
            return 0;
    }
    return 1;
}

/* Return a state to copy; NULL, without an exception: new ones have to be made. */
static PyObject *find_first(PyObject *new_state)
{
#ifndef Py_GIL_DISABLED
    if (!PyType_Check(new_state) || PyObject_HasAttrString(new_state, "__post_init__"))
        return NULL;
    PyObject *names = PyObject_GetAttrString(new_state, "__struct_fields__");
    PyObject *defaults = names == NULL ? NULL : PyObject_GetAttrString(new_state, "__struct_defaults__");
    PyObject *made = defaults == NULL ? NULL : PyObject_CallNoArgs(new_state);
    if (made != NULL && !is_plain(made, (PyTypeObject *)new_state, names, defaults))
        Py_CLEAR(made);
    Py_XDECREF(names);
    Py_XDECREF(defaults);
    PyErr_Clear(); /* what is wrong is said where a state is made */
    return made;
#else
    (void)new_state;
    return NULL;
#endif
}

static PyObject *copy_of(PyObject *first)
{
    PyTypeObject *type = Py_TYPE(first);
    PyObject *copy = type->tp_alloc(type, 0);
    if (copy != NULL)
        for (Py_ssize_t at = 0; at < FIELD_COUNT(type); at++)
            FIELDS(copy)[at] = Py_NewRef(FIELDS(first)[at]);
    return copy;
}

/* Put the steps of a sequence behind those that are there. */
static int add_steps(RuleLoop *loop, PyObject *given)
{
    PyObject *steps = PySequence_Fast(given, "steps are a sequence");
    if (steps == NULL)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(steps);
    Step *grown = PyMem_Realloc(loop->steps, (size_t)(loop->step_count + count + 1) * sizeof(Step));
    if (grown == NULL) {
        Py_DECREF(steps);
        PyErr_NoMemory();
        return -1;
    }
    loop->steps = grown;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *number, *handle, *new_state, *rule;
        PyObject *one = PySequence_Fast_GET_ITEM(steps, at);
        if (!PyTuple_Check(one) || !PyArg_ParseTuple(one, "OOOO", &number, &handle, &new_state, &rule)) {
            Py_DECREF(steps);
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a step is a tuple of four");
            return -1;
        }
        Py_hash_t hash = PyObject_Hash(number);
        if (hash == -1) {
            Py_DECREF(steps);
            return -1;
        }
        Step step = {NULL, NULL, Py_NewRef(number), hash, NULL, NULL, Py_NewRef(handle), Py_NewRef(rule)};
        if (new_state != Py_None) {
            step.new_state = Py_NewRef(new_state);
            step.first = find_first(new_state);
        }
        if (PyCFunction_CheckExact(handle) && PyCFunction_GET_FLAGS(handle) == (METH_FASTCALL | METH_KEYWORDS)) {
            step.quick = (Quick)(void (*)(void))PyCFunction_GET_FUNCTION(handle);
            step.self = PyCFunction_GET_SELF(handle);
        }
        loop->steps[loop->step_count++] = step;
    }
    Py_DECREF(steps);
    return 0;
}

static int read_shortcut(Group *group, PyObject *shortcut)
{
    const char *what;
    PyObject *name, *expected;
    if (shortcut == Py_None)
        return 0;
    if (!PyArg_ParseTuple(shortcut, "sOO", &what, &name, &expected))
        return -1;
    group->how = strcmp(what, "agent") == 0 && PyUnicode_CheckExact(expected)   ? BY_AGENT
                 : strcmp(what, "label") == 0 && PyUnicode_CheckExact(expected) ? BY_LABEL
                 : strcmp(what, "memory") == 0                                  ? BY_MEMORY
                                                                                : BY_CALL;
    group->name = Py_NewRef(name);
    group->expected = Py_NewRef(expected);
    return 0;
}

static int add_group(RuleLoop *loop, PyObject *given)
{
    PyObject *gate, *shortcut, *inside, *outside, *may_open, *opened;
    Py_ssize_t stateless;
    Group *group = &loop->groups[loop->group_count];
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a group is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "OOOnOO!O", &gate, &shortcut, &inside, &stateless, &outside, &PyTuple_Type, &may_open,
                          &opened))
        return -1;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(may_open); at++)
        if (!PyTuple_Check(PyTuple_GET_ITEM(may_open, at)) || PyTuple_GET_SIZE(PyTuple_GET_ITEM(may_open, at)) != 2) {
            PyErr_SetString(PyExc_TypeError, "what may open a gate is a pair");
            return -1;
        }
    memset(group, 0, sizeof(Group));
    loop->group_count++;
    group->gate = Py_NewRef(gate);
    group->may_open = PyTuple_GET_SIZE(may_open) ? Py_NewRef(may_open) : NULL;
    group->opened = opened == Py_None ? NULL : Py_NewRef(opened);
    group->light = loop->step_count;
    if (read_shortcut(group, shortcut) < 0 || add_steps(loop, inside) < 0)
        return -1;
    group->inside = group->light + stateless;
    group->outside = loop->step_count;
    if (add_steps(loop, outside) < 0)
        return -1;
    group->after = loop->step_count;
    if (stateless < 0 || group->inside > group->outside) {
        PyErr_SetString(PyExc_ValueError, "there are fewer steps than those without a state");
        return -1;
    }
    return 0;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *steps, *given, *no_state;
    Py_ssize_t stateless;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OnOO", &steps, &stateless, &given, &no_state))
        return NULL;
    RuleLoop *loop = (RuleLoop *)type->tp_alloc(type, 0);
    PyObject *groups = loop == NULL ? NULL : PySequence_Fast(given, "groups are a sequence");
    if (groups == NULL)
        goto failed;
    loop->no_state = Py_NewRef(no_state);
    loop->groups = PyMem_Calloc((size_t)PySequence_Fast_GET_SIZE(groups) + 1, sizeof(Group));
    if (loop->groups == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    if (add_steps(loop, steps) < 0)
        goto failed;
    loop->own = loop->step_count;
    loop->stateless = stateless;
    if (stateless < 0 || stateless > loop->own) {
        PyErr_SetString(PyExc_ValueError, "there are fewer steps than those without a state");
        goto failed;
    }
    for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(groups); at++)
        if (add_group(loop, PySequence_Fast_GET_ITEM(groups, at)) < 0)
            goto failed;
    Py_DECREF(groups);
    return (PyObject *)loop;
failed:
    Py_XDECREF(groups);
    Py_XDECREF(loop);
    return NULL;
}

/* What a call is about. */
typedef struct {
    RuleLoop *loop;
    PyObject *event, *memory, *states, *agent, *labels;
    PyObject *answers; /* a list; NULL: none so far */
} Run;

static int add_answer(Run *run, long sort, PyObject *whose, PyObject *value)
{
    if (run->answers == NULL && (run->answers = PyList_New(0)) == NULL)
        return -1;
    PyObject *number = PyLong_FromLong(sort), *answer = number == NULL ? NULL : PyTuple_Pack(3, number, whose, value);
    Py_XDECREF(number);
    int failed = answer == NULL ? -1 : PyList_Append(run->answers, answer);
    Py_XDECREF(answer);
    return failed;
}

static int ask(PyObject *test, Run *run)
{
    PyObject *args[] = {NULL, run->event, run->memory};
    PyObject *answer = PyObject_Vectorcall(test, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (answer == NULL)
        return -1;
    int holds = answer == Py_True ? 1 : answer == Py_False ? 0 : PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return holds;
}

static int equals(PyObject *found, PyObject *expected)
{
    if (found == expected)
        return 1;
    if (PyUnicode_CheckExact(found) && PyUnicode_IS_COMPACT_ASCII(found) && PyUnicode_IS_COMPACT_ASCII(expected)) {
        Py_ssize_t size = PyUnicode_GET_LENGTH(found);
        return size == PyUnicode_GET_LENGTH(expected) &&
               memcmp(PyUnicode_1BYTE_DATA(found), PyUnicode_1BYTE_DATA(expected), (size_t)size) == 0;
    }
    return PyObject_RichCompareBool(found, expected, Py_EQ);
}

static int is_open(const Group *group, Run *run)
{
    if (group->how == BY_AGENT)
        return equals(run->agent, group->expected);
    if (group->how == BY_LABEL && PyDict_CheckExact(run->labels)) {
        PyObject *found = PyDict_GetItemWithError(run->labels, group->name);
        return found != NULL ? equals(found, group->expected) : PyErr_Occurred() ? -1 : 0;
    }
    if (group->how == BY_MEMORY && PyAnySet_Check(run->memory))
        return PySet_GET_SIZE(run->memory) == 0 ? 0 : PySet_Contains(run->memory, group->expected);
    return ask(group->gate, run);
}

static int ask_gates(Run *run, char *open)
{
    for (Py_ssize_t at = 0; at < run->loop->group_count; at++) {
        const Group *group = &run->loop->groups[at];
        int holds = is_open(group, run);
        if (holds < 0)
            return -1;
        open[at] = (char)holds;
        if (holds || group->may_open == NULL)
            continue;
        for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(group->may_open); place++) {
            PyObject *pair = PyTuple_GET_ITEM(group->may_open, place);
            int may = ask(PyTuple_GET_ITEM(pair, 1), run);
            if (may < 0 || (may && add_answer(run, DOUBTED, PyTuple_GET_ITEM(pair, 0), Py_None) < 0))
                return -1;
        }
    }
    return 0;
}

#if PY_VERSION_HEX < 0x030D0000 /* later ones do not offer it */
#define GET_STATE _PyDict_GetItem_KnownHash
#define SET_STATE _PyDict_SetItem_KnownHash
#else
#define GET_STATE(states, number, hash) PyDict_GetItemWithError((states), (number))
#define SET_STATE(states, number, state, hash) PyDict_SetItem((states), (number), (state))
#endif

/* Return the state of a step, a new one if there is none: a reference of the caller's own. */
static PyObject *state_of(const Step *step, Run *run)
{
    if (step->new_state == NULL)
        return Py_NewRef(run->loop->no_state);
    PyObject *state = GET_STATE(run->states, step->number, step->hash);
    if (state != NULL && state != Py_None)
        return Py_NewRef(state);
    if (state == NULL && PyErr_Occurred())
        return NULL;
    state = step->first != NULL ? copy_of(step->first) : PyObject_CallNoArgs(step->new_state);
    if (state != NULL && SET_STATE(run->states, step->number, state, step->hash) < 0)
        Py_CLEAR(state);
    return state;
}

/* Take the exception that was raised as an answer, if it is one that a rule may raise. */
static int take_exception(Run *run, PyObject *rule)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    int failed = add_answer(run, RAISED, rule, error);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return failed;
}

static int take_steps(Run *run, Py_ssize_t first, Py_ssize_t end)
{
    for (const Step *step = run->loop->steps + first; step < run->loop->steps + end; step++) {
        PyObject *state = state_of(step, run);
        if (state == NULL)
            return -1;
        PyObject *args[] = {NULL, run->event, state};
        PyObject *verdict = step->quick != NULL
                                ? step->quick(step->self, args + 1, 2, NULL)
                                : PyObject_Vectorcall(step->handle, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(state);
        if (verdict == Py_None) {
            Py_DECREF(verdict);
            continue;
        }
        int failed = verdict == NULL ? take_exception(run, step->rule) : add_answer(run, ANSWERED, step->rule, verdict);
        Py_XDECREF(verdict);
        if (failed)
            return -1;
    }
    return 0;
}

static int take_all(Run *run, char *open)
{
    RuleLoop *loop = run->loop;
    const Group *groups = loop->groups;
    if (ask_gates(run, open) < 0 || take_steps(run, 0, loop->stateless) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < loop->group_count; at++)
        if (open[at] && take_steps(run, groups[at].light, groups[at].inside) < 0)
            return -1;
    if (take_steps(run, loop->stateless, loop->own) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < loop->group_count; at++)
        if (take_steps(run, open[at] ? groups[at].inside : groups[at].outside,
                       open[at] ? groups[at].outside : groups[at].after) < 0)
            return -1;
    for (Py_ssize_t at = 0; at < loop->group_count; at++)
        if (open[at] && groups[at].opened != NULL && add_answer(run, OPENED, groups[at].opened, Py_None) < 0)
            return -1;
    return 0;
}

static PyObject *run(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 5 || !PyDict_Check(given[2])) {
        PyErr_SetString(PyExc_TypeError, "takes an event, a memory, a dict of states, an agent and labels");
        return NULL;
    }
    Run this = {(RuleLoop *)self, given[0], given[1], given[2], given[3], given[4], NULL};
    char few[64], *open = few;
    if (this.loop->group_count > (Py_ssize_t)sizeof(few) &&
        (open = PyMem_Malloc((size_t)this.loop->group_count)) == NULL)
        return PyErr_NoMemory();
    int failed = take_all(&this, open);
    if (open != few)
        PyMem_Free(open);
    if (failed) {
        Py_XDECREF(this.answers);
        return NULL;
    }
    return this.answers != NULL ? this.answers : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, PyDoc_STR("Return the answers; None: there is none.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Steps to run over each event of a sort.")},
    {Py_tp_new, create},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "stream_guard.engine.rule_loop.RuleLoop",
    .basicsize = sizeof(RuleLoop),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static int execute(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL || PyModule_AddObjectRef(module, "RuleLoop", type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    Py_DECREF(type);
    return PyModule_AddIntMacro(module, ANSWERED) < 0 || PyModule_AddIntMacro(module, RAISED) < 0 ||
                   PyModule_AddIntMacro(module, DOUBTED) < 0 || PyModule_AddIntMacro(module, OPENED) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "rule_loop", NULL, 0, NULL, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_rule_loop(void)
{
    return PyModuleDef_Init(&definition);
}
