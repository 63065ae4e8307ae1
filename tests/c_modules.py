"""The modules in C, built alone for the tests of a plain build."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from contextlib import chdir
from pathlib import Path
from types import ModuleType

import pytest

from tests.laws.test_compiled import BUILD, C_FILES, ROOT


def open_c_module(plain: ModuleType, folder: Path) -> ModuleType:
    """Return the compiled form of a module: this build's, or one that is built into the folder."""
    if not str(plain.__file__).endswith(".py"):
        return plain
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    name = plain.__name__.rpartition(".")[2]
    with chdir(ROOT):
        BUILD.compile_c([file for file in C_FILES if Path(file).stem == name], folder / "lib", folder / "o")
    (library,) = (folder / "lib").rglob("*.so")
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
