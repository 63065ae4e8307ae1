"""From a reading to its rules, kind by kind, or to the reason why a machine cannot check the sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import re2

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    ANSWER,
    CHANGES,
    DESTROYS,
    FILE_ARGUMENTS,
    GREETING,
    MOST_FOLLOWING,
    PATHS,
    SHELLS,
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    about_files,
    acts,
    any_of,
    described,
    destroys,
    forbid_changes,
    in_case,
    is_asking,
    is_usable,
    label_of,
    literal,
    more_than,
    names_of,
    one,
    over,
    params_of,
    placed,
    unless_asked,
    writing_tools,
)
from stream_guard_compliance.reading.catalogue import stem, words_of
from stream_guard_compliance.reading.composed.acts import verb_of
from stream_guard_compliance.reading.symbols import PATTERNS, SHELL, is_command, pattern_of
from stream_guard_compliance.reading.values import PER_AGENT, TEXT_WITH_CALLS, Reading, word_set

# Rules about the value of an argument: its bounds, its length, what it has to be, to have, or not to have.

_LONGEST_COUNT: Final = 1000  # what RE2 repeats
# What tools call the argument that has their text.
_TEXTS: Final = (
    *("text", "message", "body", "content", "msg", "title", "subject", "query", "question", "reason", "result"),
    *("answer", "command", "cmd", "summary", "description", "comment", "report", "input", "sql", "code", "prompt"),
    *("url", "uri", "href", "link", "address"),
)
_LOOKING: Final = word_set("read view search grep find list get fetch glob look lookup query show cat open")


def _no_call(tools: list[str], when: Json, *, certain: bool) -> CompiledReading:
    rule: Form = {"kind": "no_call", "params": {"tool": list[Json](tools)}, "when": when}
    return CompiledReading((rule,), certain=certain)


def _tools(reading: Reading, context: CompileContext) -> list[str]:
    return names_of(reading.first, context) or ["*"]


def _argument(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that must not be larger or smaller than a number, or must have a value where it is given."""
    name, _, value = reading.items[0].partition("=")
    path = f"tool.args.{name}"
    gates: list[Json] = []
    if reading.over is not None:
        gates.append({"path": path, "op": ">=" if reading.strict else ">", "value": reading.over})
    if reading.least is not None:
        gates.append({"path": path, "op": "<", "value": reading.least})
    if not gates:
        gates.append({"path": path, "op": "not_in", "value": values(value)})
    when: Json = gates[0] if len(gates) == 1 else {"any_of": gates}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first))


def values(text: str) -> list[Json]:
    """Return the values that a word in a prompt stands for: true is the value and the text."""
    known: dict[str, list[Json]] = {"true": [True, "true", "True"], "false": [False, "false", "False"]}
    return known.get(text.lower(), [text, *([int(text)] if text.isdigit() else [])])


def _value(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that has one of some values where it is given."""
    name, *texts = reading.items
    wanted = [value for text in texts for value in values(text)]
    gate: Json = {"path": f"tool.args.{name}", "op": "not_in", "value": wanted}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _size(reading: Reading, context: CompileContext) -> CompiledReading:
    """A list with no more members than a number."""
    most = int(reading.over or 0) - reading.strict
    gate: Json = {"path": f"tool.args.{reading.items[0]}.{most}", "op": "exists", "value": True}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _text_length(reading: Reading, context: CompileContext) -> CompiledReading:
    """No text of a call longer than so many characters or words."""
    most = int(reading.over or 0) - reading.strict
    if not 0 < most < _LONGEST_COUNT:
        return CompiledReading(why="so long a text is not counted")
    body = rf"(?:\S+\s+){{{most}}}\S" if reading.items == ("words",) else f"(?s)^.{{{most + 1}}}"
    if reading.described:
        gate: Json = {"path": f"tool.args.{reading.described[0]}", "op": "matches", "value": body}
        return _no_call(_tools(reading, context), gate, certain=bool(reading.first))
    return one("forbidden_text", {"pattern": body, "where": "tool_args", "tool": list[Json](_tools(reading, context))})


def _filled(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that is not empty."""
    gate: Json = {"path": f"tool.args.{reading.items[0]}", "op": "in", "value": ["", " ", None, []]}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _absent(reading: Reading, context: CompileContext) -> CompiledReading:
    """Arguments that are not given, or are empty."""
    gates: list[Json] = [
        {"path": f"tool.args.{name}", "op": "not_in", "value": ["", None, [], False]} for name in reading.items
    ]
    when: Json = gates[0] if len(gates) == 1 else {"any_of": gates}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first))


