"""What each fault does, without servers and without waiting."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_guard_contract.completions import (
    Completion,
    CompletionCall,
    distort_completion,
    read_completion,
    read_stream,
    write_completion,
    write_stream,
)
from stream_guard_contract.document import ContextAttack, LlmFault, Scenario, ToolFault
from stream_guard_contract.faults import (
    ErrorReply,
    FaultPlan,
    distort,
    drift,
    injection_text,
    into_answer,
    into_messages,
    into_text,
    malform,
    surface_of,
    tool_delay,
    tool_error_reply,
    triggers,
)


def scenario_with(**faults: Any) -> Scenario:
    return Scenario.model_validate({"name": "faulty", **faults})


def test_a_malformed_answer_is_never_json() -> None:
    for text in ("{}", '{"a": 1}', "12", '"text"', "", "[1, 2", "null"):
        with pytest.raises(ValueError):
            json.loads(malform(text))


def test_a_fault_without_numbers_takes_those_of_the_original() -> None:
    assert tool_delay(ToolFault(tool="t", mode="timeout")) == 30.0
    assert tool_delay(ToolFault(tool="t", mode="slow")) == 5.0
    assert tool_delay(ToolFault(tool="t", mode="error")) == 0.0
    assert tool_error_reply(ToolFault(tool="t", mode="error")) == (503, "Service Unavailable")
    assert tool_error_reply(ToolFault(tool="t", mode="error", error_code=418, message="tea")) == (418, "tea")
    assert tool_delay(ToolFault(tool="t", mode="timeout", delay_ms=0)) == 0.0


def test_numbers_without_measure_are_held_in_bounds() -> None:
    assert tool_delay(ToolFault(tool="t", mode="slow", delay_ms=10**30)) == 86_400.0
    assert drift("a b", "verbosity_shift", factor=float("inf")) == "a b a b"
    with pytest.raises(ValueError, match="error_code"):
        ToolFault(tool="t", mode="error", error_code=1000)


def test_a_fault_after_calls_comes_from_that_call_on() -> None:
    assert [triggers(None, 3, call) for call in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_rate_limit_and_a_timeout_are_refusals_and_the_rest_are_texts() -> None:
    assert distort("x", LlmFault(mode="rate_limit")) == ErrorReply(429, "Rate limit exceeded")
    assert isinstance(distort("x", LlmFault(mode="timeout")), ErrorReply)
    assert distort("x", LlmFault(mode="empty")) == ""


@given(st.text(), st.sampled_from(["json_field_rename", "verbosity_shift", "format_change", "tone_shift"]))
def test_no_text_breaks_a_drift(text: str, kind: str) -> None:
    assert isinstance(drift(text, kind), str)


def test_a_text_nested_without_end_breaks_no_drift() -> None:
    deep = '{"action":' * 100_000
    assert drift(deep, "json_field_rename") == deep


def test_a_fault_reaches_the_tool_it_names_and_counts_only_its_calls() -> None:
    fault_plan = FaultPlan(
        scenario_with(tool_faults=[{"tool": "pay", "mode": "error", "after_calls": 2}]), "0", has_model=False
    )
    assert [bool(fault_plan.next_tool_fault(tool)) for tool in ("pay", "look", "look", "pay", "look")] == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_a_star_and_a_glob_reach_every_tool_they_name() -> None:
    fault_plan = FaultPlan(scenario_with(tool_faults=[{"tool": "pay_*", "mode": "error"}]), "0", has_model=False)
    assert fault_plan.next_tool_fault("pay_card")
    assert not fault_plan.next_tool_fault("payment")
    everywhere = FaultPlan(scenario_with(tool_faults=[{"tool": "*", "mode": "error"}]), "0", has_model=False)
    assert everywhere.next_tool_fault("anything")


def test_an_address_and_a_name_must_both_fit() -> None:
    fault = {"tool": "pay", "mode": "error", "match_url": "http://bank/*"}
    fault_plan = FaultPlan(scenario_with(tool_faults=[fault]), "0", has_model=False)
    assert fault_plan.next_tool_fault("pay", "http://bank/wire")
    assert not fault_plan.next_tool_fault("pay", "http://shop/wire")
    assert not fault_plan.next_tool_fault("look", "http://bank/wire")
    assert not fault_plan.next_tool_fault("pay"), "a Python tool has no address"


@given(st.integers(), st.floats(0, 1))
def test_the_same_seed_gives_the_same_fault_plan(seed: int, probability: float) -> None:
    scenario = scenario_with(
        tool_faults=[{"tool": "*", "mode": "error", "probability": probability}],
        llm_faults=[{"mode": "empty", "probability": probability}],
    )
    first, second = (FaultPlan(scenario, str(seed), has_model=True) for _ in range(2))
    # Calls of tools and of the model come in another order: it must not matter.
    tools = [bool(first.next_tool_fault("t")) for _ in range(20)]
    models = [bool(first.next_model_fault()) for _ in range(20)]
    mixed = [(bool(second.next_model_fault()), bool(second.next_tool_fault("t"))) for _ in range(20)]
    assert mixed == list(zip(models, tools, strict=True))


def test_another_seed_gives_another_fault_plan() -> None:
    scenario = scenario_with(tool_faults=[{"tool": "*", "mode": "error", "probability": 0.5}])
    plans = [FaultPlan(scenario, str(seed), has_model=False) for seed in range(20)]
    assert len({tuple(bool(fault_plan.next_tool_fault("t")) for _ in range(20)) for fault_plan in plans}) == 20


def test_attacks_enter_where_they_say_and_with_the_prompt_where_no_model_is_reached() -> None:
    assert surface_of(ContextAttack(type="indirect_injection"), has_model=True) == "tool"
    assert surface_of(ContextAttack(type="memory_poisoning", inject_at="retrieval_step"), has_model=True) == "tool"
    for kind in ("overflow", "conflicting_context", "injection_via_context", "memory_poisoning"):
        attack = ContextAttack.model_validate({"type": kind})
        assert surface_of(attack, has_model=True) == "model"
        assert surface_of(attack, has_model=False) == "prompt"


def test_an_overflow_has_as_many_words_as_asked() -> None:
    attack = ContextAttack(type="overflow", inject_tokens=777)
    assert len(injection_text(attack, random.Random(1)).split()) == 777
    assert injection_text(attack, random.Random(1)) == injection_text(attack, random.Random(1))


def test_a_payload_is_the_one_that_is_given() -> None:
    attack = ContextAttack(type="memory_poisoning", payload="the sky is green")
    assert injection_text(attack, random.Random(1)) == "the sky is green"


def test_an_attacked_answer_keeps_its_shape_and_is_another_value() -> None:
    answer = {"price": 1}
    assert into_answer(answer, "obey", None) == {"price": 1, "note": "obey"}
    assert answer == {"price": 1}
    assert into_answer({"note": "mine"}, "obey", None) == {"note": "mine", "note_": "obey"}
    assert into_answer([1], "obey", "prepend") == ["obey", 1]
    assert into_answer("text", "obey", None) == "text\nobey"
    assert into_answer(answer, "obey", "replace") == "obey"
    assert into_answer(7, "obey", None) == "7\nobey"


def test_strategies_say_where_a_text_goes() -> None:
    assert into_text("ask", "lie", None, first=True) == "lie\nask"
    assert into_text("ask", "lie", "append", first=True) == "ask\nlie"
    assert into_text("ask", "lie", "replace", first=True) == "lie"


def test_a_planted_message_never_stands_before_the_system_or_behind_the_question() -> None:
    chat = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user")]

    def roles(strategy: str | None) -> list[str]:
        return [message["content"] for message in into_messages(chat, "lie", strategy)]

    assert roles(None) == ["system", "lie", "user", "assistant", "user"]
    assert roles("append") == ["system", "user", "assistant", "lie", "user"]
    assert roles("replace") == ["system", "lie", "user"]
    assert into_messages(["nonsense", 7], "lie", None)[0] == {"role": "user", "content": "lie"}


COMPLETION = Completion(
    text="one two three", calls=[CompletionCall(id="c1", name="pay", arguments='{"name": "x"}')], finish="tool_calls"
)


def test_a_completion_and_a_stream_are_read_back_as_they_were_written() -> None:
    whole = read_completion(write_completion(COMPLETION))
    streamed = read_stream(b"".join(write_stream(COMPLETION)))
    assert whole is not None
    assert (whole.text, whole.calls, whole.finish) == (COMPLETION.text, COMPLETION.calls, COMPLETION.finish)
    assert (streamed.text, streamed.calls, streamed.finish) == (COMPLETION.text, COMPLETION.calls, COMPLETION.finish)


def test_faults_change_calls_too() -> None:
    emptied = distort_completion(COMPLETION, LlmFault(mode="empty"))
    renamed = distort_completion(COMPLETION, LlmFault(mode="response_drift"))
    cut = distort_completion(COMPLETION, LlmFault(mode="truncated_response", max_tokens=1))
    assert isinstance(emptied, Completion)
    assert isinstance(renamed, Completion)
    assert isinstance(cut, Completion)
    assert (emptied.text, emptied.calls) == ("", [])
    assert renamed.calls[0].arguments == '{"name_v2": "x"}'
    assert (cut.text, cut.finish) == ("one", "length")
    assert distort_completion(COMPLETION, LlmFault(mode="truncated_response", max_tokens=50)) == COMPLETION


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_break_the_readers_of_completions(body: bytes) -> None:
    read_completion(body)
    read_stream(b"data: " + body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["choices", "message", "delta", "tool_calls", "function", "index", "usage", "content"]),
                inner,
            )
        ),
    )
)
def test_no_json_breaks_the_readers_of_completions(value: Any) -> None:
    body = json.dumps({"choices": [{"message": value, "delta": value}], "usage": value}).encode()
    assert isinstance(read_completion(body), Completion)
    assert isinstance(read_stream(b"data: " + body), Completion)
    read_completion(json.dumps(value).encode())
