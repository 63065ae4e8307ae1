"""Rules about what comes first: a call before another, or a person's yes."""

from __future__ import annotations

from typing import Final

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    MOST_FOLLOWING,
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    is_usable,
    names_of,
    one,
)
from stream_guard_compliance.compiling.described_tools import DESTROYS, acts, described, destroys, is_asking, over
from stream_guard_compliance.compiling.file_changes import SHELLS
from stream_guard_compliance.compiling.patterns import ANSWER, label_of
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.values import Reading

_DESTRUCTIVE_SQL: Final = (
    r"(?i)\b(?:drop|truncate|alter)\s+(?:table|database|schema|index|view|column)\b|\bdelete\s+from\b"
    r"|\bupdate\s+\w+\s+set\b"
)
# Commands of a shell that change something outside it.
_CHANGING_COMMAND: Final = (
    r"(?i)\b(?:kubectl|oc|helm|terraform|tofu|pulumi|gcloud|aws|az|docker|systemctl)\b[^|;&\n]*\s"
    r"(?:apply|create|delete|patch|replace|scale|drain|destroy|install|upgrade|uninstall|update|remove|rm|restart|stop)\b"
)


def order(reading: Reading, context: CompileContext) -> CompiledReading:
    """Of two calls, one has to come first."""
    if reading.shape in _ENDINGS:
        return _ENDINGS[reading.shape](names_of(reading.first, context))
    if reading.follows:
        return _follows(reading, context)
    second = names_of(reading.second, context) if reading.second else described(reading.described, context)
    first = names_of(reading.first, context)
    if reading.shape == "first_action":
        second = [name for name in context.catalogue.names if is_usable(name)] if context.catalogue.closed else []
    second = [name for name in second if name not in first]
    if not second or not first:
        return CompiledReading(why=UNKNOWN_ACTION)
    if reading.shape == "not_after":
        steps: list[Json] = [{"tool": list[Json](first)}, {"tool": list[Json](second)}]
        between: Form = {"unless_between": {"on": "user"}} if reading.soon else {}
        rule: Form = {"kind": "no_sequence", "params": {"steps": steps, **between}}
        return CompiledReading((rule,), certain=not reading.guess)
    rules = []
    for tools in [reading.first] if reading.either else [(tool,) for tool in reading.first]:
        params: Form = {"first": list[Json](names_of(tools, context)), "second": list[Json](second)}
        if context.has_results:
            params["first_must_succeed"] = True  # a prerequisite that failed is none
        if reading.each_time:
            params["reset_on"] = list[Json](second)
        rules.append({"kind": "must_call_before", "params": params})
    return CompiledReading(tuple(rules), certain=not reading.described and not reading.guess)


def _follows(reading: Reading, context: CompileContext) -> CompiledReading:
    """After one call, another before the session ends; in the same response is soon enough."""
    wanted = [reading.second] if reading.either else [(tool,) for tool in reading.second]
    called: list[Json] = [_calls_tool(tool) for tool in names_of(reading.first, context)]
    rules: list[Form] = []
    for tools in wanted:
        then = names_of(tools, context)
        trigger: list[Json] = [{"any_of": called}, *({"not": _calls_tool(tool)} for tool in then)]
        must: Form = {"kind": "tool_call", "tool_name": list[Json](then)}
        rules.append(
            {"kind": "must_followup", "params": {"trigger": trigger, "must": must, "within_turns": MOST_FOLLOWING}}
        )
    return CompiledReading(tuple(rules), certain=not reading.guess)


def _calls_tool(tool: str) -> Json:
    return {"path": "response.content", "op": "contains", "value": tool}


def _nothing_after(tools: list[str]) -> CompiledReading:
    """No call of any tool behind these."""
    return one("no_sequence", {"steps": [{"tool": list[Json](tools)}, {"tool": "*"}]})


def _answer_after(tools: list[str]) -> CompiledReading:
    """No answer in text before one of these was called; a question, a greeting and a refusal of a word are none."""
    label = label_of("called", " ".join(tools))
    noted: Form = {
        "kind": "no_call",
        "params": {"tool": list[Json](tools)},
        "mode": "shadow",
        "set_labels": {label: "1"},
    }
    answers: Form = {
        "kind": "forbidden_text",
        "params": {"pattern": ANSWER},
        "when": {"path": "stop_reason", "op": "not_in", "value": ["tool_use", "tool_calls"]},
        "unless": {"path": f"labels.{label}", "op": "exists", "value": True},
    }
    return CompiledReading((answers, noted), certain=False)


_ENDINGS: Final = {"nothing_after": _nothing_after, "answer_after": _answer_after}


def confirm_before(reading: Reading, context: CompileContext) -> CompiledReading:
    """A person's yes before these tools."""
    certain = bool(reading.items) and not reading.guess
    tools = names_of(reading.items, context) if reading.items else described(reading.described, context)
    params: Form = {}
    if reading.destructive:
        known = [name for name in context.catalogue.names if destroys(name) and is_usable(name)]
        tools = list(dict.fromkeys([*tools, *known, *(f"*{word}*" for word in DESTROYS)]))
        params["args_pattern"] = _DESTRUCTIVE_SQL
    if reading.shape == "acts":
        handoffs = context.catalogue.handoffs  # another agent takes over, and nothing is changed
        known = [name for name in context.catalogue.names if name not in handoffs]
        tools = [name for name in known if acts(name) and is_usable(name)]
        if any(word in SHELLS for name in context.catalogue.names for word in words_of(name)):
            params["args_pattern"] = _CHANGING_COMMAND
    asking = [name for name in context.catalogue.names if is_asking(name) and is_usable(name) and name not in tools]
    if not tools and not params:
        return CompiledReading(why=UNKNOWN_ACTION)
    rule: Form
    if reading.by:
        if not asking:
            return CompiledReading(why=f"no known tool asks the {reading.by}, so an approval would not be seen")
        rule = {"kind": "must_call_before", "params": {"first": asking, "second": tools, "reset_on": tools}}
    else:
        named: Form = {"tool": list[Json](tools)} if tools else {}
        rule = {"kind": "must_confirm_before", "params": {**named, **params, **({"asks": asking} if asking else {})}}
    if reading.over is not None:
        rule["when"] = over(reading.over)
    return CompiledReading((rule,), certain=certain)
