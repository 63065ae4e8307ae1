/* The compiled form of shared_words.py: finds the words of one text in others without making an object of any.

   A word is a run of two ASCII letters or digits at least, in small or capital letters (tokens in grounding.py). The
   distinct words of the first text stand in a table; the words of the others are looked up in it. Nothing is proven
   where a text is not ASCII, or has more words than the table takes, or words that crowd in one place of it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define MOST_WORDS 512
#define PLACES 1024
#define FARTHEST 16 /* places from its own that a word may stand: texts are made by agents, who may make them crowd */

typedef struct {
    const unsigned char *start;
    uint32_t hash;
    uint32_t size;
    int is_found;
} Word;

typedef struct {
    unsigned last_place; /* the places that are used are a power of two */
    unsigned count;
    unsigned missing;
    uint16_t first[PLACES]; /* the number of the word that stands there, counted from 1 */
    Word words[MOST_WORDS];
} Table;

/* The letter in small, the digit, or 0 for what separates words. */
static inline unsigned char folded(unsigned char byte)
{
    unsigned char small = byte | 0x20;
    if (small >= 'a' && small <= 'z')
        return small;
    return byte >= '0' && byte <= '9' ? byte : 0;
}

/* Read the next word of two letters at least; 0 at the end of the text. */
static int next_word(const unsigned char **at, const unsigned char *end, Word *word)
{
    const unsigned char *here = *at;
    for (;;) {
        while (here < end && !folded(*here))
            here++;
        if (here == end)
            return 0;
        word->start = here;
        uint32_t hash = 2166136261u;
        unsigned char letter;
        while (here < end && (letter = folded(*here)) != 0) {
            hash = (hash ^ letter) * 16777619u;
            here++;
        }
        size_t size = (size_t)(here - word->start);
        if (size > 1) {
            word->hash = hash ^ hash >> 15;
            word->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
            *at = here;
            return 1;
        }
    }
}

static int is_same(const Word *left, const Word *right)
{
    if (left->hash != right->hash || left->size != right->size)
        return 0;
    for (uint32_t at = 0; at < left->size; at++)
        if (folded(left->start[at]) != folded(right->start[at]))
            return 0;
    return 1;
}

/* Return the place of the word, or the empty one where it would stand; -1 where others crowd there. */
static int place_of(const Table *table, const Word *word)
{
    unsigned place = word->hash & table->last_place;
    for (int step = 0; step < FARTHEST; step++) {
        unsigned number = table->first[place];
        if (!number || is_same(&table->words[number - 1], word))
            return (int)place;
        place = (place + 1) & table->last_place;
    }
    return -1;
}

/* Put the distinct words into the table; whether all have a place, and one is longer than the number says. */
static int take_words(Table *table, PyObject *text, size_t longer_than)
{
    const unsigned char *at = PyUnicode_1BYTE_DATA(text), *end = at + PyUnicode_GET_LENGTH(text);
    unsigned places = 32;
    while (places < PLACES && places < (size_t)(end - at))
        places *= 2;
    table->last_place = places - 1;
    table->count = 0;
    memset(table->first, 0, places * sizeof(table->first[0]));
    int has_long = 0;
    Word word;
    while (next_word(&at, end, &word)) {
        int place = place_of(table, &word);
        if (place < 0 || table->count == MOST_WORDS)
            return 0;
        if (table->first[place])
            continue;
        word.is_found = 0;
        table->words[table->count++] = word;
        table->first[place] = (uint16_t)table->count;
        has_long |= word.size > longer_than;
    }
    table->missing = table->count;
    return has_long;
}

/* Strike off the words that a text has; whether so few are left that the share is reached. */
static int find_words(Table *table, PyObject *text, double share)
{
    const unsigned char *at = PyUnicode_1BYTE_DATA(text), *end = at + PyUnicode_GET_LENGTH(text);
    Word word;
    do {
        if (1 - (double)table->missing / (double)table->count >= share)
            return 1;
        int place = -1;
        while (next_word(&at, end, &word)) {
            place = place_of(table, &word);
            if (place >= 0 && table->first[place] && !table->words[table->first[place] - 1].is_found)
                break;
            place = -1;
        }
        if (place < 0)
            return 0;
        table->words[table->first[place] - 1].is_found = 1;
        table->missing--;
    } while (1);
}

static PyObject *shares_words(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    if (count != 4 || !PyUnicode_Check(given[0]) || !PyList_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "takes a text, a list of others, a share and a number of letters");
        return NULL;
    }
    double share = PyFloat_AsDouble(given[2]);
    Py_ssize_t longer_than = PyLong_AsSsize_t(given[3]);
    if (PyErr_Occurred())
        return NULL;
    Table table;
    if (longer_than < 0 || !PyUnicode_IS_COMPACT_ASCII(given[0]) || !take_words(&table, given[0], (size_t)longer_than))
        Py_RETURN_FALSE;
    for (Py_ssize_t number = 0; number < PyList_GET_SIZE(given[1]); number++) {
        PyObject *other = PyList_GET_ITEM(given[1], number);
        if (!PyUnicode_Check(other) || !PyUnicode_IS_COMPACT_ASCII(other))
            Py_RETURN_FALSE;
        if (find_words(&table, other, share))
            Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static PyMethodDef functions[] = {
    {"shares_words", (PyCFunction)(void (*)(void))shares_words, METH_FASTCALL,
     PyDoc_STR("Whether a quick look proves that enough of the words of a text occur in others.")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "shared_words", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_shared_words(void)
{
    return PyModuleDef_Init(&definition);
}
