/* The compiled form of native_reading.py: a native record becomes its event in one pass that also proves the JSON.

   It makes what the parser makes of a record, or answers None and leaves the record to the parser, which also says what
   is wrong. So it may err on one side only: an event where the parser refuses, or another event, would be a hole.
   tests/property/test_native_reading.py holds the two against each other. Left to the parser is what is rare: deep nesting,
   large objects, an escape in a key, long numbers, fields that only the session tracker may write. */

#include "../../stream_guard/language/json_scan.h"
#include "../../stream_guard/struct_slots.h"

#define MOST_FIELDS 24 /* of one kind of event */
#define FIELD_SLOTS 64
#define KEPT_BITS 10
#define MOST_KEPT 32 /* bytes of a string that is kept for the next record with the same */
#define MOST_UNESCAPED 4096
#define MOST_OF_IDS 512         /* as native.py has them */
#define LATEST 253402300800.0

typedef struct {
    At at, end;
    Key *next; /* where the next key of an open object is noted */
    Key keys[MOST_KEYS];
} Reader;

typedef PyObject *(*ReadValue)(Reader *reader, int levels);

typedef struct {
    const char *name;
    ReadValue read; /* NULL: only the session tracker writes it */
} Field;

typedef struct {
    uint64_t word;
    size_t size;
    const char *name;
    ReadValue read;
    Py_ssize_t offset;
} FieldSlot;

typedef struct {
    const char *name, *tag;
    const Field *fields; /* beside those of every event */
    PyTypeObject *type;
    FieldSlot slots[FIELD_SLOTS];
    Py_ssize_t offsets[MOST_FIELDS];
    PyObject *defaults[MOST_FIELDS]; /* NULL: there must be one; a type: an empty one of it */
    int count;
} Kind;

typedef struct {
    uint64_t first, last; /* bytes */
    PyObject *text;
    uint32_t size;
    int stays;
} Kept;

static Kept kept[1 << KEPT_BITS];

static PyObject *read_value(Reader *reader, int levels);

static PyObject *new_ascii(At start, size_t size)
{
    PyObject *text = PyUnicode_New((Py_ssize_t)size, 127);
    if (text != NULL)
        memcpy(PyUnicode_1BYTE_DATA(text), start, size);
    return text;
}

