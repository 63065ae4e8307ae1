"""Rules about what responses say: texts, forms of text, data, and what has to stand in them."""

from __future__ import annotations

from typing import Final

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    MOST_FOLLOWING,
    CompileContext,
    CompiledReading,
    Form,
    names_of,
)
from stream_guard_compliance.compiling.patterns import GREETING, any_of, label_of, literal, placed
from stream_guard_compliance.reading.text_forms import PATTERNS
from stream_guard_compliance.reading.values import TEXT_WITH_CALLS, Reading

_CITATION: Final = (
    r"(?i)https?://|\[[^\]\[]{1,80}\]|\bsources?:|\baccording to\b|\bref(?:erence)?s?:|\(\w+,? \d{4}\)|\bdoi:"
)
_LEAKED: Final = (
    r"(?i)\b(?:password|passwd|passphrase|secret|api[_ -]?key|access[_ -]?token|credentials?)\b\W{0,4}(?:is"
    r"|are|:|=)\W{0,4}\S|\bsk-[a-z0-9_-]{16,}|\bakia[a-z0-9]{16}|-----BEGIN [A-Z ]{0,40}PRIVATE KEY"
)
_MAX_PROMPT: Final = 20_000  # characters of the prompt that a leak is looked for in
_ALL_PII: Final = ("email", "phone", "card", "ssn", "iban")


def forbid_output(reading: Reading, context: CompileContext) -> CompiledReading:
    """No response with these texts, forms, data or secrets."""
    if reading.items == (TEXT_WITH_CALLS,):
        return CompiledReading(({"kind": "no_text_with_calls"},))
    if reading.shape == "form":
        return _forms(reading, context)
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
        rules.append({"kind": "forbidden_text", "params": {"pattern": placed(any_of(literals), reading.place)}})
    certain = not reading.left and not {"system_prompt", "secrets"} & set(reading.items)
    return CompiledReading(tuple(rules), certain=certain)


def _forms(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return a rule for each form: in responses, or in what a tool that speaks to the user is given."""
    rules: list[Form] = []
    for form in reading.items:
        params: Form = {"pattern": PATTERNS[form]}
        if reading.first:
            params.update(where="tool_args", tool=list(names_of(reading.first, context)))
        rules.append({"kind": "forbidden_text", "params": params})
    return CompiledReading(tuple(rules), certain=not reading.left)


def require_output(reading: Reading, context: CompileContext) -> CompiledReading:  # noqa: PLR0911  # one for each sort
    """A text, a source or JSON in responses."""
    if reading.items == ("citation",):
        # A greeting of a word or two has nothing to give a source for.
        pattern = rf"{_CITATION}|^\s*\S+(?:\s+\S+)?\s*$"
        rule: Form = {"kind": "must_match_text", "params": {"pattern": pattern, "each": False}}
        return CompiledReading((rule,), certain=False)
    if reading.items == ("json",):
        talks = {"path": "stop_reason", "op": "not_in", "value": ["tool_use", "tool_calls"]}
        greets = {"path": "response.content.0.text", "op": "matches", "value": GREETING}
        json_rule: Form = {"kind": "must_match_json_schema", "params": {"schema": {}}, "when": talks, "unless": greets}
        return CompiledReading((json_rule,))
    if reading.shape == "form":
        return _forms(reading, context)
    if reading.shape == "say_first":
        return _said_first(reading, context)
    if reading.shape in {"say_after", "answered"}:
        return _said_after(reading, context)
    if reading.shape in {"say_before", "not_empty"}:
        op = "in" if reading.shape == "say_before" else "not_in"
        calls = {"path": "stop_reason", "op": op, "value": ["tool_use", "tool_calls"]}
        return CompiledReading(({"kind": "must_have_text", "when": calls},))
    patterns = [placed(f"(?i){literal(item)}", reading.place) for item in reading.items]
    return CompiledReading(
        tuple({"kind": "must_match_text", "params": {"pattern": pattern, "each": reading.each}} for pattern in patterns)
    )


def _said_first(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return the rule that a text is said before a call; said with the call, it is said too."""
    label = label_of("said", " ".join(reading.items))
    noted: Form = {
        "kind": "forbidden_text",
        "params": {"pattern": any_of(reading.items)},
        "mode": "shadow",
        "set_labels": {label: "1"},
    }
    silent: Json = {"path": f"labels.{label}", "op": "exists", "value": True}
    rule: Form = {
        "kind": "no_call",
        "params": {"tool": list[Json](names_of(reading.second, context))},
        "unless": silent,
    }
    return CompiledReading((rule, noted), certain=not reading.guess)


def _said_after(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return the rule that the response behind a call says a text; said with the call, it is said too."""
    tools = names_of(reading.first, context)
    rules: list[Form] = []
    called: Form = {"any_of": [{"path": "response.content", "op": "contains", "value": tool} for tool in tools]}
    if reading.shape == "answered":  # any words will do, in one of the next responses
        must: Form = {"kind": "text_includes", "text": " "}
        params: Form = {"trigger": [called], "must": must, "within_turns": MOST_FOLLOWING}
        return CompiledReading(({"kind": "must_followup", "params": params},), certain=False)
    for text in reading.items:
        silent = {"not": {"path": "response.content", "op": "contains", "value": text}}
        must = {"kind": "text_includes", "text": text}
        rules.append({"kind": "must_followup", "params": {"trigger": [called, silent], "must": must}})
    return CompiledReading(tuple(rules), certain=not reading.guess)
