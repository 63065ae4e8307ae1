"""The build hook of the compiled wheel: mypyc makes extension modules of the modules that pyproject.toml lists.

Off by default: HATCH_BUILD_HOOK_ENABLE_CUSTOM=true turns it on. What it builds goes into the wheel straight from a
temporary folder, never into the source tree, where it would hide later edits (docs/adr/0015).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledBuild(BuildHookInterface[Any]):
    """Puts the compiled form of the listed modules beside their sources."""

    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where each extension module belongs in the wheel."""
        if version == "editable":  # whose point is that edits count at once
            return
        self._folder = TemporaryDirectory(prefix="stream-guard-compiled-")
        built = Path(self._folder.name) / "lib"
        _compile(list(self.config["modules"]), built, Path(self._folder.name))
        for file in sorted(built.rglob("*.so")):
            build_data["force_include"][str(file)] = file.relative_to(built).as_posix()
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatchling says which
        """Throw away what was only needed on the way."""
        if self._folder is not None:
            self._folder.cleanup()


def _compile(modules: list[str], built: Path, scratch: Path) -> None:
    """Compile the modules, given as files below the top of the repository, into one library and a stub for each."""
    from mypyc.build import mypycify  # noqa: PLC0415  # a wheel without compiled parts is built without it
    from setuptools import Distribution  # noqa: PLC0415  # likewise

    extensions = mypycify(
        # Errors elsewhere are `make lint`'s to find, and must not depend on which release of a dependency is here.
        ["--follow-imports=silent", "--no-warn-unused-ignores", f"--cache-dir={scratch / 'mypy'}", *modules],
        group_name="stream_guard",
        target_dir=str(scratch / "c"),
        debug_level="0",  # debugging data would name this temporary folder: the same sources, another wheel
    )
    _put_docstrings_back(modules, scratch / "c")
    distribution = Distribution({"name": "stream-guard-compiled", "ext_modules": extensions})
    command = distribution.get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(built), str(scratch / "o")
    command.ensure_finalized()
    command.run()


def _put_docstrings_back(modules: list[str], generated: Path) -> None:
    """Give the classes in the C sources the docstrings that mypyc leaves out: those of kinds are shown to users."""
    from mypyc.codegen.cstring import c_string_initializer  # noqa: PLC0415  # see _compile

    docstrings: dict[str, str] = {}
    for module in modules:
        for node in ast.parse(Path(module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and (said := ast.get_docstring(node)):
                if node.name in docstrings:
                    raise ValueError(f"two classes to compile are called {node.name}; rename the one in {module}")
                docstrings[node.name] = c_string_initializer(said.encode())

    def with_docstring(found: re.Match[str]) -> str:
        return f"{found[0]} {docstrings.get(found[1], '')}"

    for file in generated.rglob("*.c"):
        text = file.read_text(encoding="utf-8")
        file.write_text(
            re.sub(r'\.tp_doc = PyDoc_STR\("(\w+)\(.*?\)\\n--\\n\\n"', with_docstring, text), encoding="utf-8"
        )
