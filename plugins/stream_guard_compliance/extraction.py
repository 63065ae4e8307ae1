"""The rules of a prompt: read, compiled to rules of a policy, tried out, and given a severity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import re2

from stream_guard import Json, Registry, build_registry, evaluate, parse_policy
from stream_guard.documents import MAX_REASON
from stream_guard_compliance.compiling.context import CompileContext, CompiledReading, Form, is_note
from stream_guard_compliance.compiling.readings import compile_reading
from stream_guard_compliance.proposed_frames import Proposal, RefusedProposalError
from stream_guard_compliance.reading.catalogue import ToolDeclaration
from stream_guard_compliance.reading.sentences import ReadSentence, catalogue_of, read_prompt
from stream_guard_compliance.reading.values import Reading, SeverityWord
from stream_guard_compliance.results import BehavioralRule, Checkable, Unparsed
from stream_guard_compliance.trace import read_trace
from stream_guard_compliance.verifying import ToolGroup, groups_of, is_open, verify

# Trying rules out: whether they fire in a trace, by the engine that judges real ones.

GREETING: Final = (
    {"type": "user_message", "content": "hi"},
    {"type": "agent_message", "content": "Hello!"},
)


@cache
def _registry() -> Registry:
    return build_registry()


def with_other_tools(events: Sequence[Any]) -> list[Any]:
    """Return a trace in which every call is one of a tool that no rule names."""
    found: list[Any] = []
    for event in events:
        calls = event.get("tool_calls")
        made = [{**call, "function": {"name": _OTHER, "arguments": _arguments(call)}} for call in _objects(calls)]
        found.append(
            {**event, **({"name": _OTHER} if "name" in event else {}), **({"tool_calls": made} if made else {})}
        )
    return found


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _arguments(call: dict[str, Any]) -> Any:
    inner = call.get("function")
    return inner.get("arguments") if isinstance(inner, dict) else None


_OTHER: Final = "tool_that_nobody_names"


def fires(rules: Sequence[Form], events: Sequence[Any]) -> bool:
    """Whether one of the rules fires in a trace; a trace that cannot be read shows nothing."""
    trace = read_trace(events)
    if trace.unreadable or not trace.events:
        return False
    named = [{**form, "id": f"r{number}"} for number, form in enumerate(rules)]
    policy = parse_policy(json.dumps({"name": "tried out", "rules": named}), _registry(), file="the proposed rules")
    judging = {f"r{number}" for number, form in enumerate(rules) if not is_note(form)}
    return any(
        finding.rule_id in judging and finding.kind != "rule_error" for finding in evaluate(trace.events, policy)
    )


# The rules of a prompt.

_FORBIDS: Final = frozenset(("forbid_tool", "forbid_arg", "forbid_output", "allow_only", "limit"))
_MAX_SLUG: Final = 60
NAME: Final = "extracted from a system prompt"

_ORDER: Final[tuple[SeverityWord, ...]] = ("low", "medium", "high", "critical")
_CRITICAL: Final = re2.compile(
    r"(?i)\b(?:never|do not|don.t|must not|mustn.t|under no circumstances?|prohibited|forbidden|strictly"
    r"|explicit|critical)\b"
)
_HIGH: Final = re2.compile(
    r"(?i)\b(?:must|shall|cannot|can.t|may not|only|requires?|required|needs?|have to|has to|not allowed|manager)\b"
)
_SOFT: Final = re2.compile(r"(?i)\b(?:should|try|prefer|ideally|avoid|please|aim|consider)\b")
_STYLE: Final = re2.compile(
    r"(?i)\b(?:friendly|polite\w*|concise|brief|tone|helpful|professional|warm|empath\w+|clear|style|kind"
    r"|short|simple)\b"
)


@dataclass(frozen=True, slots=True)
class ExtractedRule:
    """A rule of the prompt, with the rules of a policy that check it."""

    rule: BehavioralRule
    compiled: CompiledReading
    ids: tuple[str, ...]  # of its rules in the policy
    read: ReadSentence

    @property
    def judging(self) -> tuple[str, ...]:
        """The ids of those that say whether it is kept; the others only note what a session has seen."""
        return tuple(name for name, form in zip(self.ids, self.compiled.rules, strict=True) if not is_note(form))

    @property
    def end(self) -> int:
        """Where its sentence ends in the prompt."""
        return self.read.sentence.end


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything a prompt says: rules, sentences that may be rules, and sentences that are none."""

    rules: tuple[ExtractedRule, ...]
    unparsed: tuple[Unparsed, ...]
    other: tuple[ReadSentence, ...]

    def policy(self) -> dict[str, Json]:
        """Return the native form of the rules that a machine can check."""
        return {"name": NAME, "rules": [form for rule in self.rules for form in forms_of(rule)]}


