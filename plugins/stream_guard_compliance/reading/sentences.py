"""From a system prompt to readings: every sentence, in order, with nothing dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from stream_guard_compliance.reading.clauses import CONDITION, MODAL, Clause, make_clause
from stream_guard_compliance.reading.limits import read_limit
from stream_guard_compliance.reading.outputs import read_forbidden_output, read_required_output
from stream_guard_compliance.reading.prompt import Sentence, split
from stream_guard_compliance.reading.tools import (
    amount_over,
    read_allowed,
    read_confirmation,
    read_forbidden,
    read_order,
    read_required,
)
from stream_guard_compliance.reading.values import Reading
from stream_guard_compliance.reading.vocabulary import Vocabulary, declared_in
from stream_guard_compliance.reading.word_lists import word_set

_EXAMPLE: Final = (
    r"^\W*(?:for example|for instance|examples?\b|e\.g\.|sample\b|good:|bad:|user:|assistant:|input:|output:)"
)
_PERMISSION: Final = (
    r"\b(?:feel free to|(?:do not|don.t|never) (?:hesitate|be afraid)|you(?: are|.re) (?:free|welcome|allowed"
    r"|permitted|encouraged) to|it(?: is|.s) (?:ok|okay|fine|alright) to|at your discretion)\b"
)
_MAY: Final = r"^\W*(?:you|the (?:agent|assistant|bot)) (?:may|can|could|might)\b|^\W*as an? [\w ]{2,60}, you can\b"
_RESTRICTED: Final = (
    r"\b(?:only|not|never|at most|no more|must|unless|before|until|once|cannot|without|up to|maximum)\b"
)
_PERSONA: Final = r"^\W*(?:you are|you.re|your (?:name|role|job|task|goal|purpose) is|i am|act as|welcome|hello|hi)\b"
_BINDS: Final = r"\b(?:must|should|never|not|only|forbidden|prohibited|required)\b"
_VOCABULARY: Final = (
    r"^\W*(?:available |your |the following )?(?:tools?|functions?)(?: available)?(?: are)?(?: to you)?:"
)
_MENTAL: Final = (
    r"\b(?:sure|unsure|certain|uncertain|doubt|know|unclear|ambiguous|confus\w+|appropriate|necessary|possible"
    r"|needed|relevant|helpful|useful|comfortable|reasonable)\b"
)
_AGENT: Final = (
    r"^\W*(?:you|the (?:ai |support )?(?:agent|assistant|bot|model)|never|do not|don.t|always|please|under no"
    r"|at no time|no\b|if\b|when\b|whenever\b|before\b|prior\b|after\b|once\b|only\b|be\b|avoid|ensure"
    r"|make sure|unless\b|in case\b|for\b|your\b|it is|answers?\b|replies\b|responses\b|for each\b)"
)
_NAMES_AGENT: Final = (
    r"\b(?:you|the agent|the assistant) (?:must|should|need|needs|have|has|cannot|may|can|shall|are)\b"
)
_SUBORDINATE: Final = r"^\W*(?:if|when|whenever|before|prior|after|once|for|unless|in case|until|while)\b"
_COMMANDS: Final = word_set("never do don't dont always please only no avoid ensure under at")
_IMPERATIVE: Final = word_set(
    "be keep use call ask check verify confirm provide respond reply answer respect follow refuse deny decline "
    "transfer escalate offer explain tell give write speak stay remain maintain treat help assist wait stop start "
    "begin end include cite add list summarize summarise greet thank apologize apologise think consider act make "
    "take run execute read search look find get set send return report log record mention state limit restrict "
    "stick focus prefer try double-check validate authenticate identify collect obtain gather reject ignore "
    "handle process prioritize prioritise translate format output produce generate remember note inform notify "
    "warn suggest recommend hand redirect route politely briefly carefully first then next finally say show "
    "display present protect store save delete remove retry"
)
_FACT: Final = r"^\W*(?:we|our|it|they|there|this is|these are|the (?:store|company|shop|office|team|refund|system))\b"
_CANNOT: Final = r"\b(?:cannot|can not|can.t|may not|must not|do not|don.t|never|not allowed to|should not)\b"
_QUALIFIED: Final = r"\b(?:in|for|of|within|with|after|during|on|outside|older|that|which|whose|over|under|to)\b"
_DEEDS: Final = (
    r"\b(?:modify|cancel|refund|book|change|update|exchange|return|issue|offer|compensate|upgrade|ship|charge"
    r"|delete|remove|transfer|approve|grant|waive|schedule|process|sell|order|pay|reset|unlock|close|open"
    r"|merge|deploy|push|access|edit)\b"
)
_FORBIDDEN_HEADING: Final = r"(?i)\b(?:forbidden|prohibited|banned|disallowed|never|not allowed|don.t|do not)\b"
_ALLOWED_HEADING: Final = r"(?i)\b(?:allowed|permitted) tools?\b"

_READERS: Final[tuple[Callable[[Clause], Reading | None], ...]] = (
    read_limit,
    read_confirmation,
    read_forbidden_output,
    read_forbidden,
    lambda clause: _with_tools(read_order, clause),
    read_allowed,
    read_required_output,
    read_required,
    lambda clause: read_order(clause) if _is_addressed(clause) else None,
)


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence and what it was read as."""

    sentence: Sentence
    reading: Reading


