"""The frames of proposals: for each rule that a reading can become, what it needs, and which words have to show it.

A frame is as wide as the rules that readings compile to. Words of a statement that relate or count ("before", "more
than", "per turn", "only") have to be among those that the frame uses: none is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard_compliance.reading.values import TEXT_WITH_CALLS, Reading

# Readings that a model proposes: a piece of a sentence, what it states, and traces that break it and keep it.

ProposedKind: TypeAlias = Literal[
    "forbid_tool",
    "allow_only",
    "require_tool",
    "order",
    "confirm_before",
    "limit",
    "forbid_output",
    "forbid_arg",
    "require_output",
]
MOST_QUOTE: Final = 2000  # characters
MOST_EVENTS: Final = 50  # of a trace that shows what is meant


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says that a piece of the prompt states; ``proposed_frames`` has the frames and what each needs."""

    quote: str  # letter for letter, white space aside
    kind: ProposedKind
    shape: str = ""  # which rule of its kind
    tools: tuple[str, ...] = ()  # of an order: what must wait
    first: tuple[str, ...] = ()  # of an order: what must come first
    most: float | None = None  # of a limit: calls that are still fine; of an argument: its largest value
    least: float | None = None  # of an argument: its smallest value
    unit: str = ""  # of a length: words, chars, sentences, lines or paragraphs
    texts: tuple[
        str, ...
    ] = ()  # what must not be said or stand in arguments, or has to be said; forms, folders, values
    argument: str = ""  # the name of the argument that it is about; several with a comma
    place: Literal["", "start", "end"] = ""  # where in a response or an argument the text stands
    files: tuple[str, ...] = ()  # it is about calls that name such a file alone: "image", or an ending, "*.md"
    either: bool = False  # of several tools that come first, or must be called, one is enough
    unless_asked: bool = False  # the user may ask for it
    in_case: bool = False  # it holds in the case that the sentence begins with, and the trace can tell it
    said: tuple[str, ...] = ()  # of a case: what the user says, as it stands in the sentence
    breaks: tuple[dict[str, Any], ...] = ()  # events as ``check_compliance`` takes them
    keeps: tuple[dict[str, Any], ...] = ()


class RefusedProposalError(ValueError):
    """A proposal says something that its quote does not show."""


# The frames.

Polarity: TypeAlias = Literal["", "not", "must"]
Check: TypeAlias = Literal[
    "order", "yes", "bound", "number", "argument", "command", "said", "held", "form", "data", "unit", "path", "deed"
]
"""What else of a proposal is held against its quote."""


@dataclass(frozen=True, slots=True)
class ProposedFrame:
    """One rule that a proposal can ask for."""

    build: Callable[[Proposal], Reading]
    needs: tuple[str, ...] = ()  # fields that have to be given
    shown: tuple[str, ...] = ()  # of each of these lists of symbols and words, the quote has one
    uses: str = ""  # the symbols of relating and counting words that it accounts for
    polarity: Polarity = ""
    checks: tuple[Check, ...] = ()
    shape: str | None = None  # of the reading, where it is not called like the frame
    is_open: bool = False  # it is about calls of tools that it does not name


_COUNT: Final = "NUM TIMES ONCE ATMOST MORETHAN FEWER ORFEWER MULTIPLE EXACTLY ONLY EXCEED AGAIN"
_BOUND: Final = f"{_COUNT} RANGE ATLEAST AMOUNT ATONCE"
_AT_ONCE: Final = "TURN ATONCE PARALLEL TOGETHER ALONE"
_LATER: Final = "BEFORE AFTER UNLESS WITHOUT PRECEDED FIRST FIRSTACT THEN ONCE ONLY"
_VALUE: Final = "ONLY EXACTLY OTHERTHAN"
_LAST: Final = "CLOSE END last final finally complete completed done finish finished ends"


def _tools(proposal: Proposal) -> Reading:
    return Reading(proposal.kind, proposal.tools, either=proposal.either)


def _first(proposal: Proposal, **more: object) -> Reading:
    reading = Reading("order", proposal.first, first=proposal.first, either=True)
    return replace(reading, **more)  # type: ignore[arg-type]  # fields of a reading


