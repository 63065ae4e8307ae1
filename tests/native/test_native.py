"""The native module: what it is made of, and that it stays within what it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laws.test_compiled import HOOK, ROOT
from tests.native.building import SANITIZERS, build_native

SOURCE = ROOT / HOOK["native-module"]

# Everything of Python that the module uses: its stable interface, which every version from 3.11 on keeps.
PUBLIC = {
    *("PyBool_FromLong", "PyBytes_AsStringAndSize", "PyDoc_STR", "PyMODINIT_FUNC", "PyMethodDef", "PyModuleDef"),
    *("PyModuleDef_HEAD_INIT", "PyModuleDef_Init", "PyModuleDef_Slot", "PyObject", "PyInit_plain_json", "Python"),
    *("Py_LIMITED_API", "Py_MOD_GIL_NOT_USED", "Py_MOD_PER_INTERPRETER_GIL_SUPPORTED", "Py_mod_gil"),
    *("Py_mod_multiple_interpreters", "Py_ssize_t", "PY_SSIZE_T_CLEAN"),
}


def code() -> str:
    return re.sub(r"/\*.*?\*/", "", SOURCE.read_text(), flags=re.DOTALL)


def test_there_is_one_module_in_one_folder_within_its_size() -> None:
    c_files = [path for folder in ("stream_guard", "plugins", "deploy") for path in (ROOT / folder).rglob("*.[ch]")]
    assert c_files == [SOURCE]
    assert len(SOURCE.read_text().splitlines()) <= 1_500
    assert SOURCE.with_suffix(".pyi").is_file()


def test_it_uses_the_public_names_that_are_listed_and_no_others() -> None:
    assert set(re.findall(r"\b_?[Pp][Yy]\w+", code())) == PUBLIC
    assert "#define Py_LIMITED_API 0x030B0000" in SOURCE.read_text()


def test_it_keeps_nothing_between_two_calls() -> None:
    kept = re.findall(r"^static (?!inline|NOINLINE)[^(;]*?(\w+)(?:\[\])? = ", code(), re.MULTILINE)
    assert sorted(kept) == ["definition", "functions", "slots"]  # what describes the module to Python


def test_the_compiler_has_nothing_to_say(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    build_native(tmp_path, ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-Werror"))


@pytest.mark.long
def test_a_search_with_sanitizers_finds_no_text_that_is_read_otherwise() -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    command = [sys.executable, "-m", "tests.native.fuzz", "2"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* texts, no difference$", done.stdout, re.MULTILINE)


def test_sanitizers_end_a_process_that_reads_too_far(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    program = tmp_path / "far.c"
    program.write_text("int main(int n, char **v) { (void)v; char here[4] = {0}; return here[n + 3]; }")
    built = tmp_path / "far"
    subprocess.run(["cc", *SANITIZERS, "-o", str(built), str(program)], check=True)
    assert subprocess.run([str(built)], check=False, capture_output=True).returncode != 0


def test_a_mistake_in_it_is_a_crash_and_no_foothold(tmp_path: Path) -> None:
    if sys.platform != "linux" or shutil.which("cc") is None or shutil.which("readelf") is None:
        pytest.skip("needs Linux, a C compiler and readelf")
    library = build_native(tmp_path)
    said = subprocess.run(["readelf", "-dlW", library], capture_output=True, text=True, check=True).stdout
    assert "GNU_RELRO" in said
    assert re.search(r"FLAGS.*(BIND_NOW|NOW)", said), "all it calls is bound before it runs"
    (stack,) = [line for line in said.splitlines() if "GNU_STACK" in line]
    assert " RWE " not in stack
