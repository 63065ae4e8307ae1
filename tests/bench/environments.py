"""Virtual environments for the programs we measure ourselves against: their dependencies are not ours."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path


def python_with(package: str, version: str, module: str, cache: Path) -> Path | None:
    """Return an interpreter that can import a module of the package, made if need be, or None where that fails."""
    folder = cache / "venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    probe = subprocess.run([python, "-c", f"import {module}"], check=False, capture_output=True)
    if probe.returncode == 0:
        return python
    install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", f"{package}=={version}"]
    done = subprocess.run(install, check=False, capture_output=True)
    if done.returncode:
        print(done.stderr.decode(errors="replace")[-500:], file=sys.stderr)
        return None
    return python
