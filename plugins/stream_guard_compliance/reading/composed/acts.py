"""What a part of a statement does: tools it names or describes, a person's yes, a text, and words left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, words_of
from stream_guard_compliance.reading.composed.actions import named_words, resolve, root
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

# Symbols of words that may be a part of what an action is called.
_SPOKEN: Final = frozenset(
    (
        *("W", "NAME", "SAY", "DISCLOSE", "ASK", "AGREE", "RUN", "OPEN", "CLOSE", "KEEP", "SKIP", "SOURCE", "DEED"),
        *("ANSWER", "PII", "REPLY", "PHRASE", "STOP", "FAILED", "QUESTION", "SET", "CITE", "PATH", "FORM", "COMMAND"),
        *("EDITS", "DELETES", "PROCEED", "SECRET", "ATTEMPT", "LITWORD", "APPROVAL", "SOURCE", "PERSON", "RETRY"),
    )
)
# Words that say nothing about which calls are meant.
_GENERIC: Final = word_set(
    "tool tools function functions call calls calling called use using used action actions command commands "
    "operation operations it them this that these those one ones anything something thing things anyone someone any "
    "all each every file files always successfully already ever also then user users customer customers user's "
    "customer's caller client patient person human message messages is was been being made taken take takes make "
    "makes do does done allowed permitted available run runs running executed execute executing step steps task "
    "tasks itself following their him her conversation session attempt request requests data information details "
    "once carefully time only result results up out deployment environment other others another further will "
    "receive goes go happens occurs nothing else "
)
_SMALL: Final = word_set("for to with of a an the and or in on by from as at")
_NARROWS: Final = word_set("for in on during within at under above over below outside inside against toward towards")


@dataclass(frozen=True, slots=True)
class Act:
    """One action, as far as it is understood."""

    tools: tuple[str, ...] = ()
    described: bool = False  # found by words, not by name
    yes: bool = False  # a person is asked, or agrees
    quotes: tuple[str, ...] = ()
    any_tool: bool = False
    left: tuple[str, ...] = ()  # words that nothing accounts for
    narrowed: bool = False  # some of them behind a preposition
    about_one: bool = False  # and these say of what: "for a device", "of the order"
    either: bool = False
    by: str = ""  # whose yes it is, where that is not the user's


def act_of(tokens: Sequence[Token], catalogue: Catalogue) -> Act:
    """Return the action that words describe."""
    named = tuple(dict.fromkeys(token.text for token in tokens if token.symbol == "TOOL" and not token.described))
    words = [word for token in tokens for word in _words(token) if word not in _BEGINNING or _is_known(word, catalogue)]
    found = named_words(named) if named else resolve([word for word in words if word not in _GENERIC], catalogue)
    yes = _is_yes(tokens)
    left = [(word, behind) for word, behind in _left(tokens, found.used, yes=yes) if word not in _BEGINNING]
    left = [] if any(token.text == "(listed)" for token in tokens) else left
    left = [(word, behind) for word, behind in left if not named or word not in _by_means(tokens)]
    return Act(
        found.tools,
        described=not named,
        yes=yes,
        quotes=tuple(token.text for token in tokens if token.symbol == "QUOTE"),
        any_tool=not found.tools and _is_any(tokens),
        left=tuple(word for word, _ in left),
        narrowed=any(behind for _, behind in left),
        about_one=_is_about_one(tokens),
        either=any(token.low in {"or", "either"} for token in tokens),
        by=next((token.low.removesuffix("'s") for token in tokens if token.symbol == "SUPERIOR"), ""),
    )


def _by_means(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the verb of what is done to "it" with a tool that is named: "touch it with X" is a call of X."""
    for at, token in enumerate(tokens[:-2]):
        behind = [one.low for one in tokens[at + 1 : at + 4]]
        done = len(behind) > 1 and behind[0] in {"it", "them", "one"} and behind[1] in {"with", "using", "via", "by"}
        if done and token.low.removesuffix("ing") in VERBS:
            return frozenset((token.low,))
    return frozenset()


# Words before an action that only say that it is done, unless a tool is called so.
_BEGINNING: Final = word_set(
    "start starting begin beginning proceed proceeding try trying attempt attempting perform performing performed "
    "initiate initiating continue continuing allowed required mandatory needed process"
)


def _is_about_one(tokens: Sequence[Token]) -> bool:
    """Whether what narrows an action is one thing with an article: what it is done to, and no sort of cases."""
    at = next((number for number, token in enumerate(tokens) if token.low in _NARROWS), -1)
    rest = [token.low for token in tokens[at:]] if at >= 0 else []
    return len(rest) == 3 and rest[0] == "for" and rest[1] in {"a", "an", "the", "each", "every", "that", "this"}


