"""Changes of files that are forbidden: tools that are called like it, and commands that are one."""

from __future__ import annotations

from typing import Final

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    is_usable,
)
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

SHELLS: Final = ("bash", "shell", "terminal", "execute", "command", "commands", "kubectl", "exec", "cmd", "powershell")
FILE_ARGUMENTS: Final = ("file_path", "path", "file", "filename")
_NOTES: Final = r"(?i)\.(?:md|markdown|txt|rst)$"
CHANGES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "edits": (
        word_set("edit editor write replace insert append patch create modify delete rename move multiedit edits"),
        (
            r"(?:^|[\s;&|(\"'])(?:rm|mv|cp|touch|mkdir|tee|truncate|ln|dd)\s|\bsed\s+(?:-\w+\s+)*-\w*i|\s>{1,2}\s*[\w./~]"
            r"|\b(?:npm|pnpm|yarn|pip3?|uv|cargo|apt|apt-get|brew)\s+(?:install|add|remove|uninstall|i)\b"
            r"|\bgit\s+(?:commit|push|reset|checkout|apply|merge|rebase|stash|clean|restore|add|rm|mv)\b"
        ),
    ),
    "deletes": (
        word_set("delete remove rm unlink trash"),
        r"(?:^|[\s;&|(\"'])(?:rm|unlink|rmdir)\s|\bgit\s+(?:clean|rm)\b",
    ),
}
_FILES: Final = word_set(
    "file files code text content contents notebook line lines folder directory str string "
    "source apply by at in to new "
    "full and block blocks diff tool"
)


def writing_tools(context: CompileContext) -> list[str]:
    """Return the known tools that are called like writing files."""
    verbs = CHANGES["edits"][0]
    return [name for name in context.catalogue.names if is_usable(name) and _changes_files(words_of(name), verbs)]


def forbid_changes(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of tools that are called like a change of files, and no command that is one."""
    verbs, commands = CHANGES[reading.shape]
    tools = [name for name in context.catalogue.names if is_usable(name) and _changes_files(words_of(name), verbs)]
    rules: list[Form] = [{"kind": "no_call", "params": {"tool": list[Json](tools)}}] if tools else []
    if rules and reading.described == ("code",):
        notes: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": _NOTES} for name in FILE_ARGUMENTS]
        rules[0]["unless"] = {"any_of": notes}
    shells = [name for name in context.catalogue.names if is_usable(name) and set(words_of(name)) & set(SHELLS)]
    if shells:
        where: Form = {"pattern": commands, "where": "tool_args", "tool": list[Json](shells)}
        rules.append({"kind": "forbidden_text", "params": where})
    return CompiledReading(tuple(rules), UNKNOWN_ACTION, certain=False)


def _changes_files(words: list[str], verbs: frozenset[str]) -> bool:
    """Whether the words of a name are a verb of changing, alone or with a word for files."""
    return bool(verbs & set(words)) and all(word in verbs or word in _FILES for word in words)
