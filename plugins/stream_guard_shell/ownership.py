"""What an effect is to a session: deleting what it made is another matter than deleting what was there."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard_shell.effects import APPLIED, CLEAN, RAISING, ShellEffect, make_effect
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


def with_saved_work(
    effects: Iterable[ShellEffect], created: frozenset[str], *, drops_older: bool
) -> tuple[ShellEffect, ...]:
    """Return the effects with ``own`` where git discards nothing that was there before the session.

    A session that stashed or committed everything, or rebased, which git refuses while there is work that is not
    committed, has only its own work to lose, until it takes a stash back; a stash that it took back is in the tree.
    A repository that the session cloned is all its own.
    """
    return tuple(
        make_effect(effect.kind, {**dict(effect.fields), "own": True})
        if effect.kind == "git" and _is_own_work(effect, created, drops_older=drops_older)
        else effect
        for effect in effects
    )


def _is_own_work(effect: ShellEffect, created: frozenset[str], *, drops_older: bool) -> bool:
    op, repo = effect.get("op"), effect.get("repo")
    if repo is None or effect.get("on"):
        return False
    if op in ("reset_hard", "checkout_discard"):
        return is_below(f"{repo}{CLEAN}", created)
    if op == "stash_drop" and not drops_older:
        return is_below(f"{repo}{APPLIED}", created)
    return is_below(repo, created)


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