def _is_known(word: str, catalogue: Catalogue) -> bool:
    return any(word in words_of(name) for name in catalogue.names)


def _words(token: Token) -> list[str]:
    if token.symbol == "TOOL" and token.described:
        return words_of(token.text)
    if token.symbol in _SPOKEN:
        return [word.removesuffix("'s").strip("-") for word in token.low.split() if word not in _SMALL]
    return []


_AGREES: Final = frozenset(("APPROVAL", "AGREE"))
_ASKING: Final = word_set("ask asks asking check confirm confirming request requesting seek seeking wait")


def _is_yes(tokens: Sequence[Token]) -> bool:
    """Whether a person is asked or agrees."""
    symbols = {token.symbol for token in tokens}
    if symbols & {"APPROVAL"} or (symbols & {"AGREE"} and symbols & {"PERSON", "SUPERIOR"}):
        return True
    asks = any(token.symbol == "ASK" and token.low.split()[0] in _ASKING for token in tokens)
    with_person = any(token.symbol == "ASK" and token.low.endswith(" with") for token in tokens)
    return with_person or (asks and bool(symbols & {"PERSON", "SUPERIOR", "FIRST"}))


def _left(tokens: Sequence[Token], used: frozenset[str], *, yes: bool) -> list[tuple[str, bool]]:
    """Return the words that nothing accounts for, and whether each stands behind a preposition that narrows."""
    found: list[tuple[str, bool]] = []
    behind = False
    for token in tokens:
        if token.low in _NARROWS:
            behind = True
        if token.symbol in {"SEP", "CUT"}:
            behind = False
        if token.symbol in _NOT_ACTS:
            found.append((token.low, behind))
        if behind and token.symbol == "PERSON" and not yes:
            found.append((token.low, behind))  # "for new customers"
        if yes and token.symbol in {*_AGREES, "ASK", "PERSON"}:
            continue
        found += [
            (word, behind or word == "(...)")
            for word in _words(token)
            if word not in _GENERIC and root(word) not in used and len(word) > 1
        ]
    return found


# What says more of an action than which it is.
_NOT_ACTS: Final = frozenset(
    (
        *(
            "NUM",
            "RANGE",
            "CODE",
            "LITERAL",
            "FILE",
            "AMOUNT",
            "MORETHAN",
            "TURN",
            "SESSION",
            "TIMES",
            "ATMOST",
            "FEWER",
        ),
        *(
            "MULTIPLE",
            "ALONE",
            "TOGETHER",
            "SAME",
            "AGAIN",
            "ATONCE",
            "WINDOW",
            "EXACTLY",
            "ATLEAST",
            "UNIT",
            "OTHERTHAN",
        ),
    )
)


def _is_any(tokens: Sequence[Token]) -> bool:
    """Whether any tool is meant: "any other tool", "a tool"."""
    words = {word for token in tokens for word in token.low.split()}
    symbols = {token.symbol for token in tokens}
    if "NOTHING" in symbols and "CALL" in symbols:
        return True  # "call nothing else"
    if {"anything", "else"} <= words:
        return True
    return bool(words & {"tool", "tools", "one", "action", "actions"}) and bool(
        words & {"other", "others", "another", "any", "every", "each", "next", "further", "no"}
    )


def is_narrowed_behind(tokens: Sequence[Token], symbols: frozenset[str]) -> bool:
    """Whether words behind the texts of a ban narrow it: "in production"; what stands before them describes them."""
    at = max((number for number, token in enumerate(tokens) if token.symbol in symbols), default=0)
    rest = tokens[at + 1 :]
    act = [(word, behind) for word, behind in _left(rest, frozenset(), yes=False) if word not in _ANYWHERE]
    return any(behind or word == "(...)" or _is_manner(word) for word, behind in act)


def narrowing_words(tokens: Sequence[Token], used: frozenset[str]) -> list[str]:
    """Return the words behind a preposition that say for what or where, and that nothing accounts for."""
    plain = [token for token in tokens if token.symbol not in _NOT_ACTS]
    left = _left(plain, used, yes=False)
    return [word for word, behind in left if behind and word not in _ANYWHERE | {"list"} and word not in used]


def _is_manner(word: str) -> bool:
    """Whether a word behind a text is an adverb, which says how and not what."""
    return word.endswith("ly") or word in {"again", "alone", "care"}


_ANYWHERE: Final = word_set(
    "command commands argument arguments response responses reply replies answer answers message messages output text "
    "chat conversation code subject title body names name"
)
