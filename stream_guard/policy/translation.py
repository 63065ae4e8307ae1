"""Translate the errors of pydantic into plain words, each with its path in the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stream_guard.judge.conditions import GROUPS, LEAF_KEYS, OPERATORS, Condition, ConditionError
from stream_guard.judge.model import Json
from stream_guard.judge.paths import Path
from stream_guard.policy.forms import names_at, spellings
from stream_guard.policy.gates import dead_end
from stream_guard.policy.hints import (
    Advice,
    advice_for_condition,
    operator_meant,
    text_advice,
    value_advice,
    with_path_advice,
)
from stream_guard.policy.message_parts import Code, Flaw, Steps, did_you_mean, listed, nearest, show

_WANTS: Final = {
    "string_type": "text",
    "string_sub_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
}
_LIMITS: Final = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_CODES: Final = {
    "condition": Code.CONDITION,
    "path": Code.DEAD_PATH,
    "regex": Code.REGEX,
    "tool_pattern": Code.TOOLS,
    "duration": Code.DURATION,
    "rule_id": Code.BAD_ID,
    "state_key": Code.KEY,
}
MAX_PROBLEMS: Final = 1000
_QUOTED: Final = re.compile(r"'([^']*)'")


Advise: TypeAlias = Callable[[str, Json, Steps], Advice | None]


def no_advice(_key: str, _value: Json, _container: Steps) -> Advice | None:
    """Return no advice: the nearest key is suggested."""
    return None


class _Asked(NamedTuple):
    """What the data was checked against, and who is asked about its unknown keys."""

    model: type[BaseModel]
    owner: str
    advise: Advise


class _Fault(NamedTuple):
    """A pydantic error with its path in the data; ``branch`` names the union member it comes from."""

    error: ErrorDetails
    at: Steps
    union_at: Steps | None
    branch: str


def problems_of(
    error: ValidationError, raw: Json, model: type[BaseModel], owner: str, advise: Advise = no_advice
) -> list[Flaw]:
    """Return the flaws of ``raw``, which ``model`` refused; messages name ``owner`` as what takes the keys.

    ``advise`` is asked about unknown keys, with the value and the steps to the mapping that has them.
    """
    errors = error.errors(include_url=False)
    # A hostile file can have a million mistakes.
    faults = [_locate(item, raw) for item in errors[:MAX_PROBLEMS]]
    found: list[Flaw] = []
    for fault in _settle_unions(faults):
        found.extend([fault] if isinstance(fault, Flaw) else _explain(fault, raw, _Asked(model, owner, advise)))
    if len(errors) > MAX_PROBLEMS:
        found.append(Flaw((), f"{owner} has {len(errors) - MAX_PROBLEMS} more problems", Code.TOO_BIG))
    return _without_echoes(found)


def _locate(error: ErrorDetails, raw: Json) -> _Fault:
    """Follow the error's location through the data; steps that are not in the data name members of a union."""
    at: list[str | int] = []
    value, union_at, branch = raw, None, ""
    *inner, last = error["loc"] or ("",)
    for step in [*inner, last] if error["type"] != "missing" else inner:
        is_item = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        if is_item or (isinstance(value, Mapping) and step in value):
            at.append(step)
            value = value[step]
        elif isinstance(step, str) and step:
            union_at, branch = union_at if union_at is not None else tuple(at), f"{branch}/{step}"
    return _Fault(error, tuple(at), union_at, branch)


def _settle_unions(faults: Sequence[_Fault]) -> Iterator[_Fault | Flaw]:
    """Where every member of a union fails, keep the errors of the one that fits best."""
    seen: set[Steps] = set()
    for fault in faults:
        if fault.union_at is None:
            yield fault
            continue
        if fault.union_at in seen:
            continue
        seen.add(fault.union_at)
        branches: dict[str, list[_Fault]] = {}
        for other in faults:
            if other.union_at == fault.union_at:
                branches.setdefault(other.branch.split("/")[1], []).append(other)
        yield from _best_branch(list(branches.values()), fault.union_at)


def _best_branch(branches: list[list[_Fault]], at: Steps) -> Iterable[_Fault | Flaw]:
    def misfit(branch: list[_Fault]) -> tuple[bool, bool, int]:
        wrong_type = any(fault.error["type"] in _WANTS and fault.at == at for fault in branch)
        other_member = any(fault.error["type"] == "literal_error" for fault in branch)
        return wrong_type, other_member, len(branch)

    best = min(branches, key=misfit)
    if not misfit(best)[0] or len(branches) == 1:
        return best
    wants = dict.fromkeys(_WANTS[branch[0].error["type"]] for branch in branches if branch[0].error["type"] in _WANTS)
    message = f"{_name(at)} must be {' or '.join(wants)}, not {show(best[0].error['input'])}"
    return [Flaw(at, message, Code.WRONG_TYPE)]


