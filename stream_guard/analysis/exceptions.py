"""Exceptions from verdicts: what wrong findings have in common and right ones do not, proved by a replay.

A proposal is data: a condition for the rule's ``unless``. It is made only where the real engine, over the same events,
still finds every finding that was marked right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from stream_guard.judge.conditions import Condition, is_number
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json, ToolCall, ToolResult, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import with_version

_TRIED: Final = 12  # candidates that are replayed
_VALUES: Final = 5  # of one list
_DEPTH: Final = 3
_LONGEST: Final = 100  # characters of a value


class ExceptionProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay with the exception shows."""

    right: int  # findings marked right, all of which still fire
    wrong: int  # findings marked wrong
    wrong_gone: int  # of those, the ones that do not fire any more
    others_gone: int  # findings that nobody has judged and that do not fire any more


class ProposedException(msgspec.Struct, frozen=True, kw_only=True):
    """An exception as data, ready for the policy, and its proof."""

    rule_id: str
    unless: Json
    proof: ExceptionProof


class NoExceptionError(Exception):
    """No exception can be proposed; the text says why."""


def propose_exception(
    policy: Policy, rule_id: str, events: Sequence[Event], said: Mapping[str, str]
) -> ProposedException:
    """Return the exception that removes most of the wrong findings and none of the right ones.

    ``said`` is the verdict by alert id. NoExceptionError where a right finding cannot be replayed, or nothing
    separates the two.
    """
    place = next((number for number, rule in enumerate(policy.rules) if rule.id == rule_id), None)
    if place is None:
        raise NoExceptionError(f"the policy has no rule {rule_id!r}")
    before = _replay(policy, rule_id, events)
    marked = {word: {name for name, verdict in said.items() if verdict == word} for word in ("right", "wrong")}
    lost = marked["right"] - before.keys()
    if lost:
        raise NoExceptionError(
            f"{len(lost)} of {len(marked['right'])} findings marked right are not found in these events, "
            "so nothing can be proved; give recordings that have their sessions whole"
        )
    wrong = [before[name] for name in sorted(marked["wrong"] & before.keys())]
    if not wrong:
        raise NoExceptionError("no finding marked wrong is found in these events")
    right = [before[name] for name in sorted(marked["right"])]
    best: ProposedException | None = None
    for unless in _candidates(wrong, right):
        changed = with_exception(policy, place, unless)
        after = _replay(changed, rule_id, events).keys()
        gone = before.keys() - after
        if gone & marked["right"]:
            continue
        proof = ExceptionProof(
            right=len(right),
            wrong=len(wrong),
            wrong_gone=len(gone & marked["wrong"]),
            others_gone=len(gone - marked["wrong"]),
        )
        if proof.wrong_gone and (best is None or proof.wrong_gone > best.proof.wrong_gone):
            best = ProposedException(rule_id=rule_id, unless=changed_unless(policy, place, unless), proof=proof)
        if best is not None and best.proof.wrong_gone == len(wrong):
            break
    if best is None:
        raise NoExceptionError("nothing that the wrong findings have in common leaves all the right ones standing")
    return best


def with_exception(policy: Policy, place: int, unless: Json) -> Policy:
    """Return the policy with an exception added to one rule."""
    spec = policy.rules[place]
    changed = replace(spec, unless=Condition(changed_unless(policy, place, unless)))
    rules = (*policy.rules[:place], changed, *policy.rules[place + 1 :])
    return with_version(replace(policy, rules=rules))


def changed_unless(policy: Policy, place: int, unless: Json) -> Json:
    """Return the whole ``unless`` of a rule with one more exception."""
    known = policy.rules[place].unless
    return unless if known is None else {"any_of": [known.source, unless]}


def _replay(policy: Policy, rule_id: str, events: Iterable[Event]) -> dict[str, Event]:
    """Return the rule's findings by their ids, each with the event at which it was found."""
    judge = Judge(policy)
    found: list[Finding] = []
    told: dict[str, Event] = {}
    last: Event | None = None
    for event in events:
        count = len(found)
        found += judge.feed(event).findings
        told |= {one.alert_id: event for one in found[count:] if one.rule_id == rule_id}
        last = event
    count = len(found)
    found += judge.end()
    if last is not None:
        told |= {one.alert_id: last for one in found[count:] if one.rule_id == rule_id}
    return told


def _candidates(wrong: Sequence[Event], right: Sequence[Event]) -> list[Json]:
    """Return conditions that hold for wrong findings and for no right one, the most promising first."""
    wrong_facts, right_facts = [dict(_facts(event)) for event in wrong], [dict(_facts(event)) for event in right]
    scored: list[tuple[int, int, str, Json]] = []
    for path in sorted({path for facts in wrong_facts for path in facts}):
        values = [facts[path] for facts in wrong_facts if path in facts]
        refused = [facts[path] for facts in right_facts if path in facts]
        scored += [(-covered, rank, path, leaf) for covered, rank, leaf in _leaves(path, values, refused)]
    scored.sort(key=lambda one: one[:3])
    return [leaf for *_, leaf in scored[:_TRIED]]


def _leaves(path: str, values: Sequence[Json], refused: Sequence[Json]) -> Iterator[tuple[int, int, Json]]:
    """Yield conditions on one path: how many wrong findings each holds for, how far-fetched it is, and itself."""
    allowed = [value for value in dict.fromkeys(map(_key, values)) if value not in set(map(_key, refused))]
    distinct = [value for _, value in allowed][:_VALUES]
    for value in distinct:
        yield sum(_key(one) == _key(value) for one in values), 0, {"path": path, "op": "==", "value": value}
    if len(distinct) > 1:
        covered = sum(_key(one) in set(map(_key, distinct)) for one in values)
        yield covered, 1, {"path": path, "op": "in", "value": sorted(distinct, key=str)}
    if refused and all(map(is_number, (*values, *refused))):
        if max(values) < min(refused):
            yield len(values), 2, {"path": path, "op": "<=", "value": max(values)}
        elif min(values) > max(refused):
            yield len(values), 2, {"path": path, "op": ">=", "value": min(values)}


def _facts(event: Event) -> Iterator[tuple[str, Json]]:
    """Yield what can be said of an event: its agent, its labels, and the arguments of its call."""
    if event.agent:
        yield "agent", event.agent
    for name, value in event.labels.items():
        if name.isidentifier():
            yield f"labels.{name}", value
    if isinstance(event, ToolCall | ToolResult):
        yield from _values("tool.args", event.args, 0)
    elif isinstance(event, Turn):
        for block in _blocks(event):
            yield from _values("tool.args", block.get("input"), 0)


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    content = turn.response.get("content")
    found = content if isinstance(content, list) else []
    return [block for block in found if isinstance(block, dict) and block.get("type") == "tool_use"]


def _values(path: str, value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict) and depth < _DEPTH:
        for key, item in value.items():
            if isinstance(key, str) and key.isidentifier():
                yield from _values(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _LONGEST):
        yield path, value


def _key(value: Json) -> tuple[str, Json]:
    """Tell True from 1, and 1 from "1"."""
    return ("bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text", value)
