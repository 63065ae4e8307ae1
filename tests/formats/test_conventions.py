"""What the conventions of telemetry call things, and what rules are shown of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import stream_guard as sg
from tests.formats.test_corpus import DECODERS
from tests.vectors.shown import show

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NAMED = {"gen_ai.conversation.id": "conv-1"}
Times = tuple[float, float]


def value(found: Any) -> dict[str, Any]:
    if isinstance(found, bool):
        return {"boolValue": found}
    if isinstance(found, int):
        return {"intValue": str(found)}
    if isinstance(found, float):
        return {"doubleValue": found}
    if isinstance(found, list):
        return {"arrayValue": {"values": [value(item) for item in found]}}
    if isinstance(found, dict):
        return {"kvlistValue": {"values": pairs(found)}}
    return {"stringValue": found}


def pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(found)} for name, found in attributes.items()]


def nanoseconds(time: float) -> str:
    return str(int((1_767_600_000 + time) * 1e9))


def span(number: int, parent: int, times: Times, attributes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    events = [{"name": name, "attributes": pairs(fields)} for name, fields in more.pop("events", ())]
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": more.pop("name", attributes.get("gen_ai.operation.name", "span")),
        "startTimeUnixNano": nanoseconds(times[0]),
        "endTimeUnixNano": nanoseconds(times[1]),
        "attributes": pairs(attributes),
        "events": events,
        **more,
    }


def log(name: str, time: float, attributes: Mapping[str, Any], *, number: int = 0, body: Any = None) -> dict[str, Any]:
    record: dict[str, Any] = {"timeUnixNano": nanoseconds(time), "attributes": pairs(attributes)}
    record |= {"body": value(body)} if body is not None else {}
    return record | ({"traceId": TRACE, "spanId": f"{number:016x}", "eventName": name} if number else {})


def export(spans: Sequence[Any] = (), logs: Sequence[Any] = ()) -> dict[str, Any]:
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]} if spans else {}
    return traces | ({"resourceLogs": [{"scopeLogs": [{"logRecords": list(logs)}]}]} if logs else {})


def shown(*records: Any, form: str = "otlp-json") -> list[sg.Event]:
    found = show(form, [json.dumps(record).encode() for record in records])
    assert not found.refused
    return list(found.events)


def of(kind: type[Any], events: Sequence[sg.Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def text(role: str, said: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": said}], **more}


def call(call_id: str, tool: str, args: Any) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "tool_call", "id": call_id, "name": tool, "arguments": args}]}


def chat(number: int, parent: int, times: Times, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    content = {"gen_ai.input.messages": json.dumps(before), "gen_ai.output.messages": json.dumps(after)}
    return span(number, parent, times, {**NAMED, "gen_ai.operation.name": "chat", **content, **more})


def test_of_several_choices_one_was_said_and_the_others_are_kept() -> None:
    answers = [text("assistant", "A.", finish_reason="stop"), text("assistant", "B.", finish_reason="length")]
    (turn,) = of(sg.Turn, shown(export([chat(1, 0, (1, 2), [text("user", "hi")], answers)])))
    assert (turn.text, turn.response["stop_reason"]) == ("A.", "stop")
    assert "B." in json.dumps(turn.response["choices"])


def test_an_agent_behind_a_service_is_a_turn_only_where_nothing_is_known_of_its_inside() -> None:
    remote = NAMED | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "billing",
        "gen_ai.agent.version": "3",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.output.messages": json.dumps([text("assistant", "Done.")]),
    }
    alone = span(1, 0, (0, 4), remote, kind=3)
    (turn,) = of(sg.Turn, shown(export([alone])))
    assert (turn.text, turn.agent, turn.response["usage"]) == ("Done.", "billing@3", {"input_tokens": 7})
    inside = chat(2, 1, (1, 2), [text("user", "hi")], [text("assistant", "yo")])
    (turn,) = of(sg.Turn, shown(export([inside, alone])))
    assert (turn.text, turn.agent) == ("yo", "billing@3")


A2A: dict[str, dict[str, Any]] = {
    "the operation and that it is far": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.remote": True},
    "the method, now": {"a2a.method.name": "SendMessage"},
    "the method, before": {"a2a.method.name": "message/stream"},
}


@pytest.mark.parametrize("how", A2A)
def test_work_given_to_an_agent_by_a2a_is_that_agents(how: str) -> None:
    kind: dict[str, Any] = {} if "gen_ai.agent.remote" in A2A[how] else {"kind": 3}
    asked = NAMED | A2A[how] | {"gen_ai.agent.name": "billing"}
    answered = asked | {"gen_ai.output.messages": json.dumps([text("assistant", "Done.")])}
    front = span(1, 0, (0, 9), NAMED | {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "front"})
    first = chat(2, 1, (1, 2), [text("user", "hi")], [text("assistant", "I ask billing.")])
    (_, turn) = of(sg.Turn, shown(export([first, span(3, 1, (3, 4), answered, **kind), front])))
    assert (turn.text, turn.agent, turn.agent_path) == ("Done.", "billing", ("front",))
    served = span(4, 3, (3.1, 3.9), asked, kind=2)
    inside = chat(5, 4, (3.2, 3.8), [text("user", "pay it")], [text("assistant", "paid")])
    events = shown(export([first, inside, served, span(3, 1, (3, 4), answered, **kind), front]))
    assert [(turn.text, turn.agent) for turn in of(sg.Turn, events)] == [
        ("I ask billing.", "front"),
        ("paid", "billing"),
    ]
    assert [message.text for message in of(sg.UserMessage, events)] == ["hi"]


def test_asking_by_a2a_how_a_task_goes_is_nothing_an_agent_did() -> None:
    asked = NAMED | {"a2a.method.name": "GetTask", "gen_ai.agent.name": "billing"}
    assert shown(export([span(1, 0, (0, 1), asked, kind=3)])) == []


GUARDS = {
    "a guardrail inside the tool's span": {
        "gen_ai.operation.name": "apply_guardrail",
        "gen_ai.guardrail.name": "pii",
        "gen_ai.security.decision.type": "deny",
    },
    "a guardrail of OpenInference": {"openinference.span.kind": "GUARDRAIL", "output.value": "BLOCKED"},
}


@pytest.mark.parametrize("guard", GUARDS)
def test_what_another_guard_denied_is_known_and_that_it_ran_all_the_same_too(guard: str) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "c1"}
    asked = chat(2, 0, (1, 2), [text("user", "pay")], [call("c1", "pay", {"eur": 5})])
    said = span(4, 3, (3.1, 3.2), GUARDS[guard])
    for more, status in (({"status": {"code": 2}}, "blocked"), ({}, "ok")):
        events = shown(export([asked, said, span(3, 2, (3, 4), tool, **more)]))
        (decision,), (result,), (attempt,) = (
            of(kind, events) for kind in (sg.GateDecision, sg.ToolResult, sg.ToolCall)
        )
        assert (decision.action, decision.attempt, result.status) == ("block", attempt.attempt, status)


def test_an_evaluation_is_a_decision_that_stops_nothing_whenever_it_comes() -> None:
    answer = export([chat(1, 0, (1, 2), [text("user", "hi")], [text("assistant", "Go away.")])])
    score = {"gen_ai.evaluation.name": "Toxicity", "gen_ai.evaluation.score.label": "fail", **NAMED}
    events = shown(answer, export(logs=[log("gen_ai.evaluation.result", 3, score, number=1)]))
    (decision,) = of(sg.GateDecision, events)
    assert (decision.action, decision.rule_ids, decision.labels["result"]) == ("allow", ("Toxicity",), "fail")
    assert len(of(sg.Turn, events)) == 1


def test_an_exception_in_a_log_record_is_a_turn_that_failed() -> None:
    asked = span(
        1,
        0,
        (1, 2),
        NAMED | {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([text("user", "hi")])},
    )
    failure = log("gen_ai.client.operation.exception", 1.9, {"exception.message": "slow"}, number=1)
    (turn,) = of(sg.Turn, shown(export([asked], [failure])))
    assert (turn.response["stop_reason"], turn.response["error"]) == ("error", "slow")


def test_content_that_comes_long_after_its_span_gives_no_second_turn() -> None:
    bare = NAMED | {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}
    other = span(9, 0, (100, 101), {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "o"}) | {
        "traceId": "b" * 32
    }
    content = bare | {
        "gen_ai.input.messages": [text("user", "hi")],
        "gen_ai.output.messages": [call("c1", "pay", {"eur": 5})],
    }
    late = log("gen_ai.client.inference.operation.details", 2, content, number=1)
    events = shown(export([span(1, 0, (1, 2), bare)]), export([other]), export(logs=[late]))
    ours = [event for event in events if event.session_id == "conv-1"]
    assert [type(event) for event in ours] == [sg.Turn, sg.UserMessage, sg.ToolCall]


def test_mcp_requests_that_keep_the_connection_are_no_calls() -> None:
    uri = {"mcp.method.name": "resources/read", "mcp.resource.uri": "file:///etc/passwd"}
    spans = [
        span(2, 1, (1, 2), {"mcp.method.name": "tools/list"}, kind=3),
        span(3, 1, (2, 3), uri, kind=3),
        span(4, 3, (2.1, 2.9), uri, kind=2),
        span(5, 1, (3, 4), {"mcp.method.name": "initialize"}, kind=3),
        span(1, 0, (0, 9), NAMED),
    ]
    (attempt,) = of(sg.ToolCall, shown(export(spans)))
    assert (attempt.tool, attempt.args) == ("resources/read", {"uri": "file:///etc/passwd"})


def test_embeddings_plans_and_the_creation_of_agents_are_no_turns() -> None:
    quiet = [
        span(n, 1, (1, 2), {"gen_ai.operation.name": name})
        for n, name in ((2, "embeddings"), (3, "plan"), (4, "create_agent"))
    ]
    (turn,) = of(sg.Turn, shown(export([*quiet, chat(5, 3, (2, 3), [text("user", "hi")], [text("assistant", "yo")])])))
    assert turn.text == "yo"


def test_strands_keeps_messages_in_events_of_its_spans() -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Paris"}}}
    outcome = {"toolResult": {"toolUseId": "t1", "status": "error", "content": [{"text": "boom"}]}}
    asked = ("gen_ai.user.message", {"content": json.dumps([{"text": "Weather?"}])})
    first = ("gen_ai.choice", {"finish_reason": "tool_use", "message": json.dumps([{"text": "Let me."}, use])})
    told = ("gen_ai.assistant.message", {"content": json.dumps([{"text": "Let me."}, use])})
    failed = ("gen_ai.tool.message", {"content": json.dumps([outcome])})
    last = ("gen_ai.choice", {"finish_reason": "end_turn", "message": json.dumps([{"text": "It failed."}])})
    model = NAMED | {"gen_ai.operation.name": "chat"}
    spans = [
        span(2, 0, (1, 2), model, events=[asked, first]),
        span(3, 0, (5, 6), model, events=[asked, told, failed, last]),
    ]
    events = shown(export(spans))
    assert [turn.text for turn in of(sg.Turn, events)] == ["Let me.", "It failed."]
    assert [result.status for result in of(sg.ToolResult, events)] == ["error"]
    assert len(of(sg.UserMessage, events)) == 1


def test_adk_names_no_operation() -> None:
    asked = {"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}]}
    call_part = {"function_call": {"id": "adk-1", "name": "get_weather", "args": {"city": "Paris"}}}
    model = {
        "gcp.vertex.agent.session_id": "adk-s",
        "gcp.vertex.agent.llm_request": json.dumps(asked),
        "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [call_part]}}),
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "adk-1",
        "gcp.vertex.agent.tool_call_args": '{"city":"Paris"}',
        "gcp.vertex.agent.tool_response": '{"result":"rain"}',
    }
    events = shown(export([span(2, 0, (1, 2), model, name="call_llm"), span(3, 2, (1.5, 1.9), tool)]))
    assert [(one.tool, one.args) for one in of(sg.ToolCall, events)] == [("get_weather", {"city": "Paris"})]
    assert {event.session_id for event in events} == {"adk-s"}
    assert len(of(sg.Turn, events)) == 1


def test_claude_code_tells_of_a_refused_call_in_spans_or_in_log_records() -> None:
    named = {"session.id": "s", "tool_name": "Bash", "tool_use_id": "t1"}
    refused = {"decision": "reject", "source": "user_reject"}
    spans = [
        span(4, 3, (2.1, 2.2), {"session.id": "s", "span.type": "tool.blocked_on_user", **refused}),
        span(3, 1, (2.1, 2.3), {**named, "span.type": "tool", "full_command": "rm -rf /"}),
        span(1, 0, (0, 9), {"session.id": "s", "span.type": "interaction", "user_prompt": "<REDACTED>"}),
    ]
    record = log("", 2.1, {"event.name": "tool_decision", **named, **refused}, body="claude_code.tool_decision")
    for records in ([export(spans)], [export(logs=[record])], [export(logs=[record]), export(spans)]):
        events = shown(*records)
        (attempt,), (decision,) = of(sg.ToolCall, events), of(sg.GateDecision, events)
        assert (attempt.tool, decision.action, decision.attempt) == ("Bash", "block", attempt.attempt)
        assert {result.status for result in of(sg.ToolResult, events)} <= {"blocked"}


def test_equal_prompts_in_claude_codes_log_are_two_and_its_spans_tell_them_again() -> None:
    def prompt(number: int) -> dict[str, Any]:
        fields = {"event.name": "user_prompt", "session.id": "s", "prompt.id": f"p{number}", "prompt": "go on"}
        return log("", number, fields, body="claude_code.user_prompt")

    spans = [
        span(n, 0, (n, n + 0.5), {"session.id": "s", "span.type": "interaction", "user_prompt": "go on"})
        for n in (1, 2)
    ]
    for records in (
        [export(logs=[prompt(1), prompt(2)]), export(spans)],
        [export(spans), export(logs=[prompt(1), prompt(2)])],
    ):
        assert len(of(sg.UserMessage, shown(*records))) == 2


def test_langfuse_has_retrievers_guardrails_and_costs() -> None:
    def observation(kind: str, start: int, **more: Any) -> dict[str, Any]:
        times = {"startTime": f"2026-01-05T08:00:0{start}Z", "endTime": f"2026-01-05T08:00:0{start + 1}Z"}
        return {"id": kind, "type": kind, "name": "x", **times, **more}

    observations = [
        observation("RETRIEVER", 0, input="refund", output=["Refunds within 30 days"]),
        observation("GUARDRAIL", 1, output={"triggered": True}),
        observation(
            "GENERATION",
            2,
            input=[{"role": "user", "content": "hi"}],
            output={"role": "assistant", "content": "30 days"},
            usageDetails={"input": 6},
            costDetails={"input": 0.1, "total": 0.3},
        ),
    ]
    events = shown({"trace": {"id": "t"}, "observations": observations}, form="langfuse")
    (turn,), (decision,) = of(sg.Turn, events), of(sg.GateDecision, events)
    assert turn.request == {"retrieved": ["Refunds within 30 days"]}
    assert turn.response["usage"] == {"input_tokens": 6, "cost_usd": 0.3}
    assert decision.action == "block"


def test_must_be_grounded_reads_what_a_span_retrieved() -> None:
    rules = [
        {"id": "grounded", "kind": "must_be_grounded", "params": {"retrieval_path": "request.retrieved"}},
    ]
    found = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.documents": json.dumps([{"content": "Thirty days."}]),
        **NAMED,
    }
    for said, fired in (("Thirty days.", frozenset()), ("Never ever.", frozenset({"grounded"}))):
        answer = chat(3, 0, (3, 4), [text("user", "How long?")], [text("assistant", said)])
        record = json.dumps(export([span(2, 0, (1, 2), found), answer])).encode()
        assert show("otlp-json", [record], rules).fired == fired


def test_chunks_of_a_langchain_answer_are_one_turn_with_its_calls() -> None:
    chunks = [
        {
            "type": "AIMessageChunk",
            "id": "r",
            "content": "Pay",
            "tool_call_chunks": [{"index": 0, "id": "c", "name": "pay", "args": '{"eur"'}],
        },
        {"type": "AIMessageChunk", "id": "r", "content": "ing", "tool_call_chunks": [{"index": 0, "args": ": 5}"}]},
        {"type": "AIMessageChunk", "id": "r", "content": "", "usage_metadata": {"input_tokens": 5}},
    ]
    events = shown({"thread_id": "t", "messages": chunks}, form="langchain")
    (turn,), (attempt,) = of(sg.Turn, events), of(sg.ToolCall, events)
    assert (turn.text, turn.response["usage"]) == ("Paying", {"input_tokens": 5})
    assert (attempt.call_id, attempt.args) == ("c", {"eur": 5})


def test_rows_of_the_last_version_are_read() -> None:
    row = b'["s",5.0,"svc",[["t","a","","n",1.0,2.0,{"x":1},false,[]]],[],{"b":["","llm","chat",true]}]'
    assert "otlp-json" in DECODERS
    from stream_guard_formats.spans.stitching import decode_trace  # the row's type is the plugin's own

    trace = decode_trace(row)  # what is stored is a promise
    assert (trace.spans[0].kind, trace.read["b"].call_id) == ("", "")
