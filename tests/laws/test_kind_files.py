"""A rule kind is one file, top to bottom: parameters, state, rule. Ours look like the example's and the tutorial's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.parsing import parse

ROOT = Path(__file__).parents[2]
PACK = ROOT / "plugins" / "stream_guard_rules"
EXAMPLE = ROOT / "plugins" / "example_rule" / "stream_guard_example_rule" / "__init__.py"
TUTORIAL = next(
    block.text for block in blocks_of((ROOT / "docs" / "tutorial.md").read_text()) if "class MaxSum(" in block.text
)


def kinds_in(module: ast.Module) -> list[tuple[ast.ClassDef, str, str]]:
    """Return the kinds of a module, each with what it writes for its parameters and its state."""
    found = []
    for node in module.body:
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            written = re.fullmatch(r"sg\.Rule\[(\S+), (\S+)\]", ast.unparse(base))
            if isinstance(node, ast.ClassDef) and written:
                found.append((node, written[1], written[2]))
    return found


def kind_name(kind: ast.ClassDef) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.name).lower()


SOURCES = {path.stem: path.read_text() for path in sorted(PACK.glob("*.py"))}
SOURCES |= {"the example": EXAMPLE.read_text(), "the tutorial": TUTORIAL}
MODULES = {name: parse(source) for name, source in SOURCES.items()}
KINDS = [(name, *kind) for name, module in MODULES.items() for kind in kinds_in(module)]


def test_every_kind_of_the_pack_is_looked_at() -> None:
    import stream_guard_rules

    listed = {kind.__name__ for kind in stream_guard_rules.stream_guard_rules()}
    assert {node.name for _, node, _, _ in KINDS} == listed | {"NoCallAfter", "MaxSum"}


@pytest.mark.parametrize(("module", "kind", "params", "state"), KINDS, ids=[kind[1].name for kind in KINDS])
def test_a_kind_stands_alone_in_the_file_of_its_name(module: str, kind: ast.ClassDef, params: str, state: str) -> None:
    assert [node.name for node, _, _ in kinds_in(MODULES[module])] == [kind.name]
    assert module in {kind_name(kind), "the example", "the tutorial"}


@pytest.mark.parametrize(("module", "kind", "params", "state"), KINDS, ids=[kind[1].name for kind in KINDS])
def test_a_kind_stands_whole_in_its_file(module: str, kind: ast.ClassDef, params: str, state: str) -> None:
    assert params in {"sg.Params", f"{kind.name}Params"}
    assert state in {"sg.NoState", f"{kind.name}State"}
    classes = [node for node in MODULES[module].body if isinstance(node, ast.ClassDef)]
    order = [node.name for node in classes]
    own = [name for name in (params, state, kind.name) if not name.startswith("sg.")]
    assert [name for name in order if name in own] == own


@pytest.mark.parametrize(("module", "kind", "params", "state"), KINDS, ids=[kind[1].name for kind in KINDS])
def test_a_kind_begins_with_its_sentence_and_its_name(module: str, kind: ast.ClassDef, params: str, state: str) -> None:
    assert ast.get_docstring(kind)
    assert ast.unparse(kind.body[1]) == f"kind = '{kind_name(kind)}'"
    is_function = [isinstance(node, ast.FunctionDef) for node in kind.body]
    assert is_function == sorted(is_function), "handlers come last"
    assert any(node.name.startswith("on_") for node in kind.body if isinstance(node, ast.FunctionDef))
