"""What a statement asks for beside an action: an order of actions, a person's yes, an upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Modality
from stream_guard_compliance.reading.word_lists import word_set

_AGAIN: Final = word_set("repeat re-do redo retry re-run rerun reattempt re-attempt duplicate resubmit re-submit")
_CALLS: Final = word_set("command commands query queries request requests action actions attempt parameters arguments")
_COUNTED: Final = frozenset(("TIMES", "UNIT", "TURN", "SESSION", "ATONCE", "TOOLCALL", "ONCE", "WINDOW"))
_WAITS: Final = frozenset(
    ("wait for", "await", "request", "obtain", "get", "seek", "require", "requires", "need", "needs")
)


def orders_actions(tokens: Sequence[Token]) -> bool:
    """Whether something has to come before something else."""
    symbols = {token.symbol for token in tokens}
    if {"BEFORE", "PRECEDED"} & symbols or any(token.low == "without first" for token in tokens):
        return True
    then = "THEN" in symbols or any(token.low == "then" for token in tokens)
    return "FIRST" in symbols and (then or "WITHOUT" in symbols)


def asks_for_yes(tokens: Sequence[Token], modality: Modality) -> bool:
    """Whether a yes has to come first; "do not ask for permission" is the opposite."""
    symbols = [token.symbol for token in tokens]
    agrees = [
        number for number, symbol in enumerate(symbols) if symbol in {"APPROVAL", "AGREE"} or _asks(tokens[number])
    ]
    if not agrees:
        return modality != "must_not" and _asks_before(symbols)
    before = set(symbols[: agrees[0]])
    if modality == "must_not":
        return bool({"WITHOUT", "UNLESS", "BEFORE"} & before)
    if "WITHOUT" in before:
        return False
    waits = any(token.low in _WAITS for token in tokens)
    return "BEFORE" in symbols or "FIRST" in symbols or (waits and "APPROVAL" in symbols)


def _asks(token: Token) -> bool:
    return token.low in {"confirm with", "check with", "double-check with"}


def _asks_before(symbols: Sequence[str]) -> bool:
    """Whether a person is asked before something: "Ask the user before deleting"."""
    early = symbols[: symbols.index("BEFORE")] if "BEFORE" in symbols else []
    return any(symbol == "ASK" and "PERSON" in early[number : number + 3] for number, symbol in enumerate(early))


def is_bounded(tokens: Sequence[Token], modality: Modality) -> bool:
    """Whether there is an upper bound: on calls, times, lengths, or on anything per turn or session."""
    symbols = [token.symbol for token in tokens]
    held = set(symbols)
    if "ATLEAST" in held:
        return False
    if _has_most(tokens, symbols) and (held & _COUNTED or "TOOLWORD" in held):
        return True
    if modality == "must_not":
        return _forbids_more(tokens, held)
    one = any((token.symbol == "NUM" and token.low in {"1", "one"}) or token.low == "single" for token in tokens)
    if "ONLY" in held and ("NUM" in held or one) and held & _COUNTED:
        return True
    return one and bool({"ATONCE", "TURN"} & held) and modality == "must"


def _has_most(tokens: Sequence[Token], symbols: Sequence[str]) -> bool:
    """Whether "at most" stands with a number, or with the placeholder of one."""
    numbered = {"NUM", "TIMES", "ONCE"} & set(symbols) or any(token.text.startswith("{") for token in tokens)
    at_most = any(
        symbol in {"ATMOST", "FEWER"} and {"NUM", "TIMES", "ONCE", "W"} & set(symbols[number + 1 : number + 3])
        for number, symbol in enumerate(symbols)
    )
    limits = any(token.low in {"limit", "cap", "restrict"} for token in tokens[:4])
    return bool(numbered) and (at_most or limits or "ORFEWER" in symbols)


def _forbids_more(tokens: Sequence[Token], held: set[str]) -> bool:
    """Whether a ban is on doing something too often: "more than once", "multiple calls", "again"."""
    if "MORETHAN" in held and ("NUM" in held or held & _COUNTED):
        return True
    calls = "CALL" in held and "TOOL" in held
    if "MULTIPLE" in held and (calls or held & {"TIMES", "TOOLCALL", "CALLN"}):
        return True
    if "CALL" in held and any(token.low in {"twice", "again"} for token in tokens):
        return True
    again = any(token.low in _AGAIN for token in tokens[:5])
    return again and (bool(held & {"TOOLCALL", "TOOLWORD"}) or any(token.low in _CALLS for token in tokens))