def extract(
    prompt: str,
    tools: Iterable[ToolDeclaration] = (),
    *,
    seen: Iterable[str] = (),
    proposals: Iterable[Proposal] = (),
    has_results: bool = True,
) -> Extraction:
    """Return the rules of a system prompt; the same prompt and tools give the same rules, byte for byte.

    ``tools`` are all the tools that the agent has, by name or as they are declared: then no other word is taken for
    one. ``seen`` are tools that a trace calls, of which there may be more. ``proposals`` are readings of a model for
    sentences that are left open; one that the verifier refuses changes nothing but the reason why its sentence is
    open. ``has_results`` says whether results of calls are recorded; without them an attempt counts as done.
    """
    declared, called = list(tools), list(seen)
    prompt = prompt.encode("utf-8", "replace").decode()
    context = CompileContext(prompt, catalogue_of(prompt, declared, called), has_results)
    rules: list[ExtractedRule] = []
    unparsed: list[Unparsed] = []
    other: list[ReadSentence] = []
    taken: dict[str, int] = {}
    for read in _with_proposals(read_prompt(prompt, declared, called), list(proposals), context):
        if read.reading.kind == "unparsed":
            sentence = read.sentence
            unparsed.append(
                Unparsed(sentence=sentence.text, offset=sentence.offset, end=sentence.end, reason=read.reading.why)
            )
        elif read.reading.kind in {"none", "permission"}:
            other.append(read)
        else:
            rules.append(_rule(read, context, taken))
    return Extraction(tuple(rules), tuple(unparsed), tuple(other))


def _with_proposals(
    read: list[ReadSentence], proposals: list[Proposal], context: CompileContext
) -> Iterator[ReadSentence]:
    """Yield the sentences, those that are open with what a model proposed and the verifier let pass."""
    groups = groups_of(read) if proposals else ()
    taken: set[tuple[int, int]] = set()  # a proposal is taken once for a sentence
    for one in read:
        quoted = [
            (number, proposal)
            for number, proposal in enumerate(proposals)
            if " ".join(proposal.quote.split()) in one.sentence.text and (one.sentence.offset, number) not in taken
        ]
        if not quoted or one.reading.kind == "permission" or compile_reading(one.reading, context).rules:
            yield one
            continue
        refused: list[str] = []
        for number, proposal in quoted[:_MOST_PROPOSALS]:
            try:
                reading = _verified(proposal, one, context, groups)
            except RefusedProposalError as reason:
                refused.append(f"a model read {proposal.kind}, but {reason}")
            else:
                taken.add((one.sentence.offset, number))
                yield replace(one, reading=reading)
        if len(refused) == len(quoted[:_MOST_PROPOSALS]):
            yield replace(one, reading=replace(one.reading, why="; ".join((one.reading.why, *refused))))


_MOST_PROPOSALS: Final = 8  # for one sentence


def _verified(proposal: Proposal, read: ReadSentence, context: CompileContext, groups: Sequence[ToolGroup]) -> Reading:
    """Return a proposed reading that the sentence shows, and whose own test holds."""
    reading = verify(proposal, read, context.catalogue, groups)
    rules = compile_reading(reading, context).rules
    if not rules:
        raise RefusedProposalError("no rule can be made of it")
    if not fires(rules, proposal.breaks):
        raise RefusedProposalError("its rule does not fire in the trace that is to break it")
    if fires(rules, proposal.keeps) or fires(rules, GREETING):
        raise RefusedProposalError("its rule fires in a trace that keeps it")
    if not is_open(proposal) and fires(rules, with_other_tools(proposal.breaks)):
        raise RefusedProposalError("its rule fires whatever tool is called")
    return reading


