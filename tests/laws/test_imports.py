"""A rule author's import stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("faust", "kafka", "numpy", "jsonschema", "typer", "rich")


@pytest.mark.parametrize("heavy", HEAVY)
def test_importing_stream_guard_does_not_load(heavy: str) -> None:
    program = f"import sys, stream_guard; print({heavy!r} in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"


def test_importing_stream_guard_loads_no_pack() -> None:
    program = "import sys, stream_guard; print([name for name in sys.modules if name.startswith('stream_guard_')])"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("heavy", ["pydantic", "re2", "stream_guard.policy", *HEAVY[:4]])
def test_the_command_line_loads_only_what_a_command_needs(heavy: str) -> None:
    program = f"import sys, stream_guard.cli; print({heavy!r} in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"
