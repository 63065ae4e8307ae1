/* Inline caches of the compiled build; compiled_build.py puts them in front of what mypyc made.

   mypyc looks up each attribute of an interpreted object, and each imported name, by its name, whenever it is used: 60 to
   140 instructions, and a hundred times for an event. The interpreter remembers at each place where it found the last
   one (PEP 659). So does this, by the same marks: a type's version changes with the type, a dict's with the dict. A place
   must always ask for the same name. Attributes that are written are found in the same way. */

#if defined(__GNUC__) && !defined(Py_GIL_DISABLED)

#if PY_VERSION_HEX < 0x030E0000 /* later ones do not count the changes of a dict */

typedef struct {
    uint64_t version;
    PyObject *value; /* the dict holds it for as long as its version stays */
} GlobalCache;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static inline uint64_t version_of(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

#pragma GCC diagnostic pop

static inline PyObject *cached_global(PyObject *globals, PyObject *name, GlobalCache *cache)
{
    uint64_t version = version_of(globals);
    if (cache->version == version) {
        Py_INCREF(cache->value);
        return cache->value;
    }
    PyObject *value = CPyDict_GetItem(globals, name);
    if (value != NULL)
        *cache = (GlobalCache){version, value};
    return value;
}

#define GET_GLOBAL(globals, name)                      \
    ({                                                 \
        static GlobalCache cache_here;                 \
        cached_global((globals), (name), &cache_here); \
    })

#else
#define GET_GLOBAL CPyDict_GetItem
#endif

#define TYPES_AT_ONE_PLACE 6 /* events have as many */

typedef struct {
    PyTypeObject *type;
    unsigned int version;
    Py_ssize_t offset;
} AttributeSlot;

typedef struct {
    AttributeSlot slots[TYPES_AT_ONE_PLACE];
    unsigned int next; /* the slot to write next */
#if PY_VERSION_HEX < 0x030E0000
    GlobalCache of_module;
#endif
} AttributeCache;

/* Remember where objects of a type keep an attribute, if it has a slot of its own, as those of msgspec's structs have. */
static void remember_attribute(PyTypeObject *type, PyObject *name, AttributeCache *cache)
{
    if (type->tp_getattro != PyObject_GenericGetAttr)
        return;
    PyObject *found = _PyType_Lookup(type, name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMemberDescr_Type) || type->tp_version_tag == 0)
        return;
    PyMemberDescrObject *descriptor = (PyMemberDescrObject *)found;
    PyMemberDef *member = descriptor->d_member;
    if (member->type != T_OBJECT_EX || (member->flags & ~READONLY) || !PyType_IsSubtype(type, PyDescr_TYPE(found)))
        return;
    AttributeSlot slot = {type, type->tp_version_tag, member->offset};
    for (int number = 0; number < TYPES_AT_ONE_PLACE; number++)
        if (cache->slots[number].type == type) { /* it has changed since */
            cache->slots[number] = slot;
            return;
        }
    cache->slots[cache->next++ % TYPES_AT_ONE_PLACE] = slot;
}

static __attribute__((noinline)) PyObject *look_up_attribute(PyObject *object, PyObject *name, AttributeCache *cache)
{
#if PY_VERSION_HEX < 0x030E0000
    if (PyModule_CheckExact(object)) {
        PyObject *globals = PyModule_GetDict(object);
        uint64_t version = version_of(globals);
        if (cache->of_module.version == version) {
            Py_INCREF(cache->of_module.value);
            return cache->of_module.value;
        }
        PyObject *value = _PyType_Lookup(&PyModule_Type, name) == NULL ? PyDict_GetItemWithError(globals, name) : NULL;
        if (value != NULL) {
            cache->of_module = (GlobalCache){version, value};
            Py_INCREF(value);
            return value;
        }
        if (PyErr_Occurred())
            return NULL;
    }
#endif
    remember_attribute(Py_TYPE(object), name, cache);
    return PyObject_GetAttr(object, name);
}

