"""What an effect is to a session: deleting what it made is another matter than deleting what was there."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard_shell.effects import RAISING, ShellEffect, make_effect
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


def with_purpose(effects: Iterable[ShellEffect], raised_for: frozenset[str]) -> tuple[ShellEffect, ...]:
    """Return the effects with ``packages`` where rights are raised for nothing but packages of the registry."""
    if raised_for != {"packages"}:
        return tuple(effects)
    return tuple(
        make_effect(effect.kind, {**dict(effect.fields), "packages": True})
        if effect.kind == "privilege" and effect.get("via") in RAISING
        else effect
        for effect in effects
    )