def _given(reading: Reading, context: CompileContext) -> CompiledReading:
    """Arguments without which the tool must not be called."""
    gates: list[Json] = [
        {"not": {"path": f"tool.args.{name}", "op": "exists", "value": True}} for name in reading.items
    ]
    return _no_call(_tools(reading, context), {"any_of": gates}, certain=True)


def _literal(reading: Reading, context: CompileContext) -> CompiledReading:
    """A text that stands in no argument; tools that only look may look for it."""
    acting = [name for name in context.catalogue.names if is_usable(name) and verb_of(name) not in _LOOKING]
    tools = names_of(reading.first, context) or (acting if context.catalogue.closed else ["*"])
    if not tools:
        return CompiledReading(why=UNKNOWN_ACTION)
    pattern = "|".join(_as_piece(text) for text in reading.items)
    compiled = one("forbidden_text", {"pattern": pattern, "where": "tool_args", "tool": list[Json](tools)})
    return CompiledReading(compiled.rules, certain=False)


def _as_piece(text: str) -> str:
    """Return a pattern for a text that is no part of a longer word."""
    body = r"\s+".join(str(re2.escape(word)) for word in text.split())
    start = r"\b" if text[:1].isalnum() else r"(?:^|[^\w-])" if text[:1] == "-" else ""
    return f"{start}{body}" + (r"(?:$|[^\w-])" if text[-1:].isalnum() else "")


def _words(reading: Reading, context: CompileContext) -> CompiledReading:
    """Words of a command, which only tools that run commands are given."""
    runs = {*SHELLS, "sql", "query", "database", "db"}
    shells = [name for name in context.catalogue.names if is_usable(name) and set(words_of(name)) & runs]
    if not shells:
        return CompiledReading(why=UNKNOWN_ACTION)
    pattern = "|".join(rf"(?i:(?:^|[\s;(]){re2.escape(word)}(?:$|[\s;]))" for word in reading.items)
    compiled = one("forbidden_text", {"pattern": pattern, "where": "tool_args", "tool": list[Json](shells)})
    return CompiledReading(compiled.rules, certain=False)


