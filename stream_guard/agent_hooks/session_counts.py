"""What hooks count about a session, on disk, a byte each: a hook is a process of its own every time."""

from __future__ import annotations

import os

UNJUDGED = "unjudged"  # calls that ran although no gate judged them
HELD = "held"  # times that the agent was sent back to work when it wanted to stop
_LONGEST = 100


def folder(kind: str, environment: os._Environ[str] | dict[str, str]) -> str:
    """Return where the counts are."""
    base = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "stream-guard", kind)  # noqa: PTH118  (pathlib takes longer to import)


def count(kind: str, session: str, environment: os._Environ[str] | dict[str, str]) -> int:
    """Count one more of a session; return how many were counted before. Without a disk, none was."""
    try:
        where = folder(kind, environment)
        os.makedirs(where, mode=0o700, exist_ok=True)  # noqa: PTH103
        opened = os.open(_file(where, session), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
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


def forget(kind: str, session: str, environment: os._Environ[str] | dict[str, str]) -> None:
    """Begin to count a session anew."""
    try:  # noqa: SIM105  (contextlib is one more import)
        os.unlink(_file(folder(kind, environment), session))  # noqa: PTH108
    except OSError:
        pass


def counts(kind: str, environment: os._Environ[str] | dict[str, str]) -> dict[str, int]:
    """Return what was counted of each session."""
    try:
        with os.scandir(folder(kind, environment)) as found:
            return {entry.name: entry.stat().st_size for entry in sorted(found, key=lambda one: one.name)}
    except OSError:
        return {}


def clear(kind: str, environment: os._Environ[str] | dict[str, str]) -> None:
    """Forget all counts."""
    for name in counts(kind, environment):
        os.unlink(os.path.join(folder(kind, environment), name))  # noqa: PTH108, PTH118


def _file(where: str, session: str) -> str:
    # Only signs that no path is made of: an agent says what its session is called.
    name = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in session)[:_LONGEST] or "-"
    return os.path.join(where, name)  # noqa: PTH118


class DiskCounts:
    """What is counted about a session, kept between the processes of its hooks."""

    def unjudged(self, session: str) -> int:
        """Count a call that runs without judgement; return how many did before."""
        return count(UNJUDGED, session, os.environ)

    def held(self, session: str, *, again: bool) -> int:
        """Count that the agent is sent back to work; return how often it was since it first wanted to stop."""
        if not again:
            forget(HELD, session, os.environ)
        return count(HELD, session, os.environ)
