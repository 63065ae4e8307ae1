"""What a sentence stands under: conditions and opposites that headings, leads and labels set, and lists to complete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stream_guard_compliance.reading.document import Sentence
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.word_lists import word_set

_SCOPES: Final = word_set("if when whenever for during after before once while unless in on until where")
_SCOPED: Final = word_set(
    "task tasks request requests mode question questions inquiry inquiries directive directives case cases user users "
    "customer customers files projects repositories operations issues errors environment platform query queries"
)
_TURNS: Final = (
    *(" never ", " do not ", " don't ", " not to ", " bad ", " wrong ", " incorrect ", " avoid ", " forbidden "),
    *(" prohibited ", " mistakes ", "anti-pattern", "don'ts"),
)
_NARROWS: Final = word_set("mode phase step stage summary title summaries titles commit commits")
_CARRY: Final = word_set("must should shall never always not don't to can may cannot")
_TOOLS: Final = word_set("tools tool functions")


def scope_of(sentence: Sentence) -> str:
    """Return the condition that a heading, the line that opens its list, or a label sets for a sentence."""
    for above in (*sentence.outer, sentence.heading, *sentence.leads):
        words = _words(above)
        if words and (words[0] in _SCOPES or "cases" in words or "if" in words or "when" in words):
            return above.rstrip(": ")
    for label in (sentence.label, *(lead for lead in sentence.leads if len(lead.split()) <= 4)):
        words = _words(label)
        if words and (words[0] in _SCOPES or set(words) & _SCOPED or "(" in label):
            return label.rstrip(": ")
    return ""


_IN_MODE: Final = re.compile(
    r"\b(?:you are|you're)(?: currently| now){0,1}(?: operating| working| running){0,1} in "
    r"\W{0,3}(\w{3,20})\W{0,3} mode\b"
    r"|\b(?:active|current)(?: \w{1,20}){0,2} mode:\W{0,4}(\w{3,20})",
    re.IGNORECASE,
)


def modes_of(prompt: str) -> frozenset[str]:
    """Return the modes that a prompt says the agent is in: what holds in such a mode holds."""
    stated = [match for match in _IN_MODE.finditer(prompt) if not _is_condition(prompt, match.start())]
    return frozenset(word.lower() for match in stated for word in match.groups() if word)


def _is_condition(prompt: str, start: int) -> bool:
    """Whether "you are in plan mode" stands behind a word that makes a condition of it."""
    before = prompt[max(0, start - 20) : start].lower().split()
    return bool(before) and before[-1] in {"when", "if", "while", "whenever", "unless", "once", "until", "after"}


def without_mode(tokens: Sequence[Token], modes: frozenset[str]) -> Sequence[Token]:
    """Return a sentence without "In plan mode," at its beginning, where the prompt says that this is the mode."""
    at = next((number for number, token in enumerate(tokens[:7]) if token.low.rstrip(",:") == "mode"), -1)
    words = {word for token in tokens[: max(at, 0)] for word in token.low.split()}
    if at < 1 or not words & modes or not words <= modes | _IN_A_MODE or not words & {"in", "while", "during"}:
        return tokens
    rest = tokens[at + 1 :]
    return rest[1:] if rest and rest[0].text in {",", ":"} else rest


_IN_A_MODE: Final = word_set("in while when during whilst you are currently the this if operating")


def is_turned(sentence: Sentence, modes: frozenset[str] = frozenset()) -> bool:
    """Whether a heading or a lead turns or narrows what stands under it: "Never do this:", "Phase 2", "Plan mode"."""
    label = "" if _NUMBERED.fullmatch(sentence.label) else sentence.label  # "Step 2:" numbers an item of a list
    above = [_words(line) for line in (*sentence.outer, sentence.heading, *sentence.leads, label)]
    plain = [{word.strip(".,:()*") for word in words} for words in above]
    if any(_NARROWS & words and not ("mode" in words and words & modes) for words in plain):
        return True
    return any(mark in f" {' '.join(words)} " for words in above[:-1] for mark in _TURNS)


_NUMBERED: Final = re.compile(r"(?i)step \d{1,2}")


def completes(sentence: Sentence) -> bool:
    """Whether an item without a verb of its own completes an order: "When NOT to use X:", "Only when:"."""
    words = _words(sentence.leads[-1]) if sentence.is_item and sentence.leads else []
    return bool(words) and (words[0] in {"when", "if", "only", "never", "avoid", "don't"} or words[:2] == ["do", "not"])


def join_lists(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Put the items of a list behind the words that open it, where they make no sense alone."""
    joined: list[Sentence] = []
    gathered: dict[str, tuple[int, list[str]]] = {}
    completed: set[str] = set()  # leads that say something only together with their items
    for sentence in sentences:
        lead = sentence.leads[-1] if sentence.leads else sentence.heading
        if sentence.is_item and not sentence.is_example and _is_bare(sentence.text) and _opening(lead):
            # Bare names: all of them belong to one rule.
            if lead not in gathered:
                gathered[lead] = (len(joined), [])
                joined.append(sentence)
            gathered[lead][1].append(sentence.text.rstrip(".,;"))
            place = gathered[lead][0]
            joined[place] = replace(joined[place], end=sentence.end)
        elif sentence.is_item and not sentence.leads and _heads(sentence):
            text = f"{_HEADS[' '.join(_words(sentence.heading))]} {_lower(sentence.text)}"
            joined.append(replace(sentence, text=text, heading=""))
        elif sentence.is_item and sentence.leads and _carries(lead) and _is_order(sentence.text):
            completed.add(lead)
            joined.append(replace(sentence, leads=sentence.leads[:-1]))
        elif sentence.is_item and sentence.leads and _carries(lead):
            completed.add(lead)
            text = f"{lead.rstrip(': ')} {_lower(sentence.text)}"
            joined.append(replace(sentence, text=text, leads=sentence.leads[:-1]))
        else:
            joined.append(sentence)
    for lead, (place, names) in gathered.items():
        heading = "" if joined[place].heading == lead else joined[place].heading
        joined[place] = replace(joined[place], text=f"{_opening(lead)} {', '.join(names)}.", leads=(), heading=heading)
    completed.update(gathered)
    return [replace(one, opens=True) if one.text in completed else one for one in joined]


