"""Reads rules about tools: forbidden, allowed alone, needed, in order, and only after a yes."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_compliance.reading.actions import stems_of
from stream_guard_compliance.reading.clauses import CONDITION, NEGATION, PERSON, Clause
from stream_guard_compliance.reading.values import PER_AGENT, Reading
from stream_guard_compliance.reading.word_lists import word_set

_AGREES: Final = (
    r"\b(?:confirm|confirms|confirmed|confirming|confirmation|approval|approve|approves|approved|permission|consent"
    r"|consents|authoriz\w*|authoris\w*|sign-?off|agrees?|agreement|double-?check with|check with"
    rf"|ask(?:ing|s)? {PERSON}|say(?:s|ing)? (?:yes|ok)|without (?:first )?asking|ask(?:ing)? (?:first|before))\b"
)
_LINKS: Final = (
    r"\b(?:before|prior to|without|unless|until|requires?|required|needs?|first|only after|only once|only if"
    r"|only when|wait for|await)\b|\bonly\b.{1,120}\b(?:after|once|if|when)\b"
)
_OTHERS: Final = r"\b(managers?|supervisors?|admins?|administrators?|team leads?|security team|legal|second person)\b"
_DESTRUCTIVE: Final = r"\b(?:destructive|irreversible|dangerous|data.loss|drop|truncate)\b"
_AMOUNT: Final = (
    r"\b(?:above|over|more than|exceeding|exceeds?|greater than|larger than|of at least"
    r"|beyond)\s{1,3}[$€£]?\s{0,2}(\d[\d,]{0,12}(?:\.\d{1,4})?)"
)
_BEFORE: Final = r"\b(?:before|prior to|preceding|ahead of|precedes?)\b"
_CALL: Final = (
    r"\b(?:call|calls|calling|called|use|uses|using|used|invoke|invoking|invoked|run|running|execute|trigger"
    r"|make|making)\b"
)
_ANY_TOOL: Final = r"\b(?:any|no) (?:other )?(?:tools?|functions?)\b|\bno tool calls?\b"
_SHELL: Final = word_set(
    "shutdown reboot sudo mkfs curl wget chmod chown kill killall halt eval exec rm dd ssh drop truncate delete alter"
)


def read_confirmation(clause: Clause) -> Reading | None:
    """Return what needs a yes first, or None."""
    if not clause.has(_AGREES) or not clause.has(_LINKS):
        return None
    if not clause.mentions and clause.has(rf"^\W*(?:{PERSON}|they) (?:needs?|must|has|have|should)\b"):
        # It is the user who must agree; to what, the heading says.
        stems = stems_of(clause.heading.lower())
        asked = clause.has(
            r"\b(?:needs? to|must|has to|have to|should) (?:explicitly )?(?:confirm|approve|consent|agree)\b"
        )
        return Reading("confirm_before", (), stems=stems) if stems and asked else None
    targets = tuple(tool for tool in clause.tools if not is_asking(tool)) or clause.tools
    if len(targets) < len(clause.tools) and targets:
        return None  # a tool that confirms comes first: an order of two tools
    others = clause.find(_OTHERS)
    phrase = target_phrase(clause)
    return Reading(
        "confirm_before",
        targets,
        stems=() if targets else stems_of(phrase),
        destructive=not targets and clause.has(_DESTRUCTIVE),
        over=amount_over(clause),
        by=others.group(1) if others else "",
    )


def amount_over(clause: Clause) -> float | None:
    """Return the amount over which a sentence holds, or None."""
    amount = clause.find(_AMOUNT)
    return float(amount.group(1).replace(",", "")) if amount else None


def is_asking(tool: str) -> bool:
    """Whether a tool asks a person: then its ok result is a yes."""
    return re.search(r"confirm|approv|ask_(?:user|human|customer)|request_consent", tool.lower()) is not None


def target_phrase(clause: Clause) -> str:
    """Return the piece of a sentence that says what has to wait."""
    low = clause.low
    before = clause.find(_BEFORE)
    if before is not None:
        rest = low[before.end() :]
        return rest[: _comma(rest)]
    without = clause.find(
        r"\b(?:without|unless|until|requires?|required|needs?|only after|only once|only if|only when)\b"
    )
    if without is not None:
        head = low[: without.start()]
        negation = re.search(NEGATION, head)
        return head[negation.end() :] if negation else head
    return low


def _comma(text: str) -> int:
    """Where the first comma outside brackets stands, or the end."""
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            return position
    return len(text)


def read_order(clause: Clause) -> Reading | None:
    """Return which tool must come before which, or None."""
    pair = _pair(clause) if len(clause.tools) > 1 else None
    if pair is not None:
        first, second = pair
        each_time = clause.has(r"\b(?:each|every) (?:call|time|use|invocation)\b|\bwhenever you call\b")
        return Reading("order", (*first, *second), first=first, second=second, each_time=each_time)
    if clause.has(r"\b(?:end|beginning|start) of\b") or clause.negated():  # "never do it before" is no order of two
        ordered = clause.has(r"\bbefore\b") and not clause.has(r"\bif\b")
    else:
        ordered = clause.has(_BEFORE) or clause.has(r"\bfirst\b.{1,200}\bthen\b|\bmust first\b|\bfollowed by\b")
    return Reading("order", clause.tools) if ordered and not clause.has(r"^\W*(?:if|when)\b") else None


def _pair(clause: Clause) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return (first, second) as the words between two tools say."""
    low, end = clause.low, len(clause.low)
    starts = [mention.start for mention in clause.mentions]
    # "charge_card needs a preceding validate_card", "charge_card must be preceded by ...", "... requires ..."
    reversed_link = clause.find(
        r"\bpreceded by\b|\b(?:needs?|requires?)\b|\b(?:only )?after\b|\bunless\b|\buntil\b|\bwithout\b"
        r"|\bonly once\b|\bfollows?\b|\bonce\b"
    )
    before = clause.find(r"\b(?:before|prior to|precedes?|ahead of|and then|then|followed by)\b|\bfirst,")
    place = -1 if reversed_link is None else int(reversed_link.start())
    if before is not None and (place < 0 or not starts[0] < place < starts[-1]):
        at = int(before.start())
        if at < starts[0]:  # "Before charge_card, call validate_card."
            cut = at + _comma(low[at:])
            second, first = clause.tools_between(at, cut), clause.tools_between(cut, end)
        else:
            first, second = clause.tools_between(0, at), clause.tools_between(at, end)
        return (first, second) if first and second else None
    if place < 0:
        return None
    if place < starts[0]:  # "After validate_card, call charge_card."
        cut = place + _comma(low[place:])
        first, second = clause.tools_between(place, cut), clause.tools_between(cut, end)
    else:
        second, first = clause.tools_between(0, place), clause.tools_between(place, end)
    return (first, second) if first and second else None