def _ordered(proposal: Proposal) -> Reading:
    items, first, second = (*proposal.first, *proposal.tools), proposal.first, proposal.tools
    return Reading("order", items, first=first, second=second, either=proposal.either)


def _limited(proposal: Proposal) -> Reading:
    about = proposal.tools or ("calls",)
    return Reading("limit", tuple(f"{tool}<={int(proposal.most or 0)}" for tool in about))


def _counted(about: str) -> Callable[[Proposal], Reading]:
    return lambda proposal: Reading("limit", (f"{about}<={int(proposal.most or 0)}",))


def _length(proposal: Proposal) -> Reading:
    return Reading("limit", (f"{proposal.unit}<={int(proposal.most or 0)}",))


def _texts(proposal: Proposal) -> Reading:
    return Reading(proposal.kind, proposal.texts, place=proposal.place)


def _formed(proposal: Proposal) -> Reading:
    return Reading("forbid_output", proposal.texts, first=proposal.tools)


def _in_arguments(proposal: Proposal) -> Reading:
    return Reading("forbid_arg", proposal.texts, first=proposal.tools)


def _named(proposal: Proposal) -> Reading:
    names = tuple(name.strip() for name in proposal.argument.split(",") if name.strip())
    return Reading("forbid_arg", names, first=proposal.tools, over=proposal.most, least=proposal.least)


def _from(proposal: Proposal) -> Reading:
    return Reading("forbid_arg", (proposal.argument,), first=proposal.tools, second=proposal.first)


def _valued(proposal: Proposal) -> Reading:
    return Reading("forbid_arg", (proposal.argument, *proposal.texts), first=proposal.tools)


def _sized(proposal: Proposal) -> Reading:
    named = (proposal.argument,) if proposal.argument else ()
    return Reading("forbid_arg", (proposal.unit,), first=proposal.tools, over=proposal.most, described=named)


def _has(proposal: Proposal) -> Reading:
    named = (proposal.argument,) if proposal.argument else ()
    return Reading("forbid_arg", proposal.texts, first=proposal.tools, described=named, place=proposal.place)


def _fixed(kind: str, *items: str) -> Callable[[Proposal], Reading]:
    return lambda _: Reading(kind, items)  # type: ignore[arg-type]  # a kind of readings


def _said_beside(proposal: Proposal) -> Reading:
    return Reading("require_output", proposal.texts, first=proposal.tools, second=proposal.tools)


