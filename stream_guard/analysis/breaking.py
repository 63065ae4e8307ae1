"""The shortest trace that breaks a rule, found by trying traces with the engine that judges real ones."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import islice, product
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from stream_guard.errors import StreamGuardError
from stream_guard.judge.conditions import GROUPS
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json
from stream_guard.judge.patterns import Regex, ToolPattern
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.gates import events_handled

# A small alphabet of events for a rule: its tools and texts, with arguments and labels that open its gate.
#
# Events are in the shorthand that tests beside rules use. What a rule's condition cannot be asked by inverting an
# operator, such as an elaborate regular expression, stays out: then fewer traces are tried, and none is made up.


Item: TypeAlias = dict[str, Any]
"""One event in the shorthand."""

_MOST_TOOLS: Final = 4
_MOST_WORDS: Final = 4
_LONGEST: Final = 200
_OTHER: Final = "something_else"


def alphabet(spec: RuleSpec) -> list[Item]:
    """Return events that may matter to a rule, those that open its gate first."""
    settings = [_setting(spec, holds=True), {}, _setting(spec, holds=False)] if spec.when is not None else [{}]
    unique = {repr(item): item for setting in settings for item in _events(spec, setting)}
    return list(unique.values())


def _events(spec: RuleSpec, setting: Item) -> Iterator[Item]:
    handled = events_handled(type(spec.rule))
    header: Item = {key: setting[key] for key in ("labels", "agent", "run") if key in setting}
    turn: Item = {key: setting[key] for key in ("request", "response") if key in setting}
    tools = [setting["tool"]] if "tool" in setting else [*_tools_of(spec)[:_MOST_TOOLS], _OTHER]
    if handled & {"tool_call", "tool_result", "decision"}:
        for tool in tools:
            yield {"call": tool, "args": setting.get("args", {}), **header}
            if "tool_result" in handled:
                for status in ("ok", "error"):
                    yield {"result": tool, "status": status, **setting.get("result", {}), **header}
    if "turn" in handled or turn:
        yield from _turns(spec, tools if "turn" in handled else [], {**turn, **header})
    if "user_message" in handled or "user" in setting:
        for text in (setting.get("user", "please"), *_words_of(spec)):
            yield {"user": text, **header}


def _turns(spec: RuleSpec, tools: Sequence[str], given: Item) -> Iterator[Item]:
    yield {"turn": "so", **given}
    yield from ({"turn": None, "calls": [tool], **given} for tool in tools)
    for word in _words_of(spec):
        yield {"turn": word, **given}
        if "response" not in given:
            yield {"turn": "so", "stop": word, **given}


def _tools_of(spec: RuleSpec) -> list[str]:
    """Return a name for each tool that the rule speaks of."""
    found = dict.fromkeys(sample for pattern in patterns_in(spec.rule.params) for sample in _samples(pattern))
    tools = spec.rule.tools()
    for name in sorted(tools.exact or ()) if tools is not None else ():
        found[name] = None
    return list(found)


def patterns_in(value: object) -> Iterator[ToolPattern]:
    """Yield every pattern of tools in a rule's parameters."""
    if isinstance(value, ToolPattern):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from patterns_in(getattr(value, name, None))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from patterns_in(item)


def _samples(pattern: ToolPattern) -> Iterator[str]:
    """Yield names that a pattern matches."""
    for part in pattern.expanded:
        for name in part.removeprefix("~").split("|"):
            sample = re.sub(r"\[!?(.)[^\]]*\]", r"\1", name).replace("*", "x").replace("?", "x")
            if pattern.matches(sample):
                yield sample


