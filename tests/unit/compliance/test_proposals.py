"""A model may read, the verifier decides: what the sentence does not show is refused, whatever the model says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from stream_guard_compliance import ComplianceResult, check_compliance, extract
from stream_guard_compliance.check import estimate
from stream_guard_compliance.proposed_frames import FRAMES as PROPOSED
from stream_guard_compliance.proposed_frames import MEANINGS, Proposal

from stream_guard.registry import build_registry
from stream_guard.settings import ComplianceSettings, JudgeSettings, Settings
from tests.unit.compliance.test_judge import endpoint

TOOLS = ["pay_bill", "check_user", "wipe_disk", "done"]
REGISTRY = build_registry()
ORDER = {"kind": "order", "first": ("check_user",), "tools": ("pay_bill",)}
YES = {"kind": "confirm_before", "tools": ("pay_bill",)}


def read(prompt: str, **proposal: Any) -> tuple[str, bool, str]:
    """Return the kind of the first rule, whether it is concrete, and why it is not."""
    (rule, *_) = extract(prompt, TOOLS, proposals=[Proposal(**{"quote": prompt, **proposal})]).rules
    return rule.rule.kind, bool(rule.compiled.rules), rule.compiled.why


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "name": tool, "args": args, "id": tool}


def done(tool: str) -> dict[str, Any]:
    return {"type": "tool_result", "name": tool, "content": "ok", "call_id": tool}


def says(text: str) -> dict[str, Any]:
    return {"type": "agent_message", "content": text}


def asks(text: str) -> dict[str, Any]:
    return {"type": "user_message", "content": text}


FINE = (call("check_user"),)
BROKEN = {
    "forbid_tool": ((call("wipe_disk"),), FINE),
    "require_tool": (FINE, (call("done"),)),
    "order": ((call("pay_bill"),), (call("check_user"), done("check_user"), call("pay_bill"))),
    "confirm_before": ((call("pay_bill"),), (says("Shall I pay it?"), asks("yes"), call("pay_bill"))),
    "limit": (tuple(call("pay_bill", n=n) for n in range(4)), (call("pay_bill"),)),
    "forbid_output": ((says("But it is free!"),), (says("It costs a lot."),)),
}


@pytest.mark.parametrize(
    ("sentence", "proposal"),
    [
        ("Never, my friend, call wipe_disk.", {"kind": "forbid_tool", "tools": ("wipe_disk",)}),
        ("You must use check_user right before lightly using pay_bill, always.", ORDER),
        ("Never ever so much as call pay_bill before check_user.", ORDER),
        ("Never lightly call pay_bill without the polite approval of the user.", YES),
        ("Never bother to call pay_bill more than 3 times.", {"kind": "limit", "tools": ("pay_bill",), "most": 3}),
        (
            'Never tell anybody "it is free" or "it is cheap" lightly.',
            {"kind": "forbid_output", "texts": ("it is free",)},
        ),
    ],
)
def test_reading_that_the_sentence_shows_becomes_a_rule_that_is_not_certain(
    sentence: str, proposal: dict[str, Any]
) -> None:
    assert not any(rule.compiled.rules for rule in extract(sentence, TOOLS).rules)
    breaks, keeps = BROKEN[proposal["kind"]]
    made = Proposal(**{"quote": sentence, "breaks": breaks, "keeps": keeps, **proposal})
    found = extract(sentence, TOOLS, proposals=[made])
    (rule,) = found.rules
    assert (rule.rule.kind, rule.compiled.certain, bool(rule.compiled.rules)) == (proposal["kind"], False, True)


@pytest.mark.parametrize(
    ("sentence", "proposal", "why"),
    [
        ("Never lightly call wipe_disk.", {"quote": "Never call wipe_disk."}, "does not stand in the sentence"),
        ("Never lightly call wipe_disk.", {"tools": ("format_disk",)}, "no tool of the agent"),
        ("Never lightly call wipe_disk.", {"tools": ("pay_bill",)}, "does not name pay_bill"),
        ("Never lightly call wipe_disk.", {"kind": "require_tool"}, "does not ask for a call"),
        ("Kindly call wipe_disk.", {}, "forbids nothing"),
        ("Never call wipe_disk if the user is angry.", {}, "depends on a condition"),
        ("Prefer wipe_disk over pay_bill.", {"tools": ("wipe_disk",)}, "allows, advises"),
        ("You must kindly call done.", {"kind": "require_tool", "tools": ("done",)}, "fires in a trace that keeps it"),
        ("Please use wipe_disk wisely.", {"kind": "allow_only"}, "no word that says so"),
        ("Never lightly call wipe_disk.", {"kind": "confirm_before"}, "asks for no yes"),
        ("Never lightly call wipe_disk.", {"kind": "limit", "most": 3}, "no upper bound"),
        ("Never sadly call wipe_disk more than 3 times.", {"kind": "limit", "most": 2}, "does not have the number"),
        ("Never sadly call wipe_disk more than 3 times per turn.", {"kind": "limit", "most": 3}, "passes over"),
        ("You must call pay_bill before gladly calling check_user.", ORDER, "in this order"),
        (
            'Never tell anybody "no" lightly.',
            {"kind": "forbid_output", "tools": (), "texts": ("yes",)},
            "quotation marks",
        ),
    ],
)
def test_reading_that_the_sentence_does_not_show_is_refused_with_the_reason(
    sentence: str, proposal: dict[str, Any], why: str
) -> None:
    breaks, keeps = BROKEN.get(proposal.get("kind", "forbid_tool"), (FINE, FINE))
    whole = {"quote": sentence, "kind": "forbid_tool", "tools": ("wipe_disk",), "breaks": breaks, "keeps": keeps}
    found = extract(sentence, TOOLS, proposals=[Proposal(**{**whole, **proposal})])
    assert not any(rule.compiled.rules for rule in found.rules)
    if proposal.get("quote") is None:
        assert why in found.rules[0].compiled.why


@pytest.mark.parametrize(
    "prompt",
    [
        "```\nNever call wipe_disk.\n```",
        "## Examples\n- Never call wipe_disk now.",
        "You may call wipe_disk.",
        "## When idle\n- Never lightly call wipe_disk.",
    ],
)
def test_no_proposal_makes_a_rule_of_what_is_none(prompt: str) -> None:
    quote = prompt.splitlines()[-1].strip("- `") or "Never call wipe_disk."
    breaks, keeps = BROKEN["forbid_tool"]
    proposals = [Proposal(quote=quote, kind="forbid_tool", tools=("wipe_disk",), breaks=breaks, keeps=keeps)]
    assert not any(rule.compiled.rules for rule in extract(prompt, TOOLS, proposals=proposals).rules)


PROMPT = "Never, my friend, call wipe_disk. Be kind."
TRACE = [{"type": "tool_call", "name": "wipe_disk", "args": {}}]
READINGS = [
    {
        "quote": "Never, my friend, call wipe_disk.",
        "kind": "forbid_tool",
        "tools": ["wipe_disk"],
        "breaks": [call("wipe_disk")],
        "keeps": [call("check_user")],
    }
]


def completion(content: str) -> bytes:
    message = {"choices": [{"message": {"content": content}}], "usage": {"prompt_tokens": 90, "completion_tokens": 10}}
    return json.dumps(message).encode()


def reply(body: dict[str, Any]) -> bytes:
    """Answer readings to the reader, and "could not tell" to the questions of the judge."""
    if "readings" in body["messages"][0]["content"]:
        return completion(json.dumps({"readings": [*READINGS, {"kind": "nonsense"}, 3]}))
    return completion('{"violated": null, "confidence": 0, "explanation": "no"}')


def check(url: str, **judge: Any) -> ComplianceResult:
    settings = Settings(
        judge=JudgeSettings(url=url, model="m", input_price=10.0, **judge), compliance=ComplianceSettings(propose=True)
    )
    return asyncio.run(check_compliance(PROMPT, TRACE, tools=TOOLS, settings=settings, registry=REGISTRY))


def test_endpoint_is_asked_once_and_its_tokens_are_counted_then_the_recorded_answer_is_used(tmp_path: Path) -> None:
    with endpoint(reply) as server:
        result = check(server.url, cache=tmp_path)
        asked = [body for body in server.asked if "readings" in body["messages"][0]["content"]]
        assert json.loads(asked[0]["messages"][1]["content"])["sentences"] == [
            PROMPT.split(". ", maxsplit=1)[0] + ".",
            "Be kind.",
        ]
        assert [(violation.kind, violation.confidence) for violation in result.violations] == [("forbid_tool", 0.7)]
        assert (result.tokens_used, round(result.cost_usd, 6)) == (200, 0.0018)
        again = check(server.url, cache=tmp_path)
        assert [violation.rule_id for violation in again.violations] == [
            violation.rule_id for violation in result.violations
        ]
        assert len([body for body in server.asked if "readings" in body["messages"][0]["content"]]) == 1
        assert again.tokens_used == 100  # of the judge alone


@pytest.mark.parametrize("content", ["no JSON", "{}", '{"readings": 3}', '{"readings": [{"quote": 1}]}'])
def test_answer_of_no_use_changes_nothing(content: str) -> None:
    with endpoint(lambda _: completion(content)) as server:
        result = check(server.url)
    assert (result.violations, result.verdict) == ([], "inconclusive")


def test_endpoint_that_cannot_be_reached_is_said() -> None:
    result = check("http://127.0.0.1:1/v1")
    assert any(one.what == "readings of a model" and "cannot be asked" in one.reason for one in result.not_evaluated)


CALL = {"type": "tool_call", "args": {}}
PAYS = {**CALL, "name": "pay_bill"}
WIPES = {**CALL, "name": "wipe_disk"}
TWICE = {
    "type": "agent_message",
    "content": "",
    "tool_calls": [{"function": {"name": "pay_bill", "arguments": {"n": number}}} for number in range(2)],
}
GIT = {"type": "tool_call", "name": "wipe_disk", "args": {"command": "git push --force"}}
ASKED = {"type": "user_message", "content": "Please force it."}
FRAMES: list[tuple[str, dict[str, Any]]] = [
    ("Pay no more than one bill, I beg you, with pay_bill per turn.", {
        "kind": "limit", "shape": "per_turn", "tools": ("pay_bill",), "most": 1, "breaks": (TWICE,), "keeps": (PAYS,)}),
    ("Under no circumstances run `git push --force` lightly.", {
        "kind": "forbid_arg", "shape": "command", "texts": ("git push --force",), "breaks": (GIT,), "keeps": (PAYS,)}),
    ("Never run `git push --force` lightly unless the user asks for it.", {
        "kind": "forbid_arg", "shape": "command", "texts": ("git push --force",), "unless_asked": True,
        "breaks": (GIT,), "keeps": (ASKED, GIT)}),
    ("Never so much as call wipe_disk right after pay_bill.", {
        "kind": "order", "shape": "not_after", "first": ("pay_bill",), "tools": ("wipe_disk",),
        "breaks": (PAYS, WIPES), "keeps": (PAYS, {"type": "user_message", "content": "Wipe it."}, WIPES)}),
    ('When the user says "stop", never so much as think of calling wipe_disk.', {
        "kind": "forbid_tool", "tools": ("wipe_disk",), "in_case": True,
        "breaks": ({"type": "user_message", "content": "stop"}, WIPES), "keeps": (WIPES,)}),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "proposal"), FRAMES, ids=[frame[0][:50] for frame in FRAMES])
def test_proposed_frame_becomes_a_rule_where_the_sentence_shows_it_and_its_test_holds(
    sentence: str, proposal: dict[str, Any]
) -> None:
    assert not any(rule.compiled.rules for rule in extract(sentence, TOOLS).rules)
    assert read(sentence, **proposal)[1]


@pytest.mark.parametrize(("sentence", "proposal"), FRAMES, ids=[frame[0][:50] for frame in FRAMES])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"breaks": (), "keeps": ()}, "needs a trace"),
        ({"keeps": ()}, "needs a trace"),
        ({"breaks": ({"type": "user_message", "content": "hi"},)}, "does not fire"),
        ({"tools": ("check_user",), "first": ("check_user",)}, "a model read"),
        ({"most": 7, "texts": ("rm -rf",), "tools": ("done",), "first": ("done",)}, ""),
        ({"kind": "require_tool", "shape": "", "tools": ("wipe_disk",)}, ""),
        ({"quote": "Never call anything."}, ""),
        ({"unless_asked": True, "in_case": True}, ""),
    ],
)
def test_adversarial_change_of_a_proposed_frame_is_refused(
    sentence: str, proposal: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    if "tools" not in proposal and why == "a model read":
        return  # about texts alone
    changed = {**proposal, **change}
    _, concrete, reason = read(sentence, **changed)
    assert not concrete
    assert why in reason


PAYS_TWICE = (call("pay_bill", n=1), call("pay_bill", n=2))
WRONG: list[tuple[str, dict[str, Any], str]] = [
    # what lifts a ban, or counts, is passed over
    ("Never lightly call pay_bill without check_user.", {"kind": "forbid_tool", "tools": ("pay_bill",)}, "without"),
    ("Never sadly call pay_bill more than 3 times.", {"kind": "forbid_tool", "tools": ("pay_bill",)}, "more than"),
    ("Never call pay_bill, ever, and done in the same turn.", {"kind": "forbid_tool", "tools": ("done",)}, "same turn"),
    ("Never gladly call pay_bill until the user agrees.", {"kind": "forbid_tool", "tools": ("pay_bill",)}, "until"),
    ("Sadly, only check_user and done may be called per turn.", {
        "kind": "allow_only", "tools": ("check_user", "done")}, "per turn"),
    # what narrows is passed over
    ("Never lightly call wipe_disk for new customers.", {"kind": "forbid_tool", "tools": ("wipe_disk",)}, "narrows"),
    ("Never lightly call wipe_disk during a backup.", {"kind": "forbid_tool", "tools": ("wipe_disk",)}, "condition"),
    ("You must kindly call done for every large bill.", {"kind": "require_tool", "tools": ("done",)}, "narrows"),
    ("Never pay old bills lightly.", {"kind": "forbid_tool", "tools": ("pay_bill",)}, "passes over"),
    ("For refunds, never lightly call wipe_disk.", {"kind": "forbid_tool", "tools": ("wipe_disk",)}, "condition"),
    ("Unless it is urgent, kindly call check_user before pay_bill.", ORDER, "unless"),
    # another tool of the sentence, or one tool too few
    ("Never lightly call pay_bill before check_user.", {"kind": "forbid_tool", "tools": ("check_user",)}, "before"),
    ("Never lightly call pay_bill and wipe_disk.", {"kind": "forbid_tool", "tools": ("pay_bill",)}, "names too"),
    # turned round
    ("Kindly call pay_bill before you call check_user, my friend.", ORDER, "in this order"),
    ("Never lightly call done.", {"kind": "require_tool", "tools": ("done",)}, "does not ask"),
    ("Never lightly call done.", {"kind": "require_tool", "shape": "finish", "tools": ("done",)}, ""),
    ("Do kindly use relative paths, never absolute ones, my friend.", {
        "kind": "forbid_arg", "shape": "path", "texts": ("relative",)}, ""),
    # another number or unit
    ("Answer kindly, with at most 40 words, my friend.", {
        "kind": "limit", "shape": "length", "most": 30, "unit": "words"}, "number"),
    ("Answer kindly in at most 40 words, my friend.", {
        "kind": "limit", "shape": "length", "most": 40, "unit": "lines"}, "unit"),
    # a text, an argument or a source that the sentence does not have
    ("Kindly pass a valid id to pay_bill, one that check_user returned.", {
        "kind": "forbid_arg", "shape": "origin", "argument": "amount", "tools": ("pay_bill",),
        "first": ("check_user",)}, "argument"),
    ("Kindly pass a valid id to pay_bill, one that check_user returned.", {
        "kind": "forbid_arg", "shape": "origin", "argument": "id", "tools": ("pay_bill",), "first": ("done",)}, "done"),
    ("Never ever write anything silly with pay_bill.", {
        "kind": "forbid_arg", "shape": "literal", "texts": ("rent",), "tools": ("pay_bill",)}, "texts"),
    # words that show no such frame
    ("Call pay_bill gladly.", {"kind": "limit", "shape": "alone", "tools": ("pay_bill",)}, "no word"),
    ("Call pay_bill gladly.", {"kind": "order", "shape": "first_action", "first": ("pay_bill",)}, "no word"),
    ("Call pay_bill gladly.", {"kind": "nonsense", "shape": "at_all", "tools": ("pay_bill",)}, "which rule"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "proposal", "why"), WRONG, ids=[f"{row[0][:40]} {row[1]['kind']}" for row in WRONG]
)
def test_wrong_proposal_is_refused_though_its_own_test_is_made_to_fit(
    sentence: str, proposal: dict[str, Any], why: str
) -> None:
    traces = [PAYS_TWICE, (call("wipe_disk"),), (call("done"),), FINE, (says("one two three"),)]
    for breaks, keeps in zip(traces, [*traces[1:], traces[0]], strict=True):
        made = Proposal(**{"quote": sentence, "breaks": breaks, "keeps": keeps, **proposal})
        found = extract(sentence, TOOLS, proposals=[made])
        assert not any(rule.read.reading.proposed for rule in found.rules)
        told = [rule.compiled.why for rule in found.rules] + [one.reading.why for one in found.other]
        assert why in " ".join([*told, *(one.reason for one in found.unparsed)])


def test_exception_in_the_next_sentence_is_not_passed_over() -> None:
    prompt = "Never lightly call wipe_disk. However, an admin may ask for it."
    breaks, keeps = BROKEN["forbid_tool"]
    made = Proposal(quote=prompt[:29], kind="forbid_tool", tools=("wipe_disk",), breaks=breaks, keeps=keeps)
    assert not any(rule.compiled.rules for rule in extract(prompt, TOOLS, proposals=[made]).rules)
    assert extract(prompt[:29], TOOLS, proposals=[made]).rules[0].compiled.rules


def test_every_frame_says_what_it_means() -> None:
    assert PROPOSED.keys() == MEANINGS.keys()


def test_trace_that_keeps_the_sentence_must_not_set_its_rule_off() -> None:
    sentence, proposal = FRAMES[0]
    assert "fires in a trace that keeps it" in read(sentence, **{**proposal, "keeps": (TWICE,)})[2]


def test_of_several_proposals_the_first_that_holds_is_taken() -> None:
    sentence, proposal = FRAMES[1]
    wrong = Proposal(quote=sentence, **{**proposal, "texts": ("rm -rf",)})
    right = Proposal(quote=sentence, **proposal)
    assert extract(sentence, TOOLS, proposals=[wrong, right]).rules[0].compiled.rules


def test_cost_is_known_before_the_question_is_asked() -> None:
    tokens, cost = estimate(["Never call wipe_disk."], TOOLS, JudgeSettings(url="http://x", input_price=10.0))
    assert tokens > 400
    assert round(cost, 6) == round(tokens * 10.0 / 1_000_000, 6)
