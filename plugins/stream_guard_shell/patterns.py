"""Patterns of effects: what a rule asks about, answered yes, no, or that the effect does not say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import Field

import stream_guard as sg
from stream_guard_shell.effects import CommandReading, ShellEffect
from stream_guard_shell.expansion import glob_folder, is_below

UNKNOWN_FOLDER: Final = "/(somewhere)/(project)"
"""The folder of a session that names none: what is relative is inside it, and of other places that is not known."""

_OF_THE_SYSTEM: Final = ("/bin/", "/boot/", "/dev/", "/etc/", "/lib", "/proc/", "/sbin/", "/sys/", "/usr/", "/var/")
_HIDDEN: Final = re.compile(r"(?:/\(home\)|/root|/home/[^/]+|/Users/[^/]+)/\.")  # settings of a person, no project
PROJECT: Final = "project"
HOME: Final = "home"


class SessionFolders(NamedTuple):
    """What ``project`` and ``home`` stand for."""

    project: str
    home: str


HARD_REASONS: Final = frozenset(("command", "text", "code", "syntax", "limit"))
"""Reasons for which nothing can be said of a command as a whole."""

SOFT_REASONS: Final = frozenset(("value", "input"))
"""Reasons for which a field of an effect is left out although it has a value."""

_EVERYTHING: Final = frozenset(("*", "**", ".*", "{*,.*}", "?*"))
_CLIENTS: Final = frozenset(("psql", "mysql", "mariadb", "sqlite3", "redis-cli", "mongosh", "mongo"))


Globs: TypeAlias = str | list[str]


class PatternFit(IntEnum):
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
        description="folders: what is below one of them does not count; `project` and `home` are those of the session",
    )
    inside: list[str] | None = Field(default=None, description="folders: only what is below one of them counts")
    whole: list[str] | None = Field(
        default=None,
        description="folders: only what hits one of them as a whole counts, itself or all that is in it; `project` and "
        "`home` are those of the session",
    )
    unless: Literal["created_in_session"] | None = Field(
        default=None,
        description="what does not count: `created_in_session` is what this session made, and what git discards where "
        "only the session's own work is left to lose",
    )
    fetched: bool = Field(
        default=False, description="only a file counts that the session fetched from the network before"
    )

    def answer(
        self, effect: ShellEffect, folders: SessionFolders, fetched: Sequence[str] = (), *, guesses: bool = False
    ) -> PatternFit:
        """Whether an effect fits; ``guesses`` says that fields of it may be left out because they are not known."""
        if effect.kind != self.effect or (self.unless is not None and effect.get("own")):
            return PatternFit.NO
        answers = [_fits(effect.get(name), globs) for name, globs in self.fields.items()]
        answers += [_is_not(effect.get(name), globs, guesses=guesses) for name, globs in self.without.items()]
        if self.outside is not None:
            answers.append(PatternFit(2 - _is_inside(effect, _roots(self.outside, folders))))
        if self.inside is not None:
            answers.append(_is_inside(effect, _roots(self.inside, folders)))
        if self.whole is not None:
            answers.append(_is_whole(effect, _roots(self.whole, folders)))
        if self.fetched:
            answers.append(PatternFit.YES if is_below(_file_of(effect), frozenset(fetched)) else PatternFit.NO)
        return min(answers, default=PatternFit.YES)


def _roots(written: list[str], folders: SessionFolders) -> list[str]:
    known = {PROJECT: folders.project, HOME: folders.home}
    return [known.get(folder, folder).rstrip("/") for folder in written]


def _is_whole(effect: ShellEffect, roots: list[str]) -> PatternFit:
    """Whether an effect hits one of the roots: the folder itself, or all that is in it."""
    if effect.get("on"):
        return PatternFit.NO
    path, glob, prefix = effect.get("path"), effect.get("glob"), effect.get("prefix")
    if path is not None:
        return PatternFit.YES if path.rstrip("/") in roots else PatternFit.NO
    if glob is not None:
        folder, _, pattern = glob.rpartition("/")
        return PatternFit.YES if folder in roots and pattern in _EVERYTHING else PatternFit.NO
    if prefix is not None:
        return PatternFit.UNSAID if any(root.startswith(prefix.rstrip("/")) for root in roots) else PatternFit.NO
    return PatternFit.UNSAID


def _fits(value: sg.Json, globs: Globs) -> PatternFit:
    globs = [globs] if isinstance(globs, str) else globs
    if value is None:
        return PatternFit.NO if globs == ["true"] else PatternFit.UNSAID
    text = "true" if value is True else str(value)
    return PatternFit.YES if any(fnmatchcase(text, glob) for glob in globs) else PatternFit.NO


def _is_not(value: sg.Json, globs: Globs, *, guesses: bool) -> PatternFit:
    if value is None:  # a flag that is not there is not set
        return PatternFit.UNSAID if guesses and globs != "true" else PatternFit.YES
    return PatternFit(2 - _fits(value, globs))


def _file_of(effect: ShellEffect) -> str:
    return str(effect.get("path") or effect.get("program") or "")


def _is_inside(effect: ShellEffect, roots: list[str]) -> PatternFit:
    """Whether the place of an effect is below one of the roots; a root itself is not."""
    if effect.get("on"):
        return PatternFit.NO
    path, glob, prefix = effect.get("path"), effect.get("glob"), effect.get("prefix")
    if path is not None or glob is not None:
        text = path if path is not None else glob_folder(glob) + "/"
        if any(text.startswith(root + "/") for root in roots):
            return PatternFit.YES
        return PatternFit.UNSAID if UNKNOWN_FOLDER in roots and _may_be_ours(text) else PatternFit.NO
    if prefix is not None:
        near = any(prefix.startswith(root + "/") or (root + "/").startswith(prefix) for root in roots)
        return PatternFit.UNSAID if near else PatternFit.NO
    return PatternFit.UNSAID


def _may_be_ours(path: str) -> bool:
    """Whether a place may be in a project of which nobody said where it is."""
    somewhere = UNKNOWN_FOLDER.rpartition("/")[0]
    return path != "/" and not path.startswith((somewhere + "/", *_OF_THE_SYSTEM)) and not _HIDDEN.match(path)


def is_unclear(reading: CommandReading, patterns: Sequence[EffectPattern], *, strict: bool) -> bool:
    """Whether a command may do what the patterns ask about, and does not say so."""
    if reading.opaque & HARD_REASONS or (strict and "program" in reading.opaque):
        return True
    asks_for_sql = any(
        pattern.effect == "destroy" and _fits("database", pattern.fields.get("area", ["database"])) is PatternFit.YES
        for pattern in patterns
    )
    runs_client = any(effect.kind == "run" and effect.get("program") in _CLIENTS for effect in reading.effects)
    return asks_for_sql and runs_client and "input" in reading.opaque
