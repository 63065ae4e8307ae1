"""Parts of the world that some tests need and a machine may lack: a runtime, a broker, a server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

REQUIRE_ALL: Final = "STREAM_GUARD_REQUIRE_ALL"


def require(part: object, reason: str) -> None:
    """Skip the test, saying why, when ``part`` is missing; where everything is required, fail it instead."""
    if part:
        return
    if os.environ.get(REQUIRE_ALL, "") not in ("", "0"):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set, so this is a failure)")
    pytest.skip(reason)


def find_promtool(root: Path) -> str:
    """Return Prometheus' checker, of this machine or where `make setup-tests` puts it; empty without one."""
    return shutil.which("promtool") or shutil.which(root / ".cache" / "promtool" / "usr" / "bin" / "promtool") or ""
