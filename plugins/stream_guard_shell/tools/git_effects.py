"""The effect of a git command: an operation in a repository."""

from __future__ import annotations

from typing import Any

from stream_guard_shell.shell.call import ProgramCall


def git_effect(call: ProgramCall, op: str, **fields: Any) -> None:
    """Record an operation; the repository is the folder that git runs in."""
    folder = call.shell.folder
    if folder.text is None:
        call.recorder.opaque("value")
    call.emit("git", op=op, repo=folder.text, **fields)
