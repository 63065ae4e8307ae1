"""Bounds in words: at most, no more than, not over, capped at, between two numbers, at least."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.composed.segments import Polarity
from stream_guard_compliance.reading.symbols import COUNTED
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.word_lists import word_set

MONEY: Final = word_set("percent eur usd dollars euros dollar euro gbp pounds")
_CAPS: Final = word_set("capped limited restricted cap limit max maximum")
_ONE: Final = {"once": 1.0, "twice": 2.0, "thrice": 3.0, "single": 1.0}


@dataclass(frozen=True, slots=True)
class Bound:
    """How large or how many something may be; None where there is no bound on that side."""

    least: float | None = None
    most: float | None = None
    strict: bool = False  # the bound itself is too much: "under 5"


def number_of(token: Token) -> float | None:
    """Return the number that a word says."""
    low = token.low
    if low in _ONE:
        return _ONE[low]
    if token.symbol != "NUM":
        return None
    if low in COUNTED:
        return float(COUNTED[low])
    digits = re.sub(r"[^\d.]", "", low).rstrip(".")
    return float(digits) if digits else None


def bound_of(tokens: Sequence[Token], polarity: Polarity) -> Bound | None:
    """Return the one bound that words set, or None where they set none or several."""
    solid = _without_lesser([token for token in tokens if token.symbol])
    between = _between(solid)
    if between is not None:
        return between if polarity != "not" else None
    found = [bound for at in range(len(solid)) if (bound := _at(solid, at, polarity)) is not None]
    if len(found) == 2:  # "at least 1 and at most 12"
        low, high = sorted(found, key=lambda bound: bound.most is not None)
        both = low.most is None and high.most is not None and high.least is None
        return Bound(low.least, high.most, strict=high.strict) if both else None
    return found[0] if len(found) == 1 else None


def _without_lesser(solid: Sequence[Token]) -> list[Token]:
    """Return "one or two" as two: the larger is the bound."""
    found: list[Token] = []
    for token in solid:
        if token.symbol == "NUM" and [one.symbol for one in found[-2:]] == ["NUM", "SEP"] and found[-1].low == "or":
            del found[-2:]
        found.append(token)
    return found


def _between(solid: Sequence[Token]) -> Bound | None:
    for at, token in enumerate(solid):
        if token.symbol == "RANGE":
            low, high = (float(part) for part in re.split(r"\D+", token.text)[:2])
            return Bound(low, high)
        following = solid[at + 1 : at + 4]
        if token.low in {"between", "from"} and [one.symbol for one in following] == ["NUM", "SEP", "NUM"]:
            return Bound(number_of(following[0]), number_of(following[2]))
    return None


def _at(solid: Sequence[Token], at: int, polarity: Polarity) -> Bound | None:
    number = number_of(solid[at])
    if number is None:
        return None
    before = list(solid[max(0, at - 2) : at])
    symbols = {token.symbol for token in before[-1:]}
    after = solid[at + 1 : at + 3]
    exceeds = bool(symbols & {"EXCEED", "AMOUNT", "MORETHAN"})
    if exceeds:
        return Bound(most=number) if polarity == "not" else None
    if (
        "ATMOST" in symbols
        or any(token.low.partition(" ")[0] in _CAPS for token in before)
        or any(one.symbol == "ORFEWER" for one in after)
        or solid[-1].symbol == "ATMOST"
    ):
        strict = any(token.low in {"under", "below"} for token in before)
        if strict and polarity == "not":
            return Bound(least=number)  # "not below 15"
        return Bound(most=number, strict=strict) if polarity != "not" or "ATMOST" in symbols else None
    if "FEWER" in symbols:
        return Bound(least=number) if polarity == "not" else Bound(most=number, strict=True)
    return Bound(least=number) if "ATLEAST" in symbols and polarity != "not" else None
