"""A session: its tool calls as effects, and what it made and fetched, as far as it is remembered."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pydantic import Field

import stream_guard as sg
from stream_guard_shell.effects import APPLIED, CLEAN, POPPED, RAISING, CommandReading, ShellEffect, make_effect
from stream_guard_shell.expansion import Folder, glob_folder, is_below, literal
from stream_guard_shell.patterns import UNKNOWN_FOLDER, SessionFolders
from stream_guard_shell.reading import read_command
from stream_guard_shell.shell import Recorder, Shell

_COMMANDS: Final = ("command", "cmd", "script")
_PYTHON_TOOL: Final = re.compile(r"(?i:python|jupyter|notebook_cell)")
_FOLDERS: Final = ("cwd", "workdir", "working_directory", "working_dir", "directory", "dir_path")
_FILES: Final = ("file_path", "path", "filePath", "notebook_path", "target_file", "absolute_path", "filename", "file")
_EDITOR_COMMANDS: Final = frozenset(("view", "create", "str_replace", "insert", "undo_edit"))
# Names of file tools by their words; before them may stand the name of a product or a server.
_FILE_VERBS: Final = {
    **dict.fromkeys(("write", "write_file", "write_to_file", "create_file", "create", "fs_write"), "create"),
    **dict.fromkeys(
        (
            "edit", "multiedit", "edit_file", "replace", "replace_in_file", "str_replace", "insert", "search_replace",
            "str_replace_editor", "str_replace_based_edit_tool", "file_editor", "replace_string_in_file",
            "insert_edit_into_file",
        ),
        "edit",
    ),
    **dict.fromkeys(("read", "read_file", "view_file", "open_file", "cat_file", "view", "fs_read"), "read"),
    **dict.fromkeys(("grep", "search_file_content", "notebook_read", "read_many_files"), "read"),
    **dict.fromkeys(("delete_file", "remove_file", "delete"), "delete"),
}  # fmt: skip
_MOST_WORDS: Final = 6  # of the longest of them
# Names of others that speak of a file: the first of these words says what becomes of it.
_FILE_WORDS: Final = {
    **dict.fromkeys(("read", "view", "open", "cat", "load", "get", "show"), "read"),
    **dict.fromkeys(("write", "create", "save", "put", "overwrite"), "create"),
    **dict.fromkeys(("edit", "update", "modify", "patch", "append", "replace", "insert"), "edit"),
    **dict.fromkeys(("delete", "remove"), "delete"),
}
_PATCH: Final = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_HOME: Final = re.compile(r"/(?:home|Users)/[^/]+|/root")
_WORK: Final = 100_000


class SessionPlace(NamedTuple):
    """Where a call happens: the folder it runs in, and the home of who runs it."""

    folder: str
    home: str


def folder_of(call: sg.ToolCall) -> str:
    """Return the folder that a call names; empty where it names none."""
    args = call.args if isinstance(call.args, dict) else {}
    named = [args.get(name) for name in _FOLDERS] if _command_of(args) is not None else []
    found = next(
        (text for text in [*named, call.labels.get("cwd")] if isinstance(text, str) and text.startswith("/")), ""
    )
    return found.rstrip("/") or found[:1]


def home_of(folder: str) -> str:
    """Return the home that a folder is in; a name of its own where it is in none."""
    found = _HOME.match(folder)
    return found.group() if found else "/(home)"


def read_call(call: sg.ToolCall, at: SessionPlace) -> CommandReading | None:
    """Return what a call does; None where it is neither a shell nor a file tool, or cannot be read."""
    args = call.args
    if not isinstance(args, dict):
        return _patched(args, at) if isinstance(args, str) and "*** Begin Patch" in args else None
    patch = next((text for text in args.values() if isinstance(text, str) and text.startswith("*** Begin Patch")), None)
    if patch is not None:
        return _patched(patch, at)
    verb = _file_verb(call.tool, args)
    if verb is not None:
        return _file_act(*verb, at)
    command = _command_of(args)
    code = args.get("code")
    if command is None and isinstance(code, str) and _PYTHON_TOOL.search(call.tool):
        command = ["python3", "-c", code]
    if isinstance(command, list):
        if command[0] == "apply_patch":
            return _patched("\n".join(command[1:]), at)
        command = shlex.join(command)
    return None if command is None else _read(command, at.folder, at.home)


def edited_by(call: sg.ToolCall, reading: CommandReading) -> tuple[str, ...]:
    """Return the files that a file tool changes and does not make; none for a shell."""
    if isinstance(call.args, dict) and _command_of(call.args) is not None and _file_verb(call.tool, call.args) is None:
        return ()
    written = (effect.get("path") for effect in reading.effects if effect.kind == "write")
    return tuple(path for path in written if path and path not in reading.made)


def command_text(call: sg.ToolCall) -> str:
    """Return the command of a shell as text; nothing where the call has none."""
    command = _command_of(call.args) if isinstance(call.args, dict) else None
    return " ".join(command) if isinstance(command, list) else command or ""


def _command_of(args: Mapping[str, Any]) -> str | list[str] | None:
    for name in _COMMANDS:
        value = args.get(name)
        if isinstance(value, str) or (isinstance(value, list) and value and all(isinstance(one, str) for one in value)):
            return value
    return None


_LONGEST_KEPT: Final = 16_384


def _read(command: str, folder: str, home: str) -> CommandReading:
    if len(command) > _LONGEST_KEPT:
        return read_command(command, folder, home)
    return _read_short(command, folder, home)


@lru_cache(maxsize=64)
def _read_short(command: str, folder: str, home: str) -> CommandReading:
    """Read a command once for all rules that ask about it."""
    return read_command(command, folder, home)


def _file_verb(tool: str, args: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what a file tool does and to which file; None where the tool is none."""
    path = next((args[name] for name in _FILES if isinstance(args.get(name), str)), None)
    if path is None:
        return None
    command = args.get("command")
    if isinstance(command, str) and command in _EDITOR_COMMANDS:
        return _FILE_VERBS.get(command, "edit"), path
    words = sg.tool_words(tool)[-_MOST_WORDS:]
    for said in (words, words[:-1] if words[-1:] == ["tool"] else []):  # EditTool is Edit
        names = ("_".join(said[start:]) for start in range(len(said)))
        verb = next((_FILE_VERBS[name] for name in names if name in _FILE_VERBS), None)
        if verb is not None:
            return verb, path
    verb = next((_FILE_WORDS[word] for word in words if word in _FILE_WORDS), None)
    return (verb, path) if verb is not None and not {"file", "files"}.isdisjoint(words) else None


