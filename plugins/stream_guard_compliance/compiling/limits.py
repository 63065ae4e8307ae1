"""Rules about how often and how long: calls in a session, in a response, at once, and the length of answers."""

from __future__ import annotations

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
from stream_guard_compliance.compiling.described_tools import described
from stream_guard_compliance.compiling.file_changes import FILE_ARGUMENTS, SHELLS
from stream_guard_compliance.compiling.patterns import more_than
from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.commands import pattern_of
from stream_guard_compliance.reading.values import Reading

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
