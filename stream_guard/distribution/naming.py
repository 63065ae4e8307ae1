"""The name of the distribution: pyproject.toml says it to the index, this to the code; a test compares the two."""

from __future__ import annotations

from typing import Final

NAME: Final = "agent-stream-guard"
COMMAND: Final = "stream-guard"


def install_line(extra: str = "") -> str:
    """Return the command that installs the distribution, with an extra of it."""
    return f"pip install '{NAME}[{extra}]'" if extra else f"pip install {NAME}"


def own_version() -> str:
    """Return the version that is installed; ``unknown`` for sources that are only on the path."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # 20 ms, and most starts need none

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
