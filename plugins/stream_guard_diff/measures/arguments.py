"""Measures of arguments: slips in them, their names, their values, and whether these come from somewhere."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import log
from typing import Final, NamedTuple, TypeAlias

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from stream_guard import Json, RecordedCall, RecordedTurn, redact_text
from stream_guard_diff.measures.items import MOST_ITEMS, ItemTable, SessionItem, count_support, surprise
from stream_guard_diff.trails import ResultStep, SessionTrail, UserStep

# Slips: a word or a number in an argument that is nearly a known one, and that nobody else ever wrote.

_TOKENS: Final = re.compile(r"[^\W_]+")
_SIGNS: Final = re.compile(r"^https?:|[\W_]+")
_LONGEST: Final = 200_000  # characters of one text that are read
# Short numbers and words have neighbours that are as right as they are; a word with a digit in it hardly has.
_LEAST_MIXED: Final = 4
_LEAST_WORD: Final = 6
_LEAST_NUMBER: Final = 6
_LEAST_VALUE: Final = 4
_LONGEST_VALUE: Final = 100


def tokens_of(text: str) -> list[str]:
    """Return the words and numbers of a text, in small letters."""
    return _TOKENS.findall(text[:_LONGEST].lower())


def written(step: UserStep | ResultStep) -> str:
    """Return what a user or a tool wrote."""
    if isinstance(step, UserStep):
        return step.text
    return step.output if isinstance(step.output, str) else json.dumps(step.output, ensure_ascii=False)


class Spelling:
    """The words and numbers of all sessions: in which ones they stand, and which are nearly alike."""

    def __init__(self, trails: Sequence[SessionTrail]) -> None:
        self._context = [set(_context(trail)) for trail in trails]
        self._sessions: defaultdict[str, set[int]] = defaultdict(set)
        for number, trail in enumerate(trails):
            for token in self._context[number].union(_arguments(trail)):
                self._sessions[token].add(number)
        self._values: defaultdict[tuple[tuple[str, str], int], list[str]] = defaultdict(list)
        self._by_length: defaultdict[int, list[str]] = defaultdict(list)
        for token, found in self._sessions.items():
            if len(found) > 1:
                self._by_length[len(token)].append(token)

    def add_value(self, place: tuple[str, str], value: str) -> None:
        """Keep a value that an argument was given."""
        if _LEAST_VALUE <= len(value) <= _LONGEST_VALUE:
            self._values[place, len(value)].append(value)

    def is_miswritten(self, place: tuple[str, str], value: str) -> bool:
        """Whether a value has one sign too many or too few, beside another one of the same argument.

        Another sign in its place is no slip: that is how numbers and days that follow each other differ.
        """
        if not _LEAST_VALUE <= len(value) <= _LONGEST_VALUE:
            return False
        return any(_is_near(value, self._values[place, len(value) + step]) for step in (-1, 1))

    def is_slip(self, token: str, session: int) -> bool:
        """Whether a token of a session's argument is in no other session, and one letter or digit from a known one."""
        if len(self._sessions[token]) > 1 or not _least(token) <= len(token) <= _LONGEST_VALUE:
            return False
        own = [one for one in self._context[session] if abs(len(one) - len(token)) <= 1]
        lengths = range(len(token) - 1, len(token) + 2)
        return any(_is_near(token, choices) for choices in (own, *(self._by_length[one] for one in lengths)))


def _is_near(token: str, choices: Sequence[str]) -> bool:
    found = process.extract(token, choices, scorer=Levenshtein.distance, score_cutoff=1, limit=4)
    return any(one != token and not _is_as_good(token, one) for one, _, _ in found)


def _is_as_good(first: str, second: str) -> bool:
    """Whether two are both right: a letter more at the end, as in a plural, or other signs between the same words."""
    if first.isalpha() and (first.startswith(second) or second.startswith(first)):
        return True
    return _SIGNS.sub("", first).lower() == _SIGNS.sub("", second).lower()


def _least(token: str) -> int:
    if token.isdigit():
        return _LEAST_NUMBER
    return _LEAST_WORD if token.isalpha() else _LEAST_MIXED


def _context(trail: SessionTrail) -> Iterable[str]:
    for step in trail.steps:
        yield from tokens_of(step.text if isinstance(step, RecordedTurn) else written(step))


def _arguments(trail: SessionTrail) -> Iterable[str]:
    for turn in trail.recording.turns:
        for call in turn.calls:
            yield from tokens_of(json.dumps(call.args, ensure_ascii=False))


# Measures of arguments: their names, their values, the form of the values, and whether these come from somewhere.

