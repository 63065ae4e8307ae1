"""What a command does: effects from a closed list, and why some of it could not be told."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

EFFECTS: Final = (
    "read", "secret", "write", "delete", "move", "permission", "net", "exec", "run", "install", "git", "privilege",
    "process", "disk", "persistence", "destroy", "background",
)  # fmt: skip
"""Every effect there is."""

RAISING: Final = ("sudo", "doas", "pkexec")
"""Programs that run another one with the rights of somebody else."""

CLEAN: Final = "/.git/index"
APPLIED: Final = "/.git/refs/stash"
POPPED: Final = "/.git/AUTO_MERGE"
"""Marks of a repository, as files of it: nothing of before lay uncommitted in its tree; its last stash is in the tree;
its last stash was taken back, and is gone unless there was a conflict."""

REASONS: Final = ("value", "input", "command", "text", "program", "code", "lookalike", "syntax", "limit")
"""Why something stayed opaque."""


class CommandReading(NamedTuple):
    """What a command does, each effect once and in order, and what stayed opaque."""

    effects: tuple[ShellEffect, ...]
    opaque: frozenset[str] = frozenset()
    made: tuple[str, ...] = ()  # paths and globs that it makes anew
    fetched: tuple[str, ...] = ()  # paths whose content comes from the network
    raised_for: frozenset[str] = frozenset()  # what rights are raised for: "packages" of the registry, or "more"
    saved: tuple[str, ...] = ()  # marks below: what git may discard after this, because the work of before is safe
    unsaved: tuple[str, ...] = ()  # marks that hold no longer
    drops_older: bool = False  # stashes before the last one


class ShellEffect(NamedTuple):
    """One effect: its kind and its fields, sorted by name."""

    kind: str
    fields: tuple[tuple[str, Any], ...]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field; the default where it is left out."""
        return next((value for key, value in self.fields if key == name), default)

    def as_json(self) -> dict[str, Any]:
        """Return the effect as an object, its kind under ``effect``."""
        fields = {key: list(value) if isinstance(value, tuple) else value for key, value in self.fields}
        return {"effect": self.kind, **fields}


def make_effect(kind: str, fields: dict[str, Any]) -> ShellEffect:
    """Return an effect; fields that are false or not known are left out, an empty list is not."""
    kept = {key: value for key, value in fields.items() if value not in (None, False, "")}
    return ShellEffect(kind, tuple(sorted(kept.items())))