def _name(at: Steps) -> str:
    """Return the name of a value: its key, or its place in a list."""
    if at and isinstance(at[-1], int):
        key = next((step for step in reversed(at) if isinstance(step, str)), None)
        return f"item {at[-1] + 1} of {show(key)}" if key else f"item {at[-1] + 1}"
    return show(at[-1]) if at else "it"


def _explain(fault: _Fault, raw: Json, asked: _Asked) -> Iterable[Flaw]:
    error, at = fault.error, fault.at
    kind, context = error["type"], error.get("ctx", {})
    if kind == "condition":
        found = list(flaws(_value_at(raw, at), at))
        return found or [Flaw(at, error["msg"], Code.CONDITION)]
    if kind in _CODES:
        name = f"{_name(at)}: " if kind in ("regex", "duration") else ""
        message = f"{name}{error['msg']}"
        said = with_path_advice(message, error["input"]) if kind == "path" and "resolve" in message else message
        return [Flaw(at, said, _CODES[kind])]
    special: dict[str, Callable[[], Flaw]] = {
        "missing": lambda: _missing(fault, asked.model, asked.owner),
        "extra_forbidden": lambda: _unknown_key(fault, asked),
        "literal_error": lambda: _not_one_of(fault, context),
        "enum": lambda: _not_one_of(fault, context),
        "union_tag_invalid": lambda: _wrong_tag(fault, context),
        "union_tag_not_found": lambda: Flaw(at, f"{_name(at)} needs {show(_tag_name(context))}", Code.MISSING_KEY),
    }
    return [special[kind]() if kind in special else _value_flaw(fault, context)]


def _value_at(raw: Json, at: Steps) -> Json:
    for step in at:
        raw = raw[step]
    return raw


def _value_flaw(fault: _Fault, context: Mapping[str, Any]) -> Flaw:
    """Return the flaw of a value: its type, its size, or what the validator says."""
    kind, name, value = fault.error["type"], _name(fault.at), fault.error["input"]
    if kind in _WANTS:
        return Flaw(fault.at, f"{name} must be {_WANTS[kind]}, not {show(value)}", Code.WRONG_TYPE)
    if kind in _LIMITS:
        word, key = _LIMITS[kind]
        return Flaw(fault.at, f"{name} must be {word} {context[key]}, not {show(value)}", Code.NOT_ALLOWED)
    if kind in ("string_too_short", "too_short"):
        least = context.get("min_length")
        wants = "must not be empty" if least == 1 else f"is too short; at least {least}"
        return Flaw(fault.at, f"{name} {wants}", Code.NOT_ALLOWED)
    if kind in ("string_too_long", "too_long"):
        return Flaw(fault.at, f"{name} is too long; at most {context.get('max_length')}", Code.NOT_ALLOWED)
    message = fault.error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return Flaw(fault.at, f"{name}: {message}" if fault.at else message, Code.REFUSED)


def _missing(fault: _Fault, model: type[BaseModel], owner: str) -> Flaw:
    name = _first_spelling(str(fault.error["loc"][-1]), fault.at, model)
    where = owner if not fault.at else _name(fault.at)
    return Flaw(fault.at, f"{where} needs {show(name)}", Code.MISSING_KEY, word=name)


def _first_spelling(word: str, container: Steps, model: type[BaseModel]) -> str:
    if container:
        return word
    return next((names[0] for names in spellings(model).values() if word in names), word)


def _unknown_key(fault: _Fault, asked: _Asked) -> Flaw:
    model, owner = asked.model, asked.owner
    key, container = str(fault.at[-1]) if fault.at else "", fault.at[:-1]
    same = next((names for names in spellings(model).values() if key in names), ()) if not container else ()
    if same:
        others = listed(name for name in same if name != key)
        return Flaw(fault.at, f"{show(key)} is another name of {others}; give one of them", Code.TWICE, on_key=True)
    known = names_at(model, container)
    where = f"for {owner}" if not container else f"in {_name(container)}"
    meant = asked.advise(key, fault.error["input"], container)
    if meant is not None:
        message = f"unknown key {show(key)} {where}; {meant.text}"
        return Flaw(fault.at, message, Code.UNKNOWN_KEY, on_key=True, word=meant.word)
    near = nearest(key, known)
    advice = f"; did you mean {show(near)}?" if near else (f"; it takes {listed(known)}" if known else "")
    word = _first_spelling(near, container, model)
    return Flaw(fault.at, f"unknown key {show(key)} {where}{advice}", Code.UNKNOWN_KEY, on_key=True, word=word)


