"""Attributes of spans under every known naming convention.

OpenTelemetry GenAI in all its generations, MCP, A2A, OpenInference, OpenLLMetry, the Vercel AI SDK, and Claude Code.
"""

from __future__ import annotations

from typing import Any

from stream_guard import Json
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.reading import number_at, text_at
from stream_guard_formats.spans.attribute_names import (
    A2A_REQUESTS,
    MAX_NAME,
    MCP_REQUESTS,
    MERGED_TOOLS,
    PLAIN_USAGE,
    PREFIXES_OF_NUMBERS,
    PREFIXES_OF_USAGE,
    REDACTED,
    REQUEST,
    SESSION_NAMES,
    SORT_NAMES,
    SORTS,
    TOOL_LISTS,
    TOOL_NAMES,
    fields_of,
)
from stream_guard_formats.spans.foreign_decisions import read_decision
from stream_guard_formats.spans.raw_spans import RawSpan, Span, SpanSort
from stream_guard_formats.spans.span_messages import (
    arguments_in_messages,
    choices_of,
    documents_of,
    finish_reason_of,
    messages_of,
    result_in_messages,
)
from stream_guard_formats.usage import read_usage


def read_span(raw: RawSpan) -> Span:
    """Return the span with its attributes interpreted."""
    attributes = raw.attributes
    sort = sort_of(attributes, raw.name)
    fields = fields_of(attributes)
    failed = raw.failed or "error" in fields or attributes.get("success") in (False, "false")
    agent = fields.get("agent_span") or raw.name if sort == "agent" else fields.get("agent", "")
    found: dict[str, Any] = {
        "span_id": raw.span_id,
        "parent_id": raw.parent_id,
        "sort": sort,
        "name": agent if sort == "agent" else raw.name,
        "start": raw.start,
        "end": raw.end,
        "failed": failed,
        "error": _error_of(raw) if failed else "",
        "agent": _versioned(agent, fields) if agent else "",
        "run_id": fields["run"][:MAX_NAME] if "run" in fields else "",
    }
    if sort == "llm" or (sort == "agent" and (raw.kind == "client" or attributes.get("gen_ai.agent.remote") is True)):
        _read_model_call(found, raw, fields)
    elif sort == "tool":
        _read_tool(found, raw, fields)
    elif sort in ("retrieval", "memory"):
        _read_store(found, attributes, fields)
    else:
        found["inputs"], found["outputs"] = fields.get("arguments"), fields.get("result")
        if sort == "prompt":
            found["inputs"] = _captured(attributes.get("user_prompt", attributes.get("prompt")))
        elif sort == "decision":
            found["decision"] = read_decision(attributes, raw.name)
    return Span(**found)


def sort_of(attributes: dict[str, Json], name: str = "") -> SpanSort:
    """Return what a span is: a call to a model, a call of a tool, an agent, and so on."""
    method = attributes.get("mcp.method.name")
    if isinstance(method, str):
        return "tool" if method == "tools/call" or method in MCP_REQUESTS else "other"
    for attribute in SORT_NAMES:
        value = attributes.get(attribute)
        if isinstance(value, str) and (sort := SORTS.get(value)) is not None:
            return "other" if sort == "tool" and _is_no_tool(attributes, name) else sort
    if attributes.get("a2a.method.name") in A2A_REQUESTS:
        return "agent"
    if attributes.get("gen_ai.tool.name") and "gen_ai.request.model" not in attributes:
        return "tool"  # early versions of Koog name no operation
    return "llm" if "gcp.vertex.agent.llm_request" in attributes else "other"  # ADK's call_llm names no operation


def _is_no_tool(attributes: dict[str, Json], name: str) -> bool:
    """Whether a span is called a tool's and is none: a hand-off that a tool call asked for, or a summary."""
    tool = text_at(attributes, *TOOL_NAMES)
    return tool == MERGED_TOOLS or (not tool and name.startswith("handoff to "))


def session_of(attributes: dict[str, Json]) -> str:
    """Return the id of the conversation that a span names, or an empty text."""
    return text_at(attributes, *SESSION_NAMES)


def _read_model_call(found: dict[str, Any], raw: RawSpan, fields: dict[str, Json]) -> None:
    attributes = raw.attributes
    inputs, written = messages_of(raw)
    outputs = unpack(written)
    answers, choices = choices_of(outputs, attributes)
    usage, params = _numbers_of(attributes, fields)
    request: dict[str, Json] = {"model": fields.get("requested"), "provider": fields.get("provider"), "params": params}
    if "system" in fields:
        request["system"] = unpack(fields["system"])
    request["tools"] = _tools_of(attributes, fields.get("tools"))
    response: dict[str, Json] = {"id": fields.get("response_id"), "choices": choices}
    if "first_chunk" in fields:
        seconds = number_at(fields, "first_chunk")
        response["time_to_first_chunk_ms"] = None if seconds is None else seconds * 1000
    elif "first_chunk_ms" in fields:
        response["time_to_first_chunk_ms"] = number_at(fields, "first_chunk_ms")
    found["inputs"], found["outputs"] = inputs, answers
    found["model"], found["usage"] = fields.get("model", ""), usage
    found["stop_reason"] = finish_reason_of(attributes, outputs)
    found["request"] = {name: value for name, value in request.items() if value}
    found["response"] = {name: value for name, value in response.items() if value}
    found["identity"] = text_at(attributes, "request_id") if "span.type" in attributes else ""
    found["remote"] = found["sort"] == "agent"


