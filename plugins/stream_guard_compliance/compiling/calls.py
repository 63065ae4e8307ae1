"""Rules about calls: which tools, in which order, how often, and together with what."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    is_usable,
    names_of,
    one,
)
from stream_guard_compliance.compiling.patterns import ANSWER, GREETING, label_of, literal, more_than
from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.values import PER_AGENT, Reading
from stream_guard_compliance.reading.word_lists import word_set

_READS: Final = word_set("get list search find read lookup look fetch view show check calculate think describe")
_ACTS: Final = word_set(
    "add apply approve archive assign book buy cancel charge checkout close commit create delete deploy disable drop "
    "edit enable enroll execute generate grant insert invite invoke issue make merge modify move order pay place post "
    "process publish purchase push refund register reject remove rename replace reschedule "
    "reserve reset restart revoke "
    "schedule send set start stop submit subscribe terminate transfer unsubscribe update upgrade upload void wipe write"
)
_DESTROYS: Final = ("drop", "delete", "truncate", "remove", "purge", "wipe", "destroy", "erase", "overwrite")
_DESTRUCTIVE_SQL: Final = (
    r"(?i)\b(?:drop|truncate|alter)\s+(?:table|database|schema|index|view|column)\b|\bdelete\s+from\b"
    r"|\bupdate\s+\w+\s+set\b"
)
# Commands of a shell that change something outside it.
_CHANGING_COMMAND: Final = (
    r"(?i)\b(?:kubectl|oc|helm|terraform|tofu|pulumi|gcloud|aws|az|docker|systemctl)\b[^|;&\n]*\s"
    r"(?:apply|create|delete|patch|replace|scale|drain|destroy|install|upgrade|uninstall|update|remove|rm|restart|stop)\b"
)
_GENERIC: Final = word_set("any all the every each new")
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
_MAX_PARALLEL: Final = 64  # calls at the same time that a rule can count
_FILE_ARGUMENTS: Final = ("file_path", "path", "file", "filename")
_NOTES: Final = r"(?i)\.(?:md|markdown|txt|rst)$"
_PER_TURN: Final = {"on": "turn"}
SHELLS: Final = ("bash", "shell", "terminal", "execute", "command", "commands", "kubectl", "exec", "cmd", "powershell")


def forbid_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of these tools."""
    if reading.shape in _CHANGES:
        return _forbid_changes(reading, context)
    if reading.described and not reading.items:
        found = described(reading.described, context)
        return replace(one("no_call", {"tool": found}), certain=False) if found else CompiledReading(why=UNKNOWN_ACTION)
    tools = ["*"] if reading.items == ("*",) else names_of(reading.items, context)
    return one("no_call", {"tool": tools})


_CHANGES: Final[dict[str, tuple[frozenset[str], str]]] = {
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
    verbs = _CHANGES["edits"][0]
    return [name for name in context.catalogue.names if is_usable(name) and _changes_files(words_of(name), verbs)]


def _forbid_changes(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of tools that are called like a change of files, and no command that is one."""
    verbs, commands = _CHANGES[reading.shape]
    tools = [name for name in context.catalogue.names if is_usable(name) and _changes_files(words_of(name), verbs)]
    rules: list[Form] = [{"kind": "no_call", "params": {"tool": list[Json](tools)}}] if tools else []
    if rules and reading.described == ("code",):
        notes: list[Json] = [
            {"path": f"tool.args.{name}", "op": "matches", "value": _NOTES} for name in _FILE_ARGUMENTS
        ]
        rules[0]["unless"] = {"any_of": notes}
    shells = [name for name in context.catalogue.names if is_usable(name) and set(words_of(name)) & set(SHELLS)]
    if shells:
        where: Form = {"pattern": commands, "where": "tool_args", "tool": list[Json](shells)}
        rules.append({"kind": "forbidden_text", "params": where})
    return CompiledReading(tuple(rules), UNKNOWN_ACTION, certain=False)


def _changes_files(words: list[str], verbs: frozenset[str]) -> bool:
    """Whether the words of a name are a verb of changing, alone or with a word for files."""
    return bool(verbs & set(words)) and all(word in verbs or word in _FILES for word in words)


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


_MOST_FOLLOWING: Final = 64  # turns in which a call that ends the work may come


def _finishes(tools: list[str]) -> Form:
    """Return the rule that work which called a tool ends with one of these; a greeting calls none."""
    begins: list[Json] = [
        {"path": "stop_reason", "op": "in", "value": ["tool_use", "tool_calls"]},
        *({"path": "response.content", "op": "not_contains", "value": tool} for tool in tools),
    ]
    must: Form = {"kind": "tool_call", "tool_name": list[Json](tools)}
    return {"kind": "must_followup", "params": {"trigger": begins, "must": must, "within_turns": _MOST_FOLLOWING}}


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


def _parallel(_reading: Reading, n: int, _context: CompileContext) -> CompiledReading:
    if n > _MAX_PARALLEL:
        return CompiledReading(why="so many calls at the same time are not counted")
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
    keyed = [{**rule, "key": ["session", f"args.{name}"]} for name in _FILE_ARGUMENTS] if reading.described else [rule]
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


_SHAPED: Final = {
    "apart": _apart,
    "per_exchange": _per_exchange,
    "per_turn": _per_turn,
    "alone": _alone,
    "repeat": _repeat,
}


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
            {"kind": "must_followup", "params": {"trigger": trigger, "must": must, "within_turns": _MOST_FOLLOWING}}
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
        known = [name for name in context.catalogue.names if _destroys(name) and is_usable(name)]
        tools = list(dict.fromkeys([*tools, *known, *(f"*{word}*" for word in _DESTROYS)]))
        params["args_pattern"] = _DESTRUCTIVE_SQL
    if reading.shape == "acts":
        tools = [name for name in context.catalogue.names if _acts(name) and is_usable(name)]
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
    """Whether a tool asks a person: then its ok result is a yes."""
    return re.search(r"confirm|approv|ask_(?:user|human|customer)|request_consent", tool.lower()) is not None


def over(amount: float, unit: tuple[str, ...] = ()) -> Json:
    """Return the condition that an argument that looks like an amount, or like a percentage, is larger."""
    names = _SHARES if unit == ("percent",) else _AMOUNTS
    return {"any_of": [{"path": f"tool.args.{name}", "op": ">", "value": amount} for name in names]}


def _destroys(name: str) -> bool:
    return any(word.startswith(_DESTROYS) for word in words_of(name))


def _acts(name: str) -> bool:
    """Whether a tool changes something, by the verb its name begins with; one that asks a person does not."""
    return words_of(name)[0] in _ACTS and not is_asking(name)
