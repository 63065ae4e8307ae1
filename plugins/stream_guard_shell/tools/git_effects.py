"""The effect of a git command: an operation in a repository."""

from __future__ import annotations

from typing import Any

from stream_guard_shell.effects import APPLIED, CLEAN, POPPED
from stream_guard_shell.shell.call import ProgramCall


def git_effect(call: ProgramCall, op: str, **fields: Any) -> None:
    """Record an operation; the repository is the folder that git runs in."""
    folder = call.shell.folder
    if folder.text is None:
        call.recorder.opaque("value")
    call.emit("git", op=op, repo=folder.text, **fields)


def mark(call: ProgramCall, **marks: bool) -> None:
    """Record which marks of the repository hold once this command has succeeded, and which do not."""
    folder = call.shell.folder
    if folder.text is not None and not folder.glob and not call.shell.on:
        files = {"clean": CLEAN, "applied": APPLIED, "popped": POPPED}
        call.recorder.saved |= {f"{folder.text}{files[name]}": holds for name, holds in marks.items()}
