/* One rule of one kind, from the bytes of a record to its verdict, without an object of Python for any event.

   It proves the JSON as the compiled build does, keys given twice included, finds the fields of the envelope, knows
   sessions, their idle time and redelivered events, and counts a call of `then` within some seconds after `first`.
   It does not see calls inside turns, keeps at most MOST_IDS ids a session, forgets no session, and says nothing of
   what it refuses: native_kind.py says why that is enough for what it is to show. */

#include "../../stream_guard/language/plain_json.c"

#include <math.h>
#include <stdlib.h>

#define MOST_IDS 64
#define IDLE 1800.0

typedef struct {
    At start;
    size_t size;
} Text;

typedef struct {
    Text kind, session, id, tool;
    double time;
} Envelope;

typedef struct {
    uint64_t id, content;
} Seen;

typedef struct {
    uint64_t key; /* 0: empty */
    double now, since;
    Seen *seen;
    uint32_t events, room;
} Session;

typedef struct {
    char first[64], then[64];
    double within;
    Session *sessions;
    size_t room, used;
} Rule;

static uint64_t digest(At at, size_t size) /* not one against forgers: what is measured is the price of a good one */
{
    uint64_t sum = size * 0x9E3779B97F4A7C15u, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        sum = (sum ^ word) * 0xFF51AFD7ED558CCDu;
        sum ^= sum >> 32;
    }
    sum = (sum ^ few_bytes(at, size)) * 0xC4CEB9FE1A85EC53u;
    sum ^= sum >> 29;
    return sum ? sum : 1;
}

static int is_text(Text text, const char *wanted, size_t size)
{
    return text.size == size && memcmp(text.start, wanted, size) == 0;
}

/* Return what follows a value of a text that is known to be plain. */
static At skip_value(At at, At end)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at + 1, end);
        } else {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
        }
    } while (depth > 0 || (*at != ',' && *at != '}'));
    return at;
}

static Envelope read_envelope(At at, At end)
{
    Envelope found = {.time = NAN};
    at = skip_space(at);
    while (*at == '{' || *at == ',') {
        at = skip_space(at + 1);
        if (*at != '"')
            break;
        Text key = {at + 1, 0};
        at = skip_string(at + 1, end);
        key.size = (size_t)(at - key.start) - 1;
        at = skip_space(skip_space(at) + 1);
        At value = at;
        at = skip_value(at, end);
        Text text = {value + 1, (size_t)(at - value) - 2};
        if (*value == '"') {
            while (value + text.size + 1 < at && value[text.size + 1] != '"')
                text.size--; /* space before the comma */
            if (is_text(key, "kind", 4))
                found.kind = text;
            else if (is_text(key, "session_id", 10))
                found.session = text;
            else if (is_text(key, "event_id", 8))
                found.id = text;
            else if (is_text(key, "tool", 4))
                found.tool = text;
        } else if (is_text(key, "time", 4)) {
            found.time = strtod((const char *)value, NULL); /* it ends at what follows the number */
        }
        at = skip_space(at);
    }
    return found;
}

static Session *find(Rule *rule, uint64_t key)
{
    if (rule->used * 2 >= rule->room) {
        size_t room = rule->room ? rule->room * 2 : 1024;
        Session *larger = calloc(room, sizeof(Session));
        if (larger == NULL)
            return NULL;
        for (size_t at = 0; at < rule->room; at++)
            if (rule->sessions[at].key) {
                size_t place = rule->sessions[at].key & (room - 1);
                while (larger[place].key)
                    place = (place + 1) & (room - 1);
                larger[place] = rule->sessions[at];
            }
        free(rule->sessions);
        rule->sessions = larger, rule->room = room;
    }
    size_t place = key & (rule->room - 1);
    while (rule->sessions[place].key && rule->sessions[place].key != key)
        place = (place + 1) & (rule->room - 1);
    Session *session = &rule->sessions[place];
    if (!session->key) {
        session->key = key, session->now = session->since = -INFINITY;
        rule->used++;
    }
    return session;
}

/* Whether the session has seen the event; if not, it has now. -1 without memory. */
static int is_redelivered(Session *session, uint64_t id, uint64_t content)
{
    for (uint32_t at = 0; at < session->events; at++)
        if (session->seen[at].id == id)
            return session->seen[at].content == content;
    if (session->events == session->room && session->room < MOST_IDS) {
        Seen *larger = realloc(session->seen, (session->room + 16) * sizeof(Seen));
        if (larger == NULL)
            return -1;
        session->seen = larger, session->room += 16;
    }
    if (session->events < session->room)
        session->seen[session->events++] = (Seen){id, content};
    return 0;
}

/* Return whether the record is a hit, -1 for one that is refused. */
static int judge_record(Rule *rule, At start, At end)
{
    if (!is_plain(start, end))
        return -1;
    Envelope event = read_envelope(start, end);
    if (!event.session.size || isnan(event.time))
        return -1;
    Session *session = find(rule, digest(event.session.start, event.session.size));
    if (session == NULL)
        return -1;
    uint64_t content = digest(start, (size_t)(end - start));
    if (event.id.size && is_redelivered(session, digest(event.id.start, event.id.size), content))
        return 0;
    if (event.time - session->now >= IDLE)
        session->since = -INFINITY;
    if (event.time > session->now)
        session->now = event.time;
    if (!is_text(event.kind, "tool_call", 9))
        return 0;
    int hit = is_text(event.tool, rule->then, strlen(rule->then)) && event.time - session->since <= rule->within;
    if (is_text(event.tool, rule->first, strlen(rule->first)))
        session->since = event.time;
    return hit;
}

static void close_rule(PyObject *capsule)
{
    Rule *rule = PyCapsule_GetPointer(capsule, "rule");
    for (size_t at = 0; at < rule->room; at++)
        free(rule->sessions[at].seen);
    free(rule->sessions);
    free(rule);
}

static PyObject *open_rule(PyObject *self, PyObject *arguments)
{
    (void)self;
    const char *first, *then;
    double within;
    if (!PyArg_ParseTuple(arguments, "ssd", &first, &then, &within))
        return NULL;
    Rule *rule = calloc(1, sizeof(Rule));
    if (rule == NULL)
        return PyErr_NoMemory();
    PyOS_snprintf(rule->first, sizeof rule->first, "%s", first);
    PyOS_snprintf(rule->then, sizeof rule->then, "%s", then);
    rule->within = within;
    return PyCapsule_New(rule, "rule", close_rule);
}

static PyObject *judge(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    (void)self;
    Rule *rule = count == 2 ? PyCapsule_GetPointer(arguments[0], "rule") : NULL;
    if (rule == NULL || !PyBytes_Check(arguments[1])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "judge takes a rule and the bytes of a record");
        return NULL;
    }
    At start = (At)PyBytes_AS_STRING(arguments[1]);
    return PyLong_FromLong(judge_record(rule, start, start + PyBytes_GET_SIZE(arguments[1])));
}

static PyMethodDef native_functions[] = {
    {"open_rule", open_rule, METH_VARARGS, PyDoc_STR("Return the rule: first, then, and within how many seconds.")},
    {"judge", (PyCFunction)(void (*)(void))judge, METH_FASTCALL,
     PyDoc_STR("Return 1 for a record that is a hit, 0 for another, -1 for one that is refused.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT, "native_sequence", NULL, 0, native_functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native_sequence(void)
{
    return PyModuleDef_Init(&native_module);
}
