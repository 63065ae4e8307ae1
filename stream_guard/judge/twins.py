"""Twins: rules that stop, asked once more about a call as another executor would hand it to the tool.

A twin is its rule over the same events, with arguments taken as the types that the rule asks for. It has a state of
its own from the first call on that may be taken so, and none while both have seen the same. Where the twin fires and
the rule does not, what the tool will get is not certain: the call is contested, and the rule could not judge it.

A rule asks by the paths of its gate, its key and its parameters, each with the types that it compares with, or by
looking at all arguments. Values that it does not ask about are left alone: honest text stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace
from pydantic import BaseModel

from stream_guard.judge.arguments import LONGEST_WORD, UNREAD, Type, holds_json, json_in, may_be_number, taken_as
from stream_guard.judge.bound import NO_STATE, Address, BoundRule, Handler, key_path, overrides
from stream_guard.judge.conditions import Condition, Leaf
from stream_guard.judge.content import has_text
from stream_guard.judge.findings import Evaluation
from stream_guard.judge.json_values import decode, encode
from stream_guard.judge.model import Event, GateDecision, Hit, Json, ToolCall, ToolResult, Unsure
from stream_guard.judge.paths import Path, lookup
from stream_guard.judge.rule import State
from stream_guard.judge.session import RuleSlots, Session
from stream_guard.judge.spec import Agents, RuleSpec

Steps: TypeAlias = tuple[str, ...]

MOST: Final = 64  # variants of one call for one rule; beyond, nobody can tell what the tool gets
_ARGUMENTS: Final = "tool.args"
_ANY: Final[tuple[Type, ...]] = ("number",)  # of a value that is measured or compared with others of its sort
_TEXT: Final[tuple[Type, ...]] = ("text",)
_TYPES: Final[dict[type, Type]] = {bool: "flag", int: "number", float: "number", type(None): "null"}
_ORDERS: Final = (">", ">=", "<", "<=")
_NESTED: Final = 20  # levels of parameters that are looked into


class Asked(NamedTuple):
    """A place in the arguments, and the types as which a value there may be a hit."""

    steps: Steps  # none: all arguments
    types: tuple[Type, ...]


def asked_arguments(spec: RuleSpec) -> tuple[Asked, ...]:
    """Return what the rule asks about the arguments of calls."""
    return _merged(_asked(spec))


def _merged(asked: Iterable[Asked]) -> tuple[Asked, ...]:
    """Return each place once, with all the types that are asked for there."""
    found: dict[Steps, dict[Type, None]] = {}
    for steps, types in asked:
        found.setdefault(steps, {}).update(dict.fromkeys(types))
    return tuple(Asked(steps, tuple(types)) for steps, types in found.items())


def _asked(spec: RuleSpec) -> Iterator[Asked]:
    for condition in (spec.when, spec.unless):
        if condition is not None:
            yield from _by_leaves(condition.leaves)
    yield from (_at(key_path(part), _ANY) for part in spec.key if part.startswith("args."))
    rule = spec.rule
    yield from _by_params(rule.params, 0)
    searched = [pattern.path for pattern in rule.texts() if pattern.where == "tool_args"]
    if rule.equates_arguments:
        yield Asked((), _ANY)
    elif searched and all(searched):  # it does not fire without a text there
        yield from (_at(path, _TEXT) for path in searched if path is not None)
    elif "content" in rule.needs():
        yield Asked((), _TEXT)


def _by_leaves(leaves: Iterable[Leaf]) -> Iterator[Asked]:
    for leaf in leaves:
        if leaf.path.text.startswith(_ARGUMENTS):
            yield _at(leaf.path, ("number",) if leaf.op in _ORDERS else tuple(_types_of(leaf.value)))


def _by_params(value: object, level: int) -> Iterator[Asked]:
    """Yield the paths in parameters: as paths, in conditions, and as fields that are called ``path``."""
    if isinstance(value, Condition):
        yield from _by_leaves(value.leaves)
    elif isinstance(value, Path):
        if value.text.startswith(_ARGUMENTS):
            yield _at(value, _ANY)
    elif isinstance(value, BaseModel) and level < _NESTED:
        inner = dict(value)
        path = inner.get("path")
        if isinstance(path, str):
            compared = inner.get("value", inner.get("values", ""))
            yield Asked(tuple(path.split(".")), tuple(_types_of(compared)))
        for item in inner.values():
            yield from _by_params(item, level + 1)
    elif isinstance(value, list | tuple) and level < _NESTED:
        for item in value:
            yield from _by_params(item, level + 1)


def _at(path: Path, types: Iterable[Type]) -> Asked:
    return Asked(path.steps[1:], tuple(types))


def _types_of(value: Json) -> dict[Type, None]:
    """Return the types of all values in what a rule compares with."""
    found: dict[Type, None] = {}
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        else:
            found[_TYPES.get(type(item), "text")] = None
    return found


class Places:
    """All places that the rules of a plan ask about: one look tells whether any of them can be taken otherwise."""

    __slots__ = ("_places",)

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._places = [
            (steps, "number" in types, "flag" in types, "flag" in types or "null" in types, Asked(steps, types))
            for steps, types in _merged(asked)
        ]

    def may_get_others(self, event: Event) -> bool:
        """Whether the tool of a call may get other values than those sent; False is the most frequent answer."""
        if type(event) is not ToolCall:
            return False
        if event.handed is not None:
            return event.handed != ()
        return self._may_vary(event.args) if type(event.args) is dict else event.args == UNREAD.value

    def _may_vary(self, args: dict[str, Json]) -> bool:
        for steps, number, flag, word, asked in self._places:
            value: Json = args
            for step in steps:
                value = value.get(step) if type(value) is dict else _item(value, step)
            if value is None:
                continue
            kind = type(value)
            if kind is str:
                first = value[:1]
                likely = (
                    first in "{[ \t\n\r" or (number and may_be_number(value)) or (word and len(value) <= LONGEST_WORD)
                )
                if likely and variants(args, (asked,)) != []:
                    return True
            elif kind is int or kind is float:
                if flag and (value == 0 or value == 1):  # noqa: PLR1714  # quicker than a tuple
                    return True
            elif kind is not bool and (asked.types != _TEXT or holds_json(value)) and variants(args, (asked,)) != []:
                return True
        return False


def _item(value: Json, step: str) -> Json:
    """Return what is at a step of a list, or of JSON in a text; the text itself, which is looked at closer."""
    if type(value) is list and step.isascii() and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return value if type(value) is str else None


def variants(args: Json, asked: Iterable[Asked]) -> list[Json] | None:
    """Return the other arguments that an executor may make of these, as far as a rule asks; None: too many of them.

    The first is that in which every value is taken otherwise that can be.
    """
    found = [args]
    try:
        for steps, types in asked:
            found += [other for one in found for wanted in types if (other := _replaced(one, steps, wanted)) is not one]
            if len(found) > MOST:
                return None
    except RecursionError:  # of callers in this process: arguments deeper than any that were read
        return None
    return found[:0:-1]


def _replaced(value: Json, steps: Steps, wanted: Type) -> Json:
    """Return the value with what stands at the steps taken as the wanted type; itself where that changes nothing."""
    if not steps:
        return taken_as(value, wanted)
    if type(value) is str:
        inner = json_in(value)
        return value if inner is None else _replaced(inner, steps, wanted)
    step, rest = steps[0], steps[1:]
    if type(value) is dict:
        if step not in value:
            return value
        old = value[step]
        new = _replaced(old, rest, wanted)
        return value if new is old else {**value, step: new}
    if type(value) is list and step.isascii() and step.isdigit() and int(step) < len(value):
        old = value[int(step)]
        new = _replaced(old, rest, wanted)
        return value if new is old else [*value[: int(step)], new, *value[int(step) + 1 :]]
    return value


class Twin:
    """A rule that stops, with what it asks about arguments, and where the state of its twin stands."""

    def __init__(self, rule: BoundRule, bound: BoundRule, asked: tuple[Asked, ...]) -> None:
        self.rule = rule
        self.bound = bound  # the same rule under a number and a tag of its own
        self.asked = asked


TwinEntry: TypeAlias = tuple[Twin, Handler]
Taken: TypeAlias = tuple[Twin, Address, State]
"""A twin, and the state that it comes to, with its address."""


def make_twins(bounds: Sequence[BoundRule], agents: Agents) -> list[BoundRule]:
    """Give each rule that stops and asks about arguments its twin; return those, numbered after the rules."""
    made: list[BoundRule] = []
    tags = {bound.tag for bound in bounds}
    known: dict[tuple[Asked, ...], tuple[Asked, ...]] = {}
    for rule in bounds:
        if not rule.spec.stops or not overrides(rule.rule, "on_tool_call"):
            continue
        asked = asked_arguments(rule.spec)
        if not asked:
            continue
        bound = BoundRule(len(bounds) + len(made), rule.spec, agents)
        bound.is_twin = True
        bound.timer = bound.end = None  # a deadline and an end stop no call
        while bound.tag in tags:
            bound.tag = (bound.tag * 31 + 1) % (1 << 32)
        tags.add(bound.tag)
        rule.twin = Twin(rule, bound, known.setdefault(asked, asked))
        made.append(bound)
    return made


class TwinJudge:
    """Asks twins about events before their rules are."""

    def __init__(self, slots: RuleSlots) -> None:
        self._slots = slots

    def ask(self, entries: Sequence[TwinEntry], event: Event, evaluation: Evaluation) -> tuple[list[Twin], list[Taken]]:
        """Return the twins that fire at a call, or cannot judge it, and the states that twins come to."""
        fired: list[Twin] = []
        taken: list[Taken] = []
        made: dict[int, list[Json] | None] = {}  # most rules of a tool ask about the same few places
        for twin, handle in entries:
            asked = id(twin.asked)
            others = made[asked] if asked in made else made.setdefault(asked, _others(twin, event))
            if others is None:
                fired.append(twin)
                continue
            if others:
                shown = [replace(event, args=args) for args in others]
            elif evaluation.key_state.twinned:
                shown = [event]
            else:
                continue
            if any(self._fires(twin, handle, one, evaluation, taken, forks=bool(others)) for one in shown):
                fired.append(twin)
        return fired, taken

    def settle(self, taken: Sequence[Taken], key_state: Session) -> None:
        """Keep the states of twins that differ from those of their rules, which have run since."""
        for twin, address, state in taken:
            main = key_state.slots.get(_main(twin, address))
            if state == (twin.bound.default if main is None else main.state):
                self._slots.forget(key_state, address)
                continue
            self._slots.get(twin.bound, address, key_state).state = state
            if address not in key_state.twinned:
                key_state.twinned |= {address}

    def _fires(
        self, twin: Twin, handle: Handler, event: Event, evaluation: Evaluation, taken: list[Taken], *, forks: bool
    ) -> bool:
        """Whether a twin fires at an event; its state goes forward where ``taken`` has none of it yet."""
        bound, key_state = twin.bound, evaluation.key_state
        if bound.gate is not None and not bound.gate(event, evaluation.memory):
            if bound.ungated is None:
                return False
            handle = bound.ungated
        address = bound.number if bound.key is None else bound.key(event)
        if address is None or not has_text(bound, event):
            return False
        if bound.stateless:
            return _is_doubt(bound, handle, event, NO_STATE)
        if address not in key_state.slots:
            if self._slots.is_forgotten(bound, address, key_state):
                return True
            if not forks:
                return False  # its state is that of the rule
        state = self._copy(twin, address, key_state)
        verdict = _is_doubt(bound, handle, event, state)
        if not taken or taken[-1][0] is not twin:
            taken.append((twin, address, state))
        return verdict

    def _copy(self, twin: Twin, address: Address, key_state: Session) -> State:
        known = key_state.slots.get(address) or key_state.slots.get(_main(twin, address))
        return twin.bound.new_state() if known is None else decode(encode(known.state), type(known.state))


def _others(twin: Twin, event: Event) -> list[Json] | None:
    """Return the other arguments that the tool may get, as far as the rule asks; None: too many to be judged."""
    if type(event) is ToolCall and event.handed is not None:
        return [args for args in event.handed if _differ(args, event.args, twin.asked)]
    if type(event) is ToolCall or type(event) is ToolResult or type(event) is GateDecision:
        if type(event.args) is dict:
            return variants(event.args, twin.asked)
        # Nobody knows what was nested too deep, so a rule that compares all arguments cannot.
        return None if event.args == UNREAD.value and any(not steps for steps, _ in twin.asked) else []
    return []


def _differ(one: Json, other: Json, asked: Sequence[Asked]) -> bool:
    return any(not steps or lookup(one, steps) is not lookup(other, steps) for steps, _ in asked)


def _main(twin: Twin, address: Address) -> Address:
    """Return where the state of the rule stands, from where that of its twin does."""
    return twin.rule.number if isinstance(address, int) else (twin.rule.number, *address[1:])


def _is_doubt(bound: BoundRule, handle: Handler, event: Event, state: State) -> bool:
    """Whether a rule fires at an event, or cannot judge it."""
    try:
        verdict = handle(event, state)
    except Exception:  # noqa: BLE001  # ADR 0007
        return bound.spec.on_error == "closed"
    if isinstance(verdict, Hit):
        return not verdict.followup
    return isinstance(verdict, Unsure) and verdict.why == "unevaluable" and not verdict.followup
