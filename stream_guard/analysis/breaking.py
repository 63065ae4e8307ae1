"""The shortest trace that breaks a rule, found by trying traces with the engine that judges real ones."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any, Final, TypeAlias

from stream_guard.analysis.alphabet import Item, alphabet
from stream_guard.errors import StreamGuardError
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json
from stream_guard.judge.spec import Policy, RuleSpec

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
