"""The verifier: a proposal becomes a rule only where the sentence shows all of it, and its own test holds.

A model may see that a word left over changes nothing. It is not believed about anything that can be looked up: the
quote, the tools, the polarity, the order, the number, the texts, that no condition stands in the sentence or above it,
and that the rule fires in the trace that breaks it and is silent in the one that keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from stream_guard_compliance.proposals import MOST_EVENTS, MOST_QUOTE, Proposal, RefusedProposalError
from stream_guard_compliance.reading.catalogue import Catalogue
from stream_guard_compliance.reading.circumstances import split_case
from stream_guard_compliance.reading.claims import asks_for_yes, is_bounded
from stream_guard_compliance.reading.commands import is_command
from stream_guard_compliance.reading.context import is_turned, scope_of
from stream_guard_compliance.reading.document import Sentence
from stream_guard_compliance.reading.exemptions import split_request, words_of_deed
from stream_guard_compliance.reading.frames import Frame, frame_of
from stream_guard_compliance.reading.symbols import COUNTED
from stream_guard_compliance.reading.tokenizing import tokenize
from stream_guard_compliance.reading.tokens import Token
from stream_guard_compliance.reading.values import Circumstance, Kind, Reading

_NEGATIVE: Final = frozenset(("forbid_tool", "forbid_output"))
_IN_TIME: Final = frozenset(("order", "confirm_before"))  # "after" and "until" are what these say, no conditions
_LATER: Final = frozenset(("AFTER", "UNLESS", "WITHOUT", "PRECEDED", "BEFORE"))
_TEXTS: Final = frozenset(("QUOTE", "CODE", "LITERAL", "FILE"))
_SHARED_WORDS: Final = 2  # of a tool's name that a sentence has to have, where it does not name it


def verify(
    proposal: Proposal, sentence: Sentence, catalogue: Catalogue, modes: frozenset[str] = frozenset()
) -> Reading:
    """Return the reading that a proposal makes of a sentence; raises RefusedProposalError with what it cannot show."""
    quote = " ".join(proposal.quote.split())
    if not quote or len(quote) > MOST_QUOTE or quote not in sentence.text:
        raise RefusedProposalError("the quote does not stand in the sentence")
    if sentence.is_code or sentence.is_example or sentence.is_heading or is_turned(sentence, modes):
        raise RefusedProposalError("the sentence stands where no rules are")
    tokens = tokenize(sentence.text, catalogue)
    body, case, words = _gates(proposal, tokens)
    scope = scope_of(sentence)
    frame = frame_of(body, scope)
    depends = any(token.symbol == "IF" for token in body) if proposal.kind in _IN_TIME else frame.condition
    if scope or depends:
        raise RefusedProposalError(f"it depends on a condition: {(frame.condition or scope)[:200]}")
    _check_polarity(proposal, frame)
    quoted = tokenize(quote, catalogue)
    _check_tools(proposal, sentence, quoted, catalogue)
    _check_test(proposal)
    reading = _shaped(proposal, quoted, frame)
    if case is None and words is None:
        return reading
    kind: Kind = "conditional" if case is not None else "confirm_before"
    gated = Reading(kind, reading.items, inner=reading, case=case, asked=words is not None, words=words or ())
    return replace(gated, concrete=True, proposed=True)


def _gates(
    proposal: Proposal, tokens: Sequence[Token]
) -> tuple[Sequence[Token], Circumstance | None, tuple[str, ...] | None]:
    """Return a statement without the case and the exception that a proposal names, and these two."""
    case: Circumstance | None = None
    body: Sequence[Token] = tokens
    if proposal.in_case:
        case, body = split_case(tokens)
        if case is None:
            raise RefusedProposalError("no trace can tell the case that the sentence begins with")
    if (
        proposal.shape == "finish" and body and body[0].low == "to"
    ):  # "To give the final answer, call X": what it is for
        comma = next((number for number, token in enumerate(body) if token.text == ","), -1)
        body = body[comma + 1 :]
    if not proposal.unless_asked:
        return body, case, None
    head, named = split_request(body)
    if named is None:
        raise RefusedProposalError("the sentence does not say that the user may ask for it")
    return head, case, (*named, *words_of_deed(head))


def _check_polarity(proposal: Proposal, frame: Frame) -> None:
    if frame.who == "nobody" or frame.modality in {"may", "need_not", "advice", "fact"}:
        raise RefusedProposalError("the sentence allows, advises or states something, and asks for nothing")
    negative = frame.modality == "must_not"
    if (proposal.kind in _NEGATIVE or proposal.shape in {"command", "not_after"}) and not negative:
        raise RefusedProposalError("the sentence forbids nothing")
    if proposal.kind in {"require_tool", "require_output"} and negative:
        raise RefusedProposalError("the sentence forbids, and does not ask for a call or a text")


def _check_tools(proposal: Proposal, sentence: Sentence, quoted: Sequence[Token], catalogue: Catalogue) -> None:
    named = {token.text for token in quoted if token.symbol == "TOOL"}
    above = tokenize(" ".join((sentence.label, *sentence.leads, sentence.describes)), catalogue)
    named |= {token.text for token in above if token.symbol == "TOOL"} if proposal.shape else set()
    words = catalogue.stems(word for token in quoted for word in token.low.split() if word.isalpha())
    for tool in (*proposal.tools, *proposal.first):
        if catalogue.closed and not catalogue.knows(tool):
            raise RefusedProposalError(f"{tool[:100]} is no tool of the agent")
        shared = len(catalogue.stems([tool]) & words) >= _SHARED_WORDS or _names_group(tool, quoted)
        described = bool(proposal.shape) and shared
        if catalogue.means(tool) not in named and not described:
            raise RefusedProposalError(f"the quote does not name {tool[:100]}")


def _names_group(tool: str, quoted: Sequence[Token]) -> bool:
    """Whether the quote names the group that a tool belongs to: "the Browser tool" for Browser.goto."""
    group, dot, _ = tool.partition(".")
    names = [number for number, token in enumerate(quoted) if token.text == group]
    return bool(dot) and any(
        token.symbol == "TOOLWORD" for number in names for token in quoted[number + 1 : number + 2]
    )


def _check_test(proposal: Proposal) -> None:
    """Refuse a proposal whose test is missing where it is needed, or too long to be run."""
    tested = bool(proposal.breaks) and bool(proposal.keeps)
    if max(len(proposal.breaks), len(proposal.keeps)) > MOST_EVENTS:
        raise RefusedProposalError(f"its test has more than {MOST_EVENTS} events")
    if not tested and (
        proposal.shape or proposal.in_case or proposal.unless_asked or proposal.breaks or proposal.keeps
    ):
        raise RefusedProposalError("it needs a trace that breaks it and one that keeps it")


_Check: TypeAlias = Callable[[Proposal, Sequence[Token], Frame], Reading]


def _shaped(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    check = _SHAPES.get(proposal.shape) or _CHECKS.get(proposal.kind)
    if check is None:
        raise RefusedProposalError("it does not say which rule of its kind is meant")
    return check(proposal, quoted, frame)


def _tools(proposal: Proposal, _quoted: Sequence[Token], _frame: Frame) -> Reading:
    if not proposal.tools:
        raise RefusedProposalError("it names no tool")
    return Reading(proposal.kind, proposal.tools, concrete=True, proposed=True)


def _allow_only(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if not any(token.symbol in {"ONLY", "OTHERTHAN"} for token in quoted):
        raise RefusedProposalError("the quote does not say that other tools are forbidden")
    return _tools(proposal, quoted, frame)


def _confirm(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if not asks_for_yes(quoted, frame.modality) and not _waits_for_yes(quoted):
        raise RefusedProposalError("the quote asks for no yes of a person before it")
    return _tools(proposal, quoted, frame)


def _waits_for_yes(quoted: Sequence[Token]) -> bool:
    """Whether a call comes once a person has agreed: "Once the user approved it, use X"."""
    symbols = [token.symbol for token in quoted if token.symbol]
    agrees = symbols.index("AGREE") if "AGREE" in symbols else -1
    tool = symbols.index("TOOL") if "TOOL" in symbols else -1
    return symbols[:1] in (["ONCE"], ["AFTER"]) and "PERSON" in symbols[:agrees] and 0 < agrees < tool


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
    if any(token.symbol in {"TURN", "WINDOW", "ATONCE"} for token in quoted):
        raise RefusedProposalError("it counts over a part of a session")
    _check_number(proposal, quoted)
    about = proposal.tools or ("calls",)
    return Reading("limit", tuple(f"{tool}<={proposal.most}" for tool in about), concrete=True, proposed=True)


def _check_number(proposal: Proposal, quoted: Sequence[Token]) -> None:
    numbers = {_number(token) for token in quoted}
    fewer = any(token.symbol == "FEWER" or token.low in {"under", "below"} for token in quoted)
    wanted = proposal.least if proposal.least is not None else proposal.most
    if wanted is None or (wanted + fewer not in numbers):
        raise RefusedProposalError(f"the quote does not have the number {wanted}")


def _number(token: Token) -> int:
    if token.symbol == "ONCE":
        return 1
    if token.low in {"twice", "thrice"}:
        return 2 if token.low == "twice" else 3
    if token.symbol == "MULTIPLE":
        return 1  # not several: one
    if token.symbol != "NUM":
        return -1
    return COUNTED[token.low] if token.low in COUNTED else int("".join(filter(str.isdigit, token.text)) or -1)


def _said(proposal: Proposal, quoted: Sequence[Token]) -> tuple[str, ...]:
    """Return the texts, which have to stand in the quote in quotation marks or as code."""
    stands = {token.text for token in quoted if token.symbol in _TEXTS}
    if not proposal.texts or not set(proposal.texts) <= stands:
        raise RefusedProposalError("the texts do not stand in quotation marks in the quote")
    return proposal.texts


def _output(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    texts = _said(proposal, quoted)
    symbol = {"start": "OPEN", "end": "CLOSE"}.get(proposal.place)
    if symbol and not any(token.symbol in {symbol, "PREAMBLE", "END"} for token in quoted):
        raise RefusedProposalError("the quote does not say where in a response the text stands")
    return Reading(proposal.kind, texts, place=proposal.place, concrete=True, proposed=True)


def _command(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    texts = _said(proposal, quoted)
    if not all(is_command(text) for text in texts):
        raise RefusedProposalError("what must not stand in arguments is no command and no flag")
    return Reading("forbid_arg", texts, first=proposal.tools, shape="command", concrete=True, proposed=True)


def _argument(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    names = {token.text for token in quoted if token.symbol in {"CODE", "ARGNAME", "TOOL"}}
    if not proposal.argument or proposal.argument not in names:
        raise RefusedProposalError("the quote does not name the argument")
    _check_number(proposal, quoted)
    least = proposal.least is not None
    if least != any(token.symbol == "ATLEAST" for token in quoted):
        raise RefusedProposalError("the quote has a bound on the other side")
    items, tools = (proposal.argument,), proposal.tools
    over = None if least else float(proposal.most or 0)
    under = float(proposal.least) if proposal.least is not None else None
    return Reading(
        "forbid_arg", items, first=tools, over=over, least=under, shape="argument", concrete=True, proposed=True
    )


def _per_turn(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    if not any(token.symbol in {"TURN", "ATONCE"} for token in quoted) or not proposal.tools:
        raise RefusedProposalError("the quote does not count calls of a tool in one response")
    _check_number(proposal, quoted)
    items = tuple(f"{tool}<={proposal.most}" for tool in proposal.tools)
    return Reading("limit", items, shape="per_turn", concrete=True, proposed=True)


def _alone(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    last = proposal.shape == "last"
    says = any(token.symbol in {"ALONE", "TOGETHER"} or (last and token.low == "last") for token in quoted)
    if not says or not proposal.tools:
        raise RefusedProposalError("the quote does not say what a call may stand together with")
    reading = Reading("limit", proposal.tools, shape="alone", concrete=True, proposed=True)
    return replace(reading, place="end") if last else reading


def _repeat(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    if frame.modality != "must_not" or not any(token.symbol == "SAME" for token in quoted):
        raise RefusedProposalError("the quote does not forbid the same call")
    return Reading("limit", proposal.tools, shape="repeat", concrete=True, proposed=True)


def _not_after(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    if not any(token.symbol == "AFTER" for token in quoted) or not proposal.first or not proposal.tools:
        raise RefusedProposalError("the quote does not say after which call another is forbidden")
    soon = any(token.symbol == "AFTER" and " " in token.low for token in quoted)
    items, first, second = (*proposal.first, *proposal.tools), proposal.first, proposal.tools
    return Reading(
        "order", items, first=first, second=second, shape="not_after", soon=soon, concrete=True, proposed=True
    )


def _first_action(proposal: Proposal, quoted: Sequence[Token], _frame: Frame) -> Reading:
    says = any(token.symbol in {"FIRST", "FIRSTACT", "OPEN"} for token in quoted)
    if not says or not proposal.first:
        raise RefusedProposalError("the quote does not say which call is the first")
    first = proposal.first
    return Reading("order", first, first=first, either=True, shape="first_action", concrete=True, proposed=True)


def _finish(proposal: Proposal, quoted: Sequence[Token], frame: Frame) -> Reading:
    ends = any(token.symbol in {"CLOSE", "END"} or token.low in {"final", "complete", "done"} for token in quoted)
    if not ends:
        raise RefusedProposalError("the quote does not say that the work ends with the call")
    return replace(_tools(proposal, quoted, frame), shape="finish")


_CHECKS: Final[dict[str, _Check]] = {
    "forbid_tool": _tools,
    "allow_only": _allow_only,
    "require_tool": _tools,
    "order": _order,
    "confirm_before": _confirm,
    "limit": _limit,
    "forbid_output": _output,
    "require_output": _output,
    "forbid_arg": _command,
}
_SHAPES: Final[dict[str, _Check]] = {
    "per_turn": _per_turn,
    "alone": _alone,
    "last": _alone,
    "repeat": _repeat,
    "not_after": _not_after,
    "first_action": _first_action,
    "finish": _finish,
    "argument": _argument,
    "command": _command,
}
