"""What a sentence takes back: a deed that is forbidden unless the user asks for it.

The trace can tell whether the user named the deed, so such a sentence is no open condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.word_lists import word_set

_ASKS: Final = word_set(
    "ask asks asked asking request requests requested instruct instructs instructed tell tells told direct directs "
    "directed want wants specify specifies specified instruction instructions prompted approve approves approved "
    "confirm confirms confirmed permits"
)
# Words that say nothing more than that somebody asks.
_AROUND: Final = word_set(
    "the a an user users customer customers user's they he she you your their explicitly "
    "specifically expressly directly "
    "clearly explicit specific express direct to for it do so otherwise them this that is has "
    "have been are was were by "
    "being in such one first ever"
)
# Words of a deed that stand in other requests too.
_OBJECTS: Final = word_set(
    "branch branches remote changes code repository repositories any new start make create your file files"
)
_SHORT: Final = 3  # letters of a word that says too little by itself
_OPENS: Final = frozenset(("unless", "without"))


def split_request(tokens: Sequence[Token]) -> tuple[list[Token], tuple[str, ...] | None]:
    """Return a statement without its "unless the user asks", and what else is asked for; None where it has none."""
    for number, token in enumerate(tokens):
        if number > 1 and token.symbol in {"UNLESS", "WITHOUT"} and token.low in _OPENS:
            named = _asked_for(tokens[number + 1 :], tokens[:number])
            if named is not None:
                return list(tokens[:number]), named
    return list(tokens), None


def turned_request(tokens: Sequence[Token]) -> list[Token]:
    """Return "only use X if the user asks" as "never use X unless the user asks"; anything else as it is."""
    at = next((number for number, token in enumerate(tokens) if token.symbol == "IF" and token.low in _IF), None)
    only = next((number for number, token in enumerate(tokens[:2]) if token.symbol == "ONLY"), None)
    if at is None or only is None or at < only:
        return list(tokens)
    head = [*tokens[:only], replace(tokens[only], symbol="BAN", text="never"), *tokens[only + 1 : at]]
    return [*head, replace(tokens[at], symbol="UNLESS", text="unless"), *tokens[at + 1 :]]


_IF: Final = frozenset(("if", "when"))


def _asked_for(tail: Sequence[Token], head: Sequence[Token]) -> tuple[str, ...] | None:
    """Return what somebody asks for beside the deed itself, a word or two; None where nobody asks."""
    words = [word for token in tail for word in token.low.split() if token.symbol not in {"SEP", "CUT"}]
    stems = {stem(word) for token in head for word in token.low.split()}
    if not any(word in _ASKS for word in words):
        return None
    named = [word for word in words if word not in _ASKS and word not in _AROUND and stem(word) not in stems]
    if len(named) > _MOST_NAMED or any(
        token.symbol not in {"W", "ASK", "AGREE", "SEP", "", "PERSON", "EXPLICIT", "BE", "YOU", "COMMAND", "DEED"}
        and token.low not in _AROUND
        and not token.inherited
        for token in tail
    ):
        return None
    wordy = any(stem(word) in {"detail", "explan", "length", "longer"} for word in named)
    return (*named, *(_WORDY if wordy else ()))


_MOST_NAMED: Final = 2
_WORDY: Final = ("explain", "elaborate", "describe", "summary", "thorough", "walk")  # by which users ask for detail


def words_of_deed(head: Sequence[Token]) -> tuple[str, ...]:
    """Return the words by which a user would name what is forbidden: content, texts and commands of the statement."""
    found: list[str] = []
    for token in head:
        if token.symbol in {"LITERAL", "CODE", "QUOTE", "FILE"}:
            found += [token.text, *(word for word in re.split(r"[^A-Za-z]+", token.text) if len(word) > _SHORT)]
        elif token.symbol in {"W", "COMMAND", "FORM", "NAME", "DEED", "SAY"}:
            found += [word for word in token.low.split() if word.isalpha() and word not in _AROUND | _OBJECTS]
        elif token.symbol == "TOOL":
            found += [word for word in token.text.replace("_", " ").split() if word.isalpha()]
    return tuple(dict.fromkeys(word for word in found if len(word) > 2))