def _words_of(spec: RuleSpec) -> list[str]:
    """Return texts that the parameters speak of: what they say, what follows a colon, what a pattern matches."""
    words: dict[str, None] = {}
    for text in _strings(dict(spec.params)):
        for pattern in (part.regex for part in spec.rule.texts()):
            if sample := text_for(pattern):
                words[sample] = None
        for piece in (text, *re.findall(r':("[^"]*"|[^\s()!&|]+)', text)):
            words[piece.strip('"')[:_LONGEST]] = None
    return list(words)[:_MOST_WORDS]


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def text_for(pattern: str) -> str:
    """Return a text that a simple pattern matches, or nothing."""
    plain = re.sub(r"\(\?[a-zA-Z:]+\)?|[\^$()]|\\[bBAzZ]", "", pattern).split("|")[0]
    plain = re.sub(r"\\d[+*]?", "1", re.sub(r"\\w[+*]?", "a", re.sub(r"\\s[+*]?", " ", plain)))
    plain = re.sub(r"\[([^\]^-])[^\]]*\][+*]?", r"\1", plain).replace(".*", "").replace(".+", "a")
    candidate = re.sub(r"\\(.)", r"\1", plain)
    try:
        return candidate if candidate and Regex(pattern).search(candidate) is not None else ""
    except ValueError:
        return ""


def _setting(spec: RuleSpec, *, holds: bool) -> Item:
    """Return what events must have so that the rule's gate is open, or so that it just is not."""
    setting: Item = {}
    for leaf in _chosen_leaves(spec.when.source if spec.when is not None else []):
        value = _value_for(leaf, holds=holds)
        if value is not None:
            _put(setting, str(leaf["path"]), value)
    return setting


def _chosen_leaves(source: Json) -> Iterator[dict[str, Json]]:
    """Yield leaves that together make a condition true; of alternatives the first."""
    if isinstance(source, list):
        for item in source:
            yield from _chosen_leaves(item)
        return
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        yield source
    elif group == "all_of":
        yield from _chosen_leaves(source[group])
    elif group == "any_of":
        inner = source[group]
        yield from _chosen_leaves(inner[0] if isinstance(inner, list) and inner else inner)


def _value_for(leaf: dict[str, Json], *, holds: bool) -> Json:
    """Return a value for which the leaf holds, or does not; None where none is known."""
    op, value = str(leaf["op"]), leaf.get("value")
    if op in {"!=", "not_in", "not_contains"}:
        op, holds = {"!=": "==", "not_in": "in", "not_contains": "contains"}[op], not holds
    if op in {"==", "contains"}:
        return deepcopy(value) if holds else _another(value)
    if op == "in" and isinstance(value, list) and value:
        return deepcopy(value[0]) if holds else _another(value[0])
    if op in {">", ">=", "<", "<="} and isinstance(value, int | float):
        step = 1 if op[0] == ">" else -1
        return value + (step if holds else -step)
    if op == "matches":
        return text_for(str(value)) or None if holds else "-"
    return "1" if op == "exists" and value is not False and holds else None


def _another(value: Json) -> Json:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else "another value"


def _put(setting: Item, path: str, value: Json) -> None:
    """Put a value where an event has it for the path."""
    root, *steps = path.split(".")
    if path == "tool.name":
        setting["tool"] = value
    elif path in {"model", "stop_reason"}:
        setting.setdefault("request" if path == "model" else "response", {})[path] = value
    elif path == "agent":
        setting["agent"] = value
    elif path == "run_id":
        setting["run"] = value
    elif path == "user.text":
        setting["user"] = value
    elif root == "labels":
        setting.setdefault("labels", {})[steps[0]] = value if isinstance(value, str) else str(value)
    elif root == "tool" and steps[0] == "args":
        _nest(setting.setdefault("args", {}), steps[1:], value)
    elif root == "tool" and steps[0] == "result" and len(steps) > 1:
        _nest(setting.setdefault("result", {}), steps[1:], value)
    elif root in {"request", "response"}:
        _nest(setting.setdefault(root, {}), steps, value)


def _nest(holder: dict[str, Json], steps: Sequence[str], value: Json) -> None:
    for step in steps[:-1]:
        inner = holder.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        holder = inner
    if steps:
        holder[steps[-1]] = value


Trace: TypeAlias = tuple[Item, ...]
ReadTrace: TypeAlias = Callable[[Iterable[Mapping[str, Json]], str], list[Event]]
"""Turns a trace in the shorthand into the events of a session of this name."""

