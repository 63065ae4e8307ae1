"""The build hook of the compiled wheel: mypyc makes extension modules of the modules that pyproject.toml lists.

The native module is named there too, and is built as it is.

Off by default: HATCH_BUILD_HOOK_ENABLE_CUSTOM=true turns it on. What it builds goes into the wheel straight from a
temporary folder, never into the source tree, where it would hide later edits (docs/adr/0015).

pydantic and msgspec read the annotations of a class when it is defined, and a compiled module keeps none. Such classes
are cut out of the modules to compile, in the temporary folder, into interpreted modules beside them (docs/adr/0017).
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHAPES = frozenset(("sg.Params", "sg.State", "BaseModel", "pydantic.BaseModel", "Struct", "msgspec.Struct"))
"""Bases whose annotations are read when a class is defined, as modules write them."""


# Calls among our functions are direct, and those of Python's take no detour: nobody replaces either. 3 % of a run.
# Elsewhere than on Linux, libraries do it so by themselves, and compilers may refuse to be told.
_OWN_CALLS = ["-fvisibility=hidden", *(["-fno-semantic-interposition", "-fno-plt"] if sys.platform == "linux" else [])]


# A mistake in C is to be a crash and no foothold: what is written over is noticed, what is loaded cannot change.
_HARDENED = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fstack-clash-protection"]
_LINKED = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"]
if sys.platform != "linux":
    _HARDENED, _LINKED = ["-fstack-protector-strong"] if sys.platform == "darwin" else [], []


class CompiledBuild(BuildHookInterface[Any]):
    """Puts the compiled form of the listed modules beside their sources."""

    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where each extension module belongs in the wheel."""
        if version == "editable":  # whose point is that edits count at once
            return
        self._folder = TemporaryDirectory(prefix="stream-guard-compiled-")
        scratch = Path(self._folder.name)
        built, tree, modules = scratch / "lib", scratch / "tree", list(self.config["modules"])
        for folder in ("stream_guard", "plugins"):
            shutil.copytree(Path(self.root) / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(self.root) / "pyproject.toml", tree)
        for file in prepare(modules, tree):
            build_data["force_include"][str(tree / file)] = file.removeprefix("plugins/")
        with chdir(tree):
            _compile(modules, built, scratch)
            compile_native(self.config["native-module"], built, scratch)
        for library in sorted(built.rglob("*.so")):
            build_data["force_include"][str(library)] = library.relative_to(built).as_posix()
        build_data["infer_tag"] = True
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatchling says which
        """Throw away what was only needed on the way."""
        if self._folder is not None:
            self._folder.cleanup()


class Split(NamedTuple):
    """A module as it is compiled: every line stays where it was, in one file or the other."""

    compiled: str
    interpreted: str
    names: frozenset[str]  # what moved: the classes, and what they use when they are defined


def prepare(modules: list[str], tree: Path) -> list[str]:
    """Rewrite the modules in the copied tree for mypyc; return the interpreted modules that came of it."""
    interpreted = []
    for file in modules:
        path = Path(file)
        beside = path.with_name(f"_{path.stem}_shapes.py")
        package = ".".join(path.parent.parts).removeprefix("plugins.")
        text = (tree / path).read_text(encoding="utf-8")
        split = split_shapes(text, f"{package}.{beside.stem}")
        if split is not None:
            text = split.compiled
            (tree / beside).write_text(split.interpreted, encoding="utf-8")
            interpreted.append(beside.as_posix())
        (tree / path).write_text(_with_docstrings(_let_kinds_be_derived_from(text)), encoding="utf-8")
    return interpreted


def split_shapes(source: str, beside: str) -> Split | None:
    """Cut the shapes out of a module, with what they use; ``beside`` is the module they go to. None: it has none."""
    body, lines = ast.parse(source).body, source.splitlines()
    bound = {name: node for node in body for name in _bound_by(node)}
    moved: dict[str, None] = {}
    for node in body:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in {*SHAPES, *moved} for base in node.bases):
            moved[node.name] = None
    if not moved:
        return None
    waiting, used = list(moved), set[str]()
    for name in waiting:  # grows while it is walked
        used |= _names_in(bound[name])
        waiting += [other for other in used if other in bound and other not in moved]
        moved |= dict.fromkeys(waiting)
    compiled, interpreted, first = list(lines), [""] * len(lines), len(lines)
    for node in body:
        begin, end = _begin(node), node.end_lineno or 0
        is_moved = not moved.keys().isdisjoint(_bound_by(node))
        if is_moved or (isinstance(node, ast.Import | ast.ImportFrom) and _is_needed(node, used)):
            interpreted[begin:end] = lines[begin:end]
        if is_moved:
            compiled[begin:end] = [""] * (end - begin)
            first = min(first, begin)
    # Each under its own name, said twice: so a type checker lets other modules import it from here.
    compiled[first] = f"from {beside} import {', '.join(f'{name} as {name}' for name in sorted(moved))}"
    interpreted[0] = "# Cut out of the compiled module beside this one while the wheel was built; line numbers stay."
    return Split("\n".join([*compiled, ""]), "\n".join(interpreted).rstrip() + "\n", frozenset(moved))


