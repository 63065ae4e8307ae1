"""What a session made: deleting that is another matter than deleting what was there."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard_shell.effects import ShellEffect, make_effect
from stream_guard_shell.expansion.places import glob_folder, is_below


def with_ownership(effects: Iterable[ShellEffect], created: frozenset[str]) -> tuple[ShellEffect, ...]:
    """Return the effects with ``own`` where something is deleted that is at or below what the session made."""
    return tuple(_owned(effect, created) if effect.kind == "delete" else effect for effect in effects)


def _owned(effect: ShellEffect, created: frozenset[str]) -> ShellEffect:
    if effect.get("own") or effect.get("on"):
        return effect
    glob = effect.get("glob")
    place = glob_folder(glob) if glob else effect.get("path", "")
    if glob not in created and not is_below(place, created):
        return effect
    return make_effect(effect.kind, {**dict(effect.fields), "own": True})
