"""A policy looked at as a whole: rules that are odd beside each other, and rules that are dead on some recordings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from typing import Final

from stream_guard.analysis.breaking import BreakingTraces, Item, ReadTrace, Trace, TraceJudge, alphabet, is_real
from stream_guard.analysis.never_saw import never_saw
from stream_guard.errors import Problem
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json, Scope
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.gates import always_holds, denies_itself
from stream_guard.policy.message_parts import Code, listed, printable

_MOST_RULES: Final = 60  # beyond that, rules are not tried on traces
_MOST_TRIED: Final = 400
_LONGEST: Final = 3
_MOST_ITEMS: Final = 12
_FEW: Final = 10
_NEUTRAL: Final[Item] = {"turn": "so"}
_MOST_SESSIONS: Final = 100_000  # in which findings are compared


def odd_rules(policy: Policy, read: ReadTrace, breaks: BreakingTraces | None = None) -> list[Problem]:
    """Return a warning for each rule that is written like another, contradicts such a one, or is decided beforehand.

    ``breaks`` keeps the traces that break them for others who ask.
    """
    written = {spec.slot: _as_written(spec) for spec in policy.rules}
    found = [_twin(one, two) for one, two in combinations(policy.rules, 2) if written[one.slot] == written[two.slot]]
    if len(policy.rules) <= _MOST_RULES:
        known = breaks or BreakingTraces(policy, read)
        decided = ((spec, _decided(policy, spec, known, read)) for spec in policy.rules)
        found += [_warning(spec, Code.CONSTANT, text) for spec, text in decided if text]
    found += [
        _warning(spec, Code.CONSTANT, '"when" is always true; leave it out')
        for spec in policy.rules
        if spec.when is not None and spec.when.source and always_holds(spec.when)
    ]
    found += [
        _warning(spec, Code.CONSTANT, '"when" asks for something and for its opposite, so it is never true')
        for spec in policy.rules
        if spec.when is not None and denies_itself(spec.when)
    ]
    return found


def _as_written(spec: RuleSpec) -> str:
    """Return everything that decides where a rule fires. Spellings and defaults make no difference."""
    try:
        params: Json = spec.rule.params.model_dump(mode="json")
    except Exception:  # noqa: BLE001 - a plugin's type may not support this; then take what was written
        params = dict(spec.params)
    gates = [condition.source if condition is not None else None for condition in (spec.when, spec.unless)]
    meaning = [spec.kind, params, gates, spec.scope.value, list(spec.key), spec.agent, spec.hold, dict(spec.set_labels)]
    return json.dumps(meaning, sort_keys=True, default=str)


def _twin(one: RuleSpec, two: RuleSpec) -> Problem:
    line = f" in line {one.place.line}" if one.place.line else ""
    named = f'"{one.id}"{line}'
    if one.then is not None and two.then is not None and one.then is not two.then:
        text = f"fires where {named} does, which says then: {one.then.word} and not {two.then.word}"
        return _warning(two, Code.CONTRADICTION, text)
    return _warning(two, Code.SAME, f"does the same as {named}; take one of them out")


def _decided(policy: Policy, spec: RuleSpec, known: BreakingTraces, read: ReadTrace) -> str:
    """Return that a rule can never fire, or always does; empty where it depends on the trace."""
    decided = spec.rule.decided()
    if decided == "never":
        return "it is always true, whatever happens, so the rule never fires"
    if decided == "always":
        return "it is never true, whatever happens, so the rule fires in every session"
    if known.of(spec) is None:
        return ""
    judge = TraceJudge(policy, [spec], read)
    tried = _tried(alphabet(spec))
    if all(judge.fired(tried[:_FEW])) and all(judge.fired(tried)):
        return f"fires in each of {len(tried):,} traces that were tried; can it be kept at all?"
    return ""


def _tried(items: Sequence[Item]) -> list[Trace]:
    by_length = (filter(is_real, product(items[:_MOST_ITEMS], repeat=length)) for length in range(1, _LONGEST + 1))
    return [(_NEUTRAL,), *islice((trace for traces in by_length for trace in traces), _MOST_TRIED)]


def too_many_to_try(policy: Policy) -> str:
    """Return what to say of a policy with so many rules that they are not tried on traces."""
    count = len(policy.rules)
    return f"{policy.file}: {count} rules are too many to try them on traces; split it" if count > _MOST_RULES else ""


@dataclass(slots=True)
class TraceReview:
    """What recordings say about the rules of a policy."""

    policy: Policy
    sessions: set[str] = field(default_factory=set)
    fired: dict[str, Counter[str]] = field(default_factory=dict)  # by rule's slot: findings by session
    counts: Counts = field(default_factory=Counts)

    def judge(self, events: Iterable[Event]) -> None:
        """Judge the recordings by the policy."""
        judge = Judge(self.policy, counts=self.counts)
        found: list[Finding] = []
        for event in events:
            if len(self.sessions) < _MOST_SESSIONS:
                self.sessions.add(event.session_id)
            found += judge.feed(event).findings
        found += judge.end()
        for finding in found:
            self.fired.setdefault(finding.slot, Counter())[finding.session_id] += 1

    def problems(self) -> Iterator[Problem]:
        """Yield a warning for each rule that is dead in the recordings, or fires in every session."""
        rules = {spec.id: spec for spec in self.policy.rules}
        for missing in never_saw(self.policy, self.counts):
            text = str(missing).removeprefix(f"{missing.rule_id} ")
            yield _warning(rules[missing.rule_id], Code.DEAD, f"is dead in these traces: it {text}")
        for spec in self.policy.rules:
            if len(self.sessions) > 1 and self.hits(spec)[1] == len(self.sessions):
                yield _warning(spec, Code.CONSTANT, f"fires in every one of {len(self.sessions):,} sessions")

    def hits(self, spec: RuleSpec) -> tuple[int, int]:
        """Return how many findings the rule has in the recordings, and in how many sessions."""
        fired: Counter[str] = self.fired.get(spec.slot, Counter())
        return fired.total(), len(fired)


def _warning(spec: RuleSpec, code: Code, text: str) -> Problem:
    return Problem(spec.place, printable(text), code.value, spec.id, warning=True)


# What a rule that stops takes from its caller: whoever is stopped may say something else the next time.


_TENANT = "tenant"  # the label that a token gives


def believed_words(policy: Policy) -> list[Problem]:
    """Return a warning for each rule that stops calls by labels, runs, parts or names that the caller writes."""
    believed = {_TENANT, *(name for spec in policy.rules for name in spec.set_labels)}
    found = []
    for spec in policy.rules:
        words = list(dict.fromkeys(_words_of(spec, believed))) if spec.stops else []
        if words:
            text = (
                f"stops calls by what their caller says: {listed(words)}; "
                "a token can say labels instead of the caller (docs/security.md, What a caller's word is worth)"
            )
            found.append(Problem(spec.place, printable(text), Code.CALLER.value, spec.id, warning=True))
    return found


def _words_of(spec: RuleSpec, believed: Set[str]) -> Iterator[str]:
    """Yield what the key, the scope and the conditions of a rule read that a caller writes."""
    for part in spec.key:
        if part == "run" or _is_doubtful_label(part, believed):
            yield part
    if spec.scope is not Scope.SESSION:
        yield "run" if spec.scope is Scope.RUN else "part"
    for condition in (spec.when, spec.unless):
        for leaf in condition.leaves if condition is not None else ():
            text = leaf.path.text
            if text in ("agent", "run_id", "session.part") or _is_doubtful_label(text, believed):
                yield text


def _is_doubtful_label(path: str, believed: Set[str]) -> bool:
    root, _, name = path.partition(".")
    return root == "labels" and name not in believed
