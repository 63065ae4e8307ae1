/* The compiled form of plain_json.py: one pass over a JSON text that proves it plain, or proves nothing.

   It may err on one side only: "plain" of what the parser refuses would be a hole. tests/property/test_plain_json.py
   looks for such texts. */

#include "json_scan.h"

static NOINLINE At skip_scalar(At at, At end)
{
    switch (*at) {
    case 't':
        return skip_word(at, end, "true", 4);
    case 'f':
        return skip_word(at, end, "false", 5);
    case 'n':
        return skip_word(at, end, "null", 4);
    default:
        return skip_number(at);
    }
}

static int is_plain(At at, At end)
{
    Level levels[MOST_LEVELS + 1]; /* the first is around the text */
    Key keys[MOST_KEYS];
    Level *level = levels, *last = levels + MOST_LEVELS;
    Key *next = keys;
    level->first_key = NULL;
    at = skip_space(at);
    for (;;) {
        /* Here a value begins, in an object with its key. */
        if (level->first_key != NULL && (at = skip_key(at, end, level, &next)) == NULL)
            return 0;
        if (*at == '"') {
            if ((at = skip_string(at + 1, end)) == NULL)
                return 0;
        } else if (*at == '{' || *at == '[') {
            if (level == last)
                return 0;
            level++;
            level->filter = 0;
            level->first_key = *at == '{' ? next : NULL;
            level->limit = keys + MOST_KEYS - next < MOST_OF_ONE ? keys + MOST_KEYS : next + MOST_OF_ONE;
            At inside = skip_space(at + 1);
            if (*inside != *at + 2) { /* in ASCII, what closes stands two places behind what opens */
                at = inside;
                continue;
            }
            at = inside + 1;
            level--;
        } else if ((at = skip_scalar(at, end)) == NULL)
            return 0;
        /* Here a value has ended; close what ends with it. */
        for (;;) {
            at = skip_space(at);
            if (level == levels)
                return at == end;
            if (*at == ',') {
                at = skip_space(at + 1);
                break;
            }
            if (level->first_key == NULL) {
                if (*at != ']')
                    return 0;
            } else {
                if (*at != '}')
                    return 0;
                next = level->first_key;
            }
            at++;
            level--;
        }
    }
}

static PyObject *call(PyObject *module, PyObject *value)
{
    (void)module;
    if (!PyBytes_Check(value))
        Py_RETURN_FALSE; /* the parser says what it takes */
    At start = (At)PyBytes_AS_STRING(value);
    return PyBool_FromLong(is_plain(start, start + PyBytes_GET_SIZE(value)));
}

static PyMethodDef functions[] = {
    {"is_plain", call, METH_O,
     PyDoc_STR("Whether a quick look proves that the parser finds nothing to refuse; False proves nothing.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plain_json", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain_json(void)
{
    return PyModuleDef_Init(&module);
}