static inline uint64_t eight_bytes(At at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static inline Kept *place_of(At start, size_t size, uint64_t first)
{
    uint64_t last = size > 8 ? eight_bytes(start + size - 8) : 0;
    return &kept[((first + size) ^ last * 0xC4CEB9FE1A85EC53u) * 0x9E3779B97F4A7C15u >> (64 - KEPT_BITS)];
}

/* Return a short string without escapes, whose first bytes are known. They are kept: sessions, tools, keys and their like
   come again and again, and what is the same object is found the quicker in a dict. */
static inline PyObject *make_kept(At start, size_t size, uint64_t first)
{
    /* Up to sixteen bytes, these two words are the whole string. */
    uint64_t last = size > 8 ? eight_bytes(start + size - 8) : 0;
    Kept *found = place_of(start, size, first);
    if (found->first == first && found->last == last && found->size == size &&
        (size <= 16 || memcmp(PyUnicode_1BYTE_DATA(found->text) + 8, start + 8, size - 16) == 0))
        return Py_NewRef(found->text);
    PyObject *text = new_ascii(start, size);
    if (text != NULL && !found->stays) {
        found->first = first;
        found->last = last;
        found->size = (uint32_t)size;
        Py_XSETREF(found->text, Py_NewRef(text));
    }
    return text;
}

static inline PyObject *make_ascii(At start, size_t size, At end)
{
    return size > MOST_KEPT || size == 0 ? new_ascii(start, size) : make_kept(start, size, first_bytes(start, size, end));
}

static unsigned char *put_character(unsigned char *to, int character)
{
    if (character < 0x80) {
        *to++ = (unsigned char)character;
        return to;
    }
    if (character < 0x800)
        *to++ = (unsigned char)(0xC0 | character >> 6);
    else {
        if (character < 0x10000)
            *to++ = (unsigned char)(0xE0 | character >> 12);
        else {
            *to++ = (unsigned char)(0xF0 | character >> 18);
            *to++ = (unsigned char)(0x80 | (character >> 12 & 0x3F));
        }
        *to++ = (unsigned char)(0x80 | (character >> 6 & 0x3F));
    }
    *to++ = (unsigned char)(0x80 | (character & 0x3F));
    return to;
}

/* Write what an escape stands for, which is known to be one. It is never longer. */
static unsigned char *put_escape(unsigned char *to, At at, At end)
{
    switch (at[1]) {
    case 'b':
        *to = '\b';
        break;
    case 'f':
        *to = '\f';
        break;
    case 'n':
        *to = '\n';
        break;
    case 'r':
        *to = '\r';
        break;
    case 't':
        *to = '\t';
        break;
    case 'u': {
        int unit = hexadecimal(at + 2, end);
        if (unit >= 0xD800 && unit <= 0xDBFF)
            unit = 0x10000 + ((unit - 0xD800) << 10) + (hexadecimal(at + 8, end) - 0xDC00);
        return put_character(to, unit);
    }
    default:
        *to = at[1];
    }
    return to + 1;
}

/* Return the string between two places, which holds escapes or characters beyond ASCII, and is known to be plain. */
static PyObject *make_unescaped(At start, At stop)
{
    unsigned char few[MOST_UNESCAPED], *bytes = few;
    if (stop - start > MOST_UNESCAPED && (bytes = PyMem_Malloc((size_t)(stop - start))) == NULL)
        return PyErr_NoMemory();
    unsigned char *to = bytes;
    for (At at = start; at < stop;) {
        At escape = memchr(at, '\\', (size_t)(stop - at));
        At until = escape != NULL ? escape : stop;
        memcpy(to, at, (size_t)(until - at));
        to += until - at;
        at = until;
        if (escape != NULL) {
            to = put_escape(to, at, stop);
            at = skip_escape(at, stop);
        }
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)bytes, to - bytes, NULL);
    if (bytes != few)
        PyMem_Free(bytes);
    return text;
}

/* Return the string whose opening quote is next. NULL without an error: it is not plain. */
static inline PyObject *read_string(Reader *reader, int levels)
{
    (void)levels;
    At start = reader->at + 1, at;
    if (reader->at[0] != '"')
        return NULL;
    at = skip_ascii(start, reader->end);
    if (*at == '"') {
        reader->at = at + 1;
        return make_ascii(start, (size_t)(at - start), reader->end);
    }
    if ((at = skip_string(at, reader->end)) == NULL)
        return NULL;
    reader->at = at;
    return make_unescaped(start, at - 1);
}

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Return a number with a fraction or an exponent, which is known to be one. */
static PyObject *make_float(At start, At stop)
{
    At at = start + (*start == '-');
    uint64_t digits = 0;
    int exponent = 0, count = 0;
    for (; at < stop && *at != 'e' && *at != 'E' && count <= MOST_DIGITS; at++) {
        if (*at == '.') {
            exponent = -(int)(stop - at - 1);
            continue;
        }
        digits = digits * 10 + (uint64_t)(*at - '0');
        count++;
    }
    /* Both exact, so their quotient is rounded once. */
    if (at == stop && digits <= (uint64_t)1 << 53 && exponent >= -22) {
        double number = (double)digits / tens[-exponent];
        return PyFloat_FromDouble(*start == '-' ? -number : number);
    }
    char text[64]; /* skip_number lets no longer one pass */
    if (stop - start >= (ptrdiff_t)sizeof text)
        return NULL;
    memcpy(text, start, (size_t)(stop - start));
    text[stop - start] = 0;
    double number = PyOS_string_to_double(text, NULL, NULL);
    if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return NULL;
    }
    return PyFloat_FromDouble(number);
}

