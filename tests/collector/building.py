"""Build the Collector from its Go modules, once for each version of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache" / "collector"


def collector() -> Path:
    """Return the program; skip the test where there is no Go, or its modules cannot be fetched."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the Collector is built with Go, which is not installed")
    version = sha256(b"".join((HERE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))).hexdigest()[:16]
    program = CACHE / f"collector-{version}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = CACHE / f"making-{os.getpid()}"
        done = subprocess.run(
            [go, "build", "-trimpath", "-o", str(made), "."], cwd=HERE, capture_output=True, text=True, check=False
        )
        if done.returncode and ("dial tcp" in done.stderr or "proxy" in done.stderr):
            pytest.skip(f"the Go modules of the Collector cannot be fetched: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr[-2000:]
        made.rename(program)
    return program
