"""The tree of the code: every module with the first line of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.parsing import parse

SOURCES = (
    "stream_guard",
    "plugins/stream_guard_rules",
    "plugins/stream_guard_formats",
    "plugins/stream_guard_sinks",
    "plugins/stream_guard_dialects",
    "plugins/stream_guard_judge",
    "plugins/stream_guard_axes",
    "plugins/stream_guard_diff",
    "plugins/stream_guard_contract",
    "plugins/stream_guard_compliance",
    "plugins/stream_guard_shell",
    "plugins/stream_guard_tokens",
    "plugins/example_rule/stream_guard_example_rule",
    "plugins/example_sink/stream_guard_example_sink",
    "plugins/example_decoder/stream_guard_example_decoder",
)


def tree(root: Path) -> str:
    """Return the tree as text, folders after the modules beside them."""
    lines = [line for source in SOURCES for line in _folder(root / source, source, 0)]
    return "\n".join(["```text", *lines, "```"])


def _folder(folder: Path, shown: str, depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{shown}/"
    files = sorted(path for path in folder.glob("*.py"))
    width = max(len(path.name) for path in files)
    for path in files:
        yield f"{'  ' * (depth + 1)}{path.name:<{width}}  {first_line(path)}"
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and list(path.glob("*.py"))):
        yield from _folder(inner, inner.name, depth + 1)


def first_line(path: Path) -> str:
    """Return what a module says of itself."""
    docstring = ast.get_docstring(parse(path.read_text()))
    if not docstring:
        raise ValueError(f"{path} has no docstring; its first line is the module's line in docs/architecture.md")
    return docstring.split("\n")[0]