def vocabulary_of(prompt: str, tools: Iterable[str] = ()) -> Vocabulary:
    """Return the tools known from outside and those the prompt declares."""
    return Vocabulary([*tools, *declared_in(prompt)])


def read_prompt(prompt: str, tools: Iterable[str] = ()) -> list[ReadSentence]:
    """Return every sentence of a prompt with its reading; pure: the same prompt and tools, the same readings."""
    # Half of a surrogate pair is no text; one character for one, so that offsets hold.
    prompt = prompt.encode("utf-8", "replace").decode()
    vocabulary = vocabulary_of(prompt, tools)
    read: list[ReadSentence] = []
    before: tuple[str, ...] = ()
    for sentence in _joined(split(prompt)):
        clause = make_clause(sentence.text, vocabulary, sentence.heading, before)
        read.append(ReadSentence(sentence, read_sentence(sentence, clause)))
        before = clause.tools or (before if sentence.is_item else ())
    return read


def _joined(sentences: list[Sentence]) -> list[Sentence]:
    """Put the items of a list behind the words that open it, where they make no sense alone."""
    joined: list[Sentence] = []
    gathered: dict[str, tuple[int, list[str]]] = {}
    for sentence in sentences:
        lead = sentence.lead or (sentence.heading if sentence.is_item and _opens(sentence.heading) else "")
        if not lead or not sentence.is_item:
            joined.append(sentence)
        elif _is_bare(sentence.text):
            # Bare names: all of them belong to one rule.
            if lead not in gathered:
                gathered[lead] = (len(joined), [])
                joined.append(sentence)
            gathered[lead][1].append(sentence.text.rstrip(".,;"))
        elif _carries(lead):
            joined.append(replace(sentence, text=f"{lead.rstrip(': ')} {_lower(sentence.text)}"))
        else:
            joined.append(sentence)
    for lead, (place, names) in gathered.items():
        joined[place] = replace(joined[place], text=f"{_opening(lead)} {', '.join(names)}.")
    return joined


def _is_bare(text: str) -> bool:
    return len(text) <= 80 and len(text.strip("`.,; ").split()) == 1


def _opens(heading: str) -> bool:
    clause = make_clause(heading, Vocabulary())
    return clause.has(_FORBIDDEN_HEADING) or clause.has(_ALLOWED_HEADING)


