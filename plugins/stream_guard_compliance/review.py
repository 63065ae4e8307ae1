"""A policy to review: every sentence of a prompt in order, as a rule, a question or no rule, and what was decided.

What a person has decided about a sentence holds for the next version of the prompt: an edited rule stays as it was
edited, and a rule that was taken out stays out. Sentences are matched by their words.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from stream_guard.documents import MAX_REASON, read_document, write_yaml
from stream_guard_compliance.compiling.context import Form, is_note, params_of
from stream_guard_compliance.extraction import NAME, ExtractedRule, Extraction, fires, forms_of

# For a rule of a prompt, a short trace that breaks it and the nearest one that keeps it, both tried out.

Trace: TypeAlias = list[dict[str, Any]]
Pair: TypeAlias = tuple[Trace, Trace]
_ANOTHER: Final = "another_tool"
_LONG: Final = 400  # words that are too many for every limit that prompts set
_CUT: Final = 60
_MOST_CALLS: Final = 12


def examples_of(rule: ExtractedRule, tools: Sequence[str]) -> Pair | None:
    """Return a trace in which the rule fires and one in which it does not; None where no short one was found."""
    rules = rule.compiled.rules
    judging = [form for form in rules if not is_note(form)]
    pairs = (pair for form in judging for pair in _pairs(form, rule, tools))
    return next((pair for pair in pairs if fires(rules, pair[0]) and not fires(rules, pair[1])), None)


def shown(trace: Sequence[Mapping[str, Any]]) -> str:
    """Return a trace in a line."""
    return "; ".join(_shown(event) for event in trace)


def _shown(event: Mapping[str, Any]) -> str:
    if event["type"] == "tool_call":
        args = json.dumps(event["args"], ensure_ascii=False) if event["args"] else ""
        return f"call {event['name']}{f' {_cut(args)}' if args else ''}"
    if event["type"] == "tool_result":
        return f"{event['name']} returns"
    calls = ", ".join(call["function"]["name"] for call in event.get("tool_calls", ()))
    who = "user" if event["type"] == "user_message" else "agent"
    said = f"{who} says {json.dumps(_cut(event['content']), ensure_ascii=False)}" if event["content"] else ""
    return (
        " and ".join(part for part in (said, f"calls {calls} at once" if calls else "") if part) or f"{who} is silent"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[:_CUT]}..."


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"type": "tool_call", "name": tool, "args": args}


def say(text: str, *calls: str) -> dict[str, Any]:
    """Return a response of the agent, with the tools that it calls at once."""
    made = [{"id": f"c{at}", "function": {"name": name, "arguments": {}}} for at, name in enumerate(calls)]
    return {"type": "agent_message", "content": text, **({"tool_calls": made} if made else {})}


def done(tool: str) -> dict[str, Any]:
    """Return what a tool gave back."""
    return {"type": "tool_result", "name": tool, "content": "ok"}


def user(text: str) -> dict[str, Any]:
    """Return what the user says."""
    return {"type": "user_message", "content": text}


def _pairs(form: Form, rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    params: dict[str, Any] = params_of(form)
    make = _MAKERS.get(str(form["kind"]))
    begins = user("Please go on.")
    if make is not None:
        for breaks, keeps in make(params, form, rule, tools):
            yield [begins, *breaks], [begins, *keeps]


_Maker: TypeAlias = Callable[[dict[str, Any], Form, ExtractedRule, Sequence[str]], Iterator[Pair]]


def _names(value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else list(value or ())
    return [name for name in listed if "*" not in name]


def _other(tools: Sequence[str], but: Sequence[str]) -> str:
    return next((name for name in tools if name not in but), _ANOTHER)


def _no_call(params: dict[str, Any], form: Form, rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    named = _names(params.get("tool"))
    for tool in named or [_other(tools, ())]:
        for args in _arguments(form, rule):
            # The nearest that keeps it: the same call with another value, else another call.
            yield from (([call(tool, **args)], [call(tool, **dict.fromkeys(args, fine))]) for fine in _fine(rule))
            yield [call(tool, **args)], [call(_other(tools, named))]


def _fine(rule: ExtractedRule) -> Iterator[Any]:
    reading = rule.read.reading
    yield from (value for value in (reading.over, reading.least) if value is not None)
    yield from reading.items[-1:] if reading.kind == "forbid_arg" else ()


def _arguments(form: Form, rule: ExtractedRule) -> Iterator[dict[str, Any]]:
    """Yield arguments with a value that a condition may be about."""
    yield {}
    reading = rule.read.reading
    for name in dict.fromkeys(part.split('"')[0] for part in json.dumps(form.get("when")).split("tool.args.")[1:]):
        plain = name.split(".")[0]
        for value in ((reading.over or 0) + 1, (reading.least or 0) - 1, "x", "x/y", "/x/y", ["x"] * _MOST_CALLS):
            yield {plain: value}


def _before(params: dict[str, Any], _form: Form, _rule: ExtractedRule, _tools: Sequence[str]) -> Iterator[Pair]:
    first, second = _names(params["first"]), _names(params["second"])
    if first and second:
        yield [call(second[0])], [call(first[0]), done(first[0]), call(second[0])]


def _confirm(params: dict[str, Any], _form: Form, rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    asks = [say("Shall I do it?"), user("Yes, please.")]
    for tool in _names(params.get("tool")) or [_other(tools, ())]:
        yield [call(tool)], [*asks, call(tool)]
        for item in rule.rule.items:
            yield [call(tool, command=item)], [*asks, call(tool, command=item)]


def _only(params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    named = _names(params["tool"])
    yield [call(_other(tools, named))], [call(named[0])]


def _limit(params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    tool = (_names(params.get("tool")) or [_other(tools, ())])[0]
    if params["n"] < _MOST_CALLS:
        calls = [call(tool, n=number) for number in range(params["n"] + 1)]
        yield list(calls), calls[:-1]


def _parallel(params: dict[str, Any], form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    gate = form.get("when")
    named = gate.get("value") if isinstance(gate, dict) else None
    tool = named[0] if isinstance(named, list) and isinstance(named[0], str) else _other(tools, ())
    if params["n"] < _MOST_CALLS:
        yield [say("", *[tool] * (params["n"] + 1))], [say("", *[tool] * params["n"])]


def _text(params: dict[str, Any], _form: Form, rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    tool = (_names(params.get("tool")) or [_other(tools, ())])[0]
    samples = (*rule.rule.items, *(f"ls {item}/x" for item in rule.rule.items), *_SAMPLES)
    for text in samples:
        if params.get("where") == "tool_args":
            yield [call(tool, command=text)], [call(tool, command="fine")]
        else:
            yield [say(text)], [say("Fine.")]


_SAMPLES: Final = (
    *(
        "\U0001f600",
        "# A\n\n- **b**\n- c",
        "```\ncode\n```",
        "See https://a.example/b",
        "Is it? Was it? Will it?",
        "So?",
    ),
    *("*a*", "So it is!", "| a |\n|---|\n| b |", "one\n" * 40, "This is one. " * 40, "It costs 5 euros."),
    *("git commit -am x", "git push --force", "x" * 900),
)


def _length(_params: dict[str, Any], _form: Form, _rule: ExtractedRule, _tools: Sequence[str]) -> Iterator[Pair]:
    yield [say("word " * _LONG)], [say("Fine.")]


_DATA: Final = {
    "email": "someone@example.com",
    "phone": "+1 415 555 2671",
    "card": "4111 1111 1111 1111",
    "ssn": "123-45-6789",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ip": "203.0.113.7",
}
_QUOTED: Final = 25  # words of a prompt, which nobody says by chance


def _pii(params: dict[str, Any], _form: Form, _rule: ExtractedRule, _tools: Sequence[str]) -> Iterator[Pair]:
    yield from (([say(f"It is {_DATA[sort]}.")], [say("Fine.")]) for sort in params["types"] if sort in _DATA)


def _quote(params: dict[str, Any], _form: Form, _rule: ExtractedRule, _tools: Sequence[str]) -> Iterator[Pair]:
    yield [say(" ".join(params["text"].split()[:_QUOTED]))], [say("Fine.")]


def _required(_params: dict[str, Any], _form: Form, rule: ExtractedRule, _tools: Sequence[str]) -> Iterator[Pair]:
    for item in (*rule.rule.items, "{}", "[1] see https://a.example"):
        yield [say("So it is, and so it stays.")], [say(item)]
        yield [say("So it is, and so it stays.")], [say(f"So it is, and so it stays. {item}")]


def _must_call(params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    named = _names(params["tool"])
    yield [call(_other(tools, named))], [call(_other(tools, named)), call(named[0])]


def _followup(params: dict[str, Any], _form: Form, rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    must = params["must"]
    first = (*rule.read.reading.first, _other(tools, _names(must.get("tool_name"))))[0]
    then = say(str(must["text"])) if "text" in must else say("", _names(must["tool_name"])[0])
    yield [say("", first), say("Done.")], [say("", first), then]


def _sequence(params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    steps = [(_names(step.get("tool")) or [_ANOTHER])[0] for step in params["steps"]]
    named = [_other(tools, steps) if name == _ANOTHER else name for name in steps]
    yield [say("", *named)], [say("", named[0])]
    yield [call(name) for name in named], [call(named[0])]


def _repeated(params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    tool = (_names(params.get("tool")) or [_other(tools, ())])[0]
    yield [call(tool, q="a"), call(tool, q="a")], [call(tool, q="a"), call(tool, q="b")]


def _with_text(_params: dict[str, Any], _form: Form, _rule: ExtractedRule, tools: Sequence[str]) -> Iterator[Pair]:
    tool = _other(tools, ())
    yield [say("I look.", tool)], [say("", tool)]
    yield [say("", tool)], [say("I look.", tool)]
    yield [say("")], [say("Fine.")]


_MAKERS: Final[dict[str, _Maker]] = {
    "no_call": _no_call,
    "must_call_before": _before,
    "must_confirm_before": _confirm,
    "must_call_only": _only,
    "max_calls": _limit,
    "max_parallel_calls": _parallel,
    "forbidden_text": _text,
    "max_text_length": _length,
    "no_pii": _pii,
    "no_long_quote": _quote,
    "must_match_text": _required,
    "must_match_json_schema": _required,
    "must_call": _must_call,
    "must_followup": _followup,
    "no_sequence": _sequence,
    "no_repeated_calls": _repeated,
    "no_text_with_calls": _with_text,
    "must_have_text": _with_text,
}


# The policy to review.

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
