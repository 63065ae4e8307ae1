"""Wheels built from the checkout, once for all tests that look into them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def build_wheel(project: Path, into: Path) -> Path:
    """Build the project's wheel without a network and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    return next(into.glob("*.whl"))


@pytest.fixture(scope="session")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project."""
    return build_wheel(root, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on whose path the example distributions are installed."""
    folder = tmp_path_factory.mktemp("installed")
    examples = sorted((root / "plugins").glob("example_*"))
    wheels = [build_wheel(example, tmp_path_factory.mktemp(example.name)) for example in examples]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, *map(str, wheels)], check=True, capture_output=True)
    return folder
