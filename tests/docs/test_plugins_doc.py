"""docs/plugins.md keeps up with the hooks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_guard import hookspecs
from tests.docs.blocks import blocks_of

HOOKS: dict[str, Callable[..., Any]] = {
    name: hook for name, hook in vars(hookspecs).items() if hasattr(hook, f"{hookspecs.PROJECT}_spec")
}


def signature(hook: Callable[..., Any]) -> str:
    """The hook as a reader writes it: name, arguments with their types, what it returns."""
    found = inspect.signature(hook)
    arguments = ", ".join(f"{argument.name}: {argument.annotation}" for argument in found.parameters.values())
    return f"{hook.__name__}({arguments}) -> {found.return_annotation}"


def test_there_are_hooks_to_check() -> None:
    assert "stream_guard_rules" in HOOKS


@pytest.mark.parametrize("name", HOOKS)
def test_hook_is_documented_with_its_signature(name: str, root: Path) -> None:
    assert f"### `{signature(HOOKS[name])}`\n" in (root / "docs" / "plugins.md").read_text()


def test_no_hook_is_documented_that_does_not_exist(root: Path) -> None:
    documented = re.findall(r"^### `(\w+)\(", (root / "docs" / "plugins.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_hook_has_a_test_of_its_own(name: str, root: Path) -> None:
    tests = (path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert any(f"def test_hook_{name}(" in text for text in tests)


@pytest.mark.parametrize("name", ["example_decoder", "example_sink"])
def test_the_class_that_is_shown_is_the_one_of_the_example(name: str, root: Path) -> None:
    source = (root / "plugins" / name / f"stream_guard_{name}" / "__init__.py").read_text()
    shown = [
        block.text for block in blocks_of((root / "docs" / "plugins.md").read_text()) if block.language == "python"
    ]
    assert any(text.startswith("class ") and text in source for text in shown)
