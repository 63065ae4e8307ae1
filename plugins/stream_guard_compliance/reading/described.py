"""Tools that a sentence describes and does not name: "the search tool", "cancel an appointment", "a handoff".

A description counts only where its words are those of the name, no more and no fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

_LONGEST: Final = 4  # words of a description
_WORDS: Final = frozenset(
    (
        *(
            "W",
            "NAME",
            "SAY",
            "DISCLOSE",
            "ASK",
            "AGREE",
            "RUN",
            "OPEN",
            "CLOSE",
            "KEEP",
            "SKIP",
            "SOURCE",
            "DEED",
            "ANSWER",
        ),
        *("PII", "REPLY", "PHRASE", "STOP", "FAILED", "TOOLWORD", "QUESTION", "CALL"),
    )
)
_SKIPPED: Final = frozenset(("", "EACH", "PERSON"))
_CALLED: Final = frozenset(("CALL", "RUN", "CALLN"))
_TO: Final = word_set("to using use via with or consult the")
_HANDOFFS: Final = word_set("handoff handoffs hand-off hand-offs handover handovers hand-over hand-overs")
_THEM: Final = word_set("it them this these")


def describe_tools(tokens: Sequence[Token], catalogue: Catalogue) -> list[Token]:
    """Return the tokens with tools in the place of what describes them."""
    if not catalogue.names:
        return list(tokens)
    found: list[Token] = []
    last: frozenset[str] = frozenset()  # the words of the last description: "creating it" goes on with them
    number = 0
    while number < len(tokens):
        length, names, last = _at(tokens, number, catalogue, last)
        if not names:
            found.append(tokens[number])
            number += 1
            continue
        called = _called(tokens[number : number + length], names, found)
        number += length
        following = next((token for token in tokens[number:] if token.symbol), None)
        named = following is not None and following.symbol == "TOOL" and [following.text] == names
        found += called[:-1] if named else called  # "look at the calendar with check_calendar" names it as well
    return found


def _at(
    tokens: Sequence[Token], number: int, catalogue: Catalogue, last: frozenset[str]
) -> tuple[int, list[str], frozenset[str]]:
    """Return how many tokens from here describe tools, the tools, and the words to go on with."""
    token = tokens[number]
    if token.low in _HANDOFFS:
        return 1, catalogue.handoffs, last
    if token.symbol not in _WORDS or not token.text.isalpha():
        return 0, [], last
    words, ends = _words_from(tokens, number)
    labelled = _labelled(tokens, number, words, ends, catalogue)
    if labelled:
        return (*labelled, last)
    for count in range(len(words), 1, -1):
        names = catalogue.described(words[:count])
        if names:
            return ends[count - 1] - number, names, catalogue.stems(words[:count])
    following = tokens[number + 1] if number + 1 < len(tokens) else None
    if last and following is not None and following.low in _THEM and token.low.endswith("ing"):
        names = catalogue.renamed(token.low, last)
        return 2, names, last
    return 0, [], last


def _words_from(tokens: Sequence[Token], number: int) -> tuple[list[str], list[int]]:
    """Return the words from here that may belong together, and where each ends."""
    words: list[str] = []
    ends: list[int] = []
    for place in range(number, min(len(tokens), number + 2 * _LONGEST)):
        token = tokens[place]
        if token.symbol in _SKIPPED and words:
            continue
        if token.symbol not in _WORDS or len(words) == _LONGEST or " " in token.text:
            break
        words.append(token.low.removesuffix("'s"))
        ends.append(place + 1)
    return words, ends


def _labelled(
    tokens: Sequence[Token], number: int, words: Sequence[str], ends: Sequence[int], catalogue: Catalogue
) -> tuple[int, list[str]] | None:
    """Return the tools of "the NAME tool", "the NAME agent" or "the NAME tool's VERB command", where they are known."""
    before = [token.low for token in tokens[max(0, number - 2) : number]]
    for count in range(len(words), 1, -1):
        label = words[count - 1]
        inner = [word for word in words[: count - 1] if word not in {"tool", "tools"}]
        if not inner:
            continue
        if label in {"tool", "function", "command", "tools", "functions"}:
            names = catalogue.labelled(inner, many=label.endswith("s"))
        elif label in {"agent", "agents"} and set(before) & _TO:
            names = [name for name in catalogue.handoffs if catalogue.stems(inner) <= catalogue.stems([name])]
        else:
            continue
        if names:
            return ends[count - 1] - number, names
    return None


def _called(tokens: Sequence[Token], names: Sequence[str], before: Sequence[Token]) -> list[Token]:
    """Return a call of the tools; the word for calling is left out where it stands before them."""
    first, start, end = tokens[0], tokens[0].start, tokens[-1].end
    solid = [token for token in before if token.symbol]
    is_verb = first.low in VERBS or first.low.endswith("ing")
    found: list[Token] = []
    if is_verb and not (solid and solid[-1].symbol in _CALLED):
        found.append(Token("CALL", "call", start, start))
    for number, name in enumerate(names):
        if number:
            found.append(Token("SEP", ",", start, start))
        found.append(replace(first, symbol="TOOL", text=name, start=start, end=end, described=True))
    return found