FRAMES: Final[dict[tuple[str, str], ProposedFrame]] = {
    ("forbid_tool", ""): ProposedFrame(_tools, ("tools",), polarity="not"),
    ("forbid_tool", "edits"): ProposedFrame(
        _fixed("forbid_tool"), shown=("EDITS edit edits modify write change create changes",), polarity="not"
    ),
    ("forbid_tool", "deletes"): ProposedFrame(
        _fixed("forbid_tool"), shown=("DELETES delete deleted deleting remove removed removing",), polarity="not"
    ),
    ("allow_only", ""): ProposedFrame(
        _tools, ("tools",), ("ONLY OTHERTHAN except",), "ONLY OTHERTHAN", is_open=True
    ),
    ("require_tool", ""): ProposedFrame(_tools, ("tools",), polarity="must", is_open=True),
    ("require_tool", "finish"): ProposedFrame(
        _tools, ("tools",), (_LAST,), "FIRST ONLY EXACTLY ONCE", polarity="must", is_open=True
    ),
    ("require_tool", "each_turn"): ProposedFrame(
        _fixed("require_tool"), shown=("TOOLCALL tool tools", "EACH EMPTY always every DUTY"), uses="TURN"
    ),
    ("order", ""): ProposedFrame(_ordered, ("first", "tools"), uses=_LATER, checks=("order",)),
    ("order", "not_after"): ProposedFrame(
        _ordered, ("first", "tools"), ("AFTER ONCE THEN",), "AFTER ONCE THEN", polarity="not"
    ),
    ("order", "nothing_after"): ProposedFrame(
        _first, ("first",), ("AFTER ONCE THEN last stop",), "AFTER ONCE THEN", is_open=True
    ),
    ("order", "answer_after"): ProposedFrame(
        _first, ("first",), ("REPLY ANSWER answering responding replying answer",), _LATER
    ),
    ("order", "follows"): ProposedFrame(
        lambda proposal: replace(_ordered(proposal), follows=True), ("first", "tools"),
        ("AFTER THEN ONCE followed afterwards",), "AFTER THEN ONCE", "must", shape="",
    ),
    ("order", "first_action"): ProposedFrame(
        _first, ("first",), ("FIRST FIRSTACT OPEN beginning start before",), "FIRST FIRSTACT BEFORE", "must",
        is_open=True,
    ),
    ("confirm_before", ""): ProposedFrame(_tools, ("tools",), uses=f"{_LATER} TURN", checks=("yes",)),
    ("confirm_before", "acts"): ProposedFrame(
        _fixed("confirm_before"), shown=("PROCEED DEED EDITS changes action actions",), uses=_LATER, checks=("yes",),
        is_open=True,
    ),
    ("limit", ""): ProposedFrame(_limited, ("most",), uses=_COUNT, checks=("bound", "number"), is_open=True),
    ("limit", "per_turn"): ProposedFrame(
        _limited, ("tools", "most"), ("TURN ATONCE",), f"{_COUNT} {_AT_ONCE}", checks=("number",)
    ),
    ("limit", "per_exchange"): ProposedFrame(
        _limited, ("tools", "most"), ("TURN question request task query issue incident",), f"{_COUNT} TURN",
        checks=("number",),
    ),
    ("limit", "parallel"): ProposedFrame(
        _counted("parallel"), ("most",), ("TURN ATONCE PARALLEL", "TOOLCALL TOOLWORD calls call"),
        f"{_COUNT} {_AT_ONCE}", checks=("number",), shape="", is_open=True,
    ),
    ("limit", "besides"): ProposedFrame(
        lambda proposal: replace(_counted("parallel")(proposal), second=proposal.tools), ("tools", "most"),
        ("TURN ATONCE", "TOOLCALL TOOLWORD calls call"), f"{_COUNT} {_AT_ONCE} THEN", checks=("number",), shape="",
        is_open=True,
    ),
    ("limit", "command"): ProposedFrame(
        lambda proposal: Reading("limit", tuple(f"{text}<={int(proposal.most or 0)}" for text in proposal.texts)),
        ("texts", "most"), uses=_COUNT, checks=("number", "deed"),
    ),
    ("limit", "questions"): ProposedFrame(
        _counted("questions"), ("most",), ("QUESTION",), f"{_COUNT} {_AT_ONCE}", checks=("number",), shape=""
    ),
    ("limit", "length"): ProposedFrame(
        _length, ("most", "unit"), ("UNIT",), f"{_COUNT} RANGE", checks=("number", "unit"), shape=""
    ),
    ("limit", "alone"): ProposedFrame(
        _tools, ("tools",), ("ALONE TOGETHER ONLY parallel single",), f"{_AT_ONCE} ONLY OTHERTHAN NUM"
    ),
    ("limit", "last"): ProposedFrame(
        lambda proposal: replace(_tools(proposal), place="end"), ("tools",), ("last",), f"{_AT_ONCE} AFTER",
        shape="alone",
    ),
    ("limit", "apart"): ProposedFrame(_tools, ("tools",), ("TURN ATONCE TOGETHER",), _AT_ONCE, polarity="not"),
    ("limit", "repeat"): ProposedFrame(
        _tools, (), ("SAME repeat again twice",), f"SAME {_COUNT}", polarity="not", is_open=True
    ),
    ("forbid_output", ""): ProposedFrame(_texts, ("texts",), polarity="not", checks=("said",)),
    ("forbid_output", "form"): ProposedFrame(_formed, ("texts",), uses="ONLY WITHOUT", checks=("form",)),
    ("forbid_output", "with_calls"): ProposedFrame(
        _fixed("forbid_output", TEXT_WITH_CALLS),
        shown=("REPLY SAY ANSWER text respond", "TOOLCALL TOOLWORD call calls"), uses=f"IF {_AT_ONCE} NUM", shape="",
        is_open=True,
    ),
    ("forbid_output", "data"): ProposedFrame(
        _texts, ("texts",), ("PII SECRET PROMPT",), "", "not", ("data",), shape=""
    ),
    ("require_output", ""): ProposedFrame(_texts, ("texts",), polarity="must", checks=("said",)),
    ("require_output", "json"): ProposedFrame(
        _fixed("require_output", "json"), shown=("JSON",), uses="ONLY", polarity="must", shape=""
    ),
    ("require_output", "citation"): ProposedFrame(
        _fixed("require_output", "citation"), shown=("CITE SOURCE citation citations",), uses="NUM ATLEAST",
        polarity="must", shape="",
    ),
    ("require_output", "say_first"): ProposedFrame(
        _said_beside, ("texts", "tools"), ("BEFORE FIRST",), "BEFORE FIRST", "must", ("said",)
    ),
    ("require_output", "say_after"): ProposedFrame(
        _said_beside, ("texts", "tools"), ("AFTER ONCE THEN FIRST then",), "AFTER ONCE THEN FIRST BEFORE", "must",
        ("said",),
    ),
    ("require_output", "answered"): ProposedFrame(
        _said_beside, ("tools",), ("AFTER ONCE", "ANSWER REPLY SAY text response summary explain"), "AFTER ONCE", "must"
    ),
    ("require_output", "say_before"): ProposedFrame(
        _fixed("require_output", "text"), shown=("TOOLCALL TOOLWORD call calls tools",), uses="BEFORE FIRST",
        is_open=True,
    ),
    ("require_output", "not_empty"): ProposedFrame(
        _fixed("require_output", "text"), shown=("EMPTY silent silence",), polarity="not"
    ),
    ("forbid_arg", ""): ProposedFrame(_in_arguments, ("texts",), polarity="not", checks=("command",)),
    ("forbid_arg", "command"): ProposedFrame(_in_arguments, ("texts",), polarity="not", checks=("command",)),
    ("forbid_arg", "literal"): ProposedFrame(_in_arguments, ("texts", "tools"), polarity="not", checks=("held",)),
    ("forbid_arg", "argument"): ProposedFrame(_named, ("argument",), uses=_BOUND, checks=("argument", "number")),
    ("forbid_arg", "size"): ProposedFrame(_named, ("argument", "most"), uses=_BOUND, checks=("argument", "number")),
    ("forbid_arg", "length"): ProposedFrame(
        _sized, ("most", "unit", "tools"), ("UNIT",), _BOUND, checks=("number", "unit")
    ),
    ("forbid_arg", "value"): ProposedFrame(
        _valued, ("argument", "texts"), uses=_VALUE, polarity="must", checks=("argument", "held")
    ),
    ("forbid_arg", "filled"): ProposedFrame(_named, ("argument",), ("EMPTY",), polarity="not", checks=("argument",)),
    ("forbid_arg", "absent"): ProposedFrame(_named, ("argument",), polarity="not", checks=("argument",)),
    ("forbid_arg", "given"): ProposedFrame(
        _named, ("argument", "tools"), ("NEED WITHOUT DUTY required mandatory must",), "WITHOUT", checks=("argument",)
    ),
    ("forbid_arg", "has"): ProposedFrame(
        _has, ("texts", "tools"), uses=_VALUE, polarity="must", checks=("held",)
    ),
    ("forbid_arg", "path"): ProposedFrame(
        _in_arguments, ("texts",), ("ABSPATH RELPATH",), _VALUE, checks=("path",), is_open=True
    ),
    ("forbid_arg", "origin"): ProposedFrame(
        _from, ("argument", "tools"), ("returned returns from obtained gave given provided result results previously",),
        f"{_VALUE} PRECEDED AFTER", checks=("argument",),
    ),
    ("forbid_arg", "folder"): ProposedFrame(
        _in_arguments, ("texts", "tools"), ("ONLY outside",), _VALUE, checks=("held",)
    ),
}  # fmt: skip

