"""Session files as programs leave them: resumed, branched, with lines of later versions, in two files, half written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.decoding.reader import EventReader, with_memory
from stream_guard.judge.ports import DecoderMemory
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings, Settings
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry(PluginSettings(allow=("formats",)))
TIME = "2026-01-05T08:00:00Z"


class Letters:
    """Keeps the reasons of dead letters."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def add(self, record: sg.Record, reason: str) -> None:
        del record
        self.reasons.append(reason)


def read(files: Mapping[str, Sequence[Any]], form: str = "auto") -> tuple[list[sg.Event], list[str]]:
    """Return the events of files, each event once, and the reasons of dead letters."""
    letters = Letters()
    reader = EventReader(REGISTRY.decoders[form].configure_among(Settings(), REGISTRY.decoders), letters)
    events: dict[tuple[str, str], sg.Event] = {}
    for name, lines in files.items():
        position = 0
        for number, line in enumerate(lines, 1):
            value = (line if isinstance(line, str) else json.dumps(line)).encode() + b"\n"
            for event in reader.read(sg.Record(value, name, position, number)):
                events.setdefault((event.session_id, event.event_id), event)
            position += len(value)
    for event in reader.finish():
        events.setdefault((event.session_id, event.event_id), event)
    return list(events.values()), letters.reasons


def calls(events: Sequence[sg.Event]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for event in events:
        if isinstance(event, sg.ToolCall):
            found.append((event.tool, event.args))
        elif isinstance(event, sg.Turn):
            found += [(one["name"], one["input"]) for one in event.response["content"] if one["type"] == "tool_use"]
    return found


def results(events: Sequence[sg.Event]) -> list[tuple[str, Any, str]]:
    return [(one.call_id, one.output, one.status) for one in events if isinstance(one, sg.ToolResult)]


def claude(session: str, uuid: str, role: str, content: Any, *, time: str = TIME, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content} | ({"id": "msg_1"} if role == "assistant" else {})
    return {"type": role, "sessionId": session, "uuid": uuid, "timestamp": time, "message": message} | more


USE = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]
NEXT = [{"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "pwd"}}]
ANSWER = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}]


def conversation(session: str, mark: str) -> list[dict[str, Any]]:
    return [
        claude(session, f"u{mark}", "user", "List the files."),
        claude(session, f"a{mark}", "assistant", USE),
        claude(session, f"r{mark}", "user", ANSWER),
    ]


def test_a_resumed_session_repeats_lines_under_new_uuids_and_they_count_once() -> None:
    lines = [*conversation("s", "1"), *conversation("s", "2"), claude("s", "a3", "assistant", NEXT)]
    events, dead = read({"s.jsonl": lines})
    assert calls(events) == [("Bash", {"command": "ls"}), ("Bash", {"command": "pwd"})]
    assert results(events) == [("toolu_1", "a.txt", "ok")]
    assert sum(isinstance(event, sg.UserMessage) for event in events) == 1
    assert not dead


def test_a_session_resumed_under_a_new_id_goes_on_in_the_session_that_it_copies() -> None:
    resumed = [*conversation("b", "2"), claude("b", "a3", "assistant", NEXT)]
    events, _ = read({"a.jsonl": conversation("a", "1"), "b.jsonl": resumed})
    assert calls(events) == [("Bash", {"command": "ls"}), ("Bash", {"command": "pwd"})]
    assert {(event.session_id, event.trace_id) for event in events} == {("a", ""), ("a", "b")}


def test_an_id_that_comes_again_with_another_command_hides_nothing() -> None:
    other = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "rm -rf /"}}]
    events, _ = read({"s.jsonl": [*conversation("s", "1"), claude("s", "a2", "assistant", other)]})
    assert calls(events) == [("Bash", {"command": "ls"}), ("Bash", {"command": "rm -rf /"})]


def test_which_session_goes_on_with_which_survives_a_restart() -> None:
    store = MemoryStore()
    memory = DecoderMemory(store)
    decoder = REGISTRY.decoders["claude-code"]().remember(memory)
    for place, line in enumerate([*conversation("a", "1"), *conversation("b", "2")]):
        decoder.decode(sg.Record(json.dumps(line).encode(), "all.jsonl", place))
    memory.flush()
    again = REGISTRY.decoders["claude-code"]().remember(DecoderMemory(store))
    [event] = again.decode(sg.Record(json.dumps(claude("b", "a3", "assistant", NEXT)).encode(), "all.jsonl", 99))
    assert (event.session_id, event.trace_id) == ("a", "b")


