"""Where a key belongs that stands in the wrong place: a parameter beside ``kind``, a rule's key under ``params``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel

from stream_guard.judge.conditions import GROUPS, LEAF_KEYS
from stream_guard.judge.model import Json
from stream_guard.judge.rule import RuleType
from stream_guard.policy.forms import AgentForm, PolicyForm, RuleForm, RuleTestForm, SessionsForm
from stream_guard.policy.hints import Advice, condition_key, policy_key, rule_key, rule_test_key
from stream_guard.policy.message_parts import listed, nearest, show
from stream_guard.policy.names import describe, names_at, spellings
from stream_guard.registry import Registry

Level: TypeAlias = Literal["policy", "rule", "params", "condition"]

_MOST_DEPTH: Final = 4  # of mappings inside parameters
_KINDS_NAMED: Final = 3


@lru_cache(maxsize=256)
def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Return every key that a mapping of this form may have."""
    return frozenset(name for names in spellings(model).values() for name in names)


def advice_for_policy(key: str, value: Json, container: tuple[str | int, ...]) -> Advice | None:
    """Return where an unknown key of a policy, outside its rules, belongs."""
    if container and key in keys_of(PolicyForm):
        return Advice('it belongs at the top of the policy, beside "rules"')
    if key in keys_of(RuleForm):
        return Advice('it belongs to a rule, under "rules"')
    return (policy_key(key, value) if not container else None) or _elsewhere(key, "policy")


def advice_for_rule(key: str, value: Json, kind: RuleType | None, registry: Registry) -> Advice | None:
    """Return where an unknown key of a rule belongs."""
    if kind is not None and key in keys_of(kind.params_type):
        return Advice('it is a parameter and belongs under "params"')
    if key in registry.kinds:
        return Advice(f'it is a kind: write kind: {key}, and what is below it under "params"', "kind")
    if (found := rule_key(key, value)) is not None:
        return found
    if kind is not None and (inner := _inside_params(key, kind)):
        return Advice(f'it belongs under "params", in {show(inner)}')
    misspelt = None if kind is None else _misspelt_parameter(key, kind)
    others = None if kind is None or nearest(key, keys_in_order(RuleForm)) else _of_other_kinds(key, kind, registry)
    return misspelt or _elsewhere(key, "rule") or others


def _misspelt_parameter(key: str, kind: RuleType) -> Advice | None:
    near = "" if nearest(key, keys_in_order(RuleForm)) else nearest(key, sorted(keys_of(kind.params_type)))
    return Advice(f'did you mean the parameter {show(near)}? it belongs under "params"', near) if near else None


def advice_for_missing(word: str, written: Mapping[str, Json], model: type[BaseModel]) -> str:
    """Return what to say of a missing parameter whose name stands beside ``kind``, where it means something else."""
    names = next((names for names in spellings(model).values() if word in names), (word,))
    taken = next((name for name in names if name in written and name in keys_of(RuleForm)), "")
    return f'; the {show(taken)} beside "kind" is the rule\'s own, the parameter goes under "params"' if taken else ""


def params_key(written: Mapping[str, Json]) -> str:
    """Return the key under which a rule has its parameters: ``params``, or the word of another system for it."""
    if "params" not in written:
        for key, value in written.items():
            if key not in keys_of(RuleForm) and isinstance(value, dict):
                meant = rule_key(key, value)
                if meant is not None and meant.word == "params":
                    return key
    return "params"


def advice_for_test(key: str, value: Json) -> Advice | None:
    """Return where an unknown key of a test belongs, or what to write for it."""
    if key in keys_of(RuleForm) - {"id"} and rule_test_key(key, value) is None:
        return Advice('it belongs to the rule, beside "kind"')
    return rule_test_key(key, value)


def advice_for_params(
    key: str, value: Json, container: tuple[str | int, ...], kind: RuleType, registry: Registry
) -> Advice | None:
    """Return where an unknown key among the parameters belongs."""
    if container and key in keys_of(kind.params_type):
        return Advice('it belongs one level up, directly under "params"')
    if not container and (inner := _inside_params(key, kind)):
        return Advice(f"it belongs in {show(inner)}")
    if key in keys_of(RuleForm):
        return Advice('it belongs to the rule, beside "kind", not under "params"')
    if container and nearest(key, names_at(kind.params_type, container)):
        return None  # misspelt, and said so
    found = _elsewhere(key, "params") or (_of_other_kinds(key, kind, registry) if not container else None)
    return found or _foreign_among_params(key, value, kind)


def _foreign_among_params(key: str, value: Json, kind: RuleType) -> Advice | None:
    """Return what to write, beside ``kind``, for a rule's key that is misspelt or a word of another system."""
    if nearest(key, keys_in_order(kind.params_type)):
        return None  # a misspelt parameter is likelier
    foreign = rule_key(key, value)
    if foreign is not None and foreign.word not in {"", "id", "kind", "params", "when", "key"}:
        return Advice(f'{foreign.text}, beside "kind"')
    near = nearest(key, keys_in_order(RuleForm))
    return Advice(f'did you mean {show(near)}? it belongs beside "kind"') if near else None


def advice_for_condition(key: str, value: Json) -> Advice | None:
    """Return where an unknown key of a condition belongs, or what to write for it."""
    if key in keys_of(RuleForm) - {"key"}:
        return Advice('it belongs to the rule, beside "kind"')
    return condition_key(key, value)


def _elsewhere(key: str, here: Level) -> Advice | None:
    """Return the place of a key that is known at another level, whatever the kind."""
    places: dict[str, frozenset[str]] = {
        'at the top of the policy, beside "rules"': keys_of(PolicyForm),
        'under "sessions", at the top of the policy': keys_of(SessionsForm),
        'to an agent, under "agents"': keys_of(AgentForm) - keys_of(RuleForm),
        'to a test, under "tests"': keys_of(RuleTestForm),
        'to a condition, under "when" or "unless"': frozenset((*LEAF_KEYS, *GROUPS)),
    }
    for place, known in places.items():
        if key in known and not (here == "policy" and known is keys_of(PolicyForm)):
            return Advice(f"it belongs {place}")
    return None


def _inside_params(key: str, kind: RuleType) -> str:
    """Return the parameter inside which the kind takes the key, or nothing."""
    return next((path for path, names in _nested(kind.params_type) if key in names), "")


@lru_cache(maxsize=256)
def _nested(model: type[BaseModel]) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(_walk(model, ()))


def _walk(model: type[BaseModel], container: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    if len(container) > _MOST_DEPTH:
        return
    for name in names_at(model, container) if container else describe(model).get("properties", ()):
        below = (*container, name)
        if known := names_at(model, below):
            yield ".".join(below), frozenset(known)
            yield from _walk(model, below)


def _of_other_kinds(key: str, kind: RuleType, registry: Registry) -> Advice | None:
    """Say which kinds have a parameter that this one does not."""
    others = [name for name, other in registry.kinds.items() if key in keys_of(other.params_type)]
    if not others:
        return None
    more = f" and {len(others) - _KINDS_NAMED} more kinds have it" if len(others) > _KINDS_NAMED else ""
    shown = ", ".join(others[:_KINDS_NAMED]) if more else listed(others).replace('"', "")
    has = more or (" have it" if len(others) > 1 else " has it")
    takes = listed(keys_in_order(kind.params_type))
    return Advice(f"{kind.kind} takes {takes or 'no parameters'}; {shown}{has}")


def keys_in_order(model: type[BaseModel]) -> list[str]:
    """Return the keys to recommend, in the order of the form."""
    return [names[0] for names in spellings(model).values()]
