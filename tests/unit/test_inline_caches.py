"""The inline caches of the compiled build: whatever changes, a place finds what a lookup would find."""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tests.laws.test_compiled import BUILD, ROOT

# One place that reads an attribute, one that writes it and one for names, as mypyc has thousands; all ask for "value".
SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define CPyObject_GetAttr PyObject_GetAttr
static PyObject *CPyDict_GetItem(PyObject *dict, PyObject *name)
{{
    PyObject *found = PyDict_GetItemWithError(dict, name);
    if (found == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, name);
    return Py_XNewRef(found);
}}
#include "{caches}"
static PyObject *value;
static PyObject *attribute(PyObject *self, PyObject *object) {{ return GET_ATTRIBUTE(object, value); }}
static PyObject *name(PyObject *self, PyObject *globals) {{ return GET_GLOBAL(globals, value); }}
static PyObject *write_value(PyObject *self, PyObject *args)
{{
    PyObject *object, *written;
    if (!PyArg_ParseTuple(args, "OO", &object, &written) || SET_ATTRIBUTE(object, value, written) < 0)
        return NULL;
    Py_RETURN_NONE;
}}
static PyMethodDef functions[] = {{
    {{"write", write_value, METH_VARARGS, NULL}},
    {{"attribute", attribute, METH_O, NULL}}, {{"name", name, METH_O, NULL}}, {{NULL, NULL, 0, NULL}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "places", NULL, -1, functions, NULL, NULL, NULL, NULL}};
PyMODINIT_FUNC PyInit_places(void)
{{
    value = PyUnicode_InternFromString("value");
    return PyModule_Create(&module);
}}
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A module with one place of each sort."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("places")
    (folder / "places.c").write_text(SOURCE.format(caches=ROOT / "deploy" / "inline_caches.h"))
    with chdir(folder):
        BUILD.compile_c(["places.c"], folder / "lib", folder / "o")
    (library,) = (folder / "lib").glob("*.so")
    loader = importlib.machinery.ExtensionFileLoader("places", str(library))
    spec = importlib.util.spec_from_loader("places", loader)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


class Slotted:
    """A class with a slot."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Struct(msgspec.Struct):
    """A struct, as events are."""

    other: int = 0
    value: object = None


class Uncollected(Struct, gc=False):
    """A struct that no collector follows, as states are."""


class Frozen(msgspec.Struct, frozen=True, gc=False):
    """A struct that nobody may write to."""

    value: object = None


def test_a_place_reads_objects_of_more_types_than_it_remembers(places: ModuleType) -> None:
    types = [type(f"Slotted{number}", (Slotted,), {"__slots__": ()}) for number in range(9)]
    objects = [Slotted(0), Struct(value="s"), *(kind(number) for number, kind in enumerate(types))]
    for _ in range(3):
        assert [places.attribute(one) for one in objects] == [0, "s", *range(9)]


def test_a_slot_that_is_written_again_is_read_again(places: ModuleType) -> None:
    one = Struct(value=1)
    assert places.attribute(one) == 1
    one.value = 2
    assert places.attribute(one) == 2


def test_an_empty_slot_is_an_attribute_error(places: ModuleType) -> None:
    one = Slotted(1)
    assert places.attribute(one) == 1
    del one.value
    with pytest.raises(AttributeError, match="value"):
        places.attribute(one)


def test_a_class_that_changes_is_looked_at_again(places: ModuleType) -> None:
    changing: Any = type("Changing", (Slotted,), {"__slots__": ()})
    one = changing(1)
    assert [places.attribute(one) for _ in range(3)] == [1, 1, 1]
    changing.value = property(lambda _self: "property")
    assert places.attribute(one) == "property"
    del changing.value
    assert places.attribute(one) == 1


def test_a_base_that_changes_is_looked_at_again(places: ModuleType) -> None:
    base: Any = type("Base", (), {"__slots__": ("value",)})
    heir: Any = type("Heir", (base,), {"__slots__": ()})
    one = heir()
    one.value = 1
    assert [places.attribute(one) for _ in range(3)] == [1, 1, 1]
    base.value = "of the class"
    assert places.attribute(one) == "of the class"


def test_other_attributes_are_looked_up_as_ever(places: ModuleType) -> None:
    class Plain:
        value = "of the class"

    class Asking:
        def __getattribute__(self, name: str) -> object:
            return f"asked for {name}"

    class Lent:
        value = Slotted.__dict__["value"]  # the slot of another class

    plain = Plain()
    for _ in range(3):
        assert places.attribute(plain) == "of the class"
        assert places.attribute(Asking()) == "asked for value"
        with pytest.raises(TypeError):
            places.attribute(Lent())
    plain.value = "its own"
    assert places.attribute(plain) == "its own"


def test_a_module_that_changes_is_looked_at_again(places: ModuleType) -> None:
    first, second = ModuleType("first"), ModuleType("second")
    first.value, second.value = 1, 2  # type: ignore[attr-defined]
    assert [places.attribute(one) for one in (first, first, second, first)] == [1, 1, 2, 1]
    first.value = 3  # type: ignore[attr-defined]
    assert places.attribute(first) == 3
    del first.value
    with pytest.raises(AttributeError, match="value"):
        places.attribute(first)
    first.__getattr__ = lambda name: f"made {name}"  # type: ignore[method-assign]
    assert [places.attribute(first), places.attribute(second)] == ["made value", 2]


def test_names_that_change_are_looked_up_again(places: ModuleType) -> None:
    one, two = {"value": 1}, {"value": 2}
    assert [places.name(names) for names in (one, one, two, one)] == [1, 1, 2, 1]
    one["value"] = 3
    one["other"] = 4
    assert places.name(one) == 3
    del one["value"]
    with pytest.raises(KeyError):
        places.name(one)


def test_what_is_remembered_is_not_kept_alive_nor_released(places: ModuleType) -> None:
    kept = object()
    one, names = Slotted(kept), {"value": kept}
    before = sys.getrefcount(kept)
    for _ in range(100):
        places.attribute(one)
        places.name(names)
    assert sys.getrefcount(kept) == before


def test_what_is_written_is_there_and_what_was_there_is_released(places: ModuleType) -> None:
    kept = object()
    before = sys.getrefcount(kept)
    for one in (Slotted(0), Struct(), Uncollected()):
        for written in (kept, 1, kept, [2], kept, None):
            places.write(one, written)
            assert one.value is written
    assert sys.getrefcount(kept) == before


def test_a_struct_that_a_collector_follows_is_followed_after_a_write(places: ModuleType) -> None:
    one = Struct(value=1)
    assert not gc.is_tracked(one)
    for _ in range(3):
        places.write(one, [one])
    assert gc.is_tracked(one)


def test_an_empty_slot_is_written(places: ModuleType) -> None:
    one = Slotted(1)
    places.write(one, 2)
    del one.value
    places.write(one, 3)
    assert one.value == 3


def test_what_must_not_be_written_is_refused_every_time(places: ModuleType) -> None:
    class Choosy(Slotted):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            if value == "wrong":
                raise ValueError(value)
            super().__setattr__(name, value)

    for _ in range(3):
        with pytest.raises(AttributeError, match="immutable"):
            places.write(Frozen(value=1), 2)
        choosy = Choosy(1)
        places.write(choosy, 2)
        with pytest.raises(ValueError, match="wrong"):
            places.write(choosy, "wrong")
        assert choosy.value == 2
        with pytest.raises(AttributeError):
            places.write(object(), 1)


def test_a_class_that_changes_is_asked_again_before_a_write(places: ModuleType) -> None:
    changing: Any = type("Changing", (Slotted,), {"__slots__": ()})
    one, told = changing(1), []
    for _ in range(3):
        places.write(one, 2)
    changing.__setattr__ = lambda _self, _name, value: told.append(value)
    places.write(one, 3)
    assert (one.value, told) == (2, [3])
    del changing.__setattr__
    changing.value = property(lambda _self: "property")
    with pytest.raises(AttributeError):
        places.write(one, 4)


def test_only_names_that_stand_in_the_source_are_remembered(tmp_path: Path) -> None:
    constant = "    r1 = CPyStatics[7]; /* 'time' */\n    r2 = CPyObject_GetAttr(event, r1);\n"
    found_out = "    r3 = CPyObject_GetAttr(rule, name);\n"
    name = "    r4 = CPyStatic_fold___globals;\n    r5 = CPyStatics[8];\n    r6 = CPyDict_GetItem(r4, r5);\n"
    entry = "    r7 = CPyStatics[9]; /* 'a' */\n    r8 = CPyDict_GetItem(found, r7);\n"
    written_to = "    r9 = CPyStatics[7]; /* 'time' */\n    r10 = PyFloat_FromDouble(now);\n"
    written_to += "    r11 = PyObject_SetAttr(state, r9, r10);\n"
    written_by_name = "    r12 = CPyStatics[3]; /* 3 */\n    r13 = PyObject_SetAttr(state, name, r12);\n"
    file = tmp_path / "__native_stream_guard.c"
    file.write_text(
        '#include "__native_internal_stream_guard.h"\n'
        + constant
        + found_out
        + name
        + entry
        + written_to
        + written_by_name
    )
    BUILD.put_caches_in(tmp_path)
    written = file.read_text()
    assert "r2 = GET_ATTRIBUTE(event, r1);" in written
    assert "r6 = GET_GLOBAL(r4, r5);" in written
    assert "r11 = SET_ATTRIBUTE(state, r9, r10);" in written
    assert found_out in written
    assert entry in written
    assert written_by_name in written


def test_sources_that_begin_otherwise_are_refused(tmp_path: Path) -> None:
    (tmp_path / "__native_stream_guard.c").write_text("int main;\n")
    with pytest.raises(ValueError, match="declarations"):
        BUILD.put_caches_in(tmp_path)
