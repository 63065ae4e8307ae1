"""Reads rules about what answers must have and must not have."""

from __future__ import annotations

import re
from typing import Final, Literal

from stream_guard_compliance.reading.clauses import Clause
from stream_guard_compliance.reading.values import TEXT_WITH_CALLS, Reading

_SAYS: Final = (
    r"\b(?:reveal\w*|disclos\w+|shar(?:e|es|ing)|mention\w*|expos(?:e|es|ing)|leak\w*|output\w*|display\w*|print\w*"
    r"|say|saying|repeat\w*|include|includes|including|discuss\w*|show|showing|giv(?:e|ing) out|quot(?:e|ing)|tell"
    r"|telling|provide|providing|recommend\w*|name|promise|promising|use|using|write|writing|send|sending|return"
    r"|returning)\b"
)
_PROMPT: Final = (
    r"\b(?:system|initial|hidden|internal|developer) (?:prompts?|instructions?|messages?)\b|\b(?:your|these"
    r"|this|the) (?:prompt|instructions)\b"
)
_PII: Final = {
    "email": r"\be-?mails?\b(?: address\w*)?",
    "phone": r"\b(?:tele)?phones?(?: numbers?)?\b|\bphone numbers?\b|\bmobile numbers?\b",
    "card": r"\b(?:credit|debit|payment)? ?card (?:numbers?|details|data)\b|\bcredit cards?\b",
    "ssn": r"\bssns?\b|\bsocial security\b",
    "ip": r"\bip address\w*\b",
    "iban": r"\bibans?\b|\bbank account\w*\b",
}
_ALL_PII: Final = r"\bpii\b|\bpersonal(?:ly identifiable)? (?:data|information|details)\b|\bcustomer(?:s'?|'s)? data\b"
_SECRETS: Final = r"\b(?:passwords?|secrets?|api keys?|credentials?|access tokens?|private keys?)\b"
_CITES: Final = (
    r"\bcit(?:e|es|ing|ation|ations)\b|\b(?:include|add|give|provide|list|name|link) (?:\w+ ){0,4}(?:sources?"
    r"|references?)\b"
)
_ADDS: Final = (
    r"\b(?:end|ends|finish|close|conclude|begin|begins|start|starts|open|include|includes|append|add|say|state"
    r"|mention|sign|contain|contains|reply with|respond with|answer with|greet|use the phrase|write)\b"
)
_QUOTES_SOMEONE: Final = (
    r"\b(?:users?|customers?|clients?|someone|they|people) (?:\w+ )?(?:say|says|said|asks?|writes?|types?)\b"
)
_TALKS_AND_CALLS: Final = (
    r"\b(?:respond|reply|talk|write|message|answer)\w*\b.{0,60}\btool calls?\b"
    r"|\btool calls?\b.{0,60}\b(?:respond|reply|talk|write|answer)\w*\b"
)
_AT_ONCE: Final = r"\b(?:same time|simultaneously|at once|same turn|same message|if you (?:respond|reply|make|take))\b"
_EACH: Final = r"\b(?:every|each|all|always|any)\b"
_NAME: Final = re.compile(r"[A-Z][\w&.-]{1,40}(?: [A-Z][\w&.-]{1,40}){0,3}")
_SUCH_AS: Final = re.compile(r"(?i)\b(?:such as|like|including|especially|namely|e\.g\.,?)\s")


def read_forbidden_output(clause: Clause) -> Reading | None:
    """Return what must not come out, or None."""
    if clause.has(_TALKS_AND_CALLS) and clause.has(_AT_ONCE) and clause.negated():
        return Reading("forbid_output", (TEXT_WITH_CALLS,))
    if not clause.negated() or not clause.has(_SAYS) or clause.tools:
        return None
    if clause.has(r"\b(?:unless|without|before|until)\b"):
        return None
    items = ["system_prompt"] if clause.has(_PROMPT) else []
    items += [f"pii:{name}" for name, pattern in _PII.items() if clause.has(pattern)]
    if not items and clause.has(_ALL_PII):
        items = ["pii"]
    if clause.has(_SECRETS):
        items.append("secrets")
    if not items:
        items = [*clause.quotes, *clause.codes] or _named(clause)
    return Reading("forbid_output", tuple(items)) if items else None


def _named(clause: Clause) -> list[str]:
    """Return the names a sentence lists: behind "such as", or as the object of "mention"."""
    such = _SUCH_AS.search(clause.text)
    if such is None:
        verb = re.search(r"(?i)\b(?:mention|discuss|name|recommend|promote|endorse)\w*\s", clause.text)
        if verb is None:
            return []
        such = verb
    return [match.group().rstrip(".") for match in _NAME.finditer(clause.text, such.end())]


def read_required_output(clause: Clause) -> Reading | None:
    """Return what answers must have, or None."""
    if clause.tools or clause.negated() or clause.conditional() or clause.has(_QUOTES_SOMEONE):
        return None
    each = clause.has(_EACH)
    if clause.quotes and clause.has(_ADDS):
        place: Literal["", "start", "end"] = "end" if clause.has(r"\b(?:end|ends|finish|close|conclude|sign)\b") else ""
        if clause.has(r"\b(?:begin|begins|start|starts|open|greet)\b"):
            place = "start"
        return Reading("require_output", clause.quotes, place=place, each=each)
    if clause.has(_CITES):
        return Reading("require_output", ("citation",), each=False)
    if clause.has(r"\b(?:valid |strict |well-formed )json\b|\b(?:in|as) json\b") and clause.has(
        r"\b(?:respond|reply|answer|output|return|format|produce)\w*\b"
    ):
        return Reading("require_output", ("json",))
    return None
