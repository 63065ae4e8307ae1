"""The frameworks that the tests of this folder skip without are there, where everything is required."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parts import import_part

SKIPPED_WITHOUT = [
    name
    for file in sorted(Path(__file__).parent.glob("test_*.py"))
    for name in re.findall(r'^ *pytest\.importorskip\("(\w+)"\)', file.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("name", SKIPPED_WITHOUT)
def test_a_framework_is_installed(name: str) -> None:
    assert import_part(name).__name__ == name