def test_two_sessions_that_share_no_line_stay_two() -> None:
    other = [claude("b", "x1", "user", "List the files.", time="2026-01-05T09:00:00Z")]
    events, _ = read({"a.jsonl": conversation("a", "1"), "b.jsonl": other})
    assert {event.session_id for event in events} == {"a", "b"}


def test_equal_texts_at_different_times_are_two() -> None:
    lines = [claude("s", f"u{n}", "user", "continue", time=f"2026-01-05T08:00:0{n}Z") for n in range(3)]
    assert len(read({"s.jsonl": lines})[0]) == 3


def test_a_sub_agent_in_a_file_of_its_own_and_in_progress_lines_counts_once() -> None:
    inner = claude("s", "a9", "assistant", USE)
    data = {"type": "agent_progress", "agentId": "agent-1", "message": inner}
    progress = {"type": "progress", "sessionId": "s", "uuid": "p1", "timestamp": TIME, "data": data}
    own = claude("s", "a9", "assistant", USE, isSidechain=True, agentId="agent-1") | {"uuid": "other"}
    events, _ = read({"s.jsonl": [progress], "s/subagents/agent-1.jsonl": [own]})
    assert calls(events) == [("Bash", {"command": "ls"})]
    assert {event.run_id for event in events} == {"agent-1"}


def test_what_stands_beside_claude_codes_sessions_is_no_dead_letter() -> None:
    index = {"version": 1, "entries": [{"sessionId": "s", "fullPath": "/p/s.jsonl", "summary": "x"}]}
    events, dead = read({"sessions-index.json": [index], "agent-1.meta.json": [{"agentType": "Explore"}]})
    assert (events, dead) == ([], [])


CODEX = [
    {"timestamp": TIME, "type": "session_meta", "payload": {"id": "s"}},
    {"timestamp": TIME, "type": "world_state", "payload": {"cwd": "/shop"}},
    {
        "timestamp": TIME,
        "type": "response_item",
        "payload": {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command": "ls"}'},
    },
    {"type": "brand_new", "what": 1},
    {"kind": "newer still"},
]


@pytest.mark.parametrize("form", ["auto", "codex-rollout"])
def test_lines_that_a_later_version_writes_are_skipped_and_counted(form: str, caplog: pytest.LogCaptureFixture) -> None:
    events, dead = read({"rollout.jsonl": CODEX}, form)
    assert calls(events) == [("shell", {"command": "ls"})]
    assert dead == []
    assert "world_state' 1" in caplog.text
    if form == "auto":
        assert "2 lines of a sort that is not known were skipped: 'brand_new' 1, 'without a type' 1" not in caplog.text
        assert "'brand_new' 1" in caplog.text


def test_a_line_that_is_no_json_stays_a_dead_letter_in_a_known_file() -> None:
    events, dead = read({"rollout.jsonl": [*CODEX[:3], '{"timestamp": "2026', CODEX[2]]})
    assert len(dead) == 1
    assert len(calls(events)) == 2


def test_a_line_that_is_certainly_of_another_format_is_read_as_that() -> None:
    native = {"kind": "tool_call", "session_id": "n", "event_id": "1", "tool": "refund", "args": {}}
    events, dead = read({"mixed.jsonl": [*CODEX[:3], native]})
    assert ("refund", {}) in calls(events)
    assert not dead


def test_an_unknown_line_of_a_topic_or_a_whole_file_stays_a_dead_letter() -> None:
    assert len(read({"x.jsonl": [{"what": "is this"}]})[1]) == 1


def pi(number: int, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    entry = {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": TIME}
    return entry | {"message": message} | more


def test_pi_knows_commands_of_a_person_branches_and_errors() -> None:
    call = {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}}
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    lines = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": TIME, "cwd": "/shop"},
        {"type": "model_change", "id": "m1", "parentId": None, "timestamp": TIME, "modelId": "large"},
        pi(1, {"role": "user", "content": [{"type": "text", "text": "List."}, image], "timestamp": 1767600000000}),
        pi(2, {"role": "bashExecution", "command": "rm -rf /", "output": "", "exitCode": 0}),
        pi(3, {"role": "assistant", "content": [call], "usage": {"input": 9, "output": 3, "cost": {"total": 0.5}}}),
        pi(4, {"role": "toolResult", "toolCallId": "t1", "toolName": "bash", "content": [], "isError": True}),
        {"type": "invented", "id": "z", "parentId": None, "timestamp": TIME},
    ]
    events, dead = read({"x.jsonl": lines})
    assert calls(events) == [("bash", {"command": "ls"})]
    assert results(events) == [("t1", "", "error")]
    [turn] = [event for event in events if isinstance(event, sg.Turn)]
    assert turn.response["usage"] == {"input_tokens": 9, "output_tokens": 3, "cost_usd": 0.5}
    assert turn.labels == {"model": "large"}
    assert {event.session_id for event in events} == {"s1"}
    assert not dead


def test_a_session_file_that_is_read_on_after_a_restart_stays_the_same_session() -> None:
    store = MemoryStore()
    memory = DecoderMemory(store)
    before = with_memory(REGISTRY.decoders["pi"](), memory)
    before.decode(sg.Record(b'{"type": "session", "id": "s1", "cwd": "/"}', "renamed.jsonl", 0, 1))
    memory.flush()
    after = with_memory(REGISTRY.decoders["pi"](), DecoderMemory(store))
    line = pi(1, {"role": "user", "content": "go on"})
    [event] = after.decode(sg.Record(json.dumps(line).encode(), "renamed.jsonl", 50, 2))
    assert event.session_id == "s1"


def copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "timestamp": TIME}