static PyObject *cached_attribute(PyObject *object, PyObject *name, AttributeCache *cache)
{
    PyTypeObject *type = Py_TYPE(object);
    for (AttributeSlot *slot = cache->slots; slot < cache->slots + TYPES_AT_ONE_PLACE; slot++)
        if (slot->type == type) {
            if (slot->version != type->tp_version_tag)
                break;
            PyObject *value = *(PyObject **)((char *)object + slot->offset);
            if (value == NULL)
                break; /* the lookup says what is missing */
            Py_INCREF(value);
            return value;
        }
    return look_up_attribute(object, name, cache);
}

#define GET_ATTRIBUTE(object, name)                      \
    ({                                                   \
        static AttributeCache cache_here;                \
        cached_attribute((object), (name), &cache_here); \
    })

typedef struct {
    PyTypeObject *type;
    unsigned int version;
    Py_ssize_t offset; /* 0: the type has to be asked */
} WrittenSlot;

/* Whether a type of msgspec's writes an attribute as any other does: it is not frozen, and no collector follows it. */
static int is_open_struct(PyTypeObject *type)
{
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC))
        return 0;
    PyObject *config = PyObject_GetAttrString((PyObject *)type, "__struct_config__");
    PyObject *frozen = config == NULL ? NULL : PyObject_GetAttrString(config, "frozen");
    PyErr_Clear();
    Py_XDECREF(config);
    Py_XDECREF(frozen);
    return frozen == Py_False;
}

/* Remember where objects of a type keep an attribute that is written, if writing it is no more than that. */
static void remember_written(PyTypeObject *type, PyObject *name, WrittenSlot *slot)
{
    PyObject *found = _PyType_Lookup(type, name);
    if (found == NULL || type->tp_version_tag == 0)
        return;
    *slot = (WrittenSlot){type, type->tp_version_tag, 0};
    if (!Py_IS_TYPE(found, &PyMemberDescr_Type) || !PyType_IsSubtype(type, PyDescr_TYPE(found)))
        return;
    PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
    if (member->type != T_OBJECT_EX || member->flags)
        return;
    if (type->tp_setattro != PyObject_GenericSetAttr) {
        /* A method of that name, written in Python, has another type. */
        PyObject *names = PyUnicode_InternFromString("__setattr__");
        PyObject *writes = names == NULL ? NULL : _PyType_Lookup(type, names);
        Py_XDECREF(names);
        if (writes == NULL || !Py_IS_TYPE(writes, &PyWrapperDescr_Type) || !is_open_struct(type)) {
            PyErr_Clear();
            return;
        }
    }
    slot->version = type->tp_version_tag; /* looking may have given it one */
    slot->offset = member->offset;
}

static __attribute__((noinline)) int write_attribute(PyObject *object, PyObject *name, PyObject *value, WrittenSlot *slot)
{
    PyTypeObject *type = Py_TYPE(object);
    if (slot->type != type || slot->version != type->tp_version_tag)
        remember_written(type, name, slot);
    return PyObject_SetAttr(object, name, value);
}

static inline int cached_write(PyObject *object, PyObject *name, PyObject *value, WrittenSlot *slot)
{
    PyTypeObject *type = Py_TYPE(object);
    if (slot->type != type || slot->version != type->tp_version_tag || slot->offset == 0 || value == NULL)
        return write_attribute(object, name, value, slot);
    PyObject **place = (PyObject **)((char *)object + slot->offset), *before = *place;
    Py_INCREF(value);
    *place = value;
    Py_XDECREF(before);
    return 0;
}

#define SET_ATTRIBUTE(object, name, value)                    \
    ({                                                        \
        static WrittenSlot slot_here;                         \
        cached_write((object), (name), (value), &slot_here);  \
    })

#else
#define GET_GLOBAL CPyDict_GetItem
#define GET_ATTRIBUTE CPyObject_GetAttr
#define SET_ATTRIBUTE PyObject_SetAttr
#endif
