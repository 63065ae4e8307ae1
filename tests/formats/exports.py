"""The session as programs and platforms export it: session files, calls of an API, runs, trajectories, single spans."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.renderings import Renderer, iso, lines, root_steps, tool_use_blocks
from tests.formats.session import ASK, MODEL, SESSION_ID, STEPS, SUB_RUN, Call, Step
from tests.formats.telemetry import TRACE, current, sketches

REFUSED = "exec command rejected by user: "


def _item(step: Step, one: Call) -> dict[str, Any]:
    return {"type": "function_call", "call_id": one.call_id, "name": one.tool, "arguments": json.dumps(one.args)}


def codex_rollout() -> list[bytes]:
    """Write items and events side by side, as the program does; a sub-agent would have a file of its own."""
    found: list[tuple[int, str, dict[str, Any]]] = [(0, "session_meta", {"id": SESSION_ID, "cwd": "shop"})]
    found.append((0, "turn_context", {"model": MODEL}))
    for number, step in root_steps():
        if step.sort == "user":
            content = [{"type": "input_text", "text": step.text}]
            found.append((number, "response_item", {"type": "message", "role": "user", "content": content}))
            found.append((number, "event_msg", {"type": "user_message", "message": step.text}))
        elif step.call is not None:
            output = REFUSED + step.text if step.status == "blocked" else step.text
            if step.status == "error":
                output = json.dumps({"output": step.text, "metadata": {"exit_code": 1}})
            result = {"type": "function_call_output", "call_id": step.call.call_id, "output": output}
            found.append((number, "response_item", result))
        else:
            if step.text:
                content = [{"type": "output_text", "text": step.text}]
                found.append((number, "event_msg", {"type": "agent_message", "message": step.text}))
                found.append((number, "response_item", {"type": "message", "role": "assistant", "content": content}))
            found += [(number, "response_item", _item(step, one)) for one in step.calls]
    return lines(*({"timestamp": iso(number), "type": kind, "payload": body} for number, kind, body in found))


def openai_responses() -> list[bytes]:
    """Write a request with its response for each turn; what came before stays at the provider."""
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for _, step in root_steps():
        if step.sort == "user":
            waiting.append({"role": "user", "content": step.text})
        elif step.call is not None:
            waiting.append({"type": "function_call_output", "call_id": step.call.call_id, "output": step.text})
        else:
            content = [{"type": "output_text", "text": step.text}]
            said = [{"type": "message", "role": "assistant", "content": content}] if step.text else []
            response: dict[str, Any] = {
                "id": f"resp_{len(found)}",
                "object": "response",
                "status": "completed",
                "model": MODEL,
            }
            response |= {"output": [*said, *(_item(step, one) for one in step.calls)]}
            request = {"model": MODEL, "conversation": SESSION_ID, "input": waiting}
            found.append({"request": request, "response": response})
            waiting = []
    return lines(*found)


def claude_stream_json() -> list[bytes]:
    found: list[dict[str, Any]] = [{"type": "system", "subtype": "init", "session_id": SESSION_ID, "uuid": "s"}]
    for number, step in enumerate(STEPS):
        line: dict[str, Any] = {"session_id": SESSION_ID, "parent_tool_use_id": step.run or None, "uuid": f"u{number}"}
        if step.sort == "user":
            found.append(line | {"type": "user", "message": {"role": "user", "content": step.text}})
        elif step.call is not None:
            words = "The user doesn't want to proceed with this tool use. " if step.status == "blocked" else ""
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": step.call.call_id}
            result |= {"content": words + step.text}
            result |= {"is_error": step.status != "ok"}
            found.append(line | {"type": "user", "message": {"role": "user", "content": [result]}})
        else:
            message = {"id": f"msg_{number}", "role": "assistant", "model": MODEL, "content": tool_use_blocks(step)}
            delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": step.text}}
            found.append(line | {"type": "stream_event", "event": delta, "uuid": f"e{number}"})
            found.append(line | {"type": "assistant", "message": message})
    found.append({"type": "result", "subtype": "success", "session_id": SESSION_ID, "result": STEPS[-1].text})
    return lines(*found)


def _constructor(step: Step) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"content": step.text}
    name = "HumanMessage"
    if step.call is not None:
        name = "ToolMessage"
        kwargs |= {"tool_call_id": step.call.call_id, "name": step.call.tool}
        kwargs |= {"status": "success" if step.status == "ok" else "error"}
    elif step.sort == "turn":
        name = "AIMessage"
        kwargs |= {"tool_calls": [{"name": one.tool, "args": one.args, "id": one.call_id} for one in step.calls]}
        kwargs |= {"response_metadata": {"model_name": MODEL}}
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}


def langsmith() -> list[bytes]:
    """Write the runs as a list, each under its parent's id."""
    runs = []
    for one in sketches():
        run: dict[str, Any] = {"id": one.span_id, "trace_id": TRACE, "parent_run_id": one.parent or None}
        run |= {"name": one.name, "start_time": iso(one.start), "end_time": iso(one.end), "run_type": "chain"}
        metadata = {"thread_id": SESSION_ID} | ({"lc_agent_name": one.name} if one.sort == "AGENT" else {})
        run |= {"session_id": "a project", "extra": {"metadata": metadata}, "inputs": {}, "outputs": None}
        if one.sort == "LLM" and one.step is not None:
            answer = {"text": one.step.text, "message": _constructor(one.step)}
            run |= {"run_type": "llm", "inputs": {"messages": [[_constructor(step) for step in one.history]]}}
            run |= {"outputs": {"generations": [[answer]]}}
        elif one.step is not None and one.step.call is not None:
            run |= {"run_type": "tool", "inputs": {"input": repr(one.step.call.args)}}
            run |= {"outputs": {"output": _constructor(one.step)}}
        runs.append(run)
    return lines(runs)