def test_copilot_may_leave_the_arguments_to_the_start_of_the_tool() -> None:
    asked = {"toolCallId": "c1", "name": "view", "type": "function"}
    lines = [
        copilot("session.start", sessionId="s1"),
        copilot("assistant.message", content="I look.", toolRequests=[asked]),
        copilot("tool.execution_start", toolCallId="c1", toolName="view", arguments={"path": "a"}),
        copilot("tool.execution_complete", toolCallId="c1", success=True, result="text"),
        copilot("tool.execution_start", toolCallId="c2", toolName="bash", arguments='{"command": "false"}'),
        copilot(
            "tool.execution_complete", toolCallId="c2", success=True, result={"content": "<exited with exit code 1>"}
        ),
        copilot("assistant.message_delta", deltaContent="x") | {"ephemeral": True},
    ]
    events, dead = read({"events.jsonl": lines})
    assert calls(events) == [("view", {"path": "a"}), ("bash", {"command": "false"})]
    assert [status for _, _, status in results(events)] == ["ok", "error"]
    assert not dead


def test_an_older_timeline_of_copilot_is_a_session() -> None:
    timeline = [
        {"type": "user", "text": "List.", "timestamp": TIME},
        {"type": "tool_call_requested", "callId": "c1", "name": "bash", "arguments": {"command": "ls"}},
        {
            "type": "tool_call_completed",
            "callId": "c1",
            "name": "bash",
            "arguments": {"command": "ls"},
            "result": {"type": "rejected", "log": "no"},
        },
        {"type": "copilot", "text": "Done."},
    ]
    events, _ = read({"session.json": [{"sessionId": "s1", "timeline": timeline, "chatMessages": []}]})
    assert calls(events) == [("bash", {"command": "ls"})]
    assert results(events) == [("c1", "no", "blocked")]


def wire(kind: str, payload: dict[str, Any], time: float = 1767600000.0) -> dict[str, Any]:
    return {"timestamp": time, "message": {"type": kind, "payload": payload}}


