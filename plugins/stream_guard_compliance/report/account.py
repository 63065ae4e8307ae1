"""The account of a prompt over many sessions: every sentence, its reading, and how often it was kept or broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from stream_guard import redact_text
from stream_guard_compliance.extraction import ExtractedRule, Extraction
from stream_guard_compliance.reading.sentences import ReadSentence
from stream_guard_compliance.results import ComplianceResult

Standing: TypeAlias = Literal["checked", "open", "condition", "advice", "permission", "context", "unread"]


class SentenceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """One statement of the prompt: what it was read as, and what came of it."""

    text: str
    start: int
    end: int
    line: int
    standing: Standing
    kind: str
    why: str = ""  # it is not checked
    rule_id: str = ""
    checks: tuple[str, ...] = ()  # the kinds of the rules that check it
    certain: bool = True
    violated: int = 0  # sessions
    satisfied: int = 0
    inconclusive: int = 0


class PromptAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt and all sessions that were held against it."""

    prompt: str
    sessions: int
    violated: int
    satisfied: int
    inconclusive: int
    tokens_used: int
    cost_usd: float
    sentences: tuple[SentenceAccount, ...]

    @property
    def unchecked(self) -> list[SentenceAccount]:
        """The statements that demand something and are not checked: no score speaks of them."""
        return [one for one in self.sentences if one.standing in {"open", "condition", "advice", "unread"}]

    @property
    def covered(self) -> set[int]:
        """Where the sentences stand of which something is checked."""
        return {one.start for one in self.sentences if one.standing == "checked"}

    @property
    def broken(self) -> list[SentenceAccount]:
        """The statements that a session broke, those that most broke first."""
        return sorted((one for one in self.sentences if one.violated), key=lambda one: -one.violated)

    def score(self) -> str:
        """Return in one sentence how often what is checked was kept, and how much of the prompt that is."""
        kept, broken = sum(one.satisfied for one in self.sentences), sum(one.violated for one in self.sentences)
        if not kept + broken:
            return "nothing was checked"
        share = len(self.covered) / len(self.covered | {one.start for one in self.unchecked})
        return f"{kept / (kept + broken):.0%} is kept of what is checked, which is {share:.0%} of what is demanded"

    def coverage(self) -> str:
        """Return in one sentence how much of what the prompt demands is checked."""
        checked = len(self.covered)
        left = len({one.start for one in self.unchecked} - self.covered)
        return f"{checked + left} sentences demand something: {checked} checked, {left} not checked"

    def totals(self) -> dict[str, int]:
        """Return how many statements stand where."""
        return dict(Counter(sentence.standing for sentence in self.sentences))


def account_of(prompt: str, found: Extraction, results: Iterable[ComplianceResult] = ()) -> PromptAccount:
    """Return the account of a prompt; statements are found again in the results by their place and kind."""
    results = list(results)
    verdicts: Counter[tuple[int, str, bool, str]] = Counter()
    for result in results:
        places = {rule.rule_id: (rule.offset, rule.kind, rule.checkable != "none") for rule in result.extracted_rules}
        verdicts.update((*places[verdict.rule_id], verdict.verdict) for verdict in result.verdicts)
    outcomes = Counter(result.verdict for result in results)
    lines = _Lines(prompt)
    sentences = [_of_rule(rule, lines, verdicts) for rule in found.rules]
    sentences += [
        _of_rest(one.sentence, one.offset, one.end, lines, "unread", "unparsed", one.reason) for one in found.unparsed
    ]
    sentences += [_of_other(read, lines) for read in found.other]
    return PromptAccount(
        prompt=prompt,
        sessions=len(results),
        violated=outcomes["violated"],
        satisfied=outcomes["satisfied"],
        inconclusive=outcomes["inconclusive"],
        tokens_used=sum(result.tokens_used for result in results),
        cost_usd=sum(result.cost_usd for result in results),
        sentences=tuple(sorted(sentences, key=lambda one: (one.start, one.kind))),
    )


class _Lines:
    """Finds the line of a place in time that is linear in the prompt for all places together."""

    def __init__(self, prompt: str) -> None:
        self._numbers = [0] * (len(prompt) + 1)
        line = 1
        for place, char in enumerate(prompt):
            self._numbers[place] = line
            line += char == "\n"
        self._numbers[-1] = line

    def at(self, place: int) -> int:
        return self._numbers[min(place, len(self._numbers) - 1)]


def _of_rule(rule: ExtractedRule, lines: _Lines, verdicts: Counter[tuple[int, str, bool, str]]) -> SentenceAccount:
    reading, place = rule.read.reading, (rule.rule.offset, rule.rule.kind, bool(rule.compiled.rules))
    standing: Standing = "checked" if rule.compiled.rules else "open"
    if standing == "open" and reading.modality == "advice":
        standing = "advice"
    elif standing == "open" and reading.kind == "conditional":
        standing = "condition"
    return SentenceAccount(
        text=redact_text(rule.rule.description),
        start=rule.rule.offset,
        end=rule.end,
        line=lines.at(rule.rule.offset),
        standing=standing,
        kind=rule.rule.kind,
        why=redact_text(_why(rule)),
        rule_id=rule.rule.rule_id,
        checks=tuple(sorted({str(form["kind"]) for form in rule.compiled.rules})),
        certain=rule.compiled.certain,
        violated=verdicts[*place, "violated"],
        satisfied=verdicts[*place, "satisfied"],
        inconclusive=verdicts[*place, "inconclusive"],
    )


def _why(rule: ExtractedRule) -> str:
    reading = rule.read.reading
    if rule.compiled.rules:
        return f"not checked: {', '.join(reading.left)}" if reading.left else ""
    return f"{rule.compiled.why}: {reading.details[0]}" if reading.details else rule.compiled.why


def _of_other(read: ReadSentence, lines: _Lines) -> SentenceAccount:
    standing: Standing = "permission" if read.reading.kind == "permission" else "context"
    sentence = read.sentence
    return _of_rest(sentence.text, sentence.offset, sentence.end, lines, standing, read.reading.kind, read.reading.why)


def _of_rest(
    text: str, start: int, end: int, lines: _Lines, standing: Standing, kind: str, why: str
) -> SentenceAccount:
    return SentenceAccount(
        text=redact_text(text), start=start, end=end, line=lines.at(start), standing=standing, kind=kind, why=why
    )