def read_allowed(clause: Clause) -> Reading | None:
    """Return the tools that alone may be called, or the agent that alone may call one."""
    if not clause.tools or clause.conditional() or clause.has(r"\bafter\b"):
        return None
    used_by = clause.find(
        r"\bonly (?:be )?(?:used|called|invoked|run) by (?:the )?([\w -]{2,40}?)(?: agents?| assistants?| bots?)?\b\W*$"
    )
    if used_by is not None:
        return Reading("allow_only", clause.tools, by=f"{PER_AGENT}:{used_by.group(1).strip()}")
    agent = clause.find(
        r"^\W*only (?:the )?([\w -]{2,40}?)(?: agents?| assistants?| bots?)? (?:may|can|is allowed to|should"
        r"|must|shall)\b"
    )
    if agent is not None and agent.end() < clause.mentions[0].start:
        return Reading("allow_only", clause.tools, by=f"{PER_AGENT}:{agent.group(1).strip()}")
    only = clause.where(
        r"\b(?:only|exclusively|nothing but|no tools? (?:other than|except|but)|restrict\w*"
        r"|limit(?:ed)? (?:yourself )?to|no other tools?|allowed tools?|permitted tools?)\b"
    )
    if only < 0 or clause.has(r"\bonly (?:for|in|with|to)\b"):
        return None
    return Reading("allow_only", clause.tools)


def read_forbidden(clause: Clause) -> Reading | None:  # noqa: PLR0911  # tools, literals, all tools, all but some
    """Return the tools or the literals in arguments that are forbidden, or None."""
    if not clause.negated() and not clause.has(r"^\W*no tool calls?\b"):
        return None
    negation = clause.find(NEGATION)
    literals = _literals(clause)
    if literals:
        return Reading("forbid_arg", literals)
    if (
        clause.tools
        and clause.has(r"\b(?:other than|except(?: for)?|besides|apart from)\b")
        and clause.has(r"\btools?\b")
    ):
        return Reading("allow_only", clause.tools)
    if clause.conditional() or clause.has(r"\b(?:without|before|after|more than)\b"):
        return None
    if not clause.tools:
        return Reading("forbid_tool", ("*",)) if clause.has(_ANY_TOOL) and clause.has(_CALL) else None
    if clause.has(_CALL) or clause.has(
        r"\b(?:forbidden|prohibited|banned|off.limits|disallowed|not allowed|not permitted)\b"
    ):
        return Reading("forbid_tool", clause.tools)
    named = clause.mentions[0].start - (int(negation.end()) if negation else 0)
    return Reading("forbid_tool", clause.tools) if 0 <= named <= 24 or clause.inherited else None


def _literals(clause: Clause) -> tuple[str, ...]:
    """Return the commands a sentence forbids: in code marks or quotes, or written with signs that words have not."""
    verb = clause.find(r"\b(?:run|running|execute|executing|issue|type|pass|enter|use the command|commands?)\b")
    if verb is None or clause.has(r"\b(?:unless|without|before|if|when)\b"):
        return ()
    marked = [text for text in (*clause.codes, *clause.quotes) if text not in clause.tools]
    if marked and clause.has(r"\b(?:run|execute|issue|type|enter|pass|command|use)\b"):
        return tuple(marked)
    if clause.tools:
        return ()
    rest = clause.text[verb.end() :].strip().rstrip(".!")
    parts = [part.strip() for part in re.split(r",| or | and ", rest) if part.strip()]
    parts = [re.sub(r"^(?:or|and|the|any) ", "", part) for part in parts]
    telling = [part for part in parts if re.search(r" --?\w|[|;<>=*]|/\w", part) or part.lower() in _SHELL]
    if not telling:
        return ()
    return tuple(part for part in parts if part in telling or " " not in part)


def read_required(clause: Clause) -> Reading | None:
    """Return the tools that must be called, or None."""
    if not clause.tools or clause.negated():
        return None
    if clause.has(_BEFORE) and not clause.has(
        r"\bbefore (?:you )?(?:end|ending|finish|finishing|closing|close|the end)\b"
    ):
        return None
    if clause.has(CONDITION) or clause.has(
        r"\bfor\b.{0,40}\b(?:questions?|requests?|queries|tasks?|lookups?|math|arithmetic|calculations?)\b"
    ):
        return None
    asked = clause.has(
        r"\b(?:must|always|have to|has to|need to|needs to|should|shall|required|at the end|every|each|at least once)\b"
    )
    return (
        Reading("require_tool", clause.tools)
        if clause.has(_CALL) and (asked or clause.has(rf"^\W*(?:please )?{_CALL}"))
        else None
    )
