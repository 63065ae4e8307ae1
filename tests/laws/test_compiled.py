"""The compiled wheel: what may be compiled, and that it judges as the plain one does."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
import pytest

import stream_guard
from tests.parsing import parse

ROOT = Path(__file__).parents[2]
HOOK: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["hooks"]["custom"]
FILES: list[str] = HOOK["modules"]
NAMES = [file.removeprefix("plugins/").removesuffix(".py").replace("/", ".") for file in FILES]


def build_hook() -> ModuleType:
    """The build hook, which is no module of a package."""
    found = importlib.util.spec_from_file_location("compiled_build", ROOT / HOOK["path"])
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


BUILD = build_hook()

# What is run once more, on the compiled build: recorded verdicts, the laws over every kind, the search for
# counter-examples, and what goes through the compiled modules directly.
RUN_AGAIN = (
    "tests/contract_pack",
    "tests/vectors",
    "tests/rules",
    "tests/laws/test_laws.py",
    "tests/laws/test_stored.py",
    "tests/property",
    "tests/unit/decoding/test_places.py",
    "tests/unit/formats/native",
    "tests/unit/formats/test_usage.py",
    "tests/unit/guard",
    "tests/unit/rules",
    "tests/unit/judge",
    "tests/unit/sources",
    "tests/unit/running/test_batch.py",
    "tests/unit/running/test_reload.py",
    "tests/unit/running/test_replay.py",
    "tests/worker/test_partition.py",
    "tests/worker/test_spanning.py",
)


def classes_of(module: ModuleType) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]


def heirs_of(cls: type) -> Iterator[type]:
    heirs: list[type] = type.__subclasses__(cls)
    for heir in heirs:
        yield heir
        yield from heirs_of(heir)


def test_the_list_names_files_that_exist_each_once_in_order() -> None:
    assert [file for file in FILES if not (ROOT / file).is_file()] == []
    assert sorted(set(FILES)) == FILES


def test_it_is_built_only_when_asked_for_and_with_the_mypy_that_was_tested() -> None:
    assert HOOK["enable-by-default"] is False
    pin = next(line for line in HOOK["dependencies"] if line.startswith("mypy=="))
    assert f"\n{pin} " in (ROOT / "requirements.lock").read_text()


def test_nothing_compiled_lies_among_the_sources() -> None:
    native = ROOT / "stream_guard" / "_native"  # whose library hides no source
    libraries = [path for folder in ("stream_guard", "plugins") for path in (ROOT / folder).rglob("*.so")]
    assert [path for path in libraries if path.parent != native] == []


def cut_from(name: str) -> frozenset[str]:
    """What the hook leaves to the interpreter of a module to compile."""
    split = BUILD.split_shapes((ROOT / FILES[NAMES.index(name)]).read_text(), "beside")
    return frozenset() if split is None else frozenset(split.names)


def compiled_classes(name: str) -> list[type]:
    return [cls for cls in classes_of(importlib.import_module(name)) if cls.__name__ not in cut_from(name)]


@pytest.mark.parametrize("name", NAMES)
def test_no_class_to_compile_has_annotations_that_are_read_when_it_is_defined(name: str) -> None:
    for cls in compiled_classes(name):
        assert not hasattr(cls, "__struct_fields__"), f"{cls} is a struct: msgspec would see other types than it says"
        assert not dataclasses.is_dataclass(cls)
        assert not issubclass(cls, pydantic.BaseModel)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_is_compiled(name: str) -> None:
    kinds = {cls for cls in classes_of(importlib.import_module(name)) if issubclass(cls, stream_guard.Rule)}
    assert kinds <= set(compiled_classes(name))


MODULE = '''"""A family."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg

_MOST: Final = 8
_WORD: Final = "again"


def least() -> int:
    return 1


class Inner(sg.Params):
    n: int = Field(ge=least(), le=_MOST)


class NoCallParams(Inner):
    """Parameters."""


class NoCall(sg.Rule[NoCallParams, sg.NoState]):
    """A kind."""

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit:
        return sg.Hit(_WORD)
