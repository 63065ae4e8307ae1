"""Patterns of effects: what a rule asks about, answered yes, no, or that the effect does not say."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from pydantic import Field

import stream_guard as sg
from stream_guard_shell.effects import CommandReading, ShellEffect
from stream_guard_shell.expansion.places import glob_folder, is_below

PROJECT: Final = "project"
"""A root that stands for the folder of the session."""

HARD_REASONS: Final = frozenset(("command", "text", "code", "syntax", "limit"))
"""Reasons for which nothing can be said of a command as a whole."""

SOFT_REASONS: Final = frozenset(("value", "input"))
"""Reasons for which a field of an effect is left out although it has a value."""

_CLIENTS: Final = frozenset(("psql", "mysql", "mariadb", "sqlite3", "redis-cli", "mongosh", "mongo"))


Globs: TypeAlias = str | list[str]


class Answer(IntEnum):
    """Whether an effect fits a pattern. The order is the precedence of several answers."""

    NO = 0
    UNSAID = 1
    YES = 2


class EffectPattern(sg.Params):
    """One sort of effect: its kind, its fields, and where it happens."""

    effect: Literal[
        "read", "secret", "write", "delete", "move", "permission", "net", "exec", "run", "install", "git", "privilege",
        "process", "disk", "persistence", "destroy", "background",
    ] = Field(description="the effect that is asked about")  # fmt: skip
    fields: dict[str, Globs] = Field(
        default_factory=dict,
        alias="with",
        description="fields that the effect must have, each with globs of which one must fit",
    )
    without: dict[str, Globs] = Field(
        default_factory=dict, description="fields that the effect must not have with a value that one of the globs fits"
    )
    outside: list[str] | None = Field(
        default=None,
        description="folders: what is below one of them does not count; `project` is the folder of the session",
    )
    inside: list[str] | None = Field(default=None, description="folders: only what is below one of them counts")
    unless: Literal["created_in_session"] | None = Field(
        default=None, description="what does not count: `created_in_session` is what this session made"
    )
    fetched: bool = Field(
        default=False, description="only a file counts that the session fetched from the network before"
    )

    def answer(
        self, effect: ShellEffect, project: str, fetched: Sequence[str] = (), *, guesses: bool = False
    ) -> Answer:
        """Whether an effect fits; ``guesses`` says that fields of it may be left out because they are not known."""
        if effect.kind != self.effect or (self.unless is not None and effect.get("own")):
            return Answer.NO
        answers = [_fits(effect.get(name), globs) for name, globs in self.fields.items()]
        answers += [_is_not(effect.get(name), globs, guesses=guesses) for name, globs in self.without.items()]
        if self.outside is not None:
            answers.append(Answer(2 - _is_inside(effect, _roots(self.outside, project))))
        if self.inside is not None:
            answers.append(_is_inside(effect, _roots(self.inside, project)))
        if self.fetched:
            answers.append(Answer.YES if is_below(_file_of(effect), frozenset(fetched)) else Answer.NO)
        return min(answers, default=Answer.YES)


def _roots(folders: list[str], project: str) -> list[str]:
    return [project if folder == PROJECT else folder.rstrip("/") for folder in folders]


def _fits(value: sg.Json, globs: Globs) -> Answer:
    globs = [globs] if isinstance(globs, str) else globs
    if value is None:
        return Answer.NO if globs == ["true"] else Answer.UNSAID
    text = "true" if value is True else str(value)
    return Answer.YES if any(fnmatchcase(text, glob) for glob in globs) else Answer.NO


def _is_not(value: sg.Json, globs: Globs, *, guesses: bool) -> Answer:
    if value is None:
        return Answer.UNSAID if guesses else Answer.YES
    return Answer(2 - _fits(value, globs))


def _file_of(effect: ShellEffect) -> str:
    return str(effect.get("path") or effect.get("program") or "")


def _is_inside(effect: ShellEffect, roots: list[str]) -> Answer:
    """Whether the place of an effect is below one of the roots; a root itself is not."""
    if effect.get("on"):
        return Answer.NO
    path, glob, prefix = effect.get("path"), effect.get("glob"), effect.get("prefix")
    if path is not None:
        return Answer.YES if any(path.startswith(root + "/") for root in roots) else Answer.NO
    if glob is not None:
        return Answer.YES if any((glob_folder(glob) + "/").startswith(root + "/") for root in roots) else Answer.NO
    if prefix is not None:
        near = any(prefix.startswith(root + "/") or (root + "/").startswith(prefix) for root in roots)
        return Answer.UNSAID if near else Answer.NO
    return Answer.UNSAID


def is_unclear(reading: CommandReading, patterns: Sequence[EffectPattern], *, strict: bool) -> bool:
    """Whether a command may do what the patterns ask about, and does not say so."""
    if reading.opaque & HARD_REASONS or (strict and "program" in reading.opaque):
        return True
    asks_for_sql = any(
        pattern.effect == "destroy" and _fits("database", pattern.fields.get("area", ["database"])) is Answer.YES
        for pattern in patterns
    )
    runs_client = any(effect.kind == "run" and effect.get("program") in _CLIENTS for effect in reading.effects)
    return asks_for_sql and runs_client and "input" in reading.opaque
