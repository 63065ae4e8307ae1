"""Parts of the world that some tests need and a machine may lack: a runtime, a broker, a server."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

REQUIRE_ALL: Final = "STREAM_GUARD_REQUIRE_ALL"


def require(part: object, reason: str) -> None:
    """Skip the test, saying why, when ``part`` is missing; where everything is required, fail it instead."""
    if part:
        return
    if os.environ.get(REQUIRE_ALL, "") not in ("", "0"):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set, so this is a failure)")
    pytest.skip(reason, allow_module_level=True)


def import_part(name: str) -> Any:
    """Return a package that only some tests need; without it they are skipped, or fail where all is required."""
    found = find_spec(name.partition(".")[0])
    require(found, f"the package {name} is not installed (`make setup` installs it)")
    return import_module(name)


def find_promtool(root: Path) -> str:
    """Return Prometheus' checker, of this machine or where `make setup-tests` puts it; empty without one."""
    return shutil.which("promtool") or shutil.which(root / ".cache" / "promtool" / "usr" / "bin" / "promtool") or ""
