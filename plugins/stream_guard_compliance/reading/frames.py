"""A statement's frame: who is meant, how strongly, under which condition, in which order, how often.

The frame says what a statement is when the grammar of concrete rules does not take it: left to judgement, bound to a
condition, a permission, advice, or no rule at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.claims import asks_for_yes, is_bounded, orders_actions
from stream_guard_compliance.reading.clauses import (
    CONDITIONS,
    PREPOSITIONS,
    Who,
    leading_and_main,
    whom_it_means,
    without_brackets,
)
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Kind, Modality, Reading
from stream_guard_compliance.reading.word_lists import word_set

_MENTAL: Final = word_set(
    "sure unsure certain uncertain doubt know unclear ambiguous confused confident appropriate possible needed "
    "relevant helpful useful comfortable reasonable unable"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a statement says, part by part."""

    who: Who
    modality: Modality
    tools: tuple[str, ...]
    condition: str = ""  # as it is written, or the line above that sets it
    inherited: bool = False  # the condition stands above the sentence
    mental: bool = False  # the condition is about what the agent knows or thinks
    order: bool = False  # something has to come before something else
    waits: bool = False  # something is forbidden for a time: "not ... before"
    approval: bool = False  # a person's yes has to come first
    bounded: bool = False  # an upper bound on how much or how often
    discloses: bool = False
    formatted: bool = False  # asks for JSON
    narrowed: bool = False  # words behind a tool, or behind "cannot", narrow what it is about


def frame_of(tokens: Sequence[Token], scope: str = "") -> Frame:
    """Return the frame of a statement; ``scope`` is a condition that stands above it."""
    plain = without_brackets(tokens)
    leading, main = leading_and_main(plain)
    solid = [token for token in main if token.symbol]
    symbols = [token.symbol for token in solid]
    who, modality = whom_it_means(main, leads=bool(leading)) if main else ("nobody", "fact")
    condition, mental = _condition(plain, leading, who)
    tools = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    first = any(token.symbol in {"FIRST", "WITHOUT"} for token in plain)
    return Frame(
        who,
        modality,
        tools,
        condition or scope,
        inherited=bool(scope and not condition),
        mental=mental and not tools,
        order=orders_actions(plain),
        waits=modality == "must_not" and not first,
        approval=asks_for_yes(plain, modality),
        bounded=is_bounded(solid, modality),
        discloses="DISCLOSE" in symbols[:6] and modality == "must_not",
        formatted="JSON" in symbols and bool({"REPLY", "SAY"} & set(symbols)) and modality == "must",
        narrowed=(bool(tools) and "W" in symbols and modality in {"must", "must_not"}) or _is_qualified(solid, main),
    )


def classify(frame: Frame) -> Reading:
    """Return the reading of a statement that no production fits."""
    if frame.modality in {"may", "need_not"}:
        return Reading("permission", why="a permission", modality=frame.modality)
    if frame.who == "nobody":
        return Reading("none", why="states a fact", modality="fact")
    if frame.who == "person":
        return Reading("unparsed", why=_OTHERS, modality=frame.modality)
    kind, why = next((kind, why) for holds, kind, why in _sorts(frame) if holds)
    details = (frame.condition,) if frame.condition else ()
    items = frame.tools if kind in {"conditional", "order"} else ()
    return Reading(kind, items, why, modality=frame.modality, details=details)


_OTHERS: Final = "says what must be, but not what the agent has to do about it"
_LEFT_OVER: Final = "it says more than any rule checks"


def _sorts(frame: Frame) -> tuple[tuple[bool, Kind, str], ...]:
    """Return the sorts of rules that are left open, in the order in which they are asked for, and why they are."""
    advice = frame.modality == "advice"
    return (
        (advice and frame.inherited and not frame.bounded, "ambiguous", "advice"),
        (bool(frame.condition) and not frame.mental, "conditional", "it depends on a condition that no event shows"),
        (bool(frame.condition), "ambiguous", "it depends on what the agent knows"),
        (frame.approval, "confirm_before", "it describes an action, and no known tool is called like it"),
        (frame.bounded, "limit", "no rule counts what it counts"),
        (frame.order and frame.waits, "conditional", "it forbids something for a time that no event shows"),
        (frame.order, "order", "it puts actions in order that are described and not named"),
        (frame.discloses, "forbid_output", _LEFT_OVER),
        (frame.formatted, "require_output", _LEFT_OVER),
        (advice, "ambiguous", "advice"),
        (frame.narrowed, "conditional", "it narrows what it is about by words that no event shows"),
        (True, "ambiguous", "it leaves to judgement what counts"),
    )


def _condition(plain: Sequence[Token], leading: Sequence[Token], who: Who) -> tuple[str, bool]:
    """Return the condition of a statement as it is written, and whether it is about the agent's own mind."""
    lead = [token for token in leading if token.symbol or token.low in PREPOSITIONS]
    if lead and lead[0].symbol not in {"BEFORE", "EVEN", "BECAUSE", "WITHOUT"} and who != "nobody":
        return _words(leading), _is_mental(leading)
    for number, token in enumerate(plain):
        opens = token.symbol == "ONCE" and _opens_clause(plain[number + 1 : number + 2])
        if opens or token.symbol in {*CONDITIONS, "AFTER"}:
            return _words(plain[number:]), _is_mental(plain[number:])
    return "", False


def _opens_clause(following: Sequence[Token]) -> bool:
    """Whether "once" is a conjunction, as in "once the user agrees"."""
    return any(
        token.symbol in {"YOU", "PERSON", "TOOL"} or token.low in {"the", "a", "all", "your"} for token in following
    )


def _is_mental(tokens: Sequence[Token]) -> bool:
    """Whether a condition is about what the agent knows or thinks: "if you are not sure", "when needed"."""
    if any(token.symbol == "YOU" for token in tokens):
        return any(token.low in _MENTAL for token in tokens[:8])
    return len(tokens) < 4 and any(token.low in _MENTAL for token in tokens[1:4])


def _words(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens).rstrip(" ,")


def _is_qualified(solid: Sequence[Token], main: Sequence[Token]) -> bool:
    """Whether a ban on what the agent cannot do is narrowed: "You cannot change orders in transit"."""
    cannot = any(token.symbol == "BAN" and token.low in {"cannot", "can not", "may not"} for token in solid[:3])
    return cannot and any(token.low in {"in", "for", "on", "of", "within", "with"} for token in main[3:])
