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

_GIVES: Final = word_set("returned returns gave gives provided produced listed found showed returning")
_OF: Final = word_set("by from of")
_NARROWS: Final = word_set("in for on at during with to")
_IDS: Final = word_set("id ids identifier identifiers")


def read_origin(parts: Parts, catalogue: Catalogue) -> Reading | None:
    """Return that the value of an argument stands in a result of some tools."""
    tokens = [token for token in parts.main.tokens if token.symbol or token.low in _OF | _NARROWS]
    sources = _sources(tokens)
    if parts.others or parts.polarity not in {"must", "only"} or not sources or _goes_on(tokens):
        return None
    tools = [token.text for token in tokens if token.symbol == "TOOL" and not token.described]
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


def _sources(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the tools that are said to give something: "which X or Y returned", "returned by X"."""
    at = next((number for number, token in enumerate(tokens) if token.low in _GIVES), None)
    if at is None:
        return ()
    behind = tokens[at + 1 :]
    if behind and behind[0].low in _OF:
        return _listed(behind[1:])
    return tuple(reversed(_listed(tokens[:at][::-1])))


def _goes_on(tokens: Sequence[Token]) -> bool:
    """Whether more stands behind what gives the value, which may narrow it: "in plan mode"."""
    at = next((number for number, token in enumerate(tokens) if token.low in _GIVES), 0)
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
    """Return the names that an id may have, where only "an id" is said."""
    if not any(token.low in _IDS for token in tokens) or len(tools) != 1:
        return ()
    thing = words_of(tools[0])[-1]
    return ("id", f"{thing}_id", f"{thing}Id", "ids", f"{thing}_ids")