MEANINGS: Final[dict[tuple[str, str], str]] = {
    ("forbid_tool", ""): "tools are never called",
    ("forbid_tool", "edits"): "no file is changed",
    ("forbid_tool", "deletes"): "no file is deleted",
    ("allow_only", ""): "no tool but tools is called",
    ("require_tool", ""): "each of tools (with either: one) is called before the end",
    ("require_tool", "finish"): "work that called a tool ends with tools",
    ("require_tool", "each_turn"): "every response calls a tool",
    ("order", ""): "first before tools",
    ("order", "not_after"): "tools not after first",
    ("order", "nothing_after"): "no call after first",
    ("order", "answer_after"): "no answer before first was called",
    ("order", "follows"): "tools after first",
    ("order", "first_action"): "first is the first call",
    ("confirm_before", ""): "a person's yes before tools",
    ("confirm_before", "acts"): "a person's yes before whatever changes something",
    ("limit", ""): "at most `most` calls of tools (or of any) in a session",
    ("limit", "per_turn"): "at most `most` calls of tools in one response",
    ("limit", "per_exchange"): "at most `most` calls of each of tools from one message of the user to the next",
    ("limit", "parallel"): "at most `most` calls of any tools in one response",
    ("limit", "besides"): "at most `most` calls of other tools than tools in one response",
    ("limit", "command"): "at most `most` commands of texts (git commit, git push, gh pr create, install) in a session",
    ("limit", "questions"): "at most `most` questions in one response",
    ("limit", "length"): "a response has at most `most` of unit (words, chars, sentences, lines, paragraphs)",
    ("limit", "alone"): "tools are the only call of their response",
    ("limit", "last"): "tools are the last call of their response",
    ("limit", "apart"): "two tools are not called in one response",
    ("limit", "repeat"): "not the same call of tools (or of any) again",
    ("forbid_output", ""): "texts, which stand in quotation marks, are not said; with place, not there",
    ("forbid_output", "form"): "no such form of text (texts: code, emoji, markdown, lists, headings, tables, links, "
    "asterisks, backticks, exclamations, html, json, parentheses, dashes, digits), with tools: in what they are given",
    ("forbid_output", "with_calls"): "no text in a response that calls a tool",
    ("forbid_output", "data"): "no such data (texts: system_prompt, secrets, pii, pii:email, pii:phone, pii:card)",
    ("require_output", ""): "texts, which stand in quotation marks, are said in each response; with place, there",
    ("require_output", "json"): "each answer is JSON",
    ("require_output", "citation"): "answers name a source",
    ("require_output", "say_first"): "texts are said before tools are called",
    ("require_output", "say_after"): "texts are said right after tools were called",
    ("require_output", "answered"): "something is said after tools were called",
    ("require_output", "say_before"): "every call stands in a response with a text",
    ("require_output", "not_empty"): "no response is empty",
    ("forbid_arg", ""): "texts, which are commands or flags, stand in no argument",
    ("forbid_arg", "command"): "texts, which are commands or flags, stand in no argument",
    ("forbid_arg", "literal"): "texts stand in no argument of tools",
    ("forbid_arg", "argument"): "argument is at most `most`, or at least `least`",
    ("forbid_arg", "size"): "argument is a list of at most `most`",
    ("forbid_arg", "length"): "argument, or any text of tools, has at most `most` of unit (words, chars)",
    ("forbid_arg", "value"): "argument is one of texts",
    ("forbid_arg", "filled"): "argument is not empty",
    ("forbid_arg", "absent"): "argument is not given",
    ("forbid_arg", "given"): "tools are called with argument",
    ("forbid_arg", "has"): "argument has one of texts; with place, there",
    ("forbid_arg", "path"): "no path of that sort (texts: absolute or relative)",
    ("forbid_arg", "origin"): "the value of argument stands in a result of first, or without first in the user's words",
    ("forbid_arg", "folder"): "no file outside the folder that texts names",
}
"""What each frame says, for the model that proposes and for readers."""
