"""Names of tools by their words, in whatever spelling.

``send_email``, ``GmailSendEmail``, ``mcp__gmail__send_email`` and ``email.send`` say the same.
A pattern that begins with ``~`` is matched against the readings of a name: its words in lower case with ``_`` between
them, as they stand, from its verb on, and with the verb put before the thing. The first verb counts and no later one:
``get_delete_log`` is no ``delete_log``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_LONGEST: Final = 200  # characters of a name that are read; the rest is no name
_MOST: Final = 16  # words of a name that are read
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PARTS: Final = re.compile(r"__|[./:]")  # between a server or a namespace and the tool's own name


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a word says is done.
_LOOKING: Final = _listed(
    "get list read search find lookup fetch view show query check browse describe count calculate compute grep glob "
    "look load retrieve inspect summarize summarise verify validate preview estimate think analyze analyse compare "
    "explain identify authenticate examine monitor watch see scan detect predict recommend suggest confirm quote ask "
    "request propose plan prepare draft simulate track test evaluate assess review audit generate translate convert "
    "parse format extract classify select choose sort filter resolve match discuss answer tell say remember recall "
    "wait draw plot render measure has is can does login logout"
)
_ACTING: Final = _listed(
    "create update modify edit write delete remove cancel add set insert replace move copy rename rebook reschedule "
    "exchange change close assign apply patch clear reset approve reject place transfer merge commit send forward "
    "reply upload publish push notify broadcast tweet invite share pay refund reimburse purchase buy withdraw "
    "disburse charge checkout erase wipe purge empty destroy drop trash discard unlink revoke grant enable disable "
    "deactivate activate terminate stop start restart kill launch install uninstall deploy execute run exec eval "
    "invoke submit click input fill follow unfollow subscribe unsubscribe accept decline block unblock ban mute "
    "archive restore rotate register enroll download save store import export sync post upsert overwrite truncate "
    "append attach detach lock unlock open transmit dispatch deliver email mail issue process make give provide book "
    "order schedule return star fork join redeem override bypass force"
)
_VERBS: Final = _LOOKING | _ACTING
# As often the name of a thing: a later verb counts too. order_cancel cancels.
_THINGS_TOO: Final = _listed(
    "order book email mail post issue process return charge exchange share block schedule set run store drop patch "
    "commit push trash archive place change start stop open purchase input refund"
)
# At the end of a name that begins with such a thing, they say that it is looked at: order_status, refund_policy.
_NAMED: Final = _THINGS_TOO - {"post", "set"}
_SAID_OF_THINGS: Final = _listed("status details detail info information history policy summary log logs lookup id ids")
# Things that stand before the verb in names like email.send. The name of a product is none: AcmeEdit edits no acme.
# Nor are tasks and plans: coding agents keep lists of their own in TaskUpdate, and change nothing outside by it.
_THINGS: Final = _THINGS_TOO | _listed(
    "account address alert answer appointment bill booking branch calendar card cart cell channel chat client comment "
    "contact contract customer database document draft event file flight folder form friend function group image "
    "instance invoice item job key label lead letter link loan member message meeting money note notification object "
    "page password patient payment permission photo product profile project record refund reminder repo "
    "repository reservation review role room row rule secret server session setting shipment subscription table "
    "team text ticket token transaction trip user video visit volume webhook"
)
_IRREGULAR: Final = {
    "sent": "send", "wrote": "write", "written": "write", "paid": "pay", "bought": "buy", "made": "make",
    "given": "give", "found": "find", "deletion": "delete", "removal": "remove", "creation": "create",
    "cancellation": "cancel", "modification": "modify", "transmission": "transmit", "delivery": "deliver",
}  # fmt: skip


def _inflections() -> dict[str, str]:
    """Return the forms of every verb, and what each is a form of."""
    forms: dict[str, str] = {}
    for verb in sorted(_VERBS):
        short, doubled = verb.removesuffix("e"), verb + verb[-1]
        ends = f"{verb[:-1]}ie" if verb.endswith("y") and verb[-2] not in "aeiou" else verb
        made = {f"{ends}s", f"{verb}es", f"{short}ed", f"{ends}d", f"{short}ing", f"{doubled}ed", f"{doubled}ing"}
        # The plural of a thing is no form of a verb: send_orders, list_emails.
        forms |= {form: verb for form in made if form not in _VERBS and form.removesuffix("s") not in _THINGS_TOO}
    return forms | _IRREGULAR


_FORMS: Final = {**_inflections(), **{verb: verb for verb in _VERBS}}


def tool_words(name: str) -> list[str]:
    """Return the words of a tool's name in lower case: split at capitals, digits and everything that is neither."""
    return [word.lower() for word in _WORD.findall(name[:_LONGEST])][:_MOST]


def verb_of(word: str) -> str | None:
    """Return the verb that a word in lower case is a form of; None where it is none that says what is done."""
    return _FORMS.get(word)


@lru_cache(maxsize=4096)
def readings(name: str) -> tuple[str, ...]:
    """Return the ways to read a name, each once."""
    whole = tool_words(name)
    own = tool_words(_PARTS.split(name[:_LONGEST])[-1])
    written = name[:_LONGEST].lower()
    found = [*([] if written == "_".join(whole) else [written]), *_read(whole)]
    if own != whole:
        found += _read(own)
    return tuple(dict.fromkeys(found))


def main_reading(name: str) -> str:
    """Return the reading that the spellings of a name share: from its verb on, with the verb before the thing."""
    whole, own = tool_words(name), tool_words(_PARTS.split(name[:_LONGEST])[-1])
    known = readings(name)
    if len(whole) > 1 and whole[-1] in _VERBS - _THINGS_TOO:  # email.send, order_cancel
        things = [word for word in whole[:-1] if word.removesuffix("s") in _THINGS]
        swapped = "_".join([whole[-1], *things])
        if things and swapped in known:
            return swapped
    start = next((place for place, word in enumerate(own) if word in _FORMS), None)
    found = "_".join(own if start is None else [_FORMS[own[start]], *own[start + 1 :]])
    return found if found in known else known[-1] if known else ""


def _read(words: list[str]) -> Iterator[str]:
    if words and words[0] in _NAMED and words[-1] in _SAID_OF_THINGS:
        words = ["get", *words]
    yield "_".join(words)
    for place, word in enumerate(words):
        verb = _FORMS.get(word)
        if verb is None:
            continue
        if word in _NAMED and words[-1] in _SAID_OF_THINGS:
            yield "_".join(["get", *words[place:]])
            return
        yield "_".join([verb, *words[place + 1 :]])
        things = [thing for thing in words[:place] if thing.removesuffix("s") in _THINGS]
        if things:  # email.send
            yield "_".join([verb, *things, *words[place + 1 :]])
        if word not in _THINGS_TOO:
            return
