/* Fields of msgspec structs, which keep them in slots: where a slot stands is asked once, and then read without a call. */

#ifndef STREAM_GUARD_STRUCT_SLOTS_H
#define STREAM_GUARD_STRUCT_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

static inline PyObject **slot_at(PyObject *value, Py_ssize_t offset)
{
    return (PyObject **)((char *)value + offset);
}

/* Return where a field of a struct stands; -1 with an error where it is not kept in a slot. */
static inline Py_ssize_t offset_in(PyTypeObject *type, const char *name)
{
    PyObject *member = PyObject_GetAttrString((PyObject *)type, name);
    if (member == NULL)
        return -1;
    Py_ssize_t offset = -1;
    PyMemberDef *kept = Py_IS_TYPE(member, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)member)->d_member : NULL;
    if (kept != NULL && kept->type == T_OBJECT_EX)
        offset = kept->offset;
    else
        PyErr_Format(PyExc_ImportError, "%s.%s is not kept in a slot", type->tp_name, name);
    Py_DECREF(member);
    return offset;
}

/* Return a new struct whose slots are all empty; the collector must not know its type. */
static inline PyObject *new_struct(PyTypeObject *type)
{
    PyObject *made = PyObject_New(PyObject, type);
    if (made != NULL)
        memset((char *)made + sizeof(PyObject), 0, (size_t)type->tp_basicsize - sizeof(PyObject));
    return made;
}

/* Whether preparing went well. Where structs are kept in another way it did not, which is no error: the long way is left. */
static inline int went_well(int failed)
{
    if (failed && (PyErr_ExceptionMatches(PyExc_ImportError) || PyErr_ExceptionMatches(PyExc_AttributeError)))
        PyErr_Clear();
    return !failed;
}

/* Return a type of a module, which is kept for good; NULL with an error where it is not as `new_struct` needs it. */
static inline PyTypeObject *struct_type(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *type = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    if (type != NULL && (!PyType_Check(type) || PyType_IS_GC((PyTypeObject *)type))) {
        PyErr_Format(PyExc_ImportError, "%s.%s is no struct that the collector leaves alone", module_name, name);
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

#endif