def _has(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that begins with, ends with or has a text; without a name, any text of the call may."""
    names = reading.described or _TEXTS
    bodies = [str(re2.escape(text)) for text in reading.items]
    body = "|".join(bodies)
    pattern = {"start": rf"^\s*(?:{body})", "end": rf"(?:{body})\s*$"}.get(reading.place, f"(?:{body})")
    given: list[Json] = [{"path": f"tool.args.{name}", "op": "exists", "value": True} for name in names]
    right: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": pattern} for name in names]
    when: Json = {"all_of": [{"any_of": given}, {"not": {"any_of": right}}]}
    return _no_call(_tools(reading, context), when, certain=bool(reading.first and reading.described))


def _lacks(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument that does not begin with, end with or have a text."""
    body = "|".join(str(re2.escape(text)) for text in reading.items)
    pattern = {"start": rf"^\s*(?:{body})", "end": rf"(?:{body})\s*$"}.get(reading.place, f"(?:{body})")
    gate: Json = {"path": f"tool.args.{reading.described[0]}", "op": "matches", "value": pattern}
    return _no_call(_tools(reading, context), gate, certain=bool(reading.first))


def _origin(reading: Reading, context: CompileContext) -> CompiledReading:
    """An argument whose value comes from the results of other tools, or from the user."""
    sources = names_of(reading.second, context)
    allowed: Form = {"tools": list[Json](sources)} if sources else {"user": True}
    tools = list[Json](_tools(reading, context))
    rules: list[Form] = [
        {"kind": "arg_provenance", "params": {"tool": tools, "path": name, "allow": allowed}} for name in reading.items
    ]
    return CompiledReading(tuple(rules), certain=False)


# Rules about the arguments of calls: texts in them, paths, and how large a number may be.

_ABSOLUTE: Final = r"^(?:/|~|[A-Za-z]:[\\/])"
_RELATIVE: Final = r"^(?:\.{1,2}(?:[/\\]|$)|[^/\\~$%{}<>:|]+$|[^/\\~$%{}<>:|]+[/\\][^:]*$)"


def forbid_arg(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call with these texts in its arguments."""
    where: Form = {"where": "tool_args"}
    if reading.first:
        where["tool"] = list[Json](names_of(reading.first, context))
    compile_shape = _SHAPES.get(reading.shape)
    if compile_shape is not None:
        return compile_shape(reading, context)
    if reading.shape == "command":
        compiled = one("forbidden_text", {"pattern": pattern_of(reading.items, reading.described), **where})
        tools = [] if reading.described or reading.first else _called_like(reading.items, context)
        also: tuple[Form, ...] = ({"kind": "no_call", "params": {"tool": list[Json](tools)}},) if tools else ()
        return replace(compiled, rules=(*compiled.rules, *also), certain=not reading.left and not tools)
    compiled = one("forbidden_text", {"pattern": any_of(reading.items), **where})
    # A single word may stand in an argument that is no command.
    certain = all(" " in item.strip() or item in SHELL or is_command(item) for item in reading.items)
    return replace(compiled, certain=certain)


def _called_like(commands: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return the known tools that are called like a command, and do what it does: git_commit."""
    plain = [set(command.split()) - {"git"} for command in commands if "-" not in command]
    return [
        name
        for name in context.catalogue.names
        if is_usable(name) and any(words == set(words_of(name)) - _BESIDE_COMMANDS for words in plain if words)
    ]


_BESIDE_COMMANDS: Final = word_set("git changes code files all")


def _paths(reading: Reading, context: CompileContext) -> CompiledReading:
    """No path of the wrong sort, under any of the names that tools have for such an argument."""
    pattern = _ABSOLUTE if reading.items == ("absolute",) else _RELATIVE
    wrong: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": pattern} for name in PATHS]
    return _no_call(_tools(reading, context), {"any_of": wrong}, certain=False)


def _folder(reading: Reading, context: CompileContext) -> CompiledReading:
    """No file outside a folder, by the tools that are named, or by those that are called like writing files."""
    tools = names_of(reading.first, context) or writing_tools(context)
    inside = f"^{re2.escape(reading.items[0])}"
    outside: list[Json] = [
        {
            "all_of": [
                {"path": f"tool.args.{name}", "op": "exists", "value": True},
                {"not": {"path": f"tool.args.{name}", "op": "matches", "value": inside}},
            ]
        }
        for name in PATHS
    ]
    if not tools:
        return CompiledReading(why=UNKNOWN_ACTION)
    return _no_call(tools, {"any_of": outside}, certain=False)


def over_amount(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of these tools over an amount."""
    return _no_call(names_of(reading.items, context), over(reading.over or 0.0, reading.described), certain=False)


_SHAPES: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "path": _paths,
    "folder": _folder,
    "argument": _argument,
    "value": _value,
    "size": _size,
    "length": _text_length,
    "filled": _filled,
    "absent": _absent,
    "given": _given,
    "literal": _literal,
    "words": _words,
    "has": _has,
    "lacks": _lacks,
    "origin": _origin,
}


# Rules about calls: which tools are forbidden, which alone are allowed, and which are asked for.


def forbid_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of these tools."""
    if reading.shape in CHANGES:
        return forbid_changes(reading, context)
    if reading.described and not reading.items:
        found = described(reading.described, context)
        return replace(one("no_call", {"tool": found}), certain=False) if found else CompiledReading(why=UNKNOWN_ACTION)
    tools = ["*"] if reading.items == ("*",) else names_of(reading.items, context)
    return one("no_call", {"tool": tools})


def allow_only(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of other tools, or of these by another agent."""
    tools = names_of(reading.items, context)
    if not reading.by:
        return one("must_call_only", {"tool": tools})
    name = reading.by.removeprefix(f"{PER_AGENT}:")
    # Where the trace does not name the agent, the rule does not apply.
    rule: Form = {
        "kind": "no_call",
        "params": {"tool": tools},
        "when": {"path": "agent", "op": "matches", "value": "."},
        "unless": {"path": "agent", "op": "matches", "value": f"(?i){literal(name)}"},
    }
    return CompiledReading((rule,))


def require_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    """A call of these tools before the session ends; of some sessions, only of those that call anything."""
    wanted = [reading.items] if reading.either else [(tool,) for tool in reading.items]
    if reading.shape == "each_turn":
        greets: Form = {"path": "response.content.0.text", "op": "matches", "value": GREETING}
        calls: Form = {"allowed": ["tool_use", "tool_calls"]}
        return CompiledReading(({"kind": "required_stop_reason", "params": calls, "unless": greets},))
    if reading.shape == "finish":
        return CompiledReading(tuple(_finishes(names_of(tools, context)) for tools in wanted))
    rules = [{"kind": "must_call", "params": {"tool": names_of(tools, context)}} for tools in wanted]
    return CompiledReading(tuple(rules))


def _finishes(tools: list[str]) -> Form:
    """Return the rule that work which called a tool ends with one of these; a greeting calls none."""
    begins: list[Json] = [
        {"path": "stop_reason", "op": "in", "value": ["tool_use", "tool_calls"]},
        *({"path": "response.content", "op": "not_contains", "value": tool} for tool in tools),
    ]
    must: Form = {"kind": "tool_call", "tool_name": list[Json](tools)}
    return {"kind": "must_followup", "params": {"trigger": begins, "must": must, "within_turns": MOST_FOLLOWING}}


# Rules about how often and how long: calls in a session, in a response, at once, and the length of answers.

_MAX_PARALLEL: Final = 64  # calls at the same time that a rule can count
_PER_TURN: Final = {"on": "turn"}


def limit(reading: Reading, context: CompileContext) -> CompiledReading:
    """No more calls, or no longer text, than this."""
    if reading.window:
        return CompiledReading(why="it counts over a span of time, and a recorded trace need not have times")
    if reading.shape in _SHAPED:
        return _SHAPED[reading.shape](reading, context)
    if not reading.items:
        tools = described(reading.described, context)
        rules = [{"kind": "max_calls", "params": {"tool": tools, "n": int(reading.over or 0)}}] if tools else []
        return CompiledReading(tuple(rules), UNKNOWN_ACTION, certain=False)
    about, number = reading.items[0].rsplit("<=", 1)
    if about in _COUNTERS:
        return _COUNTERS[about](reading, int(number), context)
    if about in {"tokens", "retries"}:
        return CompiledReading(why=f"no kind counts {about}")
    pairs = [item.rsplit("<=", 1)[0] for item in reading.items]
    rules = [{"kind": "max_calls", "params": {"tool": names_of((tool,), context), "n": int(number)}} for tool in pairs]
    return CompiledReading(tuple(rules))


def _length(reading: Reading, n: int, _context: CompileContext) -> CompiledReading:
    unit = reading.items[0].rsplit("<=", 1)[0]
    return one("max_text_length", {"words" if unit == "words" else "characters": n - reading.strict})


def _pieces(reading: Reading, n: int, _context: CompileContext) -> CompiledReading:
    unit = reading.items[0].rsplit("<=", 1)[0]
    compiled = one("forbidden_text", {"pattern": more_than(n - reading.strict, unit)})
    return CompiledReading(compiled.rules, certain=unit != "sentences")


def _parallel(reading: Reading, n: int, context: CompileContext) -> CompiledReading:
    if n > _MAX_PARALLEL:
        return CompiledReading(why="so many calls at the same time are not counted")
    if reading.second:  # which do not count
        others: Form = {"path": "tool.name", "op": "not_in", "value": list[Json](names_of(reading.second, context))}
        return CompiledReading(({"kind": "max_parallel_calls", "params": {"n": n}, "when": others},))
    return one("max_parallel_calls", {"n": n})


def _calls(_reading: Reading, n: int, _context: CompileContext) -> CompiledReading:
    return one("max_calls", {"n": n})


def _failures(reading: Reading, n: int, context: CompileContext) -> CompiledReading:
    stems = [stem(word) for word in reading.described]
    tools = [name for name in context.catalogue.about(stems) if is_usable(name)]
    rules = [{"kind": "max_failed_calls", "params": {"tool": tools, "n": n}}] if tools and n else []
    return CompiledReading(tuple(rules), UNKNOWN_ACTION, certain=False)


_COUNTERS: Final = {
    "words": _length,
    "chars": _length,
    "lines": _pieces,
    "paragraphs": _pieces,
    "sentences": _pieces,
    "questions": _pieces,
    "parallel": _parallel,
    "calls": _calls,
    "failures": _failures,
}


def _per_turn(reading: Reading, context: CompileContext) -> CompiledReading:
    """No more calls of these tools, all together, in one response."""
    pairs = [item.rsplit("<=", 1) for item in reading.items]
    tools = names_of(tuple(tool for tool, _ in pairs), context)
    gate: Form = {"path": "tool.name", "op": "in", "value": list[Json](tools)}
    n = int(pairs[0][1])
    if not tools or not 1 <= n <= _MAX_PARALLEL:
        return CompiledReading(why=UNKNOWN_ACTION)
    rule: Form = {"kind": "max_parallel_calls", "params": {"n": n}, "when": gate}
    # For the same file: one count for each value of the argument, under the names that tools have for it.
    keyed = [{**rule, "key": ["session", f"args.{name}"]} for name in FILE_ARGUMENTS] if reading.described else [rule]
    return CompiledReading(tuple(keyed), certain=not reading.guess and not reading.described)


def _alone(reading: Reading, context: CompileContext) -> CompiledReading:
    """No other call in a response that calls one of these tools; ``last``: none behind it."""
    tools = names_of(reading.items, context)
    if not tools:
        return CompiledReading(why=UNKNOWN_ACTION)
    these: Form = {"tool": list[Json](tools)}
    others: Form = {"when": {"path": "tool.name", "op": "not_in", "value": list[Json](tools)}}
    called: list[Json] = [{"path": "response.content", "op": "contains", "value": tool} for tool in tools]
    orders = [[these, others]] if reading.place == "end" else [[these, others], [others, these]]
    rules = [
        {
            "kind": "no_sequence",
            "params": {"steps": list[Json](steps), "unless_between": dict(_PER_TURN)},
            "when": {"any_of": called},
        }
        for steps in orders
    ]
    return CompiledReading(tuple(rules), certain=not reading.guess)


def _repeat(reading: Reading, context: CompileContext) -> CompiledReading:
    """Not the same call again."""
    tools = names_of(reading.items, context) if reading.items else ["*"]
    return one("no_repeated_calls", {"tool": tools, "times": int(reading.over or 1) + 1, "max_period": 1})


def _per_exchange(reading: Reading, context: CompileContext) -> CompiledReading:
    """No more calls of these tools, each by itself, from one message of the user to the next."""
    pairs = [item.rsplit("<=", 1) for item in reading.items]
    rules: list[Form] = [
        {"kind": "max_calls", "params": {"tool": names_of((tool,), context), "n": int(n)}, "scope": "part"}
        for tool, n in pairs
    ]
    return CompiledReading(tuple(rules), certain=not reading.guess)


def _apart(reading: Reading, context: CompileContext) -> CompiledReading:
    """Two tools that are not called in one response."""
    one_of, other = (names_of((tool,), context) for tool in reading.items[:2])
    steps: list[list[Json]] = [
        [{"tool": list[Json](a)}, {"tool": list[Json](b)}] for a, b in ((one_of, other), (other, one_of))
    ]
    rules = [{"kind": "no_sequence", "params": {"steps": pair, "unless_between": dict(_PER_TURN)}} for pair in steps]
    return CompiledReading(tuple(rules))


def _commands(reading: Reading, context: CompileContext) -> CompiledReading:
    """No more commands of a sort in a session."""
    shells = [name for name in context.catalogue.names if is_usable(name) and set(words_of(name)) & set(SHELLS)]
    rules: list[Form] = []
    for command, n in (item.rsplit("<=", 1) for item in reading.items):
        pattern = pattern_of((command,))
        given: list[Json] = [{"path": f"tool.args.{name}", "op": "matches", "value": pattern} for name in _COMMANDS]
        params: Form = {"tool": list[Json](shells), "n": int(n)}
        rules.append({"kind": "max_calls", "params": params, "when": {"any_of": given}})
    return CompiledReading(tuple(rules) if shells else (), UNKNOWN_ACTION, certain=False)


_COMMANDS: Final = ("command", "cmd", "commands", "script", "input", "code")  # what tools call the argument
_SHAPED: Final = {
    "command": _commands,
    "apart": _apart,
    "per_exchange": _per_exchange,
    "per_turn": _per_turn,
    "alone": _alone,
    "repeat": _repeat,
}


# Rules about what comes first: a call before another, or a person's yes.

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


# Rules about what responses say: texts, forms of text, data, and what has to stand in them.

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


# The rules of a reading, whatever its kind.

_MAX_PARAM: Final = 30_000  # characters of one parameter, well under what a policy takes


def compile_reading(reading: Reading, context: CompileContext) -> CompiledReading:
    """Return rules of ordinary kinds, or the reason why a machine cannot check the sentence."""
    if not reading.concrete:
        return CompiledReading(why=reading.why or "it leaves to judgement what counts")
    if reading.inner is not None:
        return _gated(reading, reading.inner, context)
    if reading.kind in {"forbid_output", "forbid_arg"} and not reading.shape and any(map(_says_nothing, reading.items)):
        return CompiledReading(why="a text of less than two letters or digits would be found everywhere")
    compiled = _COMPILERS[reading.kind](reading, context)
    compiled = about_files(compiled, reading.files) if reading.files else compiled
    if any(len(str(value)) > _MAX_PARAM for form in compiled.rules for value in params_of(form).values()):
        return CompiledReading(why="it lists more than a rule can hold")
    return replace(compiled, certain=False) if reading.proposed or reading.guess else compiled


def _gated(reading: Reading, inner: Reading, context: CompileContext) -> CompiledReading:
    """Return the rules of what holds in a case, or unless the user asks for it."""
    compiled = compile_reading(replace(inner, concrete=True, proposed=reading.proposed), context)
    if reading.case is not None:
        compiled = in_case(compiled, reading.case, context)
    return unless_asked(compiled, reading.words) if reading.asked else compiled


def _says_nothing(text: str) -> bool:
    return sum(char.isalnum() for char in text) < 2


_COMPILERS: Final[dict[str, Callable[[Reading, CompileContext], CompiledReading]]] = {
    "forbid_tool": forbid_tool,
    "forbid_arg": forbid_arg,
    "allow_only": allow_only,
    "forbid_output": forbid_output,
    "require_output": require_output,
    "require_tool": require_tool,
    "limit": limit,
    "order": order,
    "confirm_before": confirm_before,
    "conditional": over_amount,
}
