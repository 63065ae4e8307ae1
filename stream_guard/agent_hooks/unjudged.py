"""Calls that ran although no gate judged them: counted on disk, a byte each, in a file for each session."""

from __future__ import annotations

import os

FOLDER = "stream-guard/unjudged"
_LONGEST = 100


def folder(environment: os._Environ[str] | dict[str, str]) -> str:
    """Return where the counts are."""
    base = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, FOLDER)  # noqa: PTH118  (pathlib takes longer to import)


def count(session: str, environment: os._Environ[str] | dict[str, str]) -> int:
    """Count a call of a session; return how many were counted before. Without a disk, none was."""
    # Only signs that no path is made of: an agent says what its session is called.
    name = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in session)[:_LONGEST] or "-"
    try:
        where = folder(environment)
        os.makedirs(where, mode=0o700, exist_ok=True)  # noqa: PTH103
        opened = os.open(os.path.join(where, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)  # noqa: PTH118
    except OSError:
        return 0
    try:
        before = os.fstat(opened).st_size
        os.write(opened, b".")
    except OSError:
        return 0
    else:
        return before
    finally:
        os.close(opened)


def counts(environment: os._Environ[str] | dict[str, str]) -> dict[str, int]:
    """Return how many calls of each session ran unjudged."""
    try:
        with os.scandir(folder(environment)) as found:
            return {entry.name: entry.stat().st_size for entry in sorted(found, key=lambda one: one.name)}
    except OSError:
        return {}


def clear(environment: os._Environ[str] | dict[str, str]) -> None:
    """Forget all counts."""
    for name in counts(environment):
        os.unlink(os.path.join(folder(environment), name))  # noqa: PTH108, PTH118