def _opening(lead: str) -> str:
    """Return the words a list of names is read behind."""
    clause = make_clause(lead, Vocabulary())
    if clause.has(r"\b(?:confirm|approv|permission|consent)\w*"):
        return f"{lead.rstrip(': ')} before calling"
    if clause.has(_ALLOWED_HEADING):
        return "Only call"
    if clause.has(_FORBIDDEN_HEADING):
        return "Never call"
    return lead.rstrip(": ")


def _carries(lead: str) -> bool:
    """Whether a lead ends in words that every item completes: "You must:", "Never:"."""
    clause = make_clause(lead, Vocabulary())
    return clause.has(r"\b(?:must|should|shall|never|always|do not|don.t|not|to|can|may|must not|should not)\s*:$")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def read_sentence(sentence: Sentence, clause: Clause) -> Reading:
    """Return what one sentence says: the first reader that understands it wins."""
    nothing = _no_rule(sentence, clause)
    if nothing is not None:
        return nothing
    for reader in _READERS:
        reading = reader(clause)
        if reading is not None:
            return reading
    return _vague(clause)


def _no_rule(sentence: Sentence, clause: Clause) -> Reading | None:
    """Return why a sentence is no rule, or None."""
    reasons = (
        ("a heading", sentence.is_heading),
        ("code or declared tools", sentence.is_code),
        ("no words outside quotes", not any(char.isalpha() for char in clause.low)),
        ("an example", clause.has(_EXAMPLE)),
        ("a permission", clause.has(_PERMISSION) or (clause.has(_MAY) and not clause.has(_RESTRICTED))),
        ("names tools", clause.has(_VOCABULARY)),
        ("opens a list", sentence.text.endswith(":")),
        ("says who the agent is", clause.has(_PERSONA) and not clause.has(_BINDS)),
    )
    return next((Reading("none", why=why) for why, holds in reasons if holds), None)


def _with_tools(reader: Callable[[Clause], Reading | None], clause: Clause) -> Reading | None:
    """Return the reading only where it names two tools; a single tool is left to the other readers first."""
    reading = reader(clause)
    return reading if reading is not None and reading.first else None


def _is_addressed(clause: Clause) -> bool:
    """Whether a sentence speaks to the agent."""
    if clause.has(_NAMES_AGENT):
        return True
    low = clause.low
    if clause.has(_SUBORDINATE) and "," in low:
        # "If the status is open, ..." speaks to the agent when what follows does.
        low = low.split(",", 1)[1]
    elif clause.has(_SUBORDINATE) or clause.has(_AGENT):
        return True
    words = low.split(None, 1)
    first = words[0].strip("*\"'(,") if words else ""
    return first in _IMPERATIVE or first in _COMMANDS


def _vague(clause: Clause) -> Reading:
    """Return the reading of a sentence that no reader could make concrete."""
    if clause.has(_FACT) and not clause.tools and not clause.has(r"\b(?:you|agent|assistant)\b"):
        return Reading("unparsed", why=_OTHERS) if clause.has(r"\bmust\b") else Reading("none", why="states a fact")
    if _is_addressed(clause):
        return _addressed(clause)
    if clause.has(MODAL):
        return Reading("unparsed", why=_OTHERS)
    if clause.tools:
        return Reading("unparsed", why="names a tool, but not what to do with it")
    return Reading("none", why="states a fact")


def _addressed(clause: Clause) -> Reading:
    """Return the reading of an instruction that a machine cannot check."""
    condition = clause.find(CONDITION)
    if condition is None:
        depends = clause.tools or (clause.has(_CANNOT) and clause.has(_DEEDS) and clause.has(_QUALIFIED))
        return Reading("conditional" if depends else "ambiguous", clause.tools)
    details = (clause.text[condition.start() :],)
    if clause.has(_MENTAL) and not clause.tools:
        return Reading("ambiguous", details=details)
    over = amount_over(clause) if clause.negated() else None
    return Reading("conditional", clause.tools, details=details, over=over)


_OTHERS: Final = "says what must be, but not what the agent has to do about it"
