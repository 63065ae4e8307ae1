"""Actions in words: the known tools that do what a verb and its object say.

A tool is meant where all words of its name are said, in whatever form and order, or where its verb is said with one
of its things. A verb alone means every tool that begins with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.catalogue import Catalogue, same_letters, words_of
from stream_guard_compliance.reading.verbs import VERBS
from stream_guard_compliance.reading.word_lists import word_set

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
