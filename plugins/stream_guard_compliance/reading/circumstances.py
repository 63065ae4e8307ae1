"""Cases that a trace can tell: what the user said, a link in it, and a tool that was called before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Circumstance
from stream_guard_compliance.reading.word_lists import word_set

_SAYS: Final = word_set(
    "says say said mentions mention writes wrote write types typed type asks uses use includes contains message "
    "request text the a an any of "
    "user customer their in or word words phrase phrases"
)
_GIVES: Final = word_set(
    "provides provide provided gives given shares sends includes contains has a an the you user customer message their "
    "issue request in is if with github web"
)
_LINKS: Final = word_set("link links url urls")
_CALLED: Final = frozenset(("CALL", "RUN", "CALLN", "YOU", "TOOL", "SEP", "TOOLWORD", "SUCCEEDED", "BE", "EACH"))
_AUXILIARY: Final = word_set("have has had 've was been is successfully ever already the a an")


def split_case(statement: Sequence[Token]) -> tuple[Circumstance | None, list[Token]]:
    """Return the case that a statement begins with, and the rest; None where the trace cannot tell it."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    if not comma or not statement or statement[0].symbol not in {"IF", "AFTER", "ONCE"}:
        return None, list(statement)
    return _case(statement[:comma]), list(statement[comma + 1 :])


def said_case(statement: Sequence[Token], said: Sequence[str]) -> tuple[Circumstance | None, list[Token]]:
    """Return the case that the user says a text which stands in the clause before the comma, and the rest."""
    comma = next((number for number, token in enumerate(statement) if token.text == ","), 0)
    clause = statement[:comma]
    texts = " ".join(token.low for token in clause)
    if not clause or clause[0].symbol != "IF" or not any(token.symbol == "PERSON" for token in clause):
        return None, list(statement)
    spoken = {word for text in said for word in text.lower().split()}
    left = {word for token in clause[1:] if token.symbol not in {"SEP", "PERSON"} for word in token.low.split()}
    speaks = bool(left & _SAYING)
    plain = all(f" {text.lower()} " in f" {texts} " for text in said) and left - spoken <= _SAYS | _SAYING
    return (Circumstance("said", tuple(said)) if plain and speaks else None), list(statement[comma + 1 :])


_SAYING: Final = word_set(
    "says say said mentions mention writes types asks requests threatens reports for about to with"
)


def _case(clause: Sequence[Token]) -> Circumstance | None:
    first, rest = clause[0], clause[1:]
    quotes = tuple(token.text for token in rest if token.symbol == "QUOTE")
    words = [word for token in rest if token.symbol not in {"QUOTE", "SEP", "PERSON"} for word in token.low.split()]
    if first.symbol == "IF" and quotes and any(token.symbol == "PERSON" for token in rest) and set(words) <= _SAYS:
        return Circumstance("said", quotes)
    if first.symbol == "IF" and set(words) & _LINKS and set(words) <= _GIVES | _LINKS:
        return Circumstance("link")
    tools = tuple(token.text for token in rest if token.symbol == "TOOL" and not token.described)
    plain = all(token.symbol in _CALLED or token.low in _AUXILIARY for token in rest)
    done = first.symbol in {"AFTER", "ONCE"} or any(token.symbol in {"SUCCEEDED", "CALL"} for token in rest)
    return Circumstance("called", tools) if tools and plain and done else None