MOST_TRACES: Final = 600  # that are tried for one rule
LONGEST: Final = 4  # events of a trace that is not a repetition
_MOST_REPEATED: Final = 500


class TraceJudge:
    """Runs traces in the shorthand through some rules of a policy; each trace is a session of its own."""

    def __init__(self, policy: Policy, specs: Sequence[RuleSpec], read: ReadTrace) -> None:
        self._policy = replace(policy, rules=tuple(specs), max_out_of_orderness=0.0)
        self._read = read
        self._shares = any("session" not in spec.key for spec in specs)  # then a judge has to be new for each trace
        self._step = max([1.0, *(spec.hold for spec in specs if spec.hold)])  # seconds: a `for` must have time to pass
        self._judge: Judge | None = None
        self._judged = 0  # traces so far; gives each session a name of its own

    def fired(self, traces: Sequence[Trace]) -> list[set[str]]:
        """Return, for each trace, the slots of the rules that fire in it."""
        return [early | late for early, late in self.outcomes(traces)]

    def outcomes(self, traces: Sequence[Trace]) -> list[tuple[set[str], set[str]]]:
        """Return, for each trace, the slots of the rules that fire at an event of it, and of those at its end."""
        if self._shares:
            return [outcome for trace in traces for outcome in self._outcomes([trace])]
        return self._outcomes(traces)

    def _outcomes(self, traces: Sequence[Trace]) -> list[tuple[set[str], set[str]]]:
        # Patterns take long to compile, so a judge is used again where sessions have nothing to do with each other.
        judge = self._judge = Judge(self._policy) if self._judge is None or self._shares else self._judge
        found: list[Finding] = []
        fired: dict[str, tuple[set[str], set[str]]] = {}
        for number, trace in enumerate(traces, self._judged):
            fired[f"t{number}"] = set(), set()
            self._feed(judge, f"t{number}", trace, found)
        self._judged += len(traces)
        found += judge.end()
        for finding in found:
            if finding.session_id in fired:
                fired[finding.session_id][finding.at != "event"].add(finding.slot)
        return list(fired.values())

    def _feed(self, judge: Judge, name: str, trace: Trace, found: list[Finding]) -> None:
        try:
            events = self._read([{"at": 1000.0 + self._step * at, **item} for at, item in enumerate(trace)], name)
            for event in events:
                found += judge.feed(event).findings
        except (ValueError, TypeError, KeyError, StreamGuardError):
            return  # no event can be like this


def shortest_break(policy: Policy, spec: RuleSpec, read: ReadTrace) -> Trace | None:
    """Return the shortest trace found in which the rule fires, or None where none of those tried does."""
    judge = TraceJudge(policy, [spec], read)
    found = _first_break(spec, judge)
    # The alphabet has one call to a turn; an example may do with fewer events.
    for trace in _from_examples(spec) if found is None or len(found) > 1 else ():
        if judge.fired([trace])[0]:
            shorter = _shrunk(trace, judge)
            found = shorter if found is None or len(shorter) < len(found) else found
    return found


class BreakingTraces:
    """The shortest trace that breaks each rule of a policy. Each is looked for once, when it is asked for."""

    def __init__(self, policy: Policy, read: ReadTrace) -> None:
        self._policy = policy
        self._read = read
        self._found: dict[str, Trace | None] = {}  # by slot

    def of(self, spec: RuleSpec) -> Trace | None:
        """Return the shortest trace found in which the rule fires, or None where none of those tried does."""
        if spec.slot not in self._found:
            self._found[spec.slot] = shortest_break(self._policy, spec, self._read)
        return self._found[spec.slot]


def _first_break(spec: RuleSpec, judge: TraceJudge) -> Trace | None:
    """Return the shortest trace over the rule's alphabet, or else a repetition of one event."""
    for batch in _batches(islice(_by_length(alphabet(spec)), MOST_TRACES)):
        for trace, fired in zip(batch, judge.fired(batch), strict=True):
            if fired:
                return trace
    repeated = (trace for trace in _repeated(spec) if judge.fired([trace])[0])
    return next((_shrunk(trace, judge) for trace in repeated), None)


