"""Measures of arguments: their names, their values, the form of the values, and whether these come from somewhere."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from rapidfuzz.distance import Levenshtein

from stream_guard import Json, RecordedCall, RecordedTurn, redact_text
from stream_guard_diff.measures.items import MOST_ITEMS, ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail, UserStep

DUE: Final = 0.9  # share of a tool's calls from which on an argument is due, and of values, from which on a form is
ODD: Final = 0.05  # share of the values up to which a form is odd
ENOUGH: Final = 8
COMMON: Final = 0.03  # share of sessions from which on a value is a common one, such as an option
SHORT: Final = 60  # characters; longer values are texts that the agent writes, and come from nowhere by right
_IDENTIFYING: Final = 5  # characters from which on a value with a digit in it names one thing
_MOST_VALUES: Final = 200  # of one session
_TOKENS: Final = re.compile(r"[^\W_]+")
_LETTERS: Final = re.compile(r"[^\W\d_]")
_DIGITS: Final = re.compile(r"\d")

ArgumentPlace: TypeAlias = tuple[str, str]  # tool and argument name
ArgumentValues: TypeAlias = Mapping[ArgumentPlace, Sequence[str]]


def measure_arguments(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes arguments, odd_values, argument_names and argument_values."""
    _add_names(trails, table)
    values = [_values_of(trail) for trail in trails]
    _add_forms(values, table)
    common = _add_common_values(values, table)
    counts = [_unfounded(trail, common) for trail in trails]
    for says, sort in (
        ("gives a call a number or a name that stood nowhere before", "identifying"),
        ("gives a call a value that is nearly one that stood there, and is none", "near"),
    ):
        table.add(SessionItem("odd_values", says, 1), [sort in found for found in counts])