def _chat(step: Step) -> dict[str, Any]:
    if step.sort == "user":
        return {"role": "user", "content": step.text}
    if step.call is not None:
        error = {"error": {"type": "unknown", "message": step.text}} if step.status != "ok" else {}
        called = {"tool_call_id": step.call.call_id, "function": step.call.tool}
        return {"role": "tool", "content": step.text, **called, **error}
    calls = [{"id": one.call_id, "function": one.tool, "arguments": one.args} for one in step.calls]
    return {"role": "assistant", "content": step.text, "tool_calls": calls}


def inspect_log() -> list[bytes]:
    events: list[dict[str, Any]] = []
    for one in sketches():
        event: dict[str, Any] = {"uuid": one.span_id, "timestamp": iso(one.start), "completed": iso(one.end)}
        if one.sort == "AGENT":
            event = {"event": "span_begin", "id": one.span_id, "parent_id": one.parent or None, "name": one.name}
            event |= {"type": "agent", "timestamp": iso(one.start)}
        elif one.sort == "LLM" and one.step is not None:
            output = {"model": MODEL, "choices": [{"message": _chat(one.step), "stop_reason": "stop"}]}
            event |= {"event": "model", "span_id": one.parent, "input": [_chat(step) for step in one.history]}
            event |= {"output": output}
        elif one.step is not None and one.step.call is not None:
            call = one.step.call
            event |= {"event": "tool", "span_id": one.parent, "id": call.call_id, "function": call.tool}
            event |= {"arguments": call.args, "result": one.step.text}
            event |= {"error": {"message": one.step.text}} if one.step.status != "ok" else {}
        events.append(event)
    sample = {"id": 1, "epoch": 1, "uuid": SESSION_ID, "events": events}
    return lines({"version": 2, "eval": {"eval_id": "e"}, "samples": [sample]})


def _trajectory(run: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for number, step in enumerate(STEPS):
        if step.run != run:
            continue
        if step.call is not None:
            result: dict[str, Any] = {"source_call_id": step.call.call_id, "content": step.text}
            if step.call is ASK:
                result["subagent_trajectory_ref"] = [{"trajectory_id": SUB_RUN}]
            steps[-1].setdefault("observation", {"results": []})["results"].append(result)
            continue
        source = "user" if step.sort == "user" else "agent"
        made: dict[str, Any] = {
            "step_id": len(steps) + 1,
            "timestamp": iso(number),
            "source": source,
            "message": step.text,
        }
        if step.calls:
            made["tool_calls"] = [
                {"tool_call_id": one.call_id, "function_name": one.tool, "arguments": one.args} for one in step.calls
            ]
        steps.append(made)
    return steps


def atif() -> list[bytes]:
    inner = {"schema_version": "ATIF-v1.7", "trajectory_id": SUB_RUN, "agent": {"name": SUB_RUN, "version": "1"}}
    outer = {"schema_version": "ATIF-v1.7", "session_id": SESSION_ID, "agent": {"name": "helper", "version": "1"}}
    return lines(outer | {"steps": _trajectory(""), "subagent_trajectories": [inner | {"steps": _trajectory(SUB_RUN)}]})


def flat_spans() -> list[bytes]:
    """Write the spans as the console exporter of the Python SDK prints them, in one list."""
    spans = []
    for one in sketches():
        span: dict[str, Any] = {"name": one.name, "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{one.span_id}"}}
        span |= {"parent_id": f"0x{one.parent}" if one.parent else None, "attributes": current(one)}
        failed = one.step is not None and one.step.status != "ok"
        span |= {"start_time": iso(one.start), "end_time": iso(one.end)}
        spans.append(span | {"status": {"status_code": "ERROR" if failed else "UNSET"}})
    return lines(spans)


RENDERERS: dict[str, Renderer] = {
    "atif": atif,
    "claude-stream-json": claude_stream_json,
    "codex-rollout": codex_rollout,
    "flat-spans": flat_spans,
    "inspect": inspect_log,
    "langsmith": langsmith,
    "openai-responses": openai_responses,
}
