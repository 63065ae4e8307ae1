"""A statement in the passive, read as the order that it is: "Card numbers must not be shown" as "do not show them"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.symbols import LEXICON
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

_MODAL: Final = frozenset(("DUTY", "MAY", "BAN", "BE"))
_FORMS: Final = (
    "sent:send made:make written:write shown:show given:give taken:take found:find paid:pay bought:buy sold:sell "
    "told:tell run:run built:build kept:keep left:leave held:hold spoken:speak chosen:choose drawn:draw read:read "
    "put:put set:set cut:cut said:say begun:begin done:do hidden:hide thrown:throw sought:seek brought:bring "
    "overwritten:overwrite withheld:withhold undone:undo shut:shut"
)
_IRREGULAR: Final = {form: verb for form, _, verb in (pair.partition(":") for pair in _FORMS.split())}
_NOT_SUBJECTS: Final = frozenset(("YOU", "PERSON", "IF", "UNLESS", "ONCE", "AFTER", "BEFORE", "BAN", "DUTY", "ONLY"))
_STATES: Final = word_set("allowed permitted required supposed expected needed limited restricted prohibited based")


def activated(statement: Sequence[Token]) -> list[Token] | None:
    """Return a passive ban as an order about its subject; None where it is no passive, or forbids nothing."""
    solid = [number for number, token in enumerate(statement) if token.symbol]
    modals = [number for number in solid if statement[number].symbol in _MODAL]
    if not modals or modals[0] == solid[0] or statement[solid[0]].symbol in _NOT_SUBJECTS:
        return None
    start, end = modals[0], modals[0]
    while end < len(statement) and (statement[end].symbol in _MODAL or not statement[end].symbol):
        end += 1
    said = [token for token in statement[start:end] if token.symbol]
    symbols = {token.symbol for token in said}
    verb = base_of(statement[end]) if end < len(statement) else None
    if verb is None or not {"BE", "BAN"} <= symbols:
        return None  # what must be done may be somebody else's to do
    ban = next(token for token in said if token.symbol == "BAN")
    return [ban, verb, *statement[:start], *statement[end + 1 :]]


def base_of(token: Token) -> Token | None:
    """Return a participle as the verb that orders have; None where it is none."""
    low = token.low
    if low in _STATES or " " in low:
        return token if token.symbol in {"SAY", "DISCLOSE"} else None
    tries = (_IRREGULAR.get(low, ""), low.removesuffix("ed"), low.removesuffix("d"), low.removesuffix("ied") + "y")
    doubled = low.removesuffix("ed")[:-1]
    plain = low.endswith("ed") or low in _IRREGULAR
    verb = next((one for one in (*tries, doubled) if one in VERBS), "") if plain else ""
    if not verb:
        return None
    return replace(token, symbol=LEXICON.get((verb,), "W"), text=verb)