DUE: Final = 0.9  # share of a tool's calls from which on an argument is due, and of values, from which on a form is
ODD: Final = 0.05  # share of the values up to which a form is odd
ENOUGH: Final = 8
FEW: Final = 3  # other calls of a tool, or sessions, that show at least what is usual
COMMON: Final = 0.03  # share of sessions from which on a value is a common one, such as an option
SHORT: Final = 60  # characters; longer values are texts that the agent writes, and come from nowhere by right
LONGEST: Final = 2_000  # characters of a value whose words are held against what stood before
LOOSE: Final = 0.12  # share of the other sessions up to which values that stood nowhere are odd
RARELY: Final = 0.04  # share up to which an empty value is odd
INVENTED: Final = 0.08  # share of the sessions up to which a word that stood nowhere is one that nobody would know
_MOST_ANYWHERE: Final = 40
_MOST_VALUES: Final = 200  # of one session
_LETTERS: Final = re.compile(r"[^\W\d_]")
_DIGITS: Final = re.compile(r"\d")

ArgumentPlace: TypeAlias = tuple[str, str]  # tool and argument name
ArgumentValues: TypeAlias = Mapping[ArgumentPlace, Sequence[str]]


def measure_arguments(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes arguments, odd_values, argument_names and argument_values."""
    _add_names(trails, table)
    values = [_values_of(trail) for trail in trails]
    _add_forms(values, table)
    _add_common_values(values, table)
    _add_unfounded(trails, table)


def _add_names(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Of the sessions that call a tool, how often the call has an argument of a name; then names that are odd."""
    rows = [
        [(call.tool, set(call.args) if isinstance(call.args, dict) else set()) for call in calls_of(trail)]
        for trail in trails
    ]
    calls = Counter(tool for row in rows for tool, _ in row)
    named = Counter((tool, name) for row in rows for tool, names in row for name in names)
    varying = [place for place in named if named[place] < calls[place[0]]]
    for tool, name in sorted(varying, key=lambda place: (-named[place], place))[:MOST_ITEMS]:
        shares = [_share([name in names for called, names in row if called == tool]) for row in rows]
        table.add(SessionItem("argument_names", f"gives {tool} the argument {name}", among=f"call {tool}"), shares)
    slips = [_name_slips(row, calls, named) for row in rows]
    for says, slip in (
        ("leaves out an argument that the tool nearly always gets", "missing"),
        ("gives a tool an argument under another name than it nearly always has", "renamed"),
    ):
        table.add(SessionItem("arguments", says, 1), [slip in found for found in slips])
    pairs = [{f"{tool} {name}" for tool, names in row for name in names} for row in rows]
    table.add_unusual("arguments", pairs, "gives a tool an argument that next to no session gives it")
    table.add_new("arguments", pairs, "gives {}, an argument that the baseline never gives,")


def _name_slips(row: Sequence[tuple[str, set[str]]], calls: Counter[str], named: Counter[ArgumentPlace]) -> set[str]:
    """Return what is wrong with the names of one session's arguments, beside the calls of all others."""
    others = calls - Counter(tool for tool, _ in row)
    usual = named - Counter((tool, name) for tool, names in row for name in names)
    due = {place for place, count in usual.items() if count >= DUE * others[place[0]] and others[place[0]] >= FEW}
    slips: set[str] = set()
    for tool, names in row:
        if any(place[0] == tool and place[1] not in names for place in due):
            slips.add("missing")
            if any(usual[tool, name] <= ODD * others[tool] for name in names):
                slips.add("renamed")
    return slips


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


def _add_common_values(values: Sequence[ArgumentValues], table: ItemTable) -> None:
    """Of the sessions that give an argument, how often it has a value that many give."""
    support: Counter[tuple[ArgumentPlace, str]] = Counter()
    for row in values:
        support.update({(place, value) for place, found in row.items() for value in found})
    common = {pair for pair, count in support.items() if count > max(3.0, COMMON * len(values))}
    for place, value in sorted(common, key=lambda pair: (-support[pair], pair))[:MOST_ITEMS]:
        shares = [_share([one == value for one in row.get(place, ())]) for row in values]
        says = f"gives {place[0]} {place[1]} = {redact_text(value)}"
        table.add(SessionItem("argument_values", says, among=f"give {place[0]} {place[1]}"), shares)
    _add_values_anywhere(values, table)
    written = [{f"{tool} {name} = {value}" for (tool, name), found in row.items() for value in found} for row in values]
    table.add_new("odd_values", written, "gives {}, a value that the baseline never gives,", least=3)


def _add_values_anywhere(values: Sequence[ArgumentValues], table: ItemTable) -> None:
    """Values that several arguments are given, such as a placeholder: none of the arguments shows it by itself."""
    rows = [{value for found in row.values() for value in found} for row in values]
    support = count_support(rows)
    places = {(value, place) for row in values for place, found in row.items() for value in found}
    several = {value for value, count in Counter(value for value, _ in places).items() if count > 1}
    common = [value for value in several if support[value] > max(3.0, COMMON * len(values))]
    for value in sorted(common, key=lambda value: (-support[value], value))[:_MOST_ANYWHERE]:
        says = f"gives {redact_text(value)}, to whatever argument,"
        table.add(SessionItem("argument_values", says), [value in row for row in rows])


def _add_unfounded(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """A value comes from the user, from a result, or is one that other sessions give too; else it was made up.

    Where others make values up as well, such as texts, only one counts that is nearly a known one, and is none.
    """
    rows = [list(islice(_read_values(trail), _MOST_VALUES)) for trail in trails]
    support = count_support({(value.place, value.text) for value in row} for row in rows)
    made_up = [[value for value in row if value.unknown and support[value.place, value.text] == 1] for row in rows]
    spelling = Spelling(trails)
    for place, text in support:
        spelling.add_value(place, text)
    near = [
        any(spelling.is_slip(token, number) for token in {token for value in row for token in value.unknown})
        or any(spelling.is_miswritten(value.place, value.text) for value in row)
        for number, row in enumerate(made_up)
    ]
    table.add(SessionItem("odd_values", "gives a call a value that is nearly a known one, and is none", 1), near)
    evidence = [
        max(one, other, surprise(sum(near) - 1, len(near) - 1) if slip else 0.0)
        for one, other, slip in zip(
            _odd_places(_made_up_places(rows), [{value.place for value in row} for row in rows], LOOSE),
            _odd_places(*_empty_places(trails), RARELY),
            near,
            strict=True,
        )
    ]
    says = "gives a call a value that stood nowhere before, is empty or nearly a known one, unlike the others"
    table.add(SessionItem("odd_values", says, 1), [value > 0 for value in evidence], evidence=evidence)


def _made_up_places(rows: Sequence[Sequence[GivenValue]]) -> list[set[ArgumentPlace]]:
    """Return, for each session, the arguments with a word that stood nowhere, and that few others make up."""
    made_up = count_support({token for value in row for token in value.unknown} for row in rows)
    odd = {token for token, count in made_up.items() if surprise(count - 1, len(rows) - 1) >= -log(INVENTED)}
    return [{value.place for value in row if not odd.isdisjoint(value.unknown)} for row in rows]


def _odd_places(odd: Sequence[set[ArgumentPlace]], given: Sequence[set[ArgumentPlace]], most: float) -> list[float]:
    """Return how odd the arguments are at which a session has a thing: the fewer others have it there, the more.

    Where more than the given share of the others have it, it is nothing.
    """
    having, giving = count_support(odd), count_support(given)
    oddness = {place: surprise(count - 1, giving[place] - 1) for place, count in having.items() if giving[place] > FEW}
    return [
        max((oddness[place] for place in places if oddness.get(place, 0.0) >= -log(most)), default=0.0)
        for places in odd
    ]


def _empty_places(trails: Sequence[SessionTrail]) -> tuple[list[set[ArgumentPlace]], list[set[ArgumentPlace]]]:
    """Return, for each session, the arguments that it leaves empty, and all that it gives."""
    given = [
        [
            (call.tool, name, value)
            for call in calls_of(trail)
            if isinstance(call.args, dict)
            for name, value in call.args.items()
        ]
        for trail in trails
    ]
    empty = [{(tool, name) for tool, name, value in row if value is None or value in ("", [], {})} for row in given]
    return empty, [{(tool, name) for tool, name, _ in row} for row in given]


class GivenValue(NamedTuple):
    """A value of an argument, and the words and numbers in it that nobody had given before."""

    place: ArgumentPlace
    text: str
    unknown: tuple[str, ...]


def _read_values(trail: SessionTrail) -> Iterator[GivenValue]:
    known: set[str] = set()
    for step in trail.steps:
        if isinstance(step, RecordedTurn):
            for call in step.calls:
                for name, value in leaves_of(call.args, longest=LONGEST):
                    tokens = tokens_of(value)
                    unknown = tuple(dict.fromkeys(token for token in tokens if token not in known))
                    yield GivenValue((call.tool, name), value, unknown)
            known.update(tokens_of(step.text))
        else:
            known.update(tokens_of(written(step)))


def _values_of(trail: SessionTrail) -> dict[ArgumentPlace, list[str]]:
    found: defaultdict[ArgumentPlace, list[str]] = defaultdict(list)
    total = 0
    for call in calls_of(trail):
        for name, value in leaves_of(call.args):
            total += 1
            if total > _MOST_VALUES:
                return dict(found)
            found[call.tool, name].append(value)
    return dict(found)


def leaves_of(args: Json, name: str = "", longest: int = SHORT) -> Iterator[tuple[str, str]]:
    """Yield the values of arguments up to a length, with the names that lead to them."""
    if isinstance(args, dict):
        for key, item in args.items():
            yield from leaves_of(item, f"{name}.{key}" if name else str(key), longest)
    elif isinstance(args, list) and args:
        for item in args:
            yield from leaves_of(item, name, longest)
    else:
        value = args if isinstance(args, str) else json.dumps(args)
        if value and len(value) <= longest:
            yield name, value


def calls_of(trail: SessionTrail) -> Iterator[RecordedCall]:
    """Yield the calls of a session."""
    for turn in trail.recording.turns:
        yield from turn.calls


def _form(value: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("9", value))


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
