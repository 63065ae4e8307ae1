"""What a session made and fetched, as far as it is remembered, and what is its own to delete."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_shell.acts import SessionPlace, command_text, folder_of, home_of
from stream_guard_shell.effects import APPLIED, CLEAN, POPPED, RAISING, CommandReading, ShellEffect, make_effect
from stream_guard_shell.expansion import glob_folder, is_below
from stream_guard_shell.patterns import UNKNOWN_FOLDER, SessionFolders

MOST_PATHS: Final = 96
LONGEST: Final = 256  # bytes of a path that is remembered
_UNSURE: Final = re.compile(r"[;|\n]|&(?!&|>|\d)(?<!&&)(?<!>&)")


class SessionParams(sg.Params):
    """Parameters of rules that ask nothing but which calls are read, and where the session is."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="shells and file tools: a name, a glob, a class, or a list"
    )
    project: str | None = Field(
        default=None, pattern="^/", description="the folder of the session; without it, the first that a call names"
    )
    home: str | None = Field(default=None, pattern="^/", description="the home; without it, the one the folder is in")


class MadePath(sg.State):
    """A path that the session made, and the attempt that made it."""

    path: str
    attempt: int


class SessionPaths(sg.State):
    """The folder of a session, and what it made and fetched."""

    project: str = ""
    created: list[MadePath] = []
    fetched: list[str] = []
    forgot: bool = False  # more was fetched than is remembered


def place_of(call: sg.ToolCall, paths: SessionPaths, project: str | None, home: str | None) -> SessionPlace:
    """Return where a call happens; the first folder that a session names is its project."""
    folder = folder_of(call)
    if not paths.project and (project or folder):
        paths.project = (project or folder)[:1024]
    here = folder or paths.project or UNKNOWN_FOLDER
    return SessionPlace(here, home or home_of(paths.project or here))


def folders_of(paths: SessionPaths, home: str | None) -> SessionFolders:
    """Return the folders that a rule may name by a word."""
    project = paths.project or UNKNOWN_FOLDER
    return SessionFolders(project, home or home_of(project))


def remember(paths: SessionPaths, call: sg.ToolCall, reading: CommandReading) -> None:
    """Remember what a call makes and fetches."""
    # Where the last part of a command does not say that all succeeded, git's marks do not hold.
    saved = () if _UNSURE.search(command_text(call)) else reading.saved
    made = [MadePath(path, call.attempt) for path in (*reading.made, *saved) if _fits(path)]
    before = [one for one in paths.created if one.path not in reading.unsaved]
    paths.created = [*before, *made][-MOST_PATHS:]
    fetched = [path for path in reading.fetched if path not in paths.fetched]
    kept = [path for path in fetched if _fits(path)]
    paths.forgot = paths.forgot or len(kept) < len(fetched) or len(paths.fetched) + len(kept) > MOST_PATHS
    paths.fetched = [*paths.fetched, *kept][-MOST_PATHS:]


def forget_attempt(paths: SessionPaths, attempt: int) -> None:
    """Take back what an attempt would have made: it failed, or was stopped."""
    if any(made.attempt == attempt for made in paths.created):
        paths.created = [made for made in paths.created if made.attempt != attempt]


def note_result(paths: SessionPaths, result: sg.ToolResult) -> None:
    """Take back what a failed call would have made, unless git went to work and met a conflict.

    A stash that was to be taken back is then in the tree, and still there too; without a conflict it is gone.
    """
    conflict = result.status == "error" and any("CONFLICT (" in text for text in sg.payload_texts(result.output))
    if result.status == "error" and not conflict:
        forget_attempt(paths, result.attempt)
        return
    popped = [one for one in paths.created if one.attempt == result.attempt and one.path.endswith(POPPED)]
    if popped:
        applied = [MadePath(one.path.removesuffix(POPPED) + APPLIED, one.attempt) for one in popped if conflict]
        paths.created = [one for one in paths.created if one not in popped] + applied


def created_in(paths: SessionPaths) -> frozenset[str]:
    """Return what the session made."""
    return frozenset(made.path for made in paths.created)


def _fits(path: str) -> bool:
    return len(path.encode("utf-8", "replace")) <= LONGEST


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
