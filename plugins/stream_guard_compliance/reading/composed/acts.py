"""What a part of a statement does: tools it names or describes, a person's yes, a text, and words left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.catalogue import Catalogue, same_letters, stem, words_of
from stream_guard_compliance.reading.symbols import VERBS
from stream_guard_compliance.reading.values import Token, word_set

# Actions in words: the known tools that do what a verb and its object say.
#
# A tool is meant where all words of its name are said, in whatever form and order, or where its verb is said with one
# of its things. A verb alone means every tool that begins with it.

_GROUPS: Final = (
    (
        "get fetch retrieve look lookup view show access see read check list find search query display inspect consult "
        "examine locate obtain"
    ),
    "create make add write generate produce draft",
    "update modify edit change alter adjust amend replace set",
    "delete remove erase purge drop wipe",
    "send issue give provide deliver submit hand grant award offer distribute",
    "run execute",
    "verify authenticate validate identify",
    "cancel void",
    "book reserve",
)
_EMPTY: Final = word_set("tool function api a an the to of by at in for and or with from")
_HANDS_OFF: Final = word_set("transfer handoff hand delegate escalate route")


def root(word: str) -> str:
    """Return what the forms of a word share: navigate, navigating, navigation."""
    plain = word.replace("-", "")
    found = same_letters(stem(_IRREGULAR.get(plain) or _verb_in(plain)))
    ends = found.endswith("ific") or (found.endswith("at") and len(found) > _SHORT)  # verification, navigate
    return found[:-2] if ends else found


def _verb_in(noun: str) -> str:
    """Return the verb that a noun of doing has in it: rejection, deletion, approval."""
    plain = noun.removesuffix("s")
    for ending, least in (("ion", _SHORT), ("al", _SHORT), ("ment", 3)):
        base = plain.removesuffix(ending)
        if base != plain and len(base) >= least and base != "state":  # a statement of an account
            return next((verb for verb in (base, f"{base}e") if verb in VERBS), noun)
    return noun


_SHORT: Final = 5
_FORMS: Final = (
    "sent:send made:make written:write wrote:write shown:show given:give taken:take found:find paid:pay bought:buy "
    "sold:sell told:tell ran:run built:build kept:keep left:leave held:hold spoken:speak chosen:choose drawn:draw "
    "frozen:freeze"
)
_IRREGULAR: Final = {form: verb for form, _, verb in (pair.partition(":") for pair in _FORMS.split())}


_SAME: Final = {root(word): number for number, line in enumerate(_GROUPS) for word in line.split()}


def alike(verb: str) -> set[str]:
    """Return the roots of the verbs that do the same as one, itself too."""
    return {verb} | {one for one, group in _SAME.items() if group == _SAME.get(verb)}


@dataclass(frozen=True, slots=True)
class ActionWords:
    """The tools that words mean, and the stems of the words that say so."""

    tools: tuple[str, ...] = ()
    used: frozenset[str] = frozenset()


def named_words(names: Sequence[str]) -> ActionWords:
    """Return tools that are named, with the words that say what they do."""
    roots = {root(word) for name in names for word in words_of(name)}
    groups = {_SAME[one] for one in roots if one in _SAME}
    return ActionWords(tuple(names), frozenset(roots | {one for one, group in _SAME.items() if group in groups}))


def resolve(words: Sequence[str], catalogue: Catalogue) -> ActionWords:
    """Return the known tools that words describe."""
    said = {root(word): word for word in words}
    found: dict[str, frozenset[str]] = {}
    for name in catalogue.names:
        verb, things = verb_and_things(name)
        used = _used(verb, things, said) if things else frozenset()
        if used:
            found[name] = used
    if not found:
        each = [_by_verb({one: word}, catalogue) for one, word in said.items()]
        if len(each) > 1 and all(one.tools for one in each):  # "approve or deny it"
            return ActionWords(tuple(tool for one in each for tool in one.tools), frozenset(said))
        return _by_verb(said, catalogue)
    # Of two tools, the one that more words mean is meant: search_direct_flight, where both search flights.
    best = {name: used for name, used in found.items() if not any(used < other for other in found.values())}
    return ActionWords(tuple(best), frozenset().union(*best.values()))


def verb_of(name: str) -> str:
    """Return the word of a name that says what is done, or its first word."""
    words = [word for word in words_of(name) if word not in _EMPTY]
    return next((word for word in words if word in VERBS), words[0] if words else "")


def verb_and_things(name: str) -> tuple[str, list[str]]:
    """Return the verb of a name and the rest: what stands before the verb is the name of a server or a group."""
    verb = verb_of(name)
    return root(verb), [root(word) for word in words_of(name) if word not in _EMPTY and word != verb]


def _used(verb: str, things: Sequence[str], said: dict[str, str]) -> frozenset[str]:
    """Return the stems by which a name is said: its verb, itself or another of its group, and one of its things."""
    same = {one for one in said if one == verb or (verb in _SAME and _SAME.get(one) == _SAME[verb])}
    spoken = {thing for thing in things if thing in said}
    if not same or not spoken or (verb in _HANDS_OFF and len(spoken) < len(things)):
        return frozenset()
    return frozenset(same | spoken)


def is_described(tool: str, words: Sequence[str], catalogue: Catalogue) -> bool:
    """Whether words describe a tool: its verb with one of its things, its things where no other tool has them."""
    said = {root(word.removesuffix("'s").strip("-")) for word in words}
    verb, things = verb_and_things(tool)
    group, dot, _ = tool.lower().partition(".")
    if dot and group in words and "tool" in words:
        return True  # "the Browser tool", of Browser.goto
    if not things:
        return bool(alike(verb) & said)
    same = [name for name in catalogue.names if verb_and_things(name)[0] == verb]
    grouped = words_of(tool)[-1] == verb_of(tool)  # what stands before the verb is the name of a group
    if verb in said and same == [tool] and (grouped or verb not in _SAME):
        return True
    if _used(verb, things, dict.fromkeys(said, "")):
        return True
    others = [name for name in catalogue.names if name != tool and set(things) <= set(verb_and_things(name)[1])]
    return set(things) <= said and not others


def _by_verb(said: dict[str, str], catalogue: Catalogue) -> ActionWords:
    """Return the tools that a verb alone means, where nothing else is said."""
    if len(said) != 1:
        return ActionWords()
    (only,) = said
    handoffs = set(catalogue.handoffs) if only in _HANDS_OFF else set()
    names = [name for name in catalogue.names if verb_and_things(name)[0] == only and name not in handoffs]
    tools = tuple(names or _by_thing(only, catalogue) or (handoffs if len(handoffs) == 1 else ()))
    return ActionWords(tools, frozenset(said)) if tools else ActionWords()


def _by_thing(thing: str, catalogue: Catalogue) -> list[str]:
    """Return the one tool that does something to a thing: refunds, where only issue_refund does more than look."""
    found = [
        name
        for name in catalogue.names
        if thing in verb_and_things(name)[1] and _SAME.get(verb_and_things(name)[0]) != 0 and verb_of(name) in VERBS
    ]
    return found if len(found) == 1 else []


# What a part of a statement does.

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
