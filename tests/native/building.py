"""The native module, built alone for the tests of a plain build, on request with sanitizers."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.laws.test_compiled import BUILD, HOOK, ROOT

SANITIZERS: Final = (
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)


def build_native(folder: Path, options: tuple[str, ...] = ()) -> Path:
    """Build the native module into a folder, and return its library."""
    with chdir(ROOT):
        BUILD.compile_native(HOOK["native-module"], folder / "lib", folder / "o", options)
    (library,) = (folder / "lib").rglob("*.so")
    return Path(library)


def load_native(library: Path) -> ModuleType:
    """Return the module of a library."""
    loader = importlib.machinery.ExtensionFileLoader("plain_json", str(library))
    spec = importlib.util.spec_from_loader("plain_json", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def open_native(folder: Path) -> ModuleType:
    """Return the native module, built into a folder."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return load_native(build_native(folder))