static PyObject *read_number(Reader *reader)
{
    At start = reader->at, stop = skip_number(start), at = start + (*start == '-');
    if (stop == NULL)
        return NULL;
    reader->at = stop;
    long long number = 0;
    for (; at < stop; at++) {
        if (*at < '0') /* a point; the letter of an exponent stands behind the digits */
            return make_float(start, stop);
        if (*at > '9')
            return make_float(start, stop);
        number = number * 10 + (*at - '0');
    }
    return PyLong_FromLongLong(*start == '-' ? -number : number);
}

static PyObject *read_word(Reader *reader, const char *word, ptrdiff_t size, PyObject *meaning)
{
    At at = skip_word(reader->at, reader->end, word, size);
    if (at == NULL)
        return NULL;
    reader->at = at;
    return Py_NewRef(meaning);
}

static PyObject *read_list(Reader *reader, int levels)
{
    PyObject *list;
    if (levels == 0 || (list = PyList_New(0)) == NULL)
        return NULL;
    reader->at = skip_space(reader->at + 1);
    if (*reader->at == ']') {
        reader->at++;
        return list;
    }
    for (;;) {
        PyObject *value = read_value(reader, levels - 1);
        if (value == NULL || PyList_Append(list, value) < 0) {
            Py_XDECREF(value);
            break;
        }
        Py_DECREF(value);
        reader->at = skip_space(reader->at);
        if (*reader->at == ']') {
            reader->at++;
            return list;
        }
        if (*reader->at != ',')
            break;
        reader->at = skip_space(reader->at + 1);
    }
    Py_DECREF(list);
    return NULL;
}

/* Begin an object: return the level on which its keys are noted. */
static inline Level open_object(Reader *reader)
{
    Key *most = reader->keys + MOST_KEYS;
    Level level = {0, reader->next, most - reader->next < MOST_OF_ONE ? most : reader->next + MOST_OF_ONE};
    return level;
}

/* Read a key and its colon. False: it is not plain, or was given before. */
static inline int read_key(Reader *reader, Level *level)
{
    At at = skip_key(reader->at, reader->end, level, &reader->next);
    if (at == NULL)
        return 0;
    reader->at = at;
    return 1;
}

static inline PyObject *make_key(Reader *reader, const Key *key)
{
    if (skip_ascii(key->start, reader->end) != key->start + key->size)
        return make_unescaped(key->start, key->start + key->size);
    return key->size > MOST_KEPT || key->size == 0 ? new_ascii(key->start, key->size)
                                                   : make_kept(key->start, key->size, key->word);
}

static PyObject *read_members(Reader *reader, int levels, ReadValue read)
{
    PyObject *object;
    if (levels == 0 || (object = PyDict_New()) == NULL)
        return NULL;
    Level level = open_object(reader);
    reader->at = skip_space(reader->at + 1);
    if (*reader->at == '}') {
        reader->at++;
        return object;
    }
    for (;;) {
        if (!read_key(reader, &level))
            break;
        PyObject *key = make_key(reader, reader->next - 1);
        PyObject *value = key != NULL ? read(reader, levels - 1) : NULL;
        int failed = value == NULL || PyDict_SetItem(object, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed)
            break;
        reader->at = skip_space(reader->at);
        if (*reader->at == '}') {
            reader->at++;
            reader->next = level.first_key;
            return object;
        }
        if (*reader->at != ',')
            break;
        reader->at = skip_space(reader->at + 1);
    }
    Py_DECREF(object);
    return NULL;
}

/* Return the next value, of any type; so deep inside, only so many levels more may follow. */
static PyObject *read_value(Reader *reader, int levels)
{
    switch (*reader->at) {
    case '"':
        return read_string(reader, levels);
    case '{':
        return read_members(reader, levels, read_value);
    case '[':
        return read_list(reader, levels);
    case 't':
        return read_word(reader, "true", 4, Py_True);
    case 'f':
        return read_word(reader, "false", 5, Py_False);
    case 'n':
        return read_word(reader, "null", 4, Py_None);
    default:
        return read_number(reader);
    }
}

/* The values of fields, by their types. */

