"""Readings that a model proposes, and the verifier that decides: what the sentence does not show is refused.

A model may see that a word left over changes nothing. It is not believed about anything that can be looked up: the
quote, the tools, the polarity, the order, the number, and that no condition stands in the sentence or above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.claims import asks_for_yes, is_bounded
from stream_guard_compliance.reading.context import is_turned, scope_of
from stream_guard_compliance.reading.document import Sentence
from stream_guard_compliance.reading.frames import Frame, frame_of
from stream_guard_compliance.reading.symbols import COUNTED
from stream_guard_compliance.reading.tokenizing import tokenize
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Reading

ProposedKind: TypeAlias = Literal[
    "forbid_tool", "allow_only", "require_tool", "order", "confirm_before", "limit", "forbid_output"
]
_NEGATIVE: Final = frozenset(("forbid_tool", "forbid_output"))
_IN_TIME: Final = frozenset(("order", "confirm_before"))  # "after" and "until" are what these say, no conditions
_LATER: Final = frozenset(("AFTER", "UNLESS", "WITHOUT", "PRECEDED", "BEFORE"))
_MOST_QUOTE: Final = 2000  # characters


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says that a piece of the prompt states."""

    quote: str  # letter for letter, white space aside
    kind: ProposedKind
    tools: tuple[str, ...] = ()  # of an order: what must wait
    first: tuple[str, ...] = ()  # of an order: what must come first
    most: int | None = None  # of a limit: calls that are still fine
    texts: tuple[str, ...] = ()  # of forbid_output: what must not be said


class RefusedProposalError(ValueError):
    """A proposal says something that its quote does not show."""


def verify(proposal: Proposal, sentence: Sentence, catalogue: Catalogue) -> Reading:
    """Return the reading that a proposal makes of a sentence; raises RefusedProposalError with what it cannot show."""
    quote = " ".join(proposal.quote.split())
    if not quote or len(quote) > _MOST_QUOTE or quote not in sentence.text:
        raise RefusedProposalError("the quote does not stand in the sentence")
    if sentence.is_code or sentence.is_example or sentence.is_heading or is_turned(sentence):
        raise RefusedProposalError("the sentence stands where no rules are")
    tokens = tokenize(sentence.text, catalogue)
    scope = scope_of(sentence)
    frame = frame_of(tokens, scope)
    depends = any(token.symbol == "IF" for token in tokens) if proposal.kind in _IN_TIME else frame.condition
    if scope or depends:
        raise RefusedProposalError(f"it depends on a condition: {frame.condition[:200]}")
    _check_polarity(proposal, frame)
    quoted = tokenize(quote, catalogue)
    _check_tools(proposal, quoted, catalogue)
    return _CHECKS[proposal.kind](proposal, quoted, frame)


def _check_polarity(proposal: Proposal, frame: Frame) -> None:
    if frame.who == "nobody" or frame.modality in {"may", "need_not", "advice", "fact"}:
        raise RefusedProposalError("the sentence allows, advises or states something, and asks for nothing")
    negative = frame.modality == "must_not"
    if proposal.kind in _NEGATIVE and not negative:
        raise RefusedProposalError("the sentence forbids nothing")
    if proposal.kind == "require_tool" and negative:
        raise RefusedProposalError("the sentence forbids, and does not ask for a call")


def _check_tools(proposal: Proposal, quoted: Sequence[Token], catalogue: Catalogue) -> None:
    named = {token.text for token in quoted if token.symbol == "TOOL"}
    for tool in (*proposal.tools, *proposal.first):
        if catalogue.closed and not catalogue.knows(tool):
            raise RefusedProposalError(f"{tool[:100]} is no tool of the agent")
        if catalogue.means(tool) not in named:
            raise RefusedProposalError(f"the quote does not name {tool[:100]}")


def _tools(proposal: Proposal, _quoted: Sequence[Token], _frame: Frame) -> Reading:
    if not proposal.tools:
        raise RefusedProposalError("it names no tool")
    return Reading(proposal.kind, proposal.tools, concrete=True, proposed=True)


def _allow_only(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if not any(token.symbol in {"ONLY", "OTHERTHAN"} for token in quoted):
        raise RefusedProposalError("the quote does not say that other tools are forbidden")
    return _tools(proposal, quoted, frame)


def _confirm(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if not asks_for_yes(quoted, frame.modality):
        raise RefusedProposalError("the quote asks for no yes of a person before it")
    return _tools(proposal, quoted, frame)


def _order(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if not proposal.first or not proposal.tools:
        raise RefusedProposalError("an order needs the tools that come first and those that wait")
    if not _comes_first(proposal, quoted, negated=frame.modality == "must_not"):
        raise RefusedProposalError("the quote does not put the calls in this order")
    items = (*proposal.first, *proposal.tools)
    return Reading("order", items, first=proposal.first, second=proposal.tools, concrete=True, proposed=True)


def _comes_first(proposal: Proposal, quoted: Sequence[Token], *, negated: bool) -> bool:
    """Whether the words between two tools say which call comes first; where they do not, nothing is proved."""
    symbols = [token.symbol for token in quoted]
    first = [number for number, token in enumerate(quoted) if token.text in proposal.first]
    second = [number for number, token in enumerate(quoted) if token.text in proposal.tools]
    if not first or not second:
        return False
    if "BEFORE" in symbols and not negated:
        at = symbols.index("BEFORE")
        return first[-1] < at < second[0] or (at < second[0] and second[-1] < first[0])
    later = [number for number, symbol in enumerate(symbols) if symbol in _LATER]
    if later:
        return second[-1] < later[0] < first[0]
    then = "THEN" in symbols or any(token.low == "then" for token in quoted)
    return ("FIRST" in symbols or then) and first[-1] < second[0] and not negated


def _limit(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if proposal.most is None or not is_bounded([token for token in quoted if token.symbol], frame.modality):
        raise RefusedProposalError("the quote sets no upper bound")
    if any(token.symbol in {"TURN", "WINDOW"} for token in quoted):
        raise RefusedProposalError("it counts over a part of a session")
    numbers = {_number(token) for token in quoted}
    fewer = any(token.symbol == "FEWER" for token in quoted)
    if proposal.most + fewer not in numbers:
        raise RefusedProposalError(f"the quote does not have the number {proposal.most}")
    about = proposal.tools or ("calls",)
    return Reading("limit", tuple(f"{tool}<={proposal.most}" for tool in about), concrete=True, proposed=True)


def _number(token: Token) -> int:
    if token.symbol == "ONCE":
        return 1
    if token.low in {"twice", "thrice"}:
        return 2 if token.low == "twice" else 3
    if token.symbol != "NUM":
        return -1
    return COUNTED[token.low] if token.low in COUNTED else int("".join(filter(str.isdigit, token.text)) or -1)


def _forbid_output(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    said = {token.text for token in quoted if token.symbol == "QUOTE"}
    if not proposal.texts or not set(proposal.texts) <= said:
        raise RefusedProposalError("the texts do not stand in quotation marks in the quote")
    return Reading("forbid_output", proposal.texts, concrete=True, proposed=True)


_CHECKS: Final = {
    "forbid_tool": _tools,
    "allow_only": _allow_only,
    "require_tool": _tools,
    "order": _order,
    "confirm_before": _confirm,
    "limit": _limit,
    "forbid_output": _forbid_output,
}
