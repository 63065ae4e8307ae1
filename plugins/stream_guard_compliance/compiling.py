"""From a reading to rules of ordinary kinds, in the native form of a policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.symbols import SHELL
from stream_guard_compliance.reading.values import PER_AGENT, TEXT_WITH_CALLS, Reading
from stream_guard_compliance.reading.word_lists import word_set

Form = dict[str, Json]

_USABLE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_READS: Final = word_set("get list search find read lookup look fetch view show check calculate think describe")
_DESTROYS: Final = ("drop", "delete", "truncate", "remove", "purge", "wipe", "destroy", "erase", "overwrite")
_DESTRUCTIVE_SQL: Final = (
    r"(?i)\b(?:drop|truncate|alter)\s+(?:table|database|schema|index|view|column)\b|\bdelete\s+from\b"
    r"|\bupdate\s+\w+\s+set\b"
)
_GENERIC: Final = word_set("any all the every each new")
_AMOUNTS: Final = ("amount", "total", "price", "value", "cost", "refund_amount", "sum")
_CITATION: Final = (
    r"(?i)https?://|\[[^\]\[]{1,80}\]|\bsources?:|\baccording to\b|\bref(?:erence)?s?:|\(\w+,? \d{4}\)|\bdoi:"
)
_LEAKED: Final = (
    r"(?i)\b(?:password|passwd|passphrase|secret|api[_ -]?key|access[_ -]?token|credentials?)\b\W{0,4}(?:is"
    r"|are|:|=)\W{0,4}\S|\bsk-[a-z0-9_-]{16,}|\bakia[a-z0-9]{16}|-----BEGIN [A-Z ]{0,40}PRIVATE KEY"
)
_MAX_PARAM: Final = 30_000  # characters of one parameter, well under what a policy takes
_MAX_PARALLEL: Final = 64  # calls at the same time that a rule can count
_MAX_PROMPT: Final = 20_000  # characters of the prompt that a leak is looked for in
_ALL_PII: Final = ("email", "phone", "card", "ssn", "iban")


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


def compile_reading(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return rules of ordinary kinds, or the reason why a machine cannot check the sentence."""
    if not reading.concrete:
        return CompiledReading(why=reading.why or "it leaves to judgement what counts")
    if reading.kind in {"forbid_output", "forbid_arg"} and any(_says_nothing(item) for item in reading.items):
        return CompiledReading(why="a text of less than two letters or digits would be found everywhere")
    compiled = _COMPILERS[reading.kind](reading, context)
    if any(len(str(value)) > _MAX_PARAM for form in compiled.rules for value in _params(form).values()):
        return CompiledReading(why="it lists more than a rule can hold")
    return replace(compiled, certain=False) if reading.proposed else compiled


def _says_nothing(text: str) -> bool:
    return sum(char.isalnum() for char in text) < 2


def _params(form: Form) -> dict[str, Json]:
    params = form.get("params")
    return params if isinstance(params, dict) else {}


