"""Gates of a rule: what the user said, what was called before, and what the user may ask for all the same.

What a session has seen is kept as a label: a rule in shadow mode sets it, and the rule of the sentence reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.compiling.context import CompileContext, CompiledReading, Form, label_of, literal, names_of
from stream_guard_compliance.reading.catalogue import stem
from stream_guard_compliance.reading.symbols import FILE_SORTS
from stream_guard_compliance.reading.values import Circumstance

_YES: Final = r"^\W*(?:yes|yep|yeah|sure|ok(?:ay)?|go ahead|please do|do it|proceed|confirm(?:ed)?|approved?)\b"
_GATED: Final = frozenset(
    (
        "no_call",
        "forbidden_text",
        "must_call",
        "must_match_text",
        "max_calls",
        "no_text_with_calls",
        "max_text_length",
        "must_call_before",
    )
)
_LINK: Final = r"https?://\S"


def unless_asked(compiled: CompiledReading, words: tuple[str, ...]) -> CompiledReading:
    """Return the rules with an exception: where the user named the deed, or said yes, nobody is accused."""
    asked = "|".join(_mention(word) for word in words)
    if not compiled.rules or not asked or any(form["kind"] not in _GATED for form in compiled.rules):
        return CompiledReading(why=compiled.why or "whether the user asked for it cannot be told")
    label = label_of("asked", asked)
    noted: Form = {
        "kind": "forbidden_text",
        "params": {"pattern": f"(?i){_YES}|{asked}", "where": "user"},
        "mode": "shadow",
        "set_labels": {label: "1"},
    }
    known: Json = {"path": f"labels.{label}", "op": "exists", "value": True}
    return replace(compiled, rules=(*(_with(form, "unless", known) for form in compiled.rules), noted))


def in_case(compiled: CompiledReading, case: Circumstance, context: CompileContext) -> CompiledReading:
    """Return the rules for a case that the trace can tell: the user said something, or a tool was called."""
    if not compiled.rules or any(form["kind"] not in _GATED for form in compiled.rules):
        return CompiledReading(why=compiled.why or "no rule of its sort can be held to a case")
    if case.sort == "called":
        tools = names_of(case.items, context)
        label = label_of("called", " ".join(tools))
        noted: Form = {"kind": "no_call", "params": {"tool": tools}, "mode": "shadow", "set_labels": {label: "1"}}
        gate: Json = {"path": f"labels.{label}", "op": "exists", "value": True}
        gated = tuple(_with(form, "when", gate) for form in compiled.rules)
        return replace(compiled, rules=(*gated, noted)) if tools else CompiledReading(why="no known tool is named")
    pattern = _LINK if case.sort == "link" else "|".join(literal(item) for item in case.items)
    said: Json = {"path": "user.text", "op": "matches", "value": f"(?i){pattern}"}
    return replace(compiled, rules=tuple(_in_part(_with(form, "when", said)) for form in compiled.rules))


# What tools call the argument that names a file or a folder.
PATHS: Final = (
    *("path", "file_path", "filePath", "filepath", "absolute_path", "file", "filename", "file_name", "target_file"),
    *("directory", "dir", "dir_path", "folder", "cwd", "working_directory"),
    *("files.0.path", "files.0", "paths.0", "file_paths.0", "edits.0.path", "edits.0.file_path"),
)


def about_files(compiled: CompiledReading, files: tuple[str, ...]) -> CompiledReading:
    """Return the rules for calls that name a file of some sorts alone."""
    if any(form["kind"] not in _GATED for form in compiled.rules):
        return CompiledReading(why="no rule of its sort can be held to some files")
    endings = "|".join(FILE_SORTS.get(sort) or str(re2.escape(sort.lstrip("*."))) for sort in files)
    named: list[Json] = [
        {"path": f"tool.args.{name}", "op": "matches", "value": rf"(?i)\.(?:{endings})$"} for name in PATHS
    ]
    return replace(compiled, rules=tuple(_with(form, "when", {"any_of": named}) for form in compiled.rules))


def _in_part(form: Form) -> Form:
    """Hold an obligation to the part of the session that the user's words began."""
    return {**form, "scope": "part"} if form["kind"] == "must_call" else form


def _with(form: Form, key: str, condition: Json) -> Form:
    known = form.get(key)
    if known is None:
        return {**form, key: condition}
    both: Json = {"any_of": [known, condition]} if key == "unless" else {"all_of": [known, condition]}
    return {**form, key: both}


def _mention(word: str) -> str:
    """Return a pattern for a word in any form; what is no word is taken as it is written."""
    if word.isalpha():
        return rf"\b{re2.escape(stem(word.lower()))}"
    return str(re2.escape(word))


def is_note(form: Form) -> bool:
    """Whether a rule only notes what a session has seen, and accuses nobody."""
    return "set_labels" in form