def test_kimis_two_files_of_a_session_tell_everything_once() -> None:
    function = {"name": "Shell", "arguments": '{"command": "ls"}'}
    call = {"type": "function", "id": "Shell:0", "function": function}
    context = [
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "List."},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "Shell:0", "content": "a.txt"},
    ]
    lines = [
        {"type": "metadata", "protocol_version": "1.6"},
        wire("TurnBegin", {"user_input": "List."}),
        wire("ContentPart", {"type": "think", "think": "Hm."}),
        wire("ContentPart", {"type": "text", "text": "I look."}),
        wire("ToolCall", call),
        wire("ToolResult", {"tool_call_id": "Shell:0", "return_value": {"is_error": False, "output": "a.txt"}}),
        wire("TurnBegin", {"user_input": "List."}),
        wire("Invented", {}),
    ]
    folder = "/home/me/.kimi/sessions/p/5f0c"
    events, dead = read({f"{folder}/context.jsonl": context, f"{folder}/wire.jsonl": lines})
    assert calls(events) == [("Shell", {"command": "ls"})]
    assert results(events) == [("Shell:0", "a.txt", "ok")]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["List.", "List."]
    assert {event.session_id for event in events} == {"5f0c"}
    assert not dead


@pytest.mark.parametrize("answered", [True, False])
def test_kimis_arguments_in_pieces_are_put_together(*, answered: bool) -> None:
    lines = [
        wire("ToolCall", {"id": "c1", "function": {"name": "Shell", "arguments": ""}}),
        wire("ToolCallPart", {"arguments_part": '{"command": '}),
        wire("ToolCallPart", {"arguments_part": '"ls"}'}),
        wire("ToolCall", {"id": "c2", "function": {"name": "Shell", "arguments": '{"comm'}}),
    ]
    result = wire("ToolResult", {"tool_call_id": "c2", "return_value": "ok"})
    events, _ = read({"s/wire.jsonl": [*lines, *([result] if answered else [])]})
    assert [tool for tool, _ in calls(events)] == ["Shell", "Shell"]
    assert calls(events)[0][1] == {"command": "ls"}


def test_kimis_later_wire_has_loop_events() -> None:
    def loop(**event: Any) -> dict[str, Any]:
        return {"type": "context.append_loop_event", "time": 1767600000000, "event": event}

    lines = [
        {"type": "metadata", "protocol_version": "1.4", "created_at": 1767600000000},
        {
            "type": "context.append_message",
            "time": 1767600000000,
            "message": {"role": "user", "content": [{"type": "text", "text": "List."}], "origin": {"kind": "user"}},
        },
        loop(type="tool.call", toolCallId="c1", name="Bash", args={"command": "ls"}),
        loop(type="tool.result", toolCallId="c1", result={"output": "no", "isError": True}),
    ]
    events, dead = read({"session_1/agents/main/wire.jsonl": lines})
    assert calls(events) == [("Bash", {"command": "ls"})]
    assert results(events) == [("c1", "no", "error")]
    assert {(event.session_id, event.time) for event in events} == {("session_1", 1767600000.0)}
    assert not dead


def test_the_files_of_kimis_agents_have_events_of_their_own() -> None:
    def call(number: int) -> list[dict[str, Any]]:
        return [wire("ToolCall", {"id": f"c{number}", "function": {"name": "Shell", "arguments": "{}"}})]

    files = {f"s/agents/{name}/wire.jsonl": call(at) for at, name in enumerate(("main", "agent-1", "agent-2"))}
    events, _ = read(files)
    assert [event.run_id for event in events] == ["", "agent-1", "agent-2"]
    assert {event.session_id for event in events} == {"s"}


def test_an_id_that_a_program_gives_again_is_another_call() -> None:
    call = wire("ToolCall", {"id": "Shell:0", "function": {"name": "Shell", "arguments": "{}"}})
    result = wire("ToolResult", {"tool_call_id": "Shell:0", "return_value": "ok"})
    events, _ = read({"s/wire.jsonl": [call, result, call, result]})
    assert len(calls(events)) == len(results(events)) == 2
    asked = {"toolCallId": "c", "name": "view", "arguments": {}}
    lines = [
        copilot("session.start", sessionId="s1"),
        copilot("assistant.message", content="", toolRequests=[asked]),
        copilot("tool.execution_start", toolCallId="c", toolName="view", arguments={}),
        copilot("tool.execution_complete", toolCallId="c", success=True),
        copilot("assistant.message", content="", toolRequests=[asked]),
        copilot("tool.execution_start", toolCallId="c", toolName="view", arguments={}),
    ]
    assert len(calls(read({"events.jsonl": lines})[0])) == 2