def _numbers_of(attributes: dict[str, Json], fields: dict[str, Json]) -> tuple[Json, dict[str, Json]]:
    """Return the usage, and the parameters of the request."""
    if "span.type" in attributes:  # Claude Code counts cached tokens beside the input, conventions of spans inside it
        return read_usage({name: attributes.get(name) for name in PLAIN_USAGE}, cache_beside=True), {}
    used: dict[str, Json] = {}
    params: dict[str, Json] = {}
    for name, value in attributes.items():
        if not name.startswith(PREFIXES_OF_NUMBERS):
            continue
        if not name.startswith(REQUEST):
            used[name[next(len(prefix) for prefix in PREFIXES_OF_USAGE if name.startswith(prefix)) :]] = value
        elif name != "gen_ai.request.model":
            params[name[len(REQUEST) :]] = value
    cost = fields.get("cost")
    return read_usage(used, cost=cost, cache_beside=False) if used or cost is not None else None, params


def _read_tool(found: dict[str, Any], raw: RawSpan, fields: dict[str, Json]) -> None:
    attributes = raw.attributes
    method = fields.get("method", "")
    inputs, outputs = fields.get("arguments"), fields.get("result")
    if inputs is None and "full_command" in attributes:
        inputs = {"command": attributes["full_command"]}
    if method in MCP_REQUESTS:
        name = method
        inputs = {"uri": fields.get("uri", "")} if method == "resources/read" else _variables(raw)
    else:
        # MCP's own SDK leaves the tool out of its client spans, and names them "MCP send tools/call TOOL".
        named = raw.name.rpartition(f"{method} ")[2] if method else raw.name
        name = fields.get("tool") or named
    if "tool.parameters" in attributes or "metadata.class_name" in attributes:
        inputs = _unwrapped(inputs, attributes)
    if raw.events and (inputs is None or outputs is None):
        inputs = arguments_in_messages(raw) if inputs is None else inputs
        outputs = result_in_messages(raw) if outputs is None else outputs
    found["name"], found["inputs"], found["outputs"] = name, _captured(inputs), outputs
    # Agno's instrumentation takes the address of an object for the id: no call of the model has it.
    found["call_id"] = "" if fields.get("provider") == "agno" else fields.get("call_id", "")
    found["failed"] = found["failed"] or attributes.get("gen_ai.tool.status") == "error"
    found["protocol"] = "mcp" if method else ""
    found["identity"] = _identity_of(attributes, fields)
    if "action" in fields:
        found["decision"] = read_decision(attributes, raw.name)


def _unwrapped(inputs: Json, attributes: dict[str, Json]) -> Json:
    """Return the arguments of a call without what a framework puts around them."""
    found = unpack(inputs)
    if found == {} and "tool.parameters" in attributes:  # Agno: how the function that runs the tool was called
        return attributes["tool.parameters"]
    if isinstance(found, dict) and "input" in found and found.keys() <= {"input", "options", "context", "signal"}:
        return found["input"] if "metadata.class_name" in attributes else inputs  # BeeAI
    return inputs


def _identity_of(attributes: dict[str, Json], fields: dict[str, Json]) -> str:
    """Return a name that all views of a call share and no other call has, where the convention gives one."""
    if "span.type" in attributes and (call_id := text_at(attributes, "tool_use_id")):
        return call_id
    request, session = fields.get("rpc_id"), fields.get("rpc_session")
    return f"{session} {request}" if request and session else ""


def _read_store(found: dict[str, Any], attributes: dict[str, Json], fields: dict[str, Json]) -> None:
    """Read a retrieval, or what was done with a memory: what was asked for, and what came of it."""
    given = {name: fields[name] for name in ("query", "data_source", "store", "record") if fields.get(name)}
    records = unpack(attributes.get("gen_ai.memory.records"))
    name = fields.get("operation", "")
    if found["sort"] == "retrieval":
        name, found["outputs"] = "retrieval", documents_of(attributes)
    elif name == "search_memory":
        found["outputs"] = records
    elif records is not None:
        given["records"] = records
    found["name"], found["inputs"] = name, given or None


def _variables(raw: RawSpan) -> dict[str, Json]:
    prefix = "gen_ai.prompt.variable."
    found: dict[str, Json] = {"name": text_at(raw.attributes, "gen_ai.prompt.name")}
    return found | {name[len(prefix) :]: value for name, value in raw.attributes.items() if name.startswith(prefix)}


def _tools_of(attributes: dict[str, Json], whole: Json) -> Json:
    """Return the tools as the model was given them: in one attribute, or in several."""
    tools = unpack(whole)
    if isinstance(tools, list):
        return [unpack(tool) for tool in tools]
    names = [name for name in attributes if name.startswith(TOOL_LISTS)]
    return [unpack(attributes[name]) if name.endswith("json_schema") else attributes[name] for name in names] or None


def _versioned(name: str, fields: dict[str, Json]) -> str:
    version = fields.get("version")
    name = name[:MAX_NAME]
    return f"{name}@{version[:50]}" if name and version and "@" not in name else name


def _error_of(raw: RawSpan) -> str:
    """Return what went wrong: the message, or the type of the error."""
    attributes = raw.attributes
    for name, fields in raw.events:
        if name in ("exception", "gen_ai.client.operation.exception"):
            attributes = fields | attributes
    message = raw.status_message or text_at(attributes, "exception.message", "error.message", "error", "error_message")
    return (message or text_at(attributes, "error.type", "exception.type"))[:1000]


def _captured(value: Json) -> Json:
    return None if isinstance(value, str) and value in REDACTED else value
