"""Structs that threads read have their types looked up when they are defined: two at once would crash the process."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.parsing import parse

ROOT = Path(__file__).parents[2]
READERS = {"convert": 1, "decode": 1, "from_text": 1, "to_form": 1, "Decoder": 0}  # and the place of the type

THREADS = """
import sys, threading, msgspec
from stream_guard.registry import build_registry
from stream_guard.judge.rule import state_decoder

states = [kind.state_type for kind in build_registry().kinds.values()]
begin = threading.Barrier(8)

def read():
    begin.wait()
    for state in states:
        state_decoder(state).decode(msgspec.msgpack.encode(state()))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(states))
"""

Definition = ast.ClassDef | ast.AnnAssign  # a class, or the alias of a type


def test_a_struct_that_is_read_is_resolved_where_it_is_defined() -> None:
    files = sorted((ROOT / "stream_guard").rglob("*.py"))
    trees = {file.relative_to(ROOT): parse(file.read_text(encoding="utf-8")) for file in files}
    known = {name: node for tree in trees.values() for name, node in _definitions(tree)}
    waiting = [(name, f"{file}:{line}") for file, tree in trees.items() for name, line in _types_read(tree)]
    seen: set[str] = set()
    missing: list[str] = []
    while waiting:
        name, place = waiting.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        node = known[name]
        if isinstance(node, ast.ClassDef) and _is_struct(node, known) and not _is_resolved(node):
            missing.append(f"{name}, read at {place}")
        waiting += [(inner, f"{place}, in {name}") for inner in _inner_types(node, known)]
    assert len(seen) > 30
    assert sorted(missing) == []


def test_threads_read_the_first_states_of_all_kinds_at_the_same_time() -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", THREADS]  # a new process: this one has read some already
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 40


def _definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target), node


def _types_read(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in READERS:
            place = READERS[called]
            given = [one.value for one in node.keywords if one.arg == "type"] or node.args[place : place + 1]
            yield from ((name, node.lineno) for value in given for name in _names(value))


def _inner_types(node: Definition, known: dict[str, Definition]) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign):
        yield from _names(node.value)
        return
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in known:
            yield from _inner_types(known[base.id], known)
    for line in node.body:
        if isinstance(line, ast.AnnAssign):
            yield from _names(line.annotation)


def _names(node: ast.AST | None) -> Iterator[str]:
    yield from (one.id for one in ast.walk(node or ast.Pass()) if isinstance(one, ast.Name))


def _is_struct(node: Definition | None, known: dict[str, Definition]) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return "Struct" in names or any(_is_struct(known.get(name), known) for name in names)


def _is_resolved(node: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "resolved" for one in node.decorator_list)