static PyObject *read_bool(Reader *reader, int levels)
{
    return *reader->at == 't' || *reader->at == 'f' ? read_value(reader, levels) : NULL;
}

static PyObject *read_object(Reader *reader, int levels)
{
    return *reader->at == '{' ? read_members(reader, levels, read_value) : NULL;
}

static PyObject *read_object_or_null(Reader *reader, int levels)
{
    return *reader->at == '{' || *reader->at == 'n' ? read_value(reader, levels) : NULL;
}

static PyObject *read_labels(Reader *reader, int levels)
{
    return *reader->at == '{' ? read_members(reader, levels, read_string) : NULL;
}

static PyObject *read_float_or_null(Reader *reader, int levels)
{
    if (*reader->at == 'n')
        return read_value(reader, levels);
    PyObject *number = *reader->at == '-' || (*reader->at >= '0' && *reader->at <= '9') ? read_number(reader) : NULL;
    if (number != NULL && PyLong_CheckExact(number))
        Py_SETREF(number, PyFloat_FromDouble((double)PyLong_AsLongLong(number)));
    return number;
}

static PyObject *read_names(Reader *reader, int levels)
{
    PyObject *list = *reader->at == '[' ? read_list(reader, levels) : NULL, *names;
    if (list == NULL)
        return NULL;
    for (Py_ssize_t number = 0; number < PyList_GET_SIZE(list); number++)
        if (!PyUnicode_CheckExact(PyList_GET_ITEM(list, number))) {
            Py_DECREF(list);
            return NULL;
        }
    names = PyList_AsTuple(list);
    Py_DECREF(list);
    return names;
}

static PyObject *read_one_of(Reader *reader, const char *const *words)
{
    PyObject *found = read_string(reader, 0);
    if (found == NULL)
        return NULL;
    for (; *words != NULL; words++)
        if (PyUnicode_CompareWithASCIIString(found, *words) == 0)
            return found;
    Py_DECREF(found);
    return NULL;
}

static PyObject *read_status(Reader *reader, int levels)
{
    static const char *const words[] = {"ok", "error", "blocked", NULL};
    (void)levels;
    return read_one_of(reader, words);
}

static PyObject *read_action(Reader *reader, int levels)
{
    static const char *const words[] = {"allow", "pause", "block", "terminate_session", NULL};
    (void)levels;
    return read_one_of(reader, words);
}

static PyObject *read_reason(Reader *reader, int levels)
{
    static const char *const words[] = {"closed", "idle", "end_of_input", NULL};
    (void)levels;
    return read_one_of(reader, words);
}

static PyObject *read_text(Reader *reader, int levels)
{
    return read_string(reader, levels);
}

/* Ids of events do not come again: keeping them would throw out others. */
static PyObject *read_id(Reader *reader, int levels)
{
    At start = reader->at + 1, at;
    if (*reader->at == '"' && *(at = skip_ascii(start, reader->end)) == '"') {
        reader->at = at + 1;
        return new_ascii(start, (size_t)(at - start));
    }
    return read_string(reader, levels);
}

static const Field every_event[] = {
    {"session_id", read_text},   {"event_id", read_id},     {"time", read_float_or_null},
    {"trace_id", read_text},     {"run_id", read_text},       {"agent", read_text},
    {"agent_path", read_names},  {"labels", read_labels},     {"part", read_text},
    {"captured", read_bool},     {"index", NULL},             {NULL, NULL},
};
enum { AT_SESSION, AT_ID, AT_TIME, OF_EVERY = 11 }; /* where fields stand in these lists */
static const Field of_message[] = {{"text", read_text}, {NULL, NULL}};
static const Field of_turn[] = {
    {"request", read_object_or_null}, {"response", read_object}, {"text", NULL}, {"tools", NULL}, {NULL, NULL},
};
enum { AT_RESPONSE = OF_EVERY + 1 };
static const Field of_call[] = {
    {"tool", read_text},         {"call_id", read_text},   {"args", read_value}, {"parse_error", read_bool},
    {"contested", read_text},    {"attempt", NULL},        {NULL, NULL},
};
enum { AT_ARGS = OF_EVERY + 2 };
static const Field of_decision[] = {
    {"action", read_action}, {"call_id", read_text}, {"tool", read_text}, {"rule_ids", read_names},
    {"attempt", NULL},       {"args", NULL},         {NULL, NULL},
};
static const Field of_result[] = {
    {"call_id", read_text},  {"tool", read_text},               {"status", read_status},
    {"output", read_value},  {"latency_ms", read_float_or_null}, {"attempt", NULL},
    {"args", NULL},          {NULL, NULL},
};
static const Field of_end[] = {{"reason", read_reason}, {NULL, NULL}};