def _by_length(items: Sequence[Item]) -> Iterator[Trace]:
    for length in range(1, LONGEST + 1):
        yield from filter(is_real, product(items, repeat=length))


def is_real(trace: Trace) -> bool:
    """Whether every result of the trace follows a call of its tool."""
    called: list[str] = []
    for item in trace:
        called += [item["call"]] if "call" in item else item.get("calls", [])
        if "result" in item and item["result"] not in called:
            return False
    return True


def _batches(traces: Iterator[Trace], size: int = 40) -> Iterator[list[Trace]]:
    while batch := list(islice(traces, size)):
        yield batch


def _repeated(spec: RuleSpec) -> Iterator[Trace]:
    """Yield traces of one event over and over, as often as a number among the parameters says, and once more."""
    numbers = sorted({int(value) for value in _numbers(dict(spec.params)) if 1 <= value < _MOST_REPEATED})
    for number in numbers:
        for item in alphabet(spec):
            yield (item,) * (number + 1)


def _numbers(value: Json) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)


def _from_examples(spec: RuleSpec) -> Iterator[Trace]:
    """Yield the kind's own examples and the rule's tests, with the words of this rule in place of the example's."""
    for test in spec.tests:
        if test.get("hits"):
            yield tuple(dict(item) for item in test["trace"])
    opening = next(iter(alphabet(spec)), {})
    given = {key: opening[key] for key in ("args", "labels", "agent") if opening.get(key)}
    for example in spec.rule.examples:
        if example.hits:
            words = dict(_renamed(dict(example.params), dict(spec.params)))
            trace = [_replaced(dict(item), words) for item in example.trace]
            yield tuple(trace)
            yield tuple({**item, **given} if "call" in item else item for item in trace)


def _renamed(theirs: Json, ours: Json) -> Iterator[tuple[str, str]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() & ours.keys():
            yield from _renamed(theirs[key], ours[key])
    elif isinstance(theirs, str):
        one = ours[0] if isinstance(ours, list) and ours else ours
        if isinstance(one, str):
            yield theirs, one


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, dict):
        return {key: _replaced(item, words) for key, item in value.items()}
    return [_replaced(item, words) for item in value] if isinstance(value, list) else value


def _shrunk(trace: Trace, judge: TraceJudge) -> Trace:
    """Leave out every event without which the rule fires all the same."""
    if all(item == trace[0] for item in trace):
        # Whether it fires depends on the number alone: the smallest one is found by halving.
        counts = range(1, len(trace) + 1)
        return trace[: counts[bisect_left(counts, 1, key=lambda count: bool(judge.fired([trace[:count]])[0]))]]
    place = 0
    while place < len(trace) and len(trace) > 1:
        shorter = trace[:place] + trace[place + 1 :]
        if judge.fired([shorter])[0]:
            trace = shorter
        else:
            place += 1
    return trace


def in_words(trace: Trace) -> str:
    """Return a trace on one line: ``call refund {"amount": 6}, call refund (3 times)``."""
    steps: list[tuple[str, int]] = []
    for item in trace:
        text = _item_in_words(item)
        if steps and steps[-1][0] == text:
            steps[-1] = (text, steps[-1][1] + 1)
        else:
            steps.append((text, 1))
    return ", ".join(text if count == 1 else f"{text} ({count} times)" for text, count in steps)


def _item_in_words(item: Item) -> str:
    kind = next((key for key in ("call", "result", "turn", "user", "decision", "end") if key in item), "")
    named = "" if item.get(kind) is None else f" {item[kind] if kind != 'turn' else json.dumps(item[kind])}"
    rest = {key: value for key, value in item.items() if key not in {kind, "at"} and value not in ({}, [], None)}
    args = rest.pop("args", None)
    shown = f" {json.dumps(args, ensure_ascii=False)}" if args else ""
    more = "".join(f" {key}={json.dumps(value, ensure_ascii=False)}" for key, value in rest.items())
    return f"{kind}{named}{shown}{more}"
