"""The account of a prompt over many sessions: every sentence, its reading, how often it was kept; and its report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from stream_guard import SettingsError, redact_text
from stream_guard.reports import ReportForm, code, load_template, visible
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


# Writes the account of a prompt: as JSON, as Markdown, or as one HTML file with the prompt marked up.


def write_account(account: PromptAccount, form: ReportForm) -> str:
    """Return the account in a form; raises SettingsError for a form that a prompt has none of."""
    if form is ReportForm.JSON:
        data = {**msgspec.to_builtins(account), "prompt": redact_text(account.prompt), "totals": account.totals()}
        data["coverage"] = account.coverage()
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if form is ReportForm.MARKDOWN:
        return "\n".join(_markdown(account)) + "\n"
    if form is ReportForm.HTML:
        template = load_template("stream_guard_compliance.report", "account.html.j2", lines=_lines)
        return template.render(account=account, totals=account.totals(), pieces=list(pieces_of(account)))
    raise SettingsError(f"--report {form}: a report on a prompt is json, markdown or html")


def _lines(text: str) -> str:
    """Return a text with its lines, and with what is not seen spelled out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _markdown(account: PromptAccount) -> Iterator[str]:
    yield "# Compliance"
    yield ""
    yield f"{account.coverage()}."
    yield ""
    if account.unchecked:
        yield "Not checked:"
        yield ""
        for one in account.unchecked:
            part = "in part: " if one.start in account.covered else ""
            yield f"- line {one.line}: {code(one.text)} ({part}{one.why or one.standing})"
        yield ""
    yield ", ".join(f"{count} {standing}" for standing, count in sorted(account.totals().items())) or "no sentence"
    yield ""
    if account.sessions:
        yield (
            f"{account.sessions} sessions: {account.violated} violated, {account.satisfied} satisfied, "
            f"{account.inconclusive} inconclusive; {account.tokens_used} tokens, ${account.cost_usd:.4f}"
        )
        yield ""
        yield f"{account.score()}."
        yield ""
    if account.broken:
        yield "Broken:"
        yield ""
        for one in account.broken:
            yield f"- line {one.line}: {code(one.text)} (in {one.violated} of {account.sessions} sessions)"
        yield ""
    yield "| line | sentence | read as | checked by | violated | kept | open | why |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in account.sentences:
        if one.standing != "context":
            cells = (str(one.line), code(one.text), f"{one.standing}: {one.kind}", ", ".join(one.checks))
            counts = (str(one.violated), str(one.satisfied), str(one.inconclusive))
            yield f"| {' | '.join((*cells, *counts, code(one.why) if one.why else ''))} |"


def pieces_of(account: PromptAccount) -> Iterator[tuple[str, SentenceAccount | None]]:
    """Yield the whole prompt in pieces, each with the statement that it is; nothing is left out and nothing twice."""
    at = 0
    for one in account.sentences:
        if one.start < at:
            continue  # another statement of the same sentence
        if one.start > at:
            yield redact_text(account.prompt[at : one.start]), None
        yield redact_text(account.prompt[one.start : one.end]), one
        at = max(one.end, one.start)
    if at < len(account.prompt):
        yield redact_text(account.prompt[at:]), None