def _begin(node: ast.stmt) -> int:
    """Return the index of the first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1


def _bound_by(node: ast.stmt) -> list[str]:
    """Return the names that a definition or an assignment at the top of a module binds."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _names_in(node: ast.stmt) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def _is_needed(node: ast.Import | ast.ImportFrom, used: set[str]) -> bool:
    names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return "annotations" in names or not names.isdisjoint(used)


def _let_kinds_be_derived_from(text: str) -> str:
    """Let interpreted kinds derive from the compiled ones, which a compiled class has to allow; no line moves."""
    kinds = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("sg.Rule[") for base in node.bases)
    ]
    if not kinds:
        return text
    lines = text.splitlines()
    future = lines.index("from __future__ import annotations")
    for blank in [future + 1, *(_begin(kind) - 1 for kind in kinds)]:
        if lines[blank]:
            raise ValueError(f"line {blank + 1} has to be empty: {lines[blank]}")
    lines[future] += "; from typing import TYPE_CHECKING"
    lines[future + 1] = "if TYPE_CHECKING: from mypy_extensions import mypyc_attr"  # not there when the wheel is used
    for kind in kinds:
        lines[_begin(kind) - 1] = "@mypyc_attr(allow_interpreted_subclasses=True)"
    return "\n".join([*lines, ""])


def _with_docstrings(text: str) -> str:
    """Set the docstrings of public classes at the end of a module: mypyc leaves them out, and users see some."""
    documented = [
        f"setattr({node.name}, '__doc__', {said!r})"
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and (said := ast.get_docstring(node))
    ]
    return "\n".join([text.rstrip("\n"), *documented, ""])


def _compile(modules: list[str], built: Path, scratch: Path) -> None:
    """Compile the modules, given as files below the working directory, into one library and a stub for each."""
    from mypyc.build import mypycify  # noqa: PLC0415  # a wheel without compiled parts is built without it

    extensions = mypycify(
        # Errors elsewhere are `make lint`'s to find, and must not depend on which release of a dependency is here.
        ["--follow-imports=silent", "--no-warn-unused-ignores", f"--cache-dir={scratch / 'mypy'}", *modules],
        group_name="stream_guard",
        target_dir=str(scratch / "c"),
        multi_file=True,  # a file for each module, so that all cores have something to compile
        opt_level="2",  # a third less to compile than with 3
        debug_level="0",  # debugging data would name this temporary folder: the same sources, another wheel
    )
    for extension in extensions:
        extension.extra_compile_args += _OWN_CALLS
        extension.extra_link_args += _LINKED
    _build(extensions, built, scratch)


def compile_native(file: str, built: Path, scratch: Path, options: tuple[str, ...] = ()) -> None:
    """Build the native module, given as a file below the working directory; ``options`` of the compiler come last."""
    from setuptools import Extension  # noqa: PLC0415  # see _compile

    name = file.removesuffix(".c").replace("/", ".")
    # Without debugging data, which would name the temporary folder.
    # Sanitizers bring checks of their own, which do not go together with these.
    compiling = ["-O3", "-g0", "-Werror=format-security", *_OWN_CALLS, *(options or _HARDENED)]
    linking = [*_LINKED, *(option for option in options if option.startswith("-fsanitize"))]
    module = Extension(name, [file], extra_compile_args=compiling, extra_link_args=linking, py_limited_api=True)
    _build([module], built, scratch)


def _build(extensions: list[Any], built: Path, scratch: Path) -> None:
    """Build extension modules, as many sources at a time as there are cores."""
    from setuptools import Distribution  # noqa: PLC0415  # see _compile
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]  # noqa: PLC0415  # see _compile

    class BuildSideBySide(build_ext):  # type: ignore[misc]  # setuptools has no types here
        def build_extension(self, ext: Any) -> None:
            def compile_one(source: str) -> list[str]:
                options = {"include_dirs": ext.include_dirs, "extra_postargs": ext.extra_compile_args}
                objects: list[str] = self.compiler.compile([source], output_dir=self.build_temp, **options)
                return objects

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                ext.extra_objects += [file for files in pool.map(compile_one, ext.sources) for file in files]
            ext.sources = []
            super().build_extension(ext)

    command = BuildSideBySide(Distribution({"name": "stream-guard-compiled", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(built), str(scratch / "o")
    command.ensure_finalized()
    command.run()