static Kind kinds[] = {
    {.name = "Turn", .tag = "turn", .fields = of_turn},
    {.name = "ToolCall", .tag = "tool_call", .fields = of_call},
    {.name = "ToolResult", .tag = "tool_result", .fields = of_result},
    {.name = "UserMessage", .tag = "user_message", .fields = of_message},
    {.name = "GateDecision", .tag = "decision", .fields = of_decision},
    {.name = "SessionEnd", .tag = "session_end", .fields = of_end},
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static inline size_t slot_of(uint64_t word, size_t size)
{
    return (word + size) * 0x9E3779B97F4A7C15u >> 58;
}

static inline const FieldSlot *find_field(const Kind *kind, const Key *key)
{
    for (size_t place = slot_of(key->word, key->size);; place = (place + 1) % FIELD_SLOTS) {
        const FieldSlot *slot = &kind->slots[place];
        if (slot->name == NULL)
            return NULL;
        if (slot->word == key->word && slot->size == key->size && memcmp(slot->name, key->start, key->size) == 0)
            return slot;
    }
}

/* Return what follows a value that may be anything, as far as that is needed to find the kind behind it. */
static At skip_any(At at, At end)
{
    int depth = 0;
    do {
        if (*at == '"') {
            if ((at = skip_string(at + 1, end)) == NULL)
                return NULL;
        } else if (*at == 0) {
            return NULL;
        } else {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
        }
    } while (depth > 0 || (*at != ',' && *at != '}'));
    return at;
}

static Kind *known_kind(At at, At end)
{
    for (int number = 0; number < KINDS; number++) {
        ptrdiff_t size = (ptrdiff_t)strlen(kinds[number].tag);
        if (end - at > size + 1 && memcmp(at + 1, kinds[number].tag, (size_t)size) == 0 && at[size + 1] == '"')
            return &kinds[number];
    }
    return NULL;
}

/* Return the kind of the record whose opening brace was read; NULL where it is not found, or not plainly written. */
static Kind *find_kind(At at, At end)
{
    for (;;) {
        if (*at != '"')
            return NULL;
        At key = at + 1;
        if ((at = skip_string(key, end)) == NULL)
            return NULL;
        int is_kind = at - key == 5 && memcmp(key, "kind", 4) == 0;
        at = skip_space(at);
        if (*at != ':')
            return NULL;
        at = skip_space(at + 1);
        if (is_kind)
            return *at == '"' ? known_kind(at, end) : NULL;
        if ((at = skip_any(at, end)) == NULL || *at != ',')
            return NULL;
        at = skip_space(at + 1);
    }
}

/* Read the fields into an event that has none. False: there is an error, or the record is not plain. */
static int read_fields(Reader *reader, const Kind *kind, PyObject *event)
{
    Level level = open_object(reader);
    for (;;) {
        if (!read_key(reader, &level))
            return 0;
        const Key *key = reader->next - 1;
        const FieldSlot *field = find_field(kind, key);
        PyObject *value;
        if (field != NULL) {
            if (field->read == NULL || (value = field->read(reader, MOST_LEVELS - 1)) == NULL)
                return 0;
            *slot_at(event, field->offset) = value;
        } else { /* the kind, or what nobody knows */
            if ((value = read_value(reader, MOST_LEVELS - 1)) == NULL)
                return 0;
            Py_DECREF(value);
        }
        reader->at = skip_space(reader->at);
        if (*reader->at == '}')
            break;
        if (*reader->at != ',')
            return 0;
        reader->at = skip_space(reader->at + 1);
    }
    reader->at = skip_space(reader->at + 1);
    return reader->at == reader->end;
}

static int fill_up(const Kind *kind, PyObject *event)
{
    for (int number = 0; number < kind->count; number++) {
        PyObject **place = slot_at(event, kind->offsets[number]), *missing = kind->defaults[number];
        if (*place != NULL)
            continue;
        if (missing == NULL)
            return 0;
        if (missing == (PyObject *)&PyDict_Type) {
            if ((*place = PyDict_New()) == NULL)
                return 0;
        } else
            *place = Py_NewRef(missing);
    }
    return 1;
}

static PyObject *usage_name, *names_of_usage, *name_of_cost; /* a key, a frozenset of them, and one of those */

/* Whether the usage of a turn is spelled as ours is; -1 for an error. */
static int is_our_usage(PyObject *usage)
{
    PyObject *name, *number;
    Py_ssize_t place = 0;
    if (!PyDict_CheckExact(usage) || PyDict_GET_SIZE(usage) == 0)
        return 0;
    while (PyDict_Next(usage, &place, &name, &number)) {
        int is_ours = PySet_Contains(names_of_usage, name);
        if (is_ours <= 0)
            return is_ours;
        if (PyLong_CheckExact(number) ? PyLong_AsLongLong(number) < 0
                                      : !PyFloat_CheckExact(number) || PyFloat_AS_DOUBLE(number) < 0.0 ||
                                            PyUnicode_Compare(name, name_of_cost) != 0)
            return 0;
    }
    return 1;
}

/* Whether an event is whole as it is: all of its ids are there and can be kept, and nothing has to be spelled anew. */
static int needs_nothing(const Kind *kind, PyObject *event)
{
    PyObject *session_id = *slot_at(event, kind->offsets[AT_SESSION]), *event_id = *slot_at(event, kind->offsets[AT_ID]);
    PyObject *time = *slot_at(event, kind->offsets[AT_TIME]);
    Py_ssize_t size = PyUnicode_GET_LENGTH(session_id);
    if (size == 0 || PyUnicode_READ_CHAR(session_id, 0) == 0 || PyUnicode_GET_LENGTH(event_id) == 0 ||
        size + PyUnicode_GET_LENGTH(event_id) > MOST_OF_IDS)
        return 0;
    if (time != Py_None && !(PyFloat_AS_DOUBLE(time) >= 0.0 && PyFloat_AS_DOUBLE(time) < LATEST))
        return 0;
    if (kind->fields == of_call)
        return !PyUnicode_CheckExact(*slot_at(event, kind->offsets[AT_ARGS]));
    if (kind->fields != of_turn)
        return 1;
    PyObject *usage = PyDict_GetItemWithError(*slot_at(event, kind->offsets[AT_RESPONSE]), usage_name);
    return usage == NULL ? !PyErr_Occurred() : is_our_usage(usage) > 0;
}

/* Return the event of a record. NULL without an error: it is not plain. */
static PyObject *read_plainly(PyObject *value)
{
    Reader reader;
    reader.at = (At)PyBytes_AS_STRING(value);
    reader.end = reader.at + PyBytes_GET_SIZE(value);
    reader.next = reader.keys;
    reader.at = skip_space(reader.at);
    if (*reader.at != '{')
        return NULL;
    reader.at = skip_space(reader.at + 1);
    const Kind *kind = find_kind(reader.at, reader.end);
    if (kind == NULL)
        return NULL;
    PyObject *event = new_struct(kind->type);
    if (event == NULL)
        return NULL;
    if (read_fields(&reader, kind, event) && fill_up(kind, event) && needs_nothing(kind, event))
        return event;
    Py_DECREF(event);
    return NULL;
}

static PyTypeObject *record_type;
static Py_ssize_t value_offset, truncated_offset, origin_offset;
static PyObject *no_bytes; /* 0, of a record that is whole */

/* Whether a record is of an origin; NULL stands for any. */
static inline int is_of(PyObject *record, PyObject *origin)
{
    PyObject *own = *slot_at(record, origin_offset);
    return origin == NULL || own == origin ||
           (PyUnicode_CheckExact(own) && PyUnicode_CheckExact(origin) && PyUnicode_Compare(own, origin) == 0);
}

static PyObject *read_events(PyObject *module, PyObject *const *values, Py_ssize_t given)
{
    (void)module;
    if (given < 1 || given > 2 || !PyList_CheckExact(values[0])) {
        PyErr_SetString(PyExc_TypeError, "read_events needs a list of records, and perhaps an origin");
        return NULL;
    }
    PyObject *records = values[0], *origin = given == 2 ? values[1] : NULL;
    Py_ssize_t count = PyList_GET_SIZE(records);
    PyObject *events = PyList_New(count);
    int goes_on = 1;
    for (Py_ssize_t number = 0; events != NULL && number < count; number++) {
        PyObject *record = PyList_GET_ITEM(records, number), *value, *event = NULL;
        if (goes_on && Py_IS_TYPE(record, record_type) && *slot_at(record, truncated_offset) == no_bytes &&
            PyBytes_CheckExact(value = *slot_at(record, value_offset)) && is_of(record, origin))
            event = read_plainly(value);
        goes_on = event != NULL || origin == NULL;
        if (event == NULL && PyErr_Occurred())
            Py_CLEAR(events);
        else
            PyList_SET_ITEM(events, number, event != NULL ? event : Py_NewRef(Py_None));
    }
    return events;
}

/* Note where a field stands in an event of a kind. */
static int add_field(Kind *kind, const Field *field)
{
    Py_ssize_t offset = offset_in(kind->type, field->name);
    if (offset < 0)
        return -1;
    size_t size = strlen(field->name);
    uint64_t word = few_bytes((At)field->name, size < 8 ? size : 8);
    size_t place = slot_of(word, size);
    while (kind->slots[place].name != NULL)
        place = (place + 1) % FIELD_SLOTS;
    FieldSlot slot = {word, size, field->name, field->read, offset};
    if (kind->count == MOST_FIELDS) {
        PyErr_Format(PyExc_ImportError, "%s has too many fields", kind->name);
        return -1;
    }
    kind->slots[place] = slot;
    kind->offsets[kind->count++] = offset;
    return 0;
}

/* Note what stands for a field that is left out: the model says so. */
static int add_defaults(Kind *kind, PyObject *fields, PyObject *defaults)
{
    Py_ssize_t required = PyTuple_GET_SIZE(fields) - PyTuple_GET_SIZE(defaults);
    for (Py_ssize_t number = required; number < PyTuple_GET_SIZE(fields); number++) {
        PyObject *found = PyTuple_GET_ITEM(defaults, number - required);
        PyObject *factory = PyObject_GetAttrString(found, "factory");
        if (factory != NULL) {
            kind->defaults[number] = factory;
            if (factory == (PyObject *)&PyDict_Type)
                continue;
            PyErr_Format(PyExc_ImportError, "%s has a default that is made by no dict", kind->name);
            return -1;
        }
        PyErr_Clear();
        /* What has no default is marked by a value of msgspec's own type. */
        if (strcmp(Py_TYPE(found)->tp_name, "msgspec._core.NoDefaultType") != 0)
            kind->defaults[number] = Py_NewRef(found);
    }
    return 0;
}

static int prepare(Kind *kind)
{
    PyObject *fields = NULL, *defaults = NULL;
    int failed = -1;
    kind->type = struct_type("stream_guard.model", kind->name);
    if (kind->type == NULL)
        return -1;
    fields = PyObject_GetAttrString((PyObject *)kind->type, "__struct_fields__");
    defaults = PyObject_GetAttrString((PyObject *)kind->type, "__struct_defaults__");
    if (fields == NULL || defaults == NULL || !PyTuple_Check(fields) || !PyTuple_Check(defaults))
        goto end;
    const Field *listed[] = {every_event, kind->fields};
    Py_ssize_t number = 0;
    for (int part = 0; part < 2; part++)
        for (const Field *field = listed[part]; field->name != NULL; field++, number++) {
            if (number >= PyTuple_GET_SIZE(fields) ||
                PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(fields, number), field->name) != 0) {
                PyErr_Format(PyExc_ImportError, "%s has other fields than native_reading.c knows", kind->name);
                goto end;
            }
            if (add_field(kind, field) < 0)
                goto end;
        }
    if (number == PyTuple_GET_SIZE(fields))
        failed = add_defaults(kind, fields, defaults);
    else
        PyErr_Format(PyExc_ImportError, "%s has more fields than native_reading.c knows", kind->name);
end:
    Py_XDECREF(fields);
    Py_XDECREF(defaults);
    return failed;
}