def _rule(read: ReadSentence, context: CompileContext, taken: dict[str, int]) -> ExtractedRule:
    reading, sentence = read.reading, read.sentence
    compiled = compile_reading(reading, context)
    rule_id = _free_id(f"{reading.kind}-{'-'.join(reading.items) or sentence.text}", taken)
    ids = (rule_id, *(_free_id(f"{rule_id}-{number}", taken) for number in range(2, len(compiled.rules) + 1)))
    rule = BehavioralRule(
        rule_id=rule_id,
        description=sentence.text,
        trigger=_trigger(reading),
        required_action=None if reading.kind in _FORBIDS else _action(reading, sentence.text),
        forbidden_action=_action(reading, sentence.text) if reading.kind in _FORBIDS else None,
        severity=severity_of(sentence.text, reading),
        kind=reading.kind,
        items=reading.items,
        checkable=_checkable(compiled),
        offset=sentence.offset,
        end=sentence.end,
    )
    return ExtractedRule(rule, compiled, ids[: len(compiled.rules)], read)


def _checkable(compiled: CompiledReading) -> Checkable:
    if not compiled.rules:
        return "none"
    return "full" if compiled.certain else "partial"


def _trigger(reading: Reading) -> str:
    if reading.details:
        return reading.details[0]
    if reading.second:
        return f"before {', '.join(reading.second)}"
    if reading.kind == "confirm_before":
        return f"before {', '.join(reading.items) or 'the action'}"
    return "at the end of the session" if reading.kind == "require_tool" else "always"


def _action(reading: Reading, sentence: str) -> str:
    if reading.kind == "order" and reading.first:
        return f"call {', '.join(reading.first)}"
    return ", ".join(reading.items) or sentence


def _free_id(words: str, taken: dict[str, int]) -> str:
    """Return an id made of the words, with a number behind it where another rule has it already."""
    small = "".join(char if char.isascii() and char.isalnum() else "-" for char in words.lower())
    slug = "-".join(part for part in small.split("-") if part)[:_MAX_SLUG].strip("-") or "rule"
    free = slug
    while free in taken:
        taken[slug] += 1  # where the last one got its number: no searching from the start
        free = f"{slug}-{taken[slug]}"
    taken[free] = 1
    return free


def forms_of(extracted: ExtractedRule) -> list[Form]:
    """Return the rules of a policy that check it, each with its id, severity and sentence."""
    rule = extracted.rule
    return [
        {"id": rule_id, **form, "severity": rule.severity, "reason": rule.description[:MAX_REASON]}
        for rule_id, form in zip(extracted.ids, extracted.compiled.rules, strict=True)
    ]


def severity_of(sentence: str, reading: Reading) -> SeverityWord:
    """Return the severity: the strongest words decide, and some sorts of rules have a ceiling."""
    if reading.kind == "ambiguous":
        return "low" if _STYLE.search(sentence) else "medium"
    if reading.kind == "limit":
        return _of_limit(reading)
    if reading.kind == "require_output":
        return "medium" if reading.items in (("citation",), ("json",)) else "low"
    if reading.kind == "require_tool":
        return "high" if _HIGH.search(sentence) else "medium"
    word: SeverityWord = "medium"
    if _CRITICAL.search(sentence):
        word = "critical"
    elif _HIGH.search(sentence) or (reading.kind == "confirm_before" and not _SOFT.search(sentence)):
        word = "high"
    if reading.kind == "forbid_output" and not _is_sensitive(reading):
        return _least(word, "medium")
    return word


def _of_limit(reading: Reading) -> SeverityWord:
    about = reading.items[0] if reading.items else ""
    if about.startswith(("words", "chars", "sentences", "paragraphs", "lines", "tokens")):
        return "low"
    return "high" if about.startswith("failures") else "medium"


def _is_sensitive(reading: Reading) -> bool:
    return any(item.startswith("pii") or item in {"system_prompt", "secrets"} for item in reading.items)


def _least(one: SeverityWord, other: SeverityWord) -> SeverityWord:
    return min(one, other, key=_ORDER.index)
