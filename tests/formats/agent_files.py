"""The session as coding agents and benchmarks keep it: session files, event streams, trajectories, chats."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.renderings import Renderer, iso, lines, openai_messages, root_steps
from tests.formats.session import ASK, MODEL, SESSION_ID, STEPS, Step, time_of

REJECTED = "The tool call is rejected by the user. "


def openhands() -> list[bytes]:
    """Write a run as one record; each call is an action, and repeats the whole answer of the model."""
    events: list[dict[str, Any]] = []
    actions: dict[str, int] = {}

    def add(number: int, source: str, **fields: Any) -> int:
        events.append({"id": len(events), "timestamp": iso(number).removesuffix("Z"), "source": source} | fields)
        return len(events) - 1

    for number, step in root_steps():
        if step.sort == "user":
            add(number, "user", action="message", args={"content": step.text})
            cause = add(number, "user", action="recall", args={"query": step.text})
            add(number, "environment", observation="recall", cause=cause, content="nothing", extras={})
        elif step.call is not None:
            observed = {"ok": "run", "error": "error", "blocked": "user_rejected"}[step.status]
            cause = actions[step.call.call_id]
            add(number, "agent", observation=observed, cause=cause, content=step.text, extras={})
        elif not step.calls:
            add(number, "agent", action="message", args={"content": step.text})
        else:
            for one in step.calls:
                called = {"function_name": one.tool, "tool_call_id": one.call_id, "model_response": _completion(step)}
                actions[one.call_id] = add(
                    number, "agent", action="run", args={"thought": step.text}, tool_call_metadata=called
                )
    return lines({"session_id": SESSION_ID, "instance_id": "shop-17", "history": events})


def _completion(step: Step) -> dict[str, Any]:
    calls = [
        {"id": one.call_id, "type": "function", "function": {"name": one.tool, "arguments": json.dumps(one.args)}}
        for one in step.calls
    ]
    message = {"role": "assistant", "content": step.text or None, "tool_calls": calls}
    answer = {"id": f"chatcmpl-{step.calls[0].call_id}", "model": MODEL, "usage": {"prompt_tokens": 9}}
    return answer | {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def openhands_typed() -> list[bytes]:
    """Write an event to a line, as the second generation does."""
    events: list[dict[str, Any]] = []
    for number, step in root_steps():
        base: dict[str, Any] = {"id": f"e{len(events)}", "timestamp": iso(number)}
        content = [{"type": "text", "text": step.text}]
        if step.sort == "user":
            message = {"role": "user", "content": content}
            events.append(base | {"kind": "MessageEvent", "source": "user", "llm_message": message})
        elif step.call is not None:
            answer: dict[str, Any] = {"tool_name": step.call.tool, "tool_call_id": step.call.call_id}
            if step.status == "blocked":
                answer |= {"kind": "UserRejectObservation", "rejection_reason": step.text}
            else:
                observation = {"content": content, "is_error": step.status == "error"}
                answer |= {"kind": "ObservationEvent", "observation": observation}
            events.append(base | {"source": "environment"} | answer)
        elif not step.calls:
            message = {"role": "assistant", "content": content}
            events.append(base | {"kind": "MessageEvent", "source": "agent", "llm_message": message})
        for one in step.calls:
            call = {"id": one.call_id, "name": one.tool, "arguments": json.dumps(one.args)}
            action: dict[str, Any] = {"kind": "ActionEvent", "source": "agent", "thought": content if step.text else []}
            action |= {"tool_name": one.tool, "tool_call_id": one.call_id, "tool_call": call}
            events.append(base | {"id": f"e{len(events)}"} | action | {"llm_response_id": f"r{number}"})
    return lines(*events)


def mini_swe_agent() -> list[bytes]:
    messages = []
    for (number, step), message in zip(root_steps(), openai_messages()[1:], strict=True):
        extra: dict[str, Any] = {"timestamp": time_of(number)}
        if step.call is not None:
            extra["returncode"] = 0 if step.status == "ok" else 1
        messages.append(message | {"extra": extra})
    info = {"config": {"model": {"model_name": MODEL}}, "mini_version": "2.0.0", "exit_status": "Submitted"}
    return lines({"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"})


def pi() -> list[bytes]:
    found: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": SESSION_ID, "cwd": "/shop"}]
    for number, step in root_steps():
        if step.sort == "user":
            message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": step.text}]}
        elif step.call is not None:
            message = {"role": "toolResult", "toolCallId": step.call.call_id, "toolName": step.call.tool}
            message |= {"content": [{"type": "text", "text": step.text}], "isError": step.status != "ok"}
        else:
            content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Hm."}]
            content += [{"type": "text", "text": step.text}] if step.text else []
            content += [
                {"type": "toolCall", "id": one.call_id, "name": one.tool, "arguments": one.args} for one in step.calls
            ]
            message = {"role": "assistant", "content": content, "model": MODEL, "usage": {"input": 9, "output": 3}}
        entry = {"type": "message", "id": f"{number:08x}", "parentId": f"{number - 1:08x}", "timestamp": iso(number)}
        found.append(entry | {"message": message})
    return lines(*found)


def copilot() -> list[bytes]:
    found: list[dict[str, Any]] = []

    def add(number: int, kind: str, agent: str = "", **data: Any) -> None:
        entry = {"type": kind, "data": data, "id": f"e{len(found)}", "timestamp": iso(number), "parentId": None}
        found.append(entry | ({"agentId": agent} if agent else {}))

    add(0, "session.start", sessionId=SESSION_ID, version=1, producer="copilot-agent")
    add(0, "session.model_change", newModel=MODEL)
    for number, step in enumerate(STEPS):
        if step.sort == "user":
            add(number, "user.message", content=step.text)
        elif step.call is not None:
            if step.status == "ok":
                outcome: dict[str, Any] = {"success": True, "result": {"content": step.text}}
            else:
                code = "denied" if step.status == "blocked" else "failure"
                outcome = {"success": False, "error": {"message": step.text, "code": code}}
            add(number, "tool.execution_complete", step.run, toolCallId=step.call.call_id, **outcome)
        else:
            calls = [{"toolCallId": one.call_id, "name": one.tool, "arguments": one.args} for one in step.calls]
            add(number, "assistant.message", step.run, content=step.text, toolRequests=calls)
            for one in step.calls:
                start = {"toolCallId": one.call_id, "toolName": one.tool, "arguments": one.args}
                add(number, "tool.execution_start", step.run, **start)
    return lines(*found)


def kimi() -> list[bytes]:
    found: list[dict[str, Any]] = [{"type": "metadata", "protocol_version": "1.6"}]

    def add(step: Step, number: int, kind: str, payload: dict[str, Any]) -> None:
        message: dict[str, Any] = {"type": kind, "payload": payload}
        if step.run:
            inner = {"agent_id": step.run, "parent_tool_call_id": ASK.call_id, "event": message}
            message = {"type": "SubagentEvent", "payload": inner}
        found.append({"timestamp": time_of(number), "message": message})

    for number, step in enumerate(STEPS):
        if step.sort == "user":
            add(step, number, "TurnBegin", {"user_input": [{"type": "text", "text": step.text}]})
            add(step, number, "StepBegin", {"n": 1})
        elif step.call is not None:
            text = REJECTED + step.text if step.status == "blocked" else step.text
            value = {"is_error": step.status != "ok", "output": text}
            add(step, number, "ToolResult", {"tool_call_id": step.call.call_id, "return_value": value})
        else:
            if step.text:
                add(step, number, "ContentPart", {"type": "text", "text": step.text})
            for one in step.calls:
                function = {"name": one.tool, "arguments": json.dumps(one.args)}
                add(step, number, "ToolCall", {"type": "function", "id": one.call_id, "function": function})
    return lines(*found)


def kimi_context() -> list[bytes]:
    """Write the messages of the context, which have no clock and nothing of sub-agents."""
    found: list[dict[str, Any]] = [{"role": "_checkpoint", "id": 0}]
    for message in openai_messages()[1:]:
        content = message["content"]
        text = f"<system>ERROR: {content}</system>" if str(content).startswith("Error") else content
        found.append(message | {"content": [{"type": "text", "text": text}] if text else []})
    return lines(*found, {"role": "_usage", "token_count": 12})


def ag2() -> list[bytes]:
    history = []
    for message in openai_messages()[1:]:
        if message["role"] == "tool":
            answer = {"tool_call_id": message["tool_call_id"], "role": "tool", "content": message["content"]}
            history.append({"role": "tool", "name": "executor", "content": "", "tool_responses": [answer]})
        else:
            history.append(message | {"name": "user_proxy" if message["role"] == "user" else "assistant"})
    return lines({"session_id": SESSION_ID, "chat_history": history})


def action_steps() -> list[bytes]:
    """Write a step for each call: there are no parallel ones."""
    steps: list[dict[str, Any]] = [{"role": "system", "content": "You help customers."}]
    for _, step in root_steps():
        if step.sort == "user":
            steps.append({"role": "user", "content": step.text})
        elif step.call is not None:
            steps.append({"role": "environment", "content": step.text})
        elif not step.calls:
            steps.append({"role": "agent", "content": step.text})
        for place, one in enumerate(step.calls):
            action = json.dumps({"name": one.tool, "arguments": one.args})
            said = {"content": step.text} if step.text and not place else {}
            steps.append({"role": "agent", "thought": "Hm.", "action": action} | said)
    return lines({"task_id": "shop-17", "trajectory": steps})


def swe_agent() -> list[bytes]:
    """Write a step for each call, with its observation."""
    history: list[dict[str, Any]] = [{"role": "user", "content": STEPS[0].text, "message_type": "observation"}]
    steps: list[dict[str, Any]] = []
    results = {step.call.call_id: step.text for step in STEPS if step.call is not None}
    for _, step in root_steps():
        for place, one in enumerate(step.calls):
            action = f"{one.tool} {json.dumps(one.args)}"
            function = {"name": one.tool, "arguments": json.dumps(one.args)}
            thought = step.text if not place else ""
            history.append(
                {"role": "assistant", "content": thought, "action": action}
                | {"tool_calls": [{"id": one.call_id, "function": function}]}
            )
            steps.append({"action": action, "observation": results[one.call_id], "thought": thought, "response": ""})
        if step.sort == "turn" and not step.calls:
            steps.append({"action": "", "observation": "", "thought": step.text, "response": step.text})
    return lines({"trajectory": steps, "history": history, "info": {"exit_status": "submitted"}})


RENDERERS: dict[str, Renderer] = {
    "action-steps": action_steps,
    "ag2": ag2,
    "copilot": copilot,
    "kimi": kimi,
    "mini-swe-agent": mini_swe_agent,
    "openhands": openhands,
    "openhands:typed": openhands_typed,
    "pi": pi,
    "swe-agent": swe_agent,
}
