"""Diff: what changed between two recordings, and whether it may merge."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from stream_guard import Command, hookimpl

if TYPE_CHECKING:
    from stream_guard_diff.agentlog import agentlog_lines
    from stream_guard_diff.comparison import Diff, DiffReport, diff
    from stream_guard_diff.gate import FailOn

__all__ = ["Diff", "DiffReport", "FailOn", "agentlog_lines", "diff", "stream_guard_commands"]

# Loaded when asked for: every process imports this module, few compare recordings.
_LAZY: Final = {
    "Diff": "stream_guard_diff.comparison",
    "DiffReport": "stream_guard_diff.comparison",
    "FailOn": "stream_guard_diff.gate",
    "agentlog_lines": "stream_guard_diff.agentlog",
    "diff": "stream_guard_diff.comparison",
}


@hookimpl
def stream_guard_commands() -> list[Command]:
    """Return the command ``diff``."""
    help_text = (
        "Say what changed between two recordings; exit 1 when it is too much to merge, 4 when it cannot be told."
    )
    return [Command(name="diff", help=help_text, target="stream_guard_diff.command:diff_command")]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