def _names(tools: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return every known spelling of the tools; what could be taken for a pattern is left out."""
    spelt = [name for tool in tools for name in context.catalogue.spellings(tool)]
    return list(dict.fromkeys(name for name in spelt if _USABLE.fullmatch(name)))


def _described(words: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return the known tools whose names or descriptions have every word of an action, and that do more than look."""
    stems = [stem(word) for word in words if word not in _GENERIC]
    found = context.catalogue.names if stems else ()
    return [
        name
        for name in found
        if words_of(name)[0] not in _READS
        and _USABLE.fullmatch(name)
        and all(any(word.startswith(one) for word in context.catalogue.words(name)) for one in stems)
    ]


def is_asking(tool: str) -> bool:
    """Whether a tool asks a person: then its ok result is a yes."""
    return re.search(r"confirm|approv|ask_(?:user|human|customer)|request_consent", tool.lower()) is not None


def _forbid_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    tools = ["*"] if reading.items == ("*",) else _names(reading.items, context)
    return _one("no_call", {"tool": tools})


def _forbid_arg(reading: Reading, _context: CompileContext) -> CompiledReading:
    compiled = _one("forbidden_text", {"pattern": _any_of(reading.items), "where": "tool_args"})
    # A single word may stand in an argument that is no command.
    return replace(compiled, certain=all(" " in item.strip() or item in SHELL for item in reading.items))


def _allow_only(reading: Reading, context: CompileContext) -> CompiledReading:
    tools = _names(reading.items, context)
    if not reading.by:
        return _one("must_call_only", {"tool": tools})
    name = reading.by.removeprefix(f"{PER_AGENT}:")
    # Where the trace does not name the agent, the rule does not apply.
    rule: Form = {
        "kind": "no_call",
        "params": {"tool": tools},
        "when": {"path": "agent", "op": "matches", "value": "."},
        "unless": {"path": "agent", "op": "matches", "value": f"(?i){_literal(name)}"},
    }
    return CompiledReading((rule,))


def _forbid_output(reading: Reading, context: CompileContext) -> CompiledReading:
    if reading.items == (TEXT_WITH_CALLS,):
        return CompiledReading(({"kind": "no_text_with_calls"},))
    rules: list[Form] = []
    types = [item.removeprefix("pii:") for item in reading.items if item.startswith("pii:")]
    if "pii" in reading.items:
        types = list(_ALL_PII)
    if "system_prompt" in reading.items:
        rules.append({"kind": "no_long_quote", "params": {"text": context.prompt[:_MAX_PROMPT]}})
    if types:
        rules.append({"kind": "no_pii", "params": {"types": types}})
    if "secrets" in reading.items:
        rules.append({"kind": "forbidden_text", "params": {"pattern": _LEAKED}})
    literals = tuple(
        item for item in reading.items if not item.startswith("pii") and item not in {"system_prompt", "secrets"}
    )
    if literals:
        rules.append({"kind": "forbidden_text", "params": {"pattern": _placed(_any_of(literals), reading.place)}})
    certain = not reading.left and not {"system_prompt", "secrets"} & set(reading.items)
    return CompiledReading(tuple(rules), certain=certain)


def _require_output(reading: Reading, _context: CompileContext) -> CompiledReading:
    if reading.items == ("citation",):
        # A greeting of a word or two has nothing to give a source for.
        pattern = rf"{_CITATION}|^\s*\S+(?:\s+\S+)?\s*$"
        rule: Form = {"kind": "must_match_text", "params": {"pattern": pattern, "each": False}}
        return CompiledReading((rule,), certain=False)
    if reading.items == ("json",):
        talks = {"path": "stop_reason", "op": "not_in", "value": ["tool_use", "tool_calls"]}
        return CompiledReading(({"kind": "must_match_json_schema", "params": {"schema": {}}, "when": talks},))
    patterns = [_placed(f"(?i){_literal(item)}", reading.place) for item in reading.items]
    return CompiledReading(
        tuple({"kind": "must_match_text", "params": {"pattern": pattern, "each": reading.each}} for pattern in patterns)
    )


def _require_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    wanted = [reading.items] if reading.either else [(tool,) for tool in reading.items]
    rules = [{"kind": "must_call", "params": {"tool": _names(tools, context)}} for tools in wanted]
    return CompiledReading(tuple(rules))


def _limit(reading: Reading, context: CompileContext) -> CompiledReading:  # noqa: PLR0911  # one for each thing that is counted
    if reading.window:
        return CompiledReading(why="it counts over a span of time, and a recorded trace need not have times")
    if not reading.items:
        tools = _described(reading.described, context)
        rules = [{"kind": "max_calls", "params": {"tool": tools, "n": int(reading.over or 0)}}] if tools else []
        return CompiledReading(tuple(rules), _UNKNOWN_ACTION, certain=False)
    about, number = reading.items[0].rsplit("<=", 1)
    n = int(number)
    if about in {"words", "chars"}:
        return _one("max_text_length", {"words" if about == "words" else "characters": n})
    if about == "parallel" and n > _MAX_PARALLEL:
        return CompiledReading(why="so many calls at the same time are not counted")
    if about == "parallel":
        return _one("max_parallel_calls", {"n": n})
    if about == "calls":
        return _one("max_calls", {"n": n})
    if about == "failures":
        stems = [stem(word) for word in reading.described]
        tools = [name for name in context.catalogue.about(stems) if _USABLE.fullmatch(name)]
        rules = [{"kind": "max_failed_calls", "params": {"tool": tools, "n": n}}] if tools and n else []
        return CompiledReading(tuple(rules), _UNKNOWN_ACTION, certain=False)
    if about in {"sentences", "paragraphs", "lines", "tokens", "retries"}:
        return CompiledReading(why=f"no kind counts {about}")
    pairs = [item.rsplit("<=", 1)[0] for item in reading.items]
    rules = [{"kind": "max_calls", "params": {"tool": _names((tool,), context), "n": n}} for tool in pairs]
    return CompiledReading(tuple(rules))


def _order(reading: Reading, context: CompileContext) -> CompiledReading:
    if reading.follows:
        return CompiledReading(why="it asks for a call after another, and a trace may end before that")
    second = _names(reading.second, context) if reading.second else _described(reading.described, context)
    second = [name for name in second if name not in _names(reading.first, context)]
    if not second:
        return CompiledReading(why=_UNKNOWN_ACTION)
    rules = []
    for tools in [reading.first] if reading.either else [(tool,) for tool in reading.first]:
        params: Form = {"first": _names(tools, context), "second": second}
        if context.has_results:
            params["first_must_succeed"] = True  # a prerequisite that failed is none
        if reading.each_time:
            params["reset_on"] = second
        rules.append({"kind": "must_call_before", "params": params})
    return CompiledReading(tuple(rules), certain=not reading.described)


def _confirm_before(reading: Reading, context: CompileContext) -> CompiledReading:
    certain = bool(reading.items)
    tools = _names(reading.items, context) if reading.items else _described(reading.described, context)
    params: Form = {}
    if reading.destructive:
        known = [name for name in context.catalogue.names if _destroys(name) and _USABLE.fullmatch(name)]
        tools = list(dict.fromkeys([*tools, *known, *(f"*{word}*" for word in _DESTROYS)]))
        params["args_pattern"] = _DESTRUCTIVE_SQL
    asking = [
        name for name in context.catalogue.names if is_asking(name) and _USABLE.fullmatch(name) and name not in tools
    ]
    if not tools:
        return CompiledReading(why=_UNKNOWN_ACTION)
    rule: Form
    if reading.by:
        if not asking:
            return CompiledReading(why=f"no known tool asks the {reading.by}, so an approval would not be seen")
        rule = {"kind": "must_call_before", "params": {"first": asking, "second": tools, "reset_on": tools}}
    else:
        rule = {
            "kind": "must_confirm_before",
            "params": {"tool": tools, **params, **({"asks": asking} if asking else {})},
        }
    if reading.over is not None:
        rule["when"] = _over(reading.over)
    return CompiledReading((rule,), certain=certain)


def _conditional(reading: Reading, context: CompileContext) -> CompiledReading:
    """Only an amount is a condition that arguments show."""
    tools = _names(reading.items, context)
    rule: Form = {"kind": "no_call", "params": {"tool": tools}, "when": _over(reading.over or 0.0)}
    return CompiledReading((rule,), certain=False)


def _destroys(name: str) -> bool:
    return any(word.startswith(_DESTROYS) for word in words_of(name))


def _over(amount: float) -> Json:
    return {"any_of": [{"path": f"tool.args.{name}", "op": ">", "value": amount} for name in _AMOUNTS]}


def _one(kind: str, params: Form) -> CompiledReading:
    if params.get("tool") == []:
        return CompiledReading(why="the tool's name could be taken for a pattern")
    return CompiledReading(({"kind": kind, "params": params},))


def _literal(text: str) -> str:
    """Return a pattern for a text: any white space between its words, and no word of which it is only a part."""
    body = r"\s+".join(str(re2.escape(word)) for word in text.split())
    start = r"\b" if text[:1].isalnum() and text[:1].isascii() else ""
    end = r"(?:$|[^\w-])" if text[-1:].isalnum() and text[-1:].isascii() else ""
    return f"{start}{body}{end}"


def _placed(pattern: str, place: str) -> str:
    """Return a pattern that begins with (?i), held to the start or the end of the text."""
    body = pattern.removeprefix("(?i)")
    return {"start": rf"(?i)^\W*(?:{body})", "end": rf"(?i)(?:{body})\W*$"}.get(place, pattern)


def _any_of(texts: tuple[str, ...]) -> str:
    return "(?i)" + "|".join(_literal(text.strip()) for text in texts if text.strip())


_UNKNOWN_ACTION: Final = "it describes an action, and no known tool is called like it"

_COMPILERS: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "forbid_tool": _forbid_tool,
    "forbid_arg": _forbid_arg,
    "allow_only": _allow_only,
    "forbid_output": _forbid_output,
    "require_output": _require_output,
    "require_tool": _require_tool,
    "limit": _limit,
    "order": _order,
    "confirm_before": _confirm_before,
    "conditional": _conditional,
}
