"""Where the value of an argument has to come from: "an id which search_kb returned"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.composed.arguments import arguments_in
from stream_guard_compliance.reading.composed.segments import Parts
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.word_lists import word_set

_GIVES: Final = word_set(
    "returned returns gave gives provided produced listed found showed returning come comes came taken obtained copied"
)
_OF: Final = word_set("by from of")
_NARROWS: Final = word_set("in for on at during with to")
_IDS: Final = word_set("id ids identifier identifiers number numbers code reference key")
_THAT: Final = word_set("that which")


def read_origin(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return that the value of an argument stands in a result of some tools."""
    only = [other for other in parts.others if other.word == "only with"]  # "file a claim only with a number that ..."
    said = [*parts.main.tokens, *(token for other in only for token in other.tokens)]
    tokens = [token for token in said if token.symbol or token.low in _OF | _NARROWS | _THAT]
    sources = _sources(tokens)
    if len(only) < len(parts.others) or not _binds(parts, tokens) or not sources or _goes_on(tokens):
        return None
    loose = bool(only) or parts.polarity == "not"  # the call may be described
    tools = [token.text for token in tokens if token.symbol == "TOOL" and (loose or not token.described)]
    judged = tuple(dict.fromkeys(tool for tool in tools if tool not in sources))
    names = tuple(name for name in arguments_in(tokens) if not catalogue.knows(name)) or _ids(tokens, judged)
    if not judged and catalogue.closed:  # any other tool that is given it
        judged = tuple(name for name in catalogue.names if name not in sources)
    if not names or not judged:
        return None
    return Reading(
        "forbid_arg",
        names,
        first=judged,
        second=sources,
        shape="origin",
        guess=True,
        frame="composed: the origin of an argument",
    )


def _binds(parts: Parts, tokens: Sequence[Token]) -> bool:
    """Whether it says that a value has to be given so: "only what X returned", "never what X has not returned"."""
    negated = any(token.low in {"not", "never"} and token.symbol == "W" for token in tokens)
    return parts.polarity in {"must", "only"} and not negated if parts.polarity != "not" else negated


def _sources(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that are said to give something: "which X or Y returned", "returned by X"."""
    at = next((number for number, token in enumerate(tokens) if _gives(token)), None)
    if at is None:
        return ()
    behind = tokens[at + 1 :]
    if behind and behind[0].low in _OF:
        return _listed(behind[1:])
    before = [token for token in tokens[:at] if token.low != "not"]
    return tuple(reversed(_listed(before[::-1])))


def _gives(token: Token) -> bool:
    return token.low.split()[-1:] != [] and token.low.split()[-1] in _GIVES


def _goes_on(tokens: Sequence[Token]) -> bool:
    """Whether more stands behind what gives the value, which may narrow it: "in plan mode"."""
    at = next((number for number, token in enumerate(tokens) if _gives(token)), 0)
    return any(
        token.symbol not in {"TOOL", "SEP", "YOU", "PERSON"} and token.low not in _OF for token in tokens[at + 1 :]
    )


def _listed(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that stand together at the beginning."""
    found: list[str] = []
    for token in tokens:
        if token.symbol == "TOOL" and not token.described:
            found.append(token.text)
        elif token.symbol != "SEP":
            break
    return tuple(found)


def _ids(tokens: Sequence[Token], tools: Sequence[str]) -> tuple[str, ...]:
    """Return the names that an argument may have, where only "an id" or "a parcel number" is said."""
    at = next((number for number, token in enumerate(tokens) if token.low in _IDS), None)
    if at is None:  # "a symbol which X returned"
        that = next((number for number, token in enumerate(tokens) if token.low in _THAT), 0)
        at = that - 1 if that and tokens[that - 1].symbol == "W" and tokens[that - 1].low.isalpha() else None
    if at is None or len(tools) != 1:
        return ()
    word = tokens[at].low.removesuffix("s") if tokens[at].low != "ids" else "id"
    word = "id" if word == "identifier" else word
    before = tokens[at - 1].low if at and tokens[at - 1].symbol == "W" and tokens[at - 1].low.isalpha() else ""
    things = dict.fromkeys(thing for thing in (before, words_of(tools[0])[-1]) if thing)
    named = [name for thing in things for name in (f"{thing}_{word}", f"{thing}{word.title()}", f"{thing}_{word}s")]
    return (word, f"{word}s", *named)
