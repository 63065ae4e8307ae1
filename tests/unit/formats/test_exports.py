"""What the exports of programs and platforms say besides the one session that every format tells."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from tests.vectors.shown import show


def seen(form: str, *records: Any) -> list[Event]:
    shown = show(form, [json.dumps(record).encode() for record in records])
    assert not shown.refused, shown.refused
    return list(shown.events)


def line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-04-05T10:00:{second:02d}Z", "type": kind, "payload": payload}


def item(kind: str, second: int = 0, **fields: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind, **fields}, second)


def said(text: str, role: str = "assistant", second: int = 0) -> dict[str, Any]:
    return item("message", second, role=role, content=[{"type": "output_text", "text": text}])


def tokens(count: int, total: int | None = None) -> dict[str, Any]:
    info: dict[str, Any] = {"last_token_usage": {"input_tokens": count, "output_tokens": 1}}
    if total is not None:
        info["total_token_usage"] = {"input_tokens": total}
    return line("event_msg", {"type": "token_count", "info": info})


META = line("session_meta", {"id": "thread-1"})
CALL = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd": "ls"}'}


def usage_of(events: list[Event]) -> list[Any]:
    return [event.response.get("usage", {}).get("input_tokens") for event in events if isinstance(event, Turn)]


@pytest.mark.parametrize("late", [False, True])
def test_codex_gives_an_answer_its_tokens_wherever_they_stand(late: bool) -> None:
    output = item("function_call_output", call_id="c1", output="a b")
    middle = [output, tokens(10, 10)] if late else [tokens(10, 10), output]
    told_again = [line("event_msg", {"type": "token_count", "info": None}), tokens(10, 10)]
    events = seen(
        "codex-rollout", META, line("response_item", CALL), *middle, *told_again, said("Done."), tokens(20, 30)
    )
    assert usage_of(events) == [10, 20]
    assert [event.text for event in events if isinstance(event, Turn) and event.text] == ["Done."]


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("fine", "ok"),
        ("Exit code: 2\nOutput:\nno", "error"),
        (json.dumps({"output": "no", "metadata": {"exit_code": 1}}), "error"),
        ({"content": "no", "success": False}, "error"),
        ("exec command rejected by user", "blocked"),
    ],
)
def test_codex_tells_what_came_of_a_call(output: Any, status: str) -> None:
    events = seen(
        "codex-rollout", META, line("response_item", CALL), item("function_call_output", call_id="c1", output=output)
    )
    assert [event.status for event in events if isinstance(event, ToolResult)] == [status]


def test_codex_takes_what_the_program_writes_for_no_person() -> None:
    context = said("<environment_context>\n<cwd>/x</cwd>", "user")
    events = seen("codex-rollout", META, context, said("fix it", "user"), said("fix it", "user"))
    assert [event.text for event in events if isinstance(event, UserMessage)] == ["fix it", "fix it"]


def test_codex_puts_a_sub_agent_into_the_session_of_its_parent() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "thread-1", "agent_nickname": "Ada"}}}
    meta = line("session_meta", {"id": "thread-2", "source": spawned})
    events = seen("codex-rollout", meta, said("look", "user"), line("response_item", CALL))
    assert {(event.session_id, event.run_id, event.agent) for event in events} == {("thread-1", "thread-2", "Ada")}
    assert not [event for event in events if isinstance(event, UserMessage)]


def response(number: int, output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"id": f"resp_{number}", "object": "response", "status": "completed", "output": output, **fields}


def test_responses_that_follow_each_other_are_one_session() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
    answered = [{"type": "function_call_output", "call_id": "c1", "output": "paid"}]
    events = seen(
        "openai-responses",
        {"request": {"input": "pay"}, "response": response(1, [call])},
        {"request": {"input": answered, "previous_response_id": "resp_1"}, "response": response(2, [])},
        {"request": {"input": "thanks", "previous_response_id": "resp_2"}, "response": response(3, [])},
    )
    assert {event.session_id for event in events} == {"resp_1"}


def test_a_history_that_is_sent_again_with_a_response_is_told_once() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": '{"eur": 5}'}
    history = [{"role": "user", "content": "pay"}, {key: value for key, value in call.items() if key != "id"}]
    answered = {"type": "function_call_output", "call_id": "c1", "output": "paid"}
    events = seen(
        "openai-responses",
        {"session_id": "s", "request": {"input": history[:1]}, "response": response(1, [call])},
        {"session_id": "s", "request": {"input": [*history, answered]}, "response": response(2, [])},
    )
    kinds = Counter(type(event) for event in events)
    assert (kinds[UserMessage], kinds[ToolCall], kinds[ToolResult], kinds[Turn]) == (1, 1, 1, 2)


def test_an_approval_over_mcp_is_a_decision_about_one_attempt() -> None:
    asked = {"type": "mcp_approval_request", "id": "apr_1", "name": "pay", "arguments": "{}", "server_label": "bank"}
    ran = {"type": "mcp_call", "id": "mcp_1", "approval_request_id": "apr_1", "name": "pay", "arguments": "{}"}
    answer = {"type": "mcp_approval_response", "approval_request_id": "apr_1", "approve": True}
    events = seen(
        "openai-responses",
        {"session_id": "s", "request": {"input": "pay"}, "response": response(1, [asked])},
        {"session_id": "s", "request": {"input": [answer]}, "response": response(2, [ran | {"output": "paid"}])},
    )
    assert [event.tool for event in events if isinstance(event, ToolCall)] == ["pay"]
    assert [event.action for event in events if isinstance(event, GateDecision)] == ["allow"]
    assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok"]


def test_a_response_that_failed_is_a_failed_turn() -> None:
    failed = response(1, []) | {"status": "failed", "error": {"message": "overloaded"}}
    (turn,) = [event for event in seen("openai-responses", failed) if isinstance(event, Turn)]
    assert (turn.response["stop_reason"], turn.response["error"]) == ("error", "overloaded")


def test_inspect_reads_a_rejection_as_a_decision_before_the_result() -> None:
    call = {"id": "c1", "function": "pay", "arguments": {}}
    events = [
        {"event": "model", "uuid": "m", "timestamp": "2026-01-01T00:00:01Z", "completed": "2026-01-01T00:00:02Z"}
        | {"input": [{"role": "user", "content": "pay"}]}
        | {"output": {"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": [call]}}]}},
        {"event": "approval", "uuid": "a", "timestamp": "2026-01-01T00:00:03Z", "decision": "reject", "call": call},
        {"event": "tool", "uuid": "t", "timestamp": "2026-01-01T00:00:03Z", "completed": "2026-01-01T00:00:04Z"}
        | {"id": "c1", "function": "pay", "arguments": {}, "error": {"type": "approval", "message": "rejected"}},
    ]
    found = seen("inspect", {"samples": [{"uuid": "s", "events": events}], "eval": {}})
    decided = [event for event in found if isinstance(event, GateDecision)]
    assert [(event.action, event.attempt >= 0) for event in decided] == [("block", True)]


def test_a_step_that_asked_no_model_is_no_turn() -> None:
    call = {"tool_call_id": "c1", "function_name": "look", "arguments": {}}
    steps = [{"step_id": 1, "source": "agent", "message": "", "llm_call_count": 0, "tool_calls": [call]}]
    found = seen("atif", {"schema_version": "ATIF-v1.7", "session_id": "s", "steps": steps})
    assert [type(event) for event in found] == [ToolCall]


@pytest.mark.parametrize("form", ["flat-spans", "openinference", "auto"])
def test_a_span_alone_is_read_in_every_spelling(form: str) -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c"}
    python = {
        "context": {"trace_id": "0x01", "span_id": "0x02"},
        "parent_id": None,
        "start_time": "2026-01-01T00:00:00Z",
    }
    script = {"spanContext": {"traceId": "01", "spanId": "02"}, "startTime": [1767600000, 5]}
    for one in ({**python, "attributes": attributes}, {**script, "attributes": attributes}, attributes):
        assert [event.tool for event in seen(form, one) if isinstance(event, ToolCall)] == ["look"]


def test_a_result_whose_fields_are_a_number_is_no_crash() -> None:
    output = {"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": 5}
    run = {"id": "r", "name": "look", "run_type": "tool", "inputs": {}, "outputs": {"output": output}}
    assert [event.tool for event in seen("langsmith", run) if isinstance(event, ToolCall)] == ["look"]
