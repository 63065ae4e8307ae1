"""Rules beside each other: those that do the same, those that cover another, and those that cannot both be kept.

Rules are compared by what they do to traces over a small alphabet of their tools, texts and arguments, judged by the
engine. What is said of two rules so holds for the traces that were tried, and the messages say that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Final, Literal, TypeAlias

from stream_guard.analysis.alphabet import Item, alphabet, tools_of, words_of
from stream_guard.analysis.breaking import BreakingTraces, ReadTrace, Trace, TraceJudge, is_real
from stream_guard.judge.model import Json
from stream_guard.judge.spec import Policy, RuleSpec

Relation: TypeAlias = Literal["same", "covered", "contradicts", "never", "always"]

MOST_RULES: Final = 60  # beyond that, only rules that are written the same way are compared
_MOST_TRIED: Final = 400
_LONGEST: Final = 3
_MOST_CLEAN: Final = 5  # events of a trace that breaks neither of two rules
_MOST_CLEAN_TRIED: Final = 600
_MOST_ITEMS: Final = 12
_FEW: Final = 10
_NEUTRAL: Final[Item] = {"turn": "so"}


@dataclass(frozen=True, slots=True)
class Remark:
    """What is odd about a rule, or about it and an earlier one."""

    rule: RuleSpec
    relation: Relation
    text: str
    other: RuleSpec | None = None


def remarks(policy: Policy, read: ReadTrace, known: BreakingTraces) -> Iterator[Remark]:
    """Yield what is odd about the rules of a policy, alone and in pairs."""
    rules = policy.rules
    written = {spec.slot: _as_written(spec) for spec in rules}
    twins = {(one.slot, two.slot) for one, two in combinations(rules, 2) if written[one.slot] == written[two.slot]}
    for one, two in combinations(rules, 2):
        if (one.slot, two.slot) in twins:
            yield _twin(one, two)
    if len(rules) > MOST_RULES:
        return
    breaks = {spec.slot: known.of(spec) for spec in rules}
    odd = set()
    for spec in rules:
        remark = _alone(policy, spec, breaks[spec.slot], read)
        if remark is not None:
            odd.add(spec.slot)
            yield remark
    # Rules that span sessions would mix the traces; those that never fire have nothing to compare.
    sound = [spec for spec in rules if spec.slot not in odd and breaks[spec.slot] is not None and "session" in spec.key]
    for found in _pairs(TraceJudge(policy, sound, read), sound, breaks):
        if found.other is None or (found.other.slot, found.rule.slot) not in twins:
            yield found


def _pairs(judge: TraceJudge, rules: Sequence[RuleSpec], breaks: dict[str, Trace | None]) -> Iterator[Remark]:
    fired = judge.fired([breaks[spec.slot] or () for spec in rules]) if rules else []
    covers = {spec.slot: found for spec, found in zip(rules, fired, strict=True)}
    common = _common_traces(rules)
    kept = list(zip(common, judge.fired(common), strict=True)) if rules else []
    for one, two in combinations(rules, 2):
        found = _covered(judge, one, two, covers) or _conflict(judge, one, two, kept)
        if found is not None:
            yield found


def _as_written(spec: RuleSpec) -> str:
    """Return everything that decides where a rule fires. Spellings and defaults make no difference."""
    try:
        params: Json = spec.rule.params.model_dump(mode="json")
    except Exception:  # noqa: BLE001 - a plugin's type may not support this; then take what was written
        params = dict(spec.params)
    gates = [condition.source if condition is not None else None for condition in (spec.when, spec.unless)]
    meaning = [spec.kind, params, gates, spec.scope.value, list(spec.key), spec.agent, spec.hold, dict(spec.set_labels)]
    return json.dumps(meaning, sort_keys=True, default=str)


def _twin(one: RuleSpec, two: RuleSpec) -> Remark:
    if one.then is not None and two.then is not None and one.then is not two.then:
        text = f"fires where {_named(one)} does, which says then: {one.then.word} and not {two.then.word}"
        return Remark(two, "contradicts", text, one)
    return Remark(two, "same", f"does the same as {_named(one)}; take one of them out", one)


def _named(spec: RuleSpec) -> str:
    line = f" in line {spec.place.line}" if spec.place.line else ""
    return f'"{spec.id}"{line}'


def _alone(policy: Policy, spec: RuleSpec, found: Trace | None, read: ReadTrace) -> Remark | None:
    """Return that a rule can never fire, or always does."""
    decided = spec.rule.decided()
    if decided == "never":
        return Remark(spec, "never", "it is always true, whatever happens, so the rule never fires")
    if decided == "always":
        return Remark(spec, "always", "it is never true, whatever happens, so the rule fires in every session")
    if found is None:
        return None
    judge = TraceJudge(policy, [spec], read)
    tried = _tried(alphabet([spec]))
    if all(judge.fired(tried[:_FEW])) and all(judge.fired(tried)):
        return Remark(spec, "always", f"fires in each of {len(tried):,} traces that were tried; can it be kept at all?")
    return None


def _tried(items: Sequence[Item], most: int = _MOST_TRIED) -> list[Trace]:
    by_length = (filter(is_real, product(items[:_MOST_ITEMS], repeat=length)) for length in range(1, _LONGEST + 1))
    return [(_NEUTRAL,), *islice((trace for traces in by_length for trace in traces), most)]


def _covered(judge: TraceJudge, one: RuleSpec, two: RuleSpec, covers: dict[str, set[str]]) -> Remark | None:
    """Return that one of two rules fires only in traces in which the other does too."""
    if two.slot not in covers[one.slot] and one.slot not in covers[two.slot]:
        return None
    if not _speak_of_the_same(one, two) or one.set_labels != two.set_labels:
        return None
    traces = _tried(alphabet([one, two]))
    fired = judge.fired(traces)
    only_one = any(one.slot in found and two.slot not in found for found in fired)
    only_two = any(two.slot in found and one.slot not in found for found in fired)
    both = sum(one.slot in found and two.slot in found for found in fired)
    if not both or (only_one and only_two):
        return None
    where = f"in all of {len(traces):,} traces that were tried"
    if not only_one and not only_two:
        return Remark(two, "same", f"fires exactly where {_named(one)} does, {where}; take one of them out", one)
    inner, outer = (one, two) if only_two else (two, one)
    if not _at_least_as_strict(outer, inner):
        return None  # the narrower rule says more where it fires: that is what it is for
    return Remark(inner, "covered", f"fires only where {_named(outer)} does too, {where}", outer)


def _speak_of_the_same(one: RuleSpec, two: RuleSpec) -> bool:
    shared = set(tools_of(one)) & set(tools_of(two)) or set(words_of(one)) & set(words_of(two))
    filters = [spec.rule.tools() for spec in (one, two)]
    matched = any(
        pattern is not None and pattern.matches(tool)
        for pattern, other in zip(filters, (two, one), strict=True)
        for tool in tools_of(other)
    )
    return bool(shared) or matched or one.kind == two.kind


def _at_least_as_strict(outer: RuleSpec, inner: RuleSpec) -> bool:
    stops = [-1 if spec.then is None else spec.then.value for spec in (outer, inner)]
    same_key = (outer.key, outer.scope, outer.agent) == (inner.key, inner.scope, inner.agent)
    return (
        same_key
        and not (outer.shadow and not inner.shadow)
        and outer.severity >= inner.severity
        and stops[0] >= stops[1]
    )


def _common_traces(rules: Sequence[RuleSpec]) -> list[Trace]:
    """Return traces of one and two calls of all tools that are spoken of: most rules can be kept in one of them."""
    calls: list[Item] = [item for spec in rules for item in alphabet([spec])[:4] if "result" not in item]
    unique = list({repr(item): item for item in calls}.values())[:20]
    return [(_NEUTRAL,), *((_NEUTRAL, item) for item in unique), *product([_NEUTRAL], unique, unique)]


def _conflict(
    judge: TraceJudge, one: RuleSpec, two: RuleSpec, common: Sequence[tuple[Trace, set[str]]]
) -> Remark | None:
    """Return that two rules cannot be kept both, or not where a tool is called that each of them allows."""
    pair = {one.slot, two.slot}
    kept = [trace for trace, found in common if not pair & found]
    for tool in [None, *_shared_tools(one, two)]:
        if any(_has(trace, tool) for trace in kept):
            continue
        search = _CleanSearch(judge, (one, two), tool)
        alone = [search.shortest({spec.slot}, _MOST_CLEAN) for spec in (one, two)]
        if not all(alone):
            continue
        most = min(_MOST_CLEAN, sum(len(trace) - 1 for trace in alone))
        if not search.shortest(pair, most) and not search.gave_up:
            about = f" where {tool} is called" if tool is not None else ""
            text = f"contradicts {_named(one)}: each can be kept, but no trace of up to {most} events keeps both"
            return Remark(two, "contradicts", text + about, one)
    return None


def _shared_tools(one: RuleSpec, two: RuleSpec) -> list[str]:
    """Return tools that both rules look at."""
    filters = [pattern for spec in (one, two) if (pattern := spec.rule.tools()) is not None]
    named = dict.fromkeys([*tools_of(one), *tools_of(two)])
    return [tool for tool in named if len(filters) == 2 and all(pattern.matches(tool) for pattern in filters)][:2]


def _has(trace: Trace, tool: str | None) -> bool:
    return tool is None or any(item.get("call") == tool or tool in item.get("calls", ()) for item in trace)


class _CleanSearch:
    """Looks for the shortest trace, with a tool in it, in which some rules do not fire."""

    def __init__(self, judge: TraceJudge, pair: Sequence[RuleSpec], tool: str | None) -> None:
        self._judge = judge
        self._tool = tool
        self._items = [_NEUTRAL, *(item for item in alphabet(pair) if "result" not in item)]
        self.gave_up = False  # there were too many traces to say that none is clean

    def shortest(self, slots: Set[str], most: int) -> Trace:
        """Return the trace; empty where none of up to ``most`` events was found."""
        level: list[Trace] = [(_NEUTRAL,)]
        tried = 0
        for _ in range(most):
            traces = [(*trace, item) for trace in level for item in self._items]
            tried += len(traces)
            if tried > _MOST_CLEAN_TRIED:
                self.gave_up = True
                return ()
            level = []
            for trace, (early, late) in zip(traces, self._judge.outcomes(traces), strict=True):
                if not slots & (early | late) and _has(trace, self._tool):
                    return trace
                # What fired at an event stays; what fired at the end may still be made good.
                if not slots & early:
                    level.append(trace)
        return ()
