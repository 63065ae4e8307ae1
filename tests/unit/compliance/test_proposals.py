"""A model may read, the verifier decides: what the sentence does not show is refused, whatever the model says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from stream_guard_compliance import ComplianceResult, check_compliance, extract
from stream_guard_compliance.proposals import Proposal
from stream_guard_compliance.proposing import estimate

from stream_guard.registry import build_registry
from stream_guard.settings import ComplianceSettings, JudgeSettings, Settings
from tests.unit.compliance.test_judge import endpoint

TOOLS = ["pay_bill", "check_user", "wipe_disk", "done"]
REGISTRY = build_registry()
ORDER = {"kind": "order", "first": ["check_user"], "tools": ["pay_bill"]}
YES = {"kind": "confirm_before", "tools": ["pay_bill"]}
TURNED = {"kind": "order", "first": ("check_user",), "tools": ("pay_bill",)}


def read(prompt: str, **proposal: Any) -> tuple[str, bool, str]:
    """Return the kind of the first rule, whether it is concrete, and why it is not."""
    (rule, *_) = extract(prompt, TOOLS, proposals=[Proposal(**{"quote": prompt, **proposal})]).rules
    return rule.rule.kind, bool(rule.compiled.rules), rule.compiled.why


@pytest.mark.parametrize(
    ("sentence", "proposal"),
    [
        ("Never, my friend, call wipe_disk.", {"kind": "forbid_tool", "tools": ["wipe_disk"]}),
        ("You must kindly call done.", {"kind": "require_tool", "tools": ["done"]}),
        ("You must use check_user right before lightly using pay_bill, always.", ORDER),
        ("Never ever so much as call pay_bill before check_user.", ORDER),
        ("Never lightly call pay_bill without the polite approval of the user.", YES),
        ("Never bother to call pay_bill more than 3 times.", {"kind": "limit", "tools": ["pay_bill"], "most": 3}),
        (
            'Never tell anybody "it is free" or "it is cheap" lightly.',
            {"kind": "forbid_output", "texts": ["it is free"]},
        ),
    ],
)
def test_reading_that_the_sentence_shows_becomes_a_rule_that_is_not_certain(
    sentence: str, proposal: dict[str, Any]
) -> None:
    assert not any(rule.compiled.rules for rule in extract(sentence, TOOLS).rules)
    kind, concrete, _ = read(sentence, **{key: tuple(v) if isinstance(v, list) else v for key, v in proposal.items()})
    assert (kind, concrete) == (proposal["kind"], True)
    (rule,) = extract(sentence, TOOLS, proposals=[Proposal(quote=sentence, **proposal)]).rules
    assert not rule.compiled.certain
    assert "mode: shadow" in extract(sentence, TOOLS, proposals=[Proposal(quote=sentence, **proposal)]).policy_yaml()


@pytest.mark.parametrize(
    ("sentence", "proposal", "why"),
    [
        ("Never lightly call wipe_disk.", {"quote": "Never call wipe_disk."}, "does not stand in the sentence"),
        ("Never lightly call wipe_disk.", {"tools": ("format_disk",)}, "no tool of the agent"),
        ("Never lightly call wipe_disk.", {"tools": ("pay_bill",)}, "does not name pay_bill"),
        ("Never lightly call wipe_disk.", {"kind": "require_tool"}, "does not ask for a call or a text"),
        ("Kindly call wipe_disk.", {}, "forbids nothing"),
        ("Never call wipe_disk if the user is angry.", {}, "depends on a condition"),
        ("Prefer wipe_disk over pay_bill.", {"tools": ("wipe_disk",)}, "allows, advises"),
        ("Please use wipe_disk wisely.", {"kind": "allow_only"}, "other tools are forbidden"),
        ("Never lightly call wipe_disk.", {"kind": "confirm_before"}, "asks for no yes"),
        ("Never lightly call wipe_disk.", {"kind": "limit", "most": 3}, "no upper bound"),
        ("Never sadly call wipe_disk more than 3 times.", {"kind": "limit", "most": 2}, "does not have the number"),
        ("Never sadly call wipe_disk more than 3 times per turn.", {"kind": "limit", "most": 3}, "part of a session"),
        ("You must call pay_bill before gladly calling check_user.", TURNED, "in this order"),
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
    found = extract(
        sentence,
        TOOLS,
        proposals=[Proposal(**{"quote": sentence, "kind": "forbid_tool", "tools": ("wipe_disk",), **proposal})],
    )
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
    proposals = [Proposal(quote=quote, kind="forbid_tool", tools=("wipe_disk",))]
    assert not any(rule.compiled.rules for rule in extract(prompt, TOOLS, proposals=proposals).rules)


PROMPT = "Never, my friend, call wipe_disk. Be kind."
TRACE = [{"type": "tool_call", "name": "wipe_disk", "args": {}}]
READINGS = [{"quote": "Never, my friend, call wipe_disk.", "kind": "forbid_tool", "tools": ["wipe_disk"]}]


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
    ("Never in your life call wipe_disk right after pay_bill.", {
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
        ({"breaks": (), "keeps": ()}, ""),
        ({"keeps": ()}, "needs a trace"),
        ({"breaks": ({"type": "user_message", "content": "hi"},)}, "does not fire"),
        ({"tools": ("check_user",), "first": ("check_user",)}, "does not name"),
        ({"most": 7, "texts": ("rm -rf",), "tools": ("done",), "first": ("done",)}, ""),
        ({"kind": "require_tool", "shape": "", "tools": ("wipe_disk",)}, ""),
        ({"quote": "Never call anything."}, ""),
        ({"unless_asked": True, "in_case": True}, ""),
    ],
)
def test_adversarial_change_of_a_proposed_frame_is_refused(
    sentence: str, proposal: dict[str, Any], change: dict[str, Any], why: str
) -> None:
    if "tools" not in proposal and why == "does not name":
        return  # about texts alone
    changed = {**proposal, **change}
    if change == {"breaks": (), "keeps": ()} and not proposal.get("shape") and not proposal.get("in_case"):
        return
    _, concrete, reason = read(sentence, **changed)
    assert not concrete
    assert why in reason


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
