"""Spans as Koog, BeeAI and Agno write them: every call once, with its arguments and what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stream_guard as sg
from tests.formats.test_conventions import NAMED, export, of, shown, span

CITIES = ("Paris", "Rome")


def calls(events: list[sg.Event]) -> list[tuple[str, Any]]:
    return [(event.tool, event.args) for event in of(sg.ToolCall, events)]


def results(events: list[sg.Event]) -> list[tuple[str, Any, str]]:
    return [(event.tool, event.output, event.status) for event in of(sg.ToolResult, events)]


def body(**fields: Any) -> dict[str, Any]:
    return {"gen_ai.system": "openai", "body": json.dumps(fields)}


def asked_for(city: str, number: int) -> dict[str, Any]:
    function = {"name": "weather", "arguments": json.dumps({"city": city})}
    return {"id": f"call_{number}", "type": "function", "function": function}


@pytest.mark.parametrize("names_operations", [True, False])
def test_koog_writes_each_call_of_an_answer_as_a_choice_with_a_body(*, names_operations: bool) -> None:
    model = NAMED | {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.system": "openai"}
    asked = ("gen_ai.user.message", body(content="Weather?"))
    choices = [
        ("gen_ai.choice", body(index=number, role="tool", tool_calls=[asked_for(city, number)]))
        for number, city in enumerate(CITIES)
    ]
    answered = [("gen_ai.tool.message", body(id=f"call_{n}", content=f"sun in {c}")) for n, c in enumerate(CITIES)]
    last = ("gen_ai.choice", body(index=0, finish_reason="stop", message={"content": "Sun."}))
    operation = {"gen_ai.operation.name": "execute_tool"} if names_operations else {}
    tools = [
        span(
            10 + number,
            5,
            (3 + number, 3.5 + number),
            NAMED
            | operation
            | {"gen_ai.tool.name": "weather", "gen_ai.tool.call.id": f"call_{number}"}
            | {"input.value": json.dumps({"city": city}), "output.value": f"sun in {city}"},
            name="execute_tool weather",
        )
        for number, city in enumerate(CITIES)
    ]
    spans = [
        span(1, 0, (0, 20), NAMED | {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "a1"}),
        span(5, 1, (1, 10), NAMED | {"koog.node.name": "call"}),
        span(6, 5, (1, 2), model, events=[asked, *choices]),
        *tools,
        span(7, 5, (8, 9), model, events=[asked, *answered, last]),
    ]
    events = shown(export(spans))
    assert calls(events) == [("weather", {"city": city}) for city in CITIES]
    assert results(events) == [("weather", f"sun in {city}", "ok") for city in CITIES]
    assert [turn.text for turn in of(sg.Turn, events)] == ["", "Sun."]
    assert [message.text for message in of(sg.UserMessage, events)] == ["Weather?"]


def test_koog_hides_content_unless_it_is_told_not_to() -> None:
    hidden = NAMED | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
    events = shown(export([span(2, 0, (1, 2), hidden | {"gen_ai.tool.call.arguments": "HIDDEN:non-empty"})]))
    assert [(call.tool, call.captured) for call in of(sg.ToolCall, events)] == [("weather", False)]


def beeai_message(prefix: str, number: int, **fields: Any) -> dict[str, Any]:
    return {f"llm.{prefix}_messages.{number}.message.{name}": found for name, found in fields.items()}


def test_beeai_has_the_results_of_all_calls_in_one_message() -> None:
    question: dict[str, Any] = beeai_message("input", 0, role="user") | {
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "Weather?",
    }
    answer: dict[str, Any] = {}
    outcome: dict[str, Any] = {}
    for number, city in enumerate(CITIES):
        at = f"message.tool_calls.{number}.tool_call"
        for prefix, place in (("output", 0), ("input", 1)):
            answer |= {
                f"llm.{prefix}_messages.{place}.message.role": "assistant",
                f"llm.{prefix}_messages.{place}.{at}.id": f"call_{number}",
                f"llm.{prefix}_messages.{place}.{at}.function.name": "OpenMeteoTool",
                f"llm.{prefix}_messages.{place}.{at}.function.arguments": json.dumps({"location": city}),
            }
        part = f"llm.input_messages.2.message.contents.{number}"
        outcome |= {
            "llm.input_messages.2.message.role": "tool",
            f"{part}.message.tool_call_id": f"call_{number}",
            f"{part}.message_content.type": "text",
            f"{part}.message_content.text": f"sun in {city}",
        }
    llm = {"openinference.span.kind": "LLM", "llm.model_name": "granite", "session.id": "s1"}
    first = {name: found for name, found in answer.items() if "output" in name}
    again = {name: found for name, found in answer.items() if "input" in name}
    last = beeai_message("output", 0, role="assistant") | {
        "llm.output_messages.0.message.contents.0.message_content.text": "Sun.",
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
    }
    tools = [
        span(
            10 + number,
            1,
            (3 + number, 3.5 + number),
            {
                "openinference.span.kind": "TOOL",
                "tool.name": "OpenMeteoTool",
                "session.id": "s1",
                "metadata.class_name": "OpenMeteoTool",
                "input.value": json.dumps({"input": {"location": city}, "options": {"retry_options": None}}),
                "output.value": f"sun in {city}",
            },
        )
        for number, city in enumerate(CITIES)
    ]
    steps = [span(20, 10, (3.1, 3.2), {"openinference.span.kind": "UNKNOWN", "session.id": "s1"}, name="success")]
    spans = [
        span(1, 0, (0, 20), {"openinference.span.kind": "AGENT", "session.id": "s1"}, name="RequirementAgent"),
        span(2, 1, (1, 2), llm | question | first),
        *tools,
        *steps,
        span(3, 1, (8, 9), llm | question | again | outcome | last),
    ]
    events = shown(export(spans))
    assert calls(events) == [("OpenMeteoTool", {"location": city}) for city in CITIES]
    assert results(events) == [("OpenMeteoTool", f"sun in {city}", "ok") for city in CITIES]


@pytest.mark.parametrize("written", ["whole", "chunks", "nothing"])
def test_agno_has_the_answer_in_one_value_and_the_arguments_in_another(written: str) -> None:
    answer = {"role": "assistant", "content": None, "tool_calls": [asked_for("Paris", 1)]}
    value = {"whole": json.dumps(answer), "chunks": json.dumps([json.dumps(answer), "{}"]), "nothing": ""}[written]
    llm = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "session.id": "s1"}
    question = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Weather?"}
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "weather",
        "session.id": "s1",
        "input.value": "{}",
        "tool.parameters": json.dumps({"city": "Paris"}),
        "output.value": "sun in Paris",
    }
    spans = [
        span(1, 0, (0, 9), {"openinference.span.kind": "AGENT", "session.id": "s1"}, name="Agent.run"),
        span(2, 1, (1, 2), llm | question | {"output.value": value}),
        span(3, 1, (3, 4), tool, name="weather"),
    ]
    events = shown(export(spans))
    assert calls(events) == [("weather", {"city": "Paris"})]
    assert results(events) == [("weather", "sun in Paris", "ok")]


def test_agnos_address_of_an_object_is_no_id_of_a_call() -> None:
    model = NAMED | {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}
    output = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "weather"}]}]
    output[0]["parts"][0]["arguments"] = {"city": "Paris"}  # type: ignore[index]
    tool = NAMED | {
        "gen_ai.system": "agno",
        "gen_ai.operation.name": "weather",
        "traceloop.span.kind": "tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "140234567890",
        "traceloop.entity.input": json.dumps({"city": "Paris"}),
        "traceloop.entity.output": "sun",
    }
    spans = [
        span(2, 0, (1, 2), model | {"gen_ai.output.messages": json.dumps(output)}),
        span(3, 0, (3, 4), tool, name="weather.tool", status={"code": 2, "message": "no network"}),
    ]
    events = shown(export(spans))
    assert calls(events) == [("weather", {"city": "Paris"})]
    assert [status for _, _, status in results(events)] == ["error"]
