"""The rules of a prompt: what was read, what it compiles to, and a policy of it that loads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stream_guard import Json
from stream_guard.documents import MAX_REASON, write_yaml
from stream_guard_compliance.compiling import Compiled, Context, Form, compile_reading
from stream_guard_compliance.extraction import ReadSentence, read_prompt, vocabulary_of
from stream_guard_compliance.reading import Reading
from stream_guard_compliance.results import BehavioralRule, Checkable, Unparsed
from stream_guard_compliance.severities import severity_of

_FORBIDS: Final = frozenset(("forbid_tool", "forbid_arg", "forbid_output", "allow_only", "limit"))
_MAX_SLUG: Final = 60


@dataclass(frozen=True, slots=True)
class ExtractedRule:
    """A rule of the prompt, with the rules of a policy that check it."""

    rule: BehavioralRule
    compiled: Compiled
    ids: tuple[str, ...]  # of its rules in the policy


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything a prompt says: rules, sentences that may be rules, and sentences that are none."""

    rules: tuple[ExtractedRule, ...]
    unparsed: tuple[Unparsed, ...]
    other: tuple[ReadSentence, ...]

    def policy(self) -> dict[str, Json]:
        """Return the native form of the rules that a machine can check."""
        return {
            "name": "extracted from a system prompt",
            "rules": [form for rule in self.rules for form in _forms(rule)],
        }

    def policy_yaml(self) -> str:
        """Return the policy as a file to review; the reason of each rule is its sentence."""
        return write_yaml(self.policy())


def extract(prompt: str, tools: Iterable[str] = (), *, has_results: bool = True) -> Extraction:
    """Return the rules of a system prompt; the same prompt and tools give the same rules, byte for byte.

    ``tools`` are names known from elsewhere: declared to the model, or seen in the trace. ``has_results``
    says whether results of calls are recorded; without them an attempt counts as done.
    """
    listed = list(tools)
    prompt = prompt.encode("utf-8", "replace").decode()
    context = Context(prompt, vocabulary_of(prompt, listed), has_results)
    rules: list[ExtractedRule] = []
    unparsed: list[Unparsed] = []
    other: list[ReadSentence] = []
    taken: dict[str, int] = {}
    for read in read_prompt(prompt, listed):
        if read.reading.kind == "unparsed":
            unparsed.append(Unparsed(sentence=read.sentence.text, offset=read.sentence.offset, reason=read.reading.why))
        elif read.reading.kind == "none":
            other.append(read)
        else:
            rules.append(_rule(read, context, taken))
    return Extraction(tuple(rules), tuple(unparsed), tuple(other))


def _rule(read: ReadSentence, context: Context, taken: dict[str, int]) -> ExtractedRule:
    reading, sentence = read.reading, read.sentence
    compiled = compile_reading(reading, context)
    if compiled.rules:
        compiled = Compiled(compiled.rules, "", compiled.certain)
    rule_id = _free(f"{reading.kind}-{'-'.join(reading.items) or sentence.text}", taken)
    ids = (rule_id, *(_free(f"{rule_id}-{number}", taken) for number in range(2, len(compiled.rules) + 1)))
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
    )
    return ExtractedRule(rule, compiled, ids[: len(compiled.rules)])


def _checkable(compiled: Compiled) -> Checkable:
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


def _free(wanted: str, taken: dict[str, int]) -> str:
    """Return an id made of the words, with a number behind it where another rule has it already."""
    small = "".join(char if char.isascii() and char.isalnum() else "-" for char in wanted.lower())
    slug = "-".join(part for part in small.split("-") if part)[:_MAX_SLUG].strip("-") or "rule"
    free = slug
    while free in taken:
        taken[slug] += 1  # where the last one got its number: no searching from the start
        free = f"{slug}-{taken[slug]}"
    taken[free] = 1
    return free


def _forms(extracted: ExtractedRule) -> list[Form]:
    rule = extracted.rule
    return [
        {"id": rule_id, **form, "severity": rule.severity, "reason": rule.description[:MAX_REASON]}
        for rule_id, form in zip(extracted.ids, extracted.compiled.rules, strict=True)
    ]