def _add_names(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Of the sessions that call a tool, how often the call has an argument of a name; then names that are odd."""
    rows = [
        [(call.tool, set(call.args) if isinstance(call.args, dict) else set()) for call in _calls(trail)]
        for trail in trails
    ]
    calls: Counter[str] = Counter()
    named: Counter[ArgumentPlace] = Counter()
    for row in rows:
        for tool, names in row:
            calls[tool] += 1
            named.update((tool, name) for name in names)
    varying = [place for place in named if named[place] < calls[place[0]]]
    for tool, name in sorted(varying, key=lambda place: (-named[place], place))[:MOST_ITEMS]:
        shares = [_share([name in names for called, names in row if called == tool]) for row in rows]
        table.add(SessionItem("argument_names", f"gives {tool} the argument {name}", among=f"call {tool}"), shares)
    due: defaultdict[str, set[str]] = defaultdict(set)
    for (tool, name), count in named.items():
        if count >= DUE * calls[tool] and calls[tool] >= ENOUGH:
            due[tool].add(name)
    lacking = [any(due[tool] - names for tool, names in row) for row in rows]
    table.add(SessionItem("arguments", "leaves out an argument that the tool nearly always gets", 1), lacking)
    pairs = [{f"{tool} {name}" for tool, names in row for name in names} for row in rows]
    table.add_unusual("arguments", pairs, "gives a tool an argument that next to no session gives it")
    table.add_new("arguments", pairs, "gives {}, an argument that the baseline never gives,")


def _add_forms(values: Sequence[ArgumentValues], table: ItemTable) -> None:
    """A value has a form: where its letters and digits are. Where nearly all values have one, another one is odd."""
    forms: defaultdict[ArgumentPlace, Counter[str]] = defaultdict(Counter)
    for row in values:
        for place, found in row.items():
            forms[place].update(map(_form, found))
    odd: dict[ArgumentPlace, set[str]] = {}
    for place, counts in forms.items():
        total, most = counts.total(), counts.most_common(1)[0][1]
        if total >= ENOUGH and most >= (1 - 4 * ODD) * total:
            odd[place] = {form for form, count in counts.items() if count <= ODD * total}
    unlike = [
        any(_form(value) in odd.get(place, ()) for place, found in row.items() for value in found) for row in values
    ]
    table.add(SessionItem("odd_values", "gives a call a value whose form is odd for that argument", 1), unlike)


def _add_common_values(values: Sequence[ArgumentValues], table: ItemTable) -> set[tuple[ArgumentPlace, str]]:
    """Of the sessions that give an argument, how often it has a value that many give; return all such values."""
    support: Counter[tuple[ArgumentPlace, str]] = Counter()
    for row in values:
        support.update({(place, value) for place, found in row.items() for value in found})
    common = {pair for pair, count in support.items() if count > max(3.0, COMMON * len(values))}
    for place, value in sorted(common, key=lambda pair: (-support[pair], pair))[:MOST_ITEMS]:
        shares = [_share([one == value for one in row.get(place, ())]) for row in values]
        says = f"gives {place[0]} {place[1]} = {redact_text(value)}"
        table.add(SessionItem("argument_values", says, among=f"give {place[0]} {place[1]}"), shares)
    written = [{f"{tool} {name} = {value}" for (tool, name), found in row.items() for value in found} for row in values]
    table.add_new("odd_values", written, "gives {}, a value that the baseline never gives,")
    return common


def _unfounded(trail: SessionTrail, common: set[tuple[ArgumentPlace, str]]) -> set[str]:
    """Return which sorts of values there are that neither the user, nor a result, nor many other sessions gave."""
    known: set[str] = set()
    found: set[str] = set()
    for step in trail.steps:
        if isinstance(step, UserStep):
            known.update(_TOKENS.findall(step.text.lower()))
        elif not isinstance(step, RecordedTurn):
            written = step.output if isinstance(step.output, str) else json.dumps(step.output, ensure_ascii=False)
            known.update(_TOKENS.findall(written.lower()))
        else:
            for call in step.calls:
                for name, value in _leaves(call.args):
                    tokens = _TOKENS.findall(value.lower())
                    if ((call.tool, name), value) in common or known.issuperset(tokens):
                        continue
                    found |= _sorts(value, tokens, known)
                    known.update(tokens)
            known.update(_TOKENS.findall(step.text.lower()))
    return found


def _sorts(value: str, tokens: Sequence[str], known: set[str]) -> set[str]:
    sorts: set[str] = set()
    if len(value) >= _IDENTIFYING and _DIGITS.search(value):
        sorts.add("identifying")
    for token in tokens:
        if len(token) >= _IDENTIFYING and token not in known:
            close = (one for one in known if abs(len(one) - len(token)) <= 1 and len(one) >= _IDENTIFYING)
            if any(
                Levenshtein.distance(token, one, score_cutoff=1) <= 1 and not _inflected(token, one) for one in close
            ):
                sorts.add("near")
    return sorts


def _inflected(token: str, one: str) -> bool:
    """Whether one word is the other with a letter more at its end, as a plural is."""
    return token.isalpha() and (token.startswith(one) or one.startswith(token))


def _values_of(trail: SessionTrail) -> dict[ArgumentPlace, list[str]]:
    found: defaultdict[ArgumentPlace, list[str]] = defaultdict(list)
    total = 0
    for call in _calls(trail):
        for name, value in _leaves(call.args):
            total += 1
            if total > _MOST_VALUES:
                return dict(found)
            found[call.tool, name].append(value)
    return dict(found)


def _leaves(args: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the short values of arguments, with the names that lead to them."""
    if isinstance(args, dict):
        for key, item in args.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(args, list):
        for item in args:
            yield from _leaves(item, name)
    elif args is not None:
        value = json.dumps(args) if isinstance(args, bool | int | float) else str(args)
        if value and len(value) <= SHORT:
            yield name, value


def _calls(trail: SessionTrail) -> Iterator[RecordedCall]:
    for turn in trail.recording.turns:
        yield from turn.calls


def _form(value: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("9", value))


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
