"""What compiling takes and gives: known tools, patterns of texts, rules in the native form, and gates of rules."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.reading.catalogue import Catalogue, stem, words_of
from stream_guard_compliance.reading.symbols import FILE_SORTS
from stream_guard_compliance.reading.values import Circumstance, Reading, word_set

Form = dict[str, Json]

UNKNOWN_ACTION: Final = "it describes an action, and no known tool is called like it"
MOST_FOLLOWING: Final = 64  # turns in which what has to follow may come
_USABLE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class CompiledReading:
    """The rules a reading became, or why it became none."""

    rules: tuple[Form, ...] = ()
    why: str = ""
    certain: bool = True  # the rule says what the sentence says, and does not guess which tools or texts are meant


@dataclass(frozen=True, slots=True)
class CompileContext:
    """What compiling needs beside the reading."""

    prompt: str
    catalogue: Catalogue
    has_results: bool = True  # without results in the trace, an attempt has to count as done


def names_of(tools: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return every known spelling of the tools; what could be taken for a pattern is left out."""
    spelt = [name for tool in tools for name in context.catalogue.spellings(tool)]
    return list(dict.fromkeys(name for name in spelt if is_usable(name)))


def is_usable(name: str) -> bool:
    """Whether a name can stand in a rule and is no pattern."""
    return _USABLE.fullmatch(name) is not None


def one(kind: str, params: Form) -> CompiledReading:
    """Return one rule; without a tool that can be named, the reason."""
    if params.get("tool") == []:
        return CompiledReading(why="the tool's name could be taken for a pattern")
    return CompiledReading(({"kind": kind, "params": params},))


def params_of(form: Form) -> dict[str, Json]:
    """Return the parameters of a rule."""
    params = form.get("params")
    return params if isinstance(params, dict) else {}


# Texts as patterns of RE2: literal, at the beginning or the end, more of something than is fine.

GREETING: Final = r"^\W*\pL+(?:\W+\pL+)?\W*$"  # a word or two, which no rule about answers means

# Some words that end in a stop and no question: what a person takes for an answer.
ANSWER: Final = r"(?s)^\W*\w+\W+\w+\W+\w+.*[^?\s]\s*$"


def label_of(sort: str, text: str) -> str:
    """Return the name of a label that notes what a session has seen."""
    return f"{sort}_{zlib.crc32(text.encode()):08x}"


def literal(text: str) -> str:
    """Return a pattern for a text: any white space between its words, and no word of which it is only a part."""
    body = r"\s+".join(str(re2.escape(word)) for word in text.split())
    start = r"\b" if text[:1].isalnum() and text[:1].isascii() else ""
    end = r"(?:$|[^\w-])" if text[-1:].isalnum() and text[-1:].isascii() else ""
    return f"{start}{body}{end}"


def any_of(texts: tuple[str, ...]) -> str:
    """Return a pattern for any of the texts, whatever their case."""
    return "(?i)" + "|".join(literal(text.strip()) for text in texts if text.strip())


def placed(pattern: str, place: str) -> str:
    """Return a pattern that begins with (?i), held to the start or the end of the text."""
    body = pattern.removeprefix("(?i)")
    return {"start": rf"(?i)^\W*(?:{body})", "end": rf"(?i)(?:{body})\W*$"}.get(place, pattern)


def more_than(count: int, unit: str) -> str:
    """Return a pattern for a text with more lines, paragraphs, sentences or questions than are fine."""
    pieces = {
        "lines": r"\S[^\n]*(?:\n\s*|\s*$)",
        "paragraphs": r"\S(?:[^\n]|\n[^\n])*(?:\n\s*\n\s*|\s*$)",
        "sentences": r"[^.!?]*\pL{2}[^.!?]*[.!?]+[\"')\]\x{201d}]*(?:\s+|$)",
        "questions": r"[^?]*\?+",
    }
    start = r"^\s*" if unit != "questions" else "^"
    return f"{start}(?:{pieces[unit]}){{{count + 1}}}"


# Changes of files that are forbidden: tools that are called like it, and commands that are one.

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


# Tools that a sentence describes: by the words of an action, by what they do, by an amount that they are given.

_READS: Final = word_set("get list search find read lookup look fetch view show check calculate think describe")
_ACTS: Final = word_set(
    "exchange return redeem suspend resume lock unlock freeze unfreeze block unblock activate deactivate "
    "add apply approve archive assign book buy cancel charge checkout close commit create delete deploy disable drop "
    "edit enable enroll execute generate grant insert invite invoke issue make merge modify move order pay place post "
    "process publish purchase push refund register reject remove rename replace reschedule "
    "reserve reset restart revoke "
    "schedule send set start stop submit subscribe terminate transfer unsubscribe update upgrade upload void wipe write"
)
DESTROYS: Final = ("drop", "delete", "truncate", "remove", "purge", "wipe", "destroy", "erase", "overwrite")
_GENERIC: Final = word_set("any all the every each new anything something it them")
_AMOUNTS: Final = ("amount", "total", "price", "value", "cost", "refund_amount", "sum")
_SHARES: Final = (
    "percent",
    "percentage",
    "pct",
    "rate",
    "discount",
    "discount_percent",
    "discount_percentage",
    "value",
)


def described(words: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return the known tools whose names or descriptions have every word of an action, and that do more than look."""
    stems = [stem(word) for word in words if word not in _GENERIC]
    found = context.catalogue.names if stems else ()
    return [
        name
        for name in found
        if words_of(name)[0] not in _READS
        and is_usable(name)
        and all(any(word.startswith(begins) for word in context.catalogue.words(name)) for begins in stems)
    ]


def is_asking(tool: str) -> bool:
    """Whether a tool asks a person: then its ok result is a yes. One that approves a thing is the agent's own yes."""
    if tool.lower().startswith("approve_"):
        return False
    return re.search(r"confirm|approv|ask_(?:user|human|customer)|request_consent", tool.lower()) is not None


def over(amount: float, unit: tuple[str, ...] = ()) -> Json:
    """Return the condition that an argument that looks like an amount, or like a percentage, is larger."""
    names = _SHARES if unit == ("percent",) else _AMOUNTS
    return {"any_of": [{"path": f"tool.args.{name}", "op": ">", "value": amount} for name in names]}


def destroys(name: str) -> bool:
    """Whether a tool is called like destroying something."""
    return any(word.startswith(DESTROYS) for word in words_of(name))


def acts(name: str) -> bool:
    """Whether a tool changes something, by the verb its name begins with; one that asks a person does not."""
    return words_of(name)[0] in _ACTS and not is_asking(name)


# Gates of a rule: what the user said, what was called before, and what the user may ask for all the same.
#
# What a session has seen is kept as a label: a rule in shadow mode sets it, and the rule of the sentence reads it.

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