# Headings of a word or two under which every item is forbidden, or a duty.
_HEADS: Final = {
    **dict.fromkeys(
        ("never", "do not", "don't", "don'ts", "never do", "you must not", "must not", "you must never"), "Never"
    ),
    **dict.fromkeys(("always", "you must", "must", "always do", "you must always", "do's"), "Always"),
}


def _heads(sentence: Sentence) -> bool:
    """Whether a heading is the verb of every item under it; an item with a verb for this of its own is read alone."""
    first = _words(sentence.text)[:1]
    begins = first == [] or first[0] in _CARRY | {"do", "if", "when", "only", "you"}
    return " ".join(_words(sentence.heading)) in _HEADS and not begins and not sentence.is_example


def _words(text: str) -> list[str]:
    return text.lower().replace("\u2019", "'").strip("*_:# ").split()


def _is_bare(text: str) -> bool:
    return len(text) <= 80 and len(text.strip("`.,; ").split()) == 1


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _opening(lead: str) -> str:
    """Return the words that a list of names is read behind, where its lead or heading forbids or allows tools."""
    words = _words(lead)
    if not words or len(words) > 12:
        return ""
    if words[-1] in _TOOLS and words[0] in {"allowed", "permitted"}:
        return "Only call"
    if words[-1] in _TOOLS and words[0] in {"forbidden", "prohibited", "banned", "disallowed"}:
        return "Never call"
    says = lead.rstrip(": ") if lead.endswith(":") else ""
    if any(word.startswith(("confirm", "approv", "permission")) for word in words):
        return f"{says} before calling" if says and "before" not in words else ""
    names = words[-1] in {"call", "use", "invoke", "run", "execute"} or words[-2:] in (
        ["these", "tools"],
        ["following", "tools"],
        ["the", "tools"],
        ["following", "functions"],
    )
    return says if names else ""


def _is_order(text: str) -> bool:
    """Whether an item says itself what its lead says: "Don't:", and under it "Don't ..."."""
    return _words(text)[:1] in (["don't"], ["never"], ["always"]) or _words(text)[:2] == ["do", "not"]


def _carries(lead: str) -> bool:
    """Whether a lead ends in words that every item completes: "You must:", "Never:"."""
    return lead.endswith(":") and _words(lead)[-1:] != [] and _words(lead)[-1] in _CARRY
