"""The session as each format would have recorded it: renderers by format name, each returning records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from tests.formats.session import MODEL, SESSION_ID, STEPS, SUB_RUN, Call, Step, time_of

Renderer = Callable[[], list[bytes]]


def lines(*values: Any) -> list[bytes]:
    return [json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values]


def iso(number: int) -> str:
    return datetime.fromtimestamp(time_of(number), UTC).isoformat().replace("+00:00", "Z")


def root_steps() -> Iterator[tuple[int, Step]]:
    """Yield the steps a format without sub-agents records: the sub-agent is a call and its result."""
    for number, step in enumerate(STEPS):
        if not step.run:
            yield number, step


def tool_use_blocks(step: Step) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": step.text}] if step.text else []
    return blocks + [{"type": "tool_use", "id": one.call_id, "name": one.tool, "input": one.args} for one in step.calls]


def native() -> list[bytes]:
    events: list[dict[str, Any]] = []
    for number, step in enumerate(STEPS):
        event: dict[str, Any] = {"session_id": SESSION_ID, "event_id": f"e{number}", "time": time_of(number)}
        if step.run:
            event["run_id"] = step.run
        if step.sort == "user":
            event |= {"kind": "user_message", "text": step.text}
        elif step.call is not None:
            event |= {"kind": "tool_result", "call_id": step.call.call_id, "output": step.text, "status": step.status}
        else:
            event |= {"kind": "turn", "response": {"content": tool_use_blocks(step)}}
        events.append(event)
    return lines(*events)


def cloudevents() -> list[bytes]:
    """Put each event into an envelope that says what the event then leaves out."""
    found = []
    for number, line in enumerate(native()):
        event = json.loads(line)
        envelope = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "agent.event"}
        envelope |= {"subject": event.pop("session_id"), "time": iso(number)}
        del event["event_id"], event["time"]
        found.append(envelope | {"data": event})
    return lines(*found)


def _openai_call(one: Call) -> dict[str, Any]:
    function = {"name": one.tool, "arguments": json.dumps(one.args)}
    return {"id": one.call_id, "type": "function", "function": function}


def openai_messages() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help customers."}]
    for _, step in root_steps():
        if step.sort == "user":
            messages.append({"role": "user", "content": step.text})
        elif step.call is not None:
            messages.append({"role": "tool", "tool_call_id": step.call.call_id, "content": step.text})
        else:
            calls = [_openai_call(one) for one in step.calls]
            messages.append(
                {"role": "assistant", "content": step.text or None} | ({"tool_calls": calls} if calls else {})
            )
    return messages


def openai_chat() -> list[bytes]:
    return lines({"session_id": SESSION_ID, "model": MODEL, "messages": openai_messages()})


def tau_bench() -> list[bytes]:
    return lines({"task_id": 17, "trial": 0, "reward": 1.0, "info": {}, "traj": openai_messages()})


def anthropic() -> list[bytes]:
    messages: list[dict[str, Any]] = []
    for _, step in root_steps():
        if step.sort == "user":
            messages.append({"role": "user", "content": step.text})
        elif step.call is None:
            messages.append({"role": "assistant", "content": tool_use_blocks(step)})
        else:
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": step.call.call_id, "content": step.text}
            if step.status != "ok":
                result |= {"is_error": True}
            if isinstance(messages[-1]["content"], list) and messages[-1]["role"] == "user":
                messages[-1]["content"].append(result)  # results of parallel calls come in one message
            else:
                messages.append({"role": "user", "content": [result]})
    return lines({"session_id": SESSION_ID, "model": MODEL, "messages": messages})


def claude_code() -> list[bytes]:
    """Write one line for each block, with thinking before it and usage on every line, as the program does."""
    found: list[dict[str, Any]] = [{"type": "summary", "summary": "Refund"}]
    for number, step in enumerate(STEPS):
        line: dict[str, Any] = {"sessionId": SESSION_ID, "timestamp": iso(number), "isSidechain": False}
        if step.sort == "user":
            messages: list[dict[str, Any]] = [{"role": "user", "content": step.text}]
        elif step.call is not None:
            text = (
                f"The user doesn't want to proceed with this tool use. {step.text}"
                if step.status == "blocked"
                else step.text
            )
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": step.call.call_id, "content": text}
            messages = [{"role": "user", "content": [result | ({"is_error": True} if step.status != "ok" else {})]}]
        else:
            shared = {"id": f"msg_{number}", "role": "assistant", "model": MODEL, "usage": {"output_tokens": 3}}
            blocks = [{"type": "thinking", "thinking": "Hm."}, *tool_use_blocks(step)]
            messages = [shared | {"content": [block]} for block in blocks]
        for part, message in enumerate(messages):
            inner = {"type": message["role"], "message": message, "uuid": f"u{number}.{part}", "timestamp": iso(number)}
            if step.run:
                data = {"type": "agent_progress", "agentId": step.run, "message": inner}
                found.append(line | {"type": "progress", "data": data, "uuid": f"p{number}.{part}"})
            else:
                found.append(line | inner)
    return lines(*found)


def agentdojo() -> list[bytes]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "content": "You help."}]}]
    for _, step in root_steps():
        content = [{"type": "text", "content": step.text}] if step.text else None
        if step.sort == "user":
            messages.append({"role": "user", "content": content})
        elif step.call is not None:
            call = {"function": step.call.tool, "args": step.call.args, "id": step.call.call_id}
            failed = step.text if step.status != "ok" else None
            result = {"role": "tool", "content": None if failed else content, "error": failed}
            messages.append(result | {"tool_call_id": step.call.call_id, "tool_call": call})
        else:
            calls = [{"function": one.tool, "args": one.args, "id": one.call_id} for one in step.calls]
            messages.append({"role": "assistant", "content": content, "tool_calls": calls or None})
    run = {"suite_name": "shop", "pipeline_name": MODEL, "user_task_id": "user_task_1", "injection_task_id": None}
    return lines(run | {"messages": messages, "security": True, "utility": True})


def tau2() -> list[bytes]:
    messages: list[dict[str, Any]] = []
    for number, step in root_steps():
        message: dict[str, Any] = {"timestamp": iso(number).removesuffix("Z"), "turn_idx": number}
        if step.call is not None:
            message |= {"role": "tool", "id": step.call.call_id, "content": step.text, "requestor": "assistant"}
            message["error"] = step.status != "ok"
        else:
            calls = [{"id": one.call_id, "name": one.tool, "arguments": one.args} for one in step.calls]
            role = "user" if step.sort == "user" else "assistant"
            message |= {"role": role, "content": step.text or None, "tool_calls": calls or None}
        messages.append(message)
    return lines({"id": SESSION_ID, "task_id": "17", "termination_reason": "user_stop", "messages": messages})


def langchain() -> list[bytes]:
    messages: list[dict[str, Any]] = [{"type": "system", "content": "You help."}]
    for number, step in enumerate(STEPS):
        if step.sort == "user":
            messages.append({"type": "human", "content": step.text, "id": f"m{number}"})
        elif step.call is not None:
            status = "error" if step.status != "ok" else "success"
            result = {"type": "tool", "content": step.text, "tool_call_id": step.call.call_id, "status": status}
            messages.append(result | {"name": step.call.tool})
        else:
            calls = [{"name": one.tool, "args": one.args, "id": one.call_id, "type": "tool_call"} for one in step.calls]
            provider = {"tool_calls": [_openai_call(one) for one in step.calls]} if step.calls else {}
            message = {"type": "ai", "content": step.text, "tool_calls": calls, "additional_kwargs": provider}
            messages.append(message | ({"name": SUB_RUN} if step.run else {}))
    return lines({"config": {"configurable": {"thread_id": SESSION_ID}}, "values": {"messages": messages}})


def steps() -> list[bytes]:
    found: list[dict[str, Any]] = []
    results = {step.call.call_id: step for step in STEPS if step.call is not None}
    task = ""
    for _, step in root_steps():
        if step.sort == "user":
            task = step.text
        elif step.sort == "turn":
            used = [
                {"id": one.call_id, "name": one.tool, "args": one.args, "result": results[one.call_id].text}
                | {"is_error": results[one.call_id].status != "ok"}
                for one in step.calls
            ]
            found.append({"text": step.text, "task": task, "tool_events": used, "error": False})
    return lines({"corpus": "shop", "episode_id": SESSION_ID, "steps": found})


def agentlog() -> list[bytes]:
    """Write envelopes: requests and responses that pair up, and what the tools did between them."""
    records: list[tuple[str, int, dict[str, Any]]] = [("metadata", 0, {"sdk": {"name": "shop"}})]
    messages: list[dict[str, Any]] = []
    for number, step in root_steps():
        if step.sort == "user":
            messages.append({"role": "user", "content": step.text})
        elif step.call is not None:
            failed = step.status != "ok"
            result = {"tool_call_id": step.call.call_id, "output": step.text, "is_error": failed}
            records.append(("tool_result", number, result))
            messages.append({"role": "tool", "tool_call_id": step.call.call_id, "content": step.text})
        else:
            records.append(("chat_request", number, {"model": MODEL, "messages": list(messages)}))
            records.append(("chat_response", number, {"model": MODEL, "content": tool_use_blocks(step)}))
    meta = {"trace_id": SESSION_ID}
    envelopes = []
    for place, (kind, number, payload) in enumerate(records):
        envelope = {"version": "0.1", "id": f"sha256:{place:064x}", "kind": kind, "ts": iso(number), "meta": meta}
        envelopes.append(envelope | {"payload": payload})
    return lines(*envelopes)


def text_protocol() -> list[bytes]:
    """Write calls into the text of the agent, and results as messages of the user's."""
    messages = []
    for _, step in root_steps():
        if step.sort == "user":
            messages.append({"role": "user", "content": step.text})
        elif step.call is not None:
            messages.append({"role": "user", "content": f"Observation: {step.text}"})
        else:
            actions = [f"Action: {json.dumps({'name': one.tool, 'arguments': one.args})}" for one in step.calls]
            messages.append(
                {"role": "assistant", "content": "\n".join([step.text, *actions] if step.text else actions)}
            )
    return lines({"session_id": SESSION_ID, "messages": messages})


RENDERERS: dict[str, Renderer] = {
    "agentdojo": agentdojo,
    "agentlog": agentlog,
    "anthropic": anthropic,
    "claude-code": claude_code,
    "cloudevents": cloudevents,
    "langchain": langchain,
    "native": native,
    "openai-chat": openai_chat,
    "steps": steps,
    "tau-bench": tau_bench,
    "tau2": tau2,
}