/* What our code asks for. A name is the same object here and there, and is found at once. */
static const char *const names[] = {
    "args",       "arguments",   "assistant",  "cache_read_tokens", "content",       "cost_usd",      "end_turn",
    "function",   "id",          "input",      "input_tokens",      "latency_ms",    "max_tokens",    "message",
    "messages",   "metadata",    "model",      "name",              "output",        "output_tokens", "parameters",
    "params",     "request",     "response",   "role",              "stop_reason",   "system",        "temperature",
    "text",       "thinking",    "tool",       "tool_call_id",      "tool_calls",    "tool_result",   "tool_use",
    "tool_use_id", "tools",      "type",       "usage",             "user",          NULL,
};

static int keep_names(void)
{
    for (const char *const *name = names; *name != NULL; name++) {
        size_t size = strlen(*name);
        At start = (At)*name;
        PyObject *text = PyUnicode_InternFromString(*name);
        if (text == NULL)
            return -1;
        Kept *place = place_of(start, size, few_bytes(start, size < 8 ? size : 8));
        if (place->stays) { /* two names in one place: the first stays */
            Py_DECREF(text);
            continue;
        }
        place->first = few_bytes(start, size < 8 ? size : 8);
        place->last = size > 8 ? eight_bytes(start + size - 8) : 0;
        place->size = (uint32_t)size;
        place->stays = 1;
        Py_XSETREF(place->text, text);
    }
    return 0;
}

