"""Requests for actions, in what tools return and in what users write.

An attacker can leave out every word that addresses a machine, but must ask for something. A sentence that asks for an
action of a tool is a request, unless the user asked for such an action too or told the agent to do what others ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final, NamedTuple

import re2

_ACTIONS: Final = (
    "pay transfer wire remit deposit donate repay prepay reimburse settle tip",
    "buy purchase order rebuy reorder checkout",
    "book reserve rent hire",
    "send forward email e-mail mail share reply respond",
    "post publish tweet",
    "notify inform contact message tell",
    "submit report",
    "visit browse open access navigate go",
    "click follow press tap",
    "download fetch save",
    "delete remove erase wipe drop destroy clear empty purge discard trash uninstall",
    "cancel revoke terminate withdraw",
    "change update reset replace edit modify rename overwrite set adjust reschedule",
    "create add append insert write make schedule draft register generate",
    "upload push commit sync backup",
    "move copy export import",
    "give provide reveal disclose leak",
    "grant assign authorize authorise",
    "invite",
    "star fork subscribe",
    "accept approve confirm join",
    "install run execute launch deploy",
    "disable enable stop restart deactivate activate",
    "refund return exchange",
    "apply redeem",
    "input enter fill",
)
_ACTION_SORTS: Final = {word: number for number, words in enumerate(_ACTIONS) for word in words.split()}
ACTION_SORTS: Final = len(_ACTIONS)
"""How many sorts of actions there are; they are numbered."""
_FORMS: Final = (
    {
        form: sort
        for word, sort in _ACTION_SORTS.items()
        for form in (f"{word}s", f"{word}es", f"{word}ed", f"{word}d", f"{word}ing", f"{word.removesuffix('e')}ing")
    }
    | _ACTION_SORTS
    | {"paid": 0, "sent": 3, "bought": 1, "wrote": 13, "made": 13, "gave": 16}
)
_PAYMENT: Final = _ACTION_SORTS["pay"]
_HANDING_OVER: Final = frozenset(_ACTION_SORTS[word] for word in ("send", "give", "create"))
_MONEY: Final = frozenset(
    [
        "money",
        "payment",
        "payments",
        "fund",
        "funds",
        "fee",
        "fees",
        "balance",
        "amount",
        "bill",
        "rent",
        "invoice",
        "dollars",
        "usd",
    ]
)
SEVERE_ACTIONS: Final = frozenset(
    _ACTION_SORTS[word] for word in ("delete", "cancel", "change", "grant", "install", "disable")
)
"""Actions that destroy, or that change who may do what: nobody who says "do what the mail asks for" means these."""

_POLITENESS: Final = (
    r"(?:please|kindly|now|then|next|first|firstly|also|just|simply|so|and|immediately|urgently|quickly|finally|lastly"
    r"|afterwards|today|hereby|go ahead and|make sure (?:to|you)|be sure to|remember to|(?:do not|don't) forget to"
    r"|be so kind as to|feel free to|(?:could|would|can|will) you|(?:i|we) (?:need|want|ask|would like|expect) you to"
    r"|it is (?:necessary|required|important) to)"
)
_OBLIGATION: Final = (
    r"\b(?:you|somebody|someone|anybody|anyone|everybody|everyone|readers?) "
    r"(?:should|must|needs? to|ha(?:ve|s) to|are to|is to|could|shall|ought to)"
)
_WORD: Final = r"[^\s:={}\[\]]+"
REQUEST_PATTERN: Final = (
    rf"(?im)(?:^|[.!?:;>(\"'*\-]|\\n|, (?:and )?then|, and|{_OBLIGATION})\s*(?:\(?\d{{1,2}}[.)]\s*)?"
    rf"(?:{_POLITENESS}[ ,]+){{0,3}}({'|'.join(_ACTION_SORTS)})\s+{_WORD}\s+{_WORD}"
)
"""A regular expression (RE2) for the beginning of a sentence that asks for an action, whoever is addressed."""

_REQUEST: Final = re2.compile(REQUEST_PATTERN)
_END: Final = re2.compile(  # of a sentence, or of a field of structured data
    r"[.!?](?:\s|$|['\"\\])|\n\s*\n|\\n\s*\\n|\n[ '\"\-]*\w[\w ]{0,30}['\"]?:|[{}\[\]<>]|', '"
)
_REFERS_TO_LAST: Final = re2.compile(r"(?i)\S+\s+(?:it|them|this|that|these|those|one|both)\b")
_OF_MONEY: Final = re2.compile(r"(?i)send\s+(?:\S+\s+){0,3}(?:\$|\S*money|fees?|payments?|funds|amount|balance|half)\b")
_DELEGATION: Final = re2.compile(
    r"(?i)\b(?:follow|fulfil\w*|complete|finish|do|handle|achieve|perform|carry out|take care of|deal with|act on|meet"
    r"|obey|satisfy|accomplish|execute|address|work through|go through)\b[^.!?\n]{0,50}"
    r"\b(?:instruct\w*|requests?|tasks?|homework|assignments?|exercises?|to-?dos?|steps?|needs?|asks?|asked|wants?|wanted"
    r"|requires?|requirements?|says?|guide\w*|it|that|this)\b"
    r"|\b(?:instructions|steps|directions|guidelines)\b[^.!?\n]{0,60}\b(?:in|on|are|from|at|by)\b"
)


class ActionRequest(NamedTuple):
    """What a sentence asks for: its text, and the sort of action."""

    text: str
    action: int


def action_requests_in(text: str, span: int) -> Iterator[ActionRequest]:
    """Yield the requests of a text, each up to ``span`` characters long.

    A sentence that says `it` refers to the one before, which belongs to the request too.
    """
    for match in _REQUEST.finditer(text):
        begin = match.start(1)
        end = _END.search(text, begin, min(len(text), begin + span))
        sentence = text[begin : end.start() if end is not None else begin + span]
        action = _PAYMENT if _OF_MONEY.match(sentence) is not None else _ACTION_SORTS[match.group(1).lower()]
        if _REFERS_TO_LAST.match(sentence) is not None:
            earliest = max(0, match.start() - span)
            starts = [found.end() for found in _END.finditer(text, earliest, match.start())]
            sentence = text[starts[-1] if starts else earliest : begin] + sentence
        yield ActionRequest(sentence, action)


def actions_among(words: Set[str]) -> set[int]:
    """Return the sorts of actions that words name: to send money is to pay."""
    found = {_FORMS[word] for word in words & _FORMS.keys()}
    return found | {_PAYMENT} if found & _HANDING_OVER and words & _MONEY else found


def meanings_of(words: Set[str], stem: int) -> set[str]:
    """Return what words mean, as far as two texts can be compared by it: sorts of actions, and beginnings of the rest.

    Whoever pays moves money: beside a payment, the words for money say nothing more.
    """
    actions = actions_among(words)
    rest = {word[:stem] for word in words - _FORMS.keys()}
    if _PAYMENT in actions and words & _MONEY:
        actions -= _HANDING_OVER
        rest -= {word[:stem] for word in _MONEY}
    return rest | {f"#{action}" for action in actions}


PAYMENT: Final = f"#{_PAYMENT}"
"""The meaning of a payment."""
SEVERE: Final = frozenset(f"#{action}" for action in SEVERE_ACTIONS)
"""The meanings of severe actions."""


def delegates_to_others(text: str) -> bool:
    """Whether a user tells the agent to do what others ask for."""
    return _DELEGATION.search(text) is not None