def _not_one_of(fault: _Fault, context: Mapping[str, Any]) -> Flaw:
    expected = str(context.get("expected", ""))
    words = _QUOTED.findall(expected)
    value = fault.error["input"]
    known = listed(words, "or") if words else expected
    meant = value_advice(str(fault.at[-1]), value) if fault.at else ""
    near = meant or (did_you_mean(value, words) if isinstance(value, str) else "")
    return Flaw(fault.at, f"{_name(fault.at)} must be {known}, not {show(value)}{near}", Code.NOT_ALLOWED)


def _tag_name(context: Mapping[str, Any]) -> str:
    return str(context.get("discriminator", "")).strip("'")


def _wrong_tag(fault: _Fault, context: Mapping[str, Any]) -> Flaw:
    tag, words = _tag_name(context), _QUOTED.findall(str(context.get("expected_tags", "")))
    value = str(context.get("tag", ""))
    message = f"{show(tag)} must be {listed(words, 'or')}, not {show(value)}{did_you_mean(value, words)}"
    return Flaw((*fault.at, tag), message, Code.NOT_ALLOWED)


def _without_echoes(found: list[Flaw]) -> list[Flaw]:
    """Drop "needs X" where a misspelt X is reported: one mistake is one problem."""
    meant = {(flaw.at[:-1], flaw.word) for flaw in found if flaw.code == Code.UNKNOWN_KEY}
    return [flaw for flaw in found if flaw.code != Code.MISSING_KEY or (flaw.at, flaw.word) not in meant]


def flaws(source: Json, at: Steps = ()) -> Iterator[Flaw]:
    """Yield every mistake in a condition as written."""
    if isinstance(source, list):
        for number, item in enumerate(source):
            yield from flaws(item, (*at, number))
        return
    groups = [key for key in GROUPS if key in source] if isinstance(source, dict) else []
    if not groups:
        yield from _leaf_flaws(source, at)
    elif len(source) > 1:
        yield Flaw(
            (*at, groups[0]),
            f'"{groups[0]}" stands alone; put what is beside it into a list',
            Code.CONDITION,
            on_key=True,
        )
    elif groups[0] != "not" and not isinstance(source[groups[0]], list | dict):
        yield Flaw((*at, groups[0]), f'"{groups[0]}" takes a list of conditions', Code.CONDITION)
    else:
        yield from flaws(source[groups[0]], (*at, groups[0]))


def _leaf_flaws(source: Json, at: Steps) -> Iterator[Flaw]:
    if not isinstance(source, dict):
        message = f"a condition is a mapping of path, op and value, or a list of them, not {show(source)}"
        yield Flaw(at, message + text_advice(source), Code.CONDITION)
        return
    unknown = [key for key in source if key not in LEAF_KEYS]
    for key in unknown:
        meant = advice_for_condition(key, source[key])
        advice = f"; {meant.text}" if meant is not None else did_you_mean(key, (*LEAF_KEYS, *GROUPS))
        takes = advice or "; it takes path, op and value, or all_of, any_of, not"
        yield Flaw((*at, key), f"unknown key {show(key)} in a condition{takes}", Code.UNKNOWN_KEY, on_key=True)
    known = list(_known_flaws(source, at))
    yield from known
    if not unknown and not known:
        yield from _remaining_flaws(source, at)


def _known_flaws(source: dict[str, Json], at: Steps) -> Iterator[Flaw]:
    """Yield the mistakes in the path and in the operator."""
    path, op = source.get("path"), source.get("op")
    if isinstance(path, str):
        try:
            why = dead_end(Path(path))
        except ValueError as error:
            why = str(error)
        if why:
            yield Flaw((*at, "path"), with_path_advice(why, path), Code.DEAD_PATH)
    if isinstance(op, str) and op not in OPERATORS:
        advice = operator_meant(op)
        hint = f"; write {show(advice)}" if advice else did_you_mean(op, OPERATORS)
        known = hint or f"; known: {', '.join(OPERATORS)}"
        yield Flaw((*at, "op"), f"unknown operator {show(op)}{known}", Code.CONDITION)


def _remaining_flaws(source: dict[str, Json], at: Steps) -> Iterator[Flaw]:
    """Yield missing keys, and a value that does not fit its operator."""
    try:
        Condition(source)
    except ConditionError as error:
        where = tuple(error.at.split(".")) if error.at else ()
        code = Code.REGEX if source.get("op") == "matches" and where == ("value",) else Code.CONDITION
        yield Flaw((*at, *where), str(error), code)