'''


def test_shapes_are_cut_out_with_what_they_use_and_no_line_moves(tmp_path: Path) -> None:
    file = tmp_path / "plugins" / "pack" / "family.py"
    file.parent.mkdir(parents=True)
    file.write_text(MODULE)
    assert BUILD.prepare(["plugins/pack/family.py"], tmp_path) == ["plugins/pack/_family_shapes.py"]
    compiled, shapes = file.read_text(), file.with_name("_family_shapes.py").read_text()
    names = ", ".join(f"{name} as {name}" for name in ("Inner", "NoCallParams", "_MOST", "least"))
    assert f"from pack._family_shapes import {names}" in compiled
    was, kept = (
        {node.name: node.lineno for node in parse(text).body if isinstance(node, ast.ClassDef)}
        for text in (MODULE, compiled)
    )
    cut = {node.name: node.lineno for node in parse(shapes).body if isinstance(node, ast.ClassDef)}
    assert kept == {"NoCall": was["NoCall"]}
    assert kept | cut == was
    assert "_WORD" not in shapes
    assert "@mypyc_attr(allow_interpreted_subclasses=True)\nclass NoCall(" in compiled


@pytest.mark.parametrize("file", FILES)
def test_nothing_to_compile_keeps_a_generator_expression_to_take_its_next(file: str) -> None:
    # Compiled, what is kept is a list: next() of it raises.
    nodes = list(ast.walk(parse((ROOT / file).read_text())))
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.GeneratorExp)]
    kept = {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "next"]
    assert [call.lineno for call in calls if ast.unparse(call.args[0]) in kept] == []


def test_no_interpreted_class_derives_from_a_compiled_one() -> None:
    for found in pkgutil.walk_packages(stream_guard.__path__, "stream_guard."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    heirs = {
        (heir.__module__, heir.__name__)
        for name in NAMES
        for cls in compiled_classes(name)
        for heir in heirs_of(cls)
        if heir.__module__.split(".")[0].startswith("stream_guard")
    }
    assert [heir for heir in sorted(heirs) if heir[0] not in NAMES] == []


def patched_modules(tree: ast.Module) -> Iterator[str]:
    """The modules in which a test puts another value, named by a path or by what was imported."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr":
            place = node.args[0]
            named = ast.unparse(place) if not isinstance(place, ast.Constant) else str(place.value).rpartition(".")[0]
            yield imported.get(named, named)


def test_what_is_run_again_changes_no_constant_of_a_compiled_module() -> None:
    # A constant is compiled into the code that reads it: another value would change the plain build alone.
    places = [ROOT / place for place in RUN_AGAIN]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
    patched = {(file.name, module) for file in files for module in patched_modules(parse(file.read_text()))}
    assert patched, "the search finds none where there are some"
    assert [(file, module) for file, module in sorted(patched) if module in NAMES] == []


@pytest.fixture(scope="module")
def site() -> Path:
    """The compiled wheel, unpacked."""
    done = subprocess.run(
        ["make", "compiled", f"VENV={sys.prefix}"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / ".cache" / "compiled" / str(sys.implementation.cache_tag) / "site"


def run_first(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where a folder comes before all others, also in the processes that it starts."""
    # Safe paths: with the sources of the working directory first, half of a process would be the other build.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT))), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_every_listed_module_comes_out_compiled_and_the_others_as_they_were(site: Path) -> None:
    listed = ", ".join(map(repr, NAMES))
    done = run_first(site, "-c", f"import importlib as i\nfor n in [{listed}]: print(i.import_module(n).__file__)")
    assert done.returncode == 0, done.stderr
    files = [Path(line) for line in done.stdout.split()]
    assert [file.suffix for file in files] == [".so"] * len(NAMES)
    assert all(file.is_relative_to(site) for file in files)
    assert len(list(site.rglob("*.so"))) == len(NAMES) + 2  # and the native module, and the library that they share


# Every kind, with what a policy's author is told of it, and a stranger's kind that derives from it.
KINDS = """
import inspect
import json
from stream_guard.registry import build_registry
from stream_guard.testing import run_rule
shown = {}
for name, kind in build_registry().kinds.items():
    example = kind.examples[0]
    heir = type("Heir", (kind,), {"tools": lambda self: None, "texts": lambda self: ()})
    said = [run_rule(one, example.params, example.trace) for one in (kind, heir)]
    shown[name] = [inspect.getdoc(kind), kind.state_type.__name__, kind.params_type.__name__, *said]
print(json.dumps(shown))
"""


@pytest.mark.slow
def test_compiled_kinds_say_the_same_and_can_be_derived_from(site: Path) -> None:
    plain, compiled = (run_first(path, "-c", KINDS) for path in (ROOT, site))
    assert compiled.returncode == 0, compiled.stderr
    shown = json.loads(compiled.stdout)
    assert shown == json.loads(plain.stdout)
    assert all(said[0] for said in shown.values())


# Sample sessions, cut in two; the second half is judged with what was stored after the first.
HALVES = """
import sys
import msgspec
from stream_guard.demo.sessions import sample_events
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Event
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.storage.stores import CheckpointStore
from pathlib import Path
events = [msgspec.convert(event, Event) for event in sample_events(40)]
events.sort(key=lambda event: event.time)  # at the cut, many sessions are under way
half = len(events) // 2
now = [0.0]  # a guard that replays is given its clock: ids of ends hang on it
store = CheckpointStore(Path(sys.argv[2]))
guard = Guard(load_policy(Path(sys.argv[1]), build_registry()), store=store, clock=lambda: now[0])
for event in events[:half] if sys.argv[3] == "first" else events[half:]:
    now[0] = event.time
    for finding in guard.observe(event):
        print(finding.alert_id)
guard.commit()
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["plain first", "compiled first"])
def test_a_state_that_one_build_stored_the_other_reads(order: str, site: Path, tmp_path: Path) -> None:
    policy = str(ROOT / "stream_guard" / "demo" / "policy.yaml")

    def judge(path: Path, store: str, half: str) -> list[str]:
        done = run_first(path, "-c", HALVES, policy, str(tmp_path / store), half)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    first, second = (ROOT, site) if order == "plain first" else (site, ROOT)
    wanted = [judge(ROOT, "one.db", half) for half in ("first", "second")]
    assert [judge(first, "both.db", "first"), judge(second, "both.db", "second")] == wanted
    assert all(wanted)


@pytest.mark.slow
def test_the_compiled_build_judges_as_the_plain_one(site: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-o", f"pythonpath={site} {ROOT}", "-m", "not slow and not kafka"]
    options += ["-n", str(1 + (os.cpu_count() or 1))]
    done = run_first(site, "-m", "pytest", *options, *RUN_AGAIN)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