def _recorder_at(at: SessionPlace) -> tuple[Recorder, Shell]:
    return Recorder(_WORK), Shell(Folder(at.folder), literal(at.home))


def _file_act(verb: str, path: str, at: SessionPlace) -> CommandReading:
    recorder, shell = _recorder_at(at)
    _act(recorder, shell, verb, path, at)
    return recorder.reading()


def _act(recorder: Recorder, shell: Shell, verb: str, path: str, at: SessionPlace) -> None:
    text = at.home + path[1:] if path == "~" or path.startswith("~/") else path
    field = literal(text[:4096])
    if verb == "read":
        recorder.read(shell, field)
    elif verb == "delete":
        recorder.delete(shell, field)
    else:
        recorder.write(shell, field, made=verb == "create")


def _patched(patch: str, at: SessionPlace) -> CommandReading:
    """Return what a patch does: files that it adds, changes, moves and deletes."""
    recorder, shell = _recorder_at(at)
    last = ""
    for number, found in enumerate(_PATCH.finditer(patch)):
        if number > 1000:
            recorder.opaque("limit")
            break
        verb, path, target = found.group(1), (found.group(2) or "").strip(), (found.group(3) or "").strip()
        if target:
            recorder.move(shell, literal(last), literal(target))
        else:
            _act(recorder, shell, {"Add": "create", "Update": "edit", "Delete": "delete"}[verb], path, at)
            last = path
    return recorder.reading()


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
    made = [MadePath(path, call.attempt) for path in (*reading.made, *saved) if _is_short(path)]
    before = [one for one in paths.created if one.path not in reading.unsaved]
    paths.created = [*before, *made][-MOST_PATHS:]
    fetched = [path for path in reading.fetched if path not in paths.fetched]
    kept = [path for path in fetched if _is_short(path)]
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


def _is_short(path: str) -> bool:
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