static int prepare_records(void)
{
    no_bytes = PyLong_FromLong(0); /* small numbers are one object each */
    record_type = struct_type("stream_guard.ports", "Record");
    return record_type == NULL || (value_offset = offset_in(record_type, "value")) < 0 ||
                   (truncated_offset = offset_in(record_type, "truncated")) < 0 ||
                   (origin_offset = offset_in(record_type, "origin")) < 0
               ? -1
               : 0;
}

static int prepare_usage(void)
{
    PyObject *usage = PyImport_ImportModule("stream_guard_formats.usage");
    if (usage == NULL)
        return -1;
    names_of_usage = PyObject_GetAttrString(usage, "OURS");
    name_of_cost = PyObject_GetAttrString(usage, "COST");
    Py_DECREF(usage);
    usage_name = PyUnicode_InternFromString("usage");
    return names_of_usage == NULL || name_of_cost == NULL || usage_name == NULL ? -1 : 0;
}

/* Find out how events and records are made. Where that is not as it is here, all is left to the parser. */
static int execute(PyObject *module)
{
    static int is_ready;
    if (!is_ready) {
        int failed = keep_names() < 0 || prepare_usage() < 0 || prepare_records() < 0;
        for (int number = 0; number < KINDS && !failed; number++)
            failed = prepare(&kinds[number]) < 0;
        if (!(is_ready = went_well(failed)))
            record_type = NULL; /* no record is of that */
        if (PyErr_Occurred())
            return -1;
    }
    return PyModule_AddObjectRef(module, "READS", is_ready ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"read_events", (PyCFunction)(void (*)(void))read_events, METH_FASTCALL,
     PyDoc_STR("Return the event of each record that is plain and whole; None where it is left to the parser.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "native_reading", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native_reading(void)
{
    return PyModuleDef_Init(&module);
}
