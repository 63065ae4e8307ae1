"""Programs that run where the example distributions are installed, which is never the process of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(arguments: list[str], installed: Path, **variables: str) -> str:
    """Run Python with the arguments, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(installed), **variables}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def listed(installed: Path, **variables: str) -> dict[str, Any]:
    """Return what ``stream-guard plugins`` lists, by name."""
    plugins = json.loads(run(["-m", "stream_guard.cli", "plugins", "--format", "json"], installed, **variables))
    return {plugin["name"]: plugin for plugin in plugins}


def run_tests(example: str, root: Path, installed: Path) -> str:
    """Run the example's own tests, and return what pytest printed."""
    tests = root / "plugins" / example / "tests"
    return run(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)], installed)
