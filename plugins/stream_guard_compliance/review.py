"""A policy to review: every sentence of a prompt in order, as a rule, a question or no rule, and what was decided.

What a person has decided about a sentence holds for the next version of the prompt: an edited rule stays as it was
edited, and a rule that was taken out stays out. Sentences are matched by their words.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from stream_guard.documents import MAX_REASON, read_document, write_yaml
from stream_guard_compliance.compiling.gates import is_note
from stream_guard_compliance.examples import examples_of, shown
from stream_guard_compliance.extraction import NAME, ExtractedRule, Extraction, forms_of

Sort: TypeAlias = Literal["rule", "question", "not a rule"]
_LINE: Final = re.compile(r'[ \t]*# (rule|question|not a rule): ("(?:[^"\\]|\\.)*")')
# What would end a comment of YAML, or hide in it: a prompt may hold anything.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_ALIKE: Final = 0.6  # of two sentences, from which on the one is the other changed


@dataclass(frozen=True, slots=True)
class Decided:
    """What a reviewed policy says about each sentence."""

    sentences: dict[str, str]  # the sentence, and what it was
    rules: dict[str, list[dict[str, Any]]]  # the rules that are there for it, as they stand in the file


@dataclass(slots=True)
class Changes:
    """What differs from the version that was reviewed."""

    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)
    kept: int = 0  # sentences with the decision they had

    def lines(self) -> Iterator[str]:
        """Yield the changes as they are printed."""
        counts = f"changed: {len(self.changed)}, new: {len(self.new)}, gone: {len(self.gone)}"
        yield f"kept as reviewed: {self.kept}, {counts}"
        for before, after in self.changed:
            yield f"changed: {json.dumps(before)} is now {json.dumps(after)}; review it again"
        yield from (f"new: {json.dumps(text)}" for text in self.new)
        yield from (f"gone: {json.dumps(text)}" for text in self.gone)


def read_review(text: str, file: str = "") -> Decided:
    """Return what a policy that ``extract`` wrote and a person edited says."""
    lines = (match for line in text.splitlines() if (match := _LINE.match(line)) is not None)
    sentences = {str(json.loads(match.group(2))): match.group(1) for match in lines}
    loaded = read_document(text, file).data
    rules: dict[str, list[dict[str, Any]]] = {}
    listed = loaded.get("rules") if isinstance(loaded, dict) else None
    for form in listed if isinstance(listed, list) else ():
        if isinstance(form, dict):
            rules.setdefault(str(form.get("reason", "")), []).append(form)
    return Decided(sentences, rules)


def changes_between(decided: Decided, extraction: Extraction) -> Changes:
    """Return which sentences are new, gone or changed since the review."""
    now = [text for text, _, _ in _sentences(extraction)]
    gone = [text for text in decided.sentences if text not in set(now)]
    found = Changes(kept=sum(text in decided.sentences for text in now))
    for text in now:
        if text in decided.sentences:
            continue
        like = difflib.get_close_matches(text, gone, n=1, cutoff=_ALIKE)
        if like:
            gone.remove(like[0])
            found.changed.append((like[0], text))
        else:
            found.new.append(text)
    found.gone = gone
    return found


def write_review(extraction: Extraction, tools: Sequence[str], decided: Decided | None = None) -> str:
    """Return the policy as a file to review, with every sentence and, for each rule, an example on either side."""
    blocks = [f"name: {NAME}", "rules:"]
    taken = (
        {str(form.get("id")) for forms in decided.rules.values() for form in forms} if decided is not None else set()
    )
    for text, sort, rules in _sentences(extraction):
        known = decided is not None and text in decided.sentences
        forms = decided.rules.get(text[:MAX_REASON], []) if decided is not None and known else _forms(rules)
        out = known and sort == "rule" and not forms
        why = "taken out in a review" if out else _why(sort, rules, extraction, text)
        blocks += [_comment(f"{sort}: {json.dumps(text, ensure_ascii=False)}{f' ({why})' if why else ''}")]
        blocks += [line for rule in rules for line in _examples(rule, tools)] if forms else []
        blocks += [_indented(form if known else _free(form, taken)) for form in forms]
    return "\n".join(blocks) + "\n"


def _sentences(extraction: Extraction) -> list[tuple[str, Sort, list[ExtractedRule]]]:
    """Return every sentence once, in order, with the rules it became."""
    found: dict[tuple[int, str], tuple[Sort, list[ExtractedRule]]] = {}
    for rule in extraction.rules:
        key = (rule.rule.offset, rule.rule.description)
        sort, rules = found.get(key, ("question", []))
        checked = [rule] if rule.compiled.rules else []
        found[key] = ("rule" if rules or checked else sort, [*rules, *checked])
    for left in extraction.unparsed:
        found.setdefault((left.offset, left.sentence), ("question", []))
    for one in extraction.other:
        found.setdefault((one.sentence.offset, one.sentence.text), ("not a rule", []))
    return [(text, sort, rules) for (_, text), (sort, rules) in sorted(found.items(), key=lambda item: item[0])]


def _why(sort: Sort, rules: Sequence[ExtractedRule], extraction: Extraction, text: str) -> str:
    if sort == "rule":
        return "" if all(rule.compiled.certain for rule in rules) else "in shadow mode: look whether it says the same"
    whys = [rule.compiled.why for rule in extraction.rules if rule.rule.description == text]
    whys += [left.reason for left in extraction.unparsed if left.sentence == text]
    whys += [one.reading.why for one in extraction.other if one.sentence.text == text]
    return next((why for why in whys if why), "")


def _forms(rules: Sequence[ExtractedRule]) -> list[dict[str, Any]]:
    return [form if rule.compiled.certain else {**form, "mode": "shadow"} for rule in rules for form in forms_of(rule)]


def _examples(rule: ExtractedRule, tools: Sequence[str]) -> Iterator[str]:
    pair = examples_of(rule, tools)
    if pair is not None and not all(map(is_note, rule.compiled.rules)):
        yield _comment(f"  breaks it: {shown(pair[0])}")
        yield _comment(f"  keeps it: {shown(pair[1])}")


def _comment(text: str) -> str:
    return "  # " + _UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _free(form: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    """Return a new rule under an id that no reviewed rule has."""
    name, number = str(form["id"]), 2
    while name in taken:
        name, number = f"{form['id']}-{number}", number + 1
    return {**form, "id": name}


def _indented(form: dict[str, Any]) -> str:
    """Return a rule as an item of the list of rules."""
    return write_yaml({"rules": [form]}).partition("\n")[2].rstrip()
