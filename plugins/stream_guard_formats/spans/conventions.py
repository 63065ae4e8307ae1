"""Attributes of spans under every known naming convention.

OpenTelemetry GenAI in all its generations, MCP, A2A, OpenInference, OpenLLMetry, the Vercel AI SDK, and Claude Code.
"""

from __future__ import annotations

from typing import Any, Final

from stream_guard import Json
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.reading import number_at, text_at
from stream_guard_formats.spans.foreign_decisions import DECISION_NAMES, read_decision
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


# The names of attributes under every known naming convention, and what each stands for.


# Attributes that name the conversation, best first. Without any of them the id of the trace is used.
SESSION_NAMES: Final = (
    "session_id",
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "thread_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "langgraph.thread_id",
    "ai.telemetry.metadata.sessionId",
    "gcp.vertex.agent.session_id",
)
SORTS: Final[dict[str, SpanSort]] = {
    "LLM": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "GUARDRAIL": "decision",
    "EVALUATOR": "decision",
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "completion": "llm",
    "responses": "llm",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "other",
    "retrieval": "retrieval",
    "create_memory": "memory",
    "update_memory": "memory",
    "upsert_memory": "memory",
    "delete_memory": "memory",
    "search_memory": "memory",
    "create_memory_store": "memory",
    "delete_memory_store": "memory",
    "apply_guardrail": "decision",
    "run_guardrail": "decision",
    "guardrail": "decision",
    "tool": "tool",
    "agent": "agent",
    "ai.generateText.doGenerate": "llm",
    "ai.streamText.doStream": "llm",
    "ai.generateObject.doGenerate": "llm",
    "ai.streamObject.doStream": "llm",
    "ai.toolCall": "tool",
    # Claude Code, in span.type
    "llm_request": "llm",
    "interaction": "prompt",
    "tool.execution": "outcome",
    "tool.blocked_on_user": "decision",
}
SORT_NAMES: Final = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "llm.request.type",
    "ai.operationId",
    "operation.name",
    "span.type",
)
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "input.value",
    "tool.parameters",
    "ai.toolCall.args",
    "ai.toolCall.input",
    "traceloop.entity.input",
    "tool_input",
    "tool_parameters",
    "input",
)
RESULT_NAMES: Final = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "output.value",
    "ai.toolCall.result",
    "ai.toolCall.output",
    "traceloop.entity.output",
    "output",
)
TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_name", "traceloop.entity.name")
_CALL_IDS: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id", "tool_use_id")
_MODELS: Final = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.response.model",
    "ai.model.id",
    "model",
)
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id", "agent.id")
_AGENT_SPANS: Final = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name", "gen_ai.agent.id", "agent.id")
# What is read from the attributes of a span, and the names of each under the conventions, best first. One attribute may
# stand for several things.
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "session": SESSION_NAMES,
    "tool": TOOL_NAMES,
    "call_id": _CALL_IDS,
    "model": _MODELS,
    "agent": _AGENTS,
    "agent_span": _AGENT_SPANS,
    "version": ("gen_ai.agent.version", "agent.version"),
    "run": ("agent_id",),
    "method": ("mcp.method.name",),
    "operation": ("gen_ai.operation.name",),
    "requested": ("gen_ai.request.model", "llm.model_name", "ai.model.id", "model"),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "response_id": ("gen_ai.response.id", "ai.response.id", "request_id"),
    "uri": ("mcp.resource.uri",),
    "rpc_id": ("jsonrpc.request.id",),
    "rpc_session": ("mcp.session.id",),
    "data_source": ("gen_ai.data_source.id",),
    "store": ("gen_ai.memory.store.id",),
    "record": ("gen_ai.memory.record.id",),
}
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "arguments": _ARGUMENTS,
    "result": RESULT_NAMES,
    "error": ("error.type",),
    "action": DECISION_NAMES,
    "query": ("gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input.value"),
    "cost": ("gen_ai.usage.cost", "llm.cost.total", "gen_ai.usage.total_cost"),
    "tools": ("gen_ai.tool.definitions", "ai.prompt.tools", "llm.tools"),
    "system": ("gen_ai.system_instructions",),
    "first_chunk": ("gen_ai.response.time_to_first_chunk",),
    "first_chunk_ms": ("ai.stream.msToFirstChunk", "ttft_ms"),
}
PREFIXES_OF_USAGE: Final = ("gen_ai.usage.", "llm.token_count.", "llm.usage.", "ai.usage.")
PLAIN_USAGE: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")
REQUEST: Final = "gen_ai.request."
PREFIXES_OF_NUMBERS: Final = (*PREFIXES_OF_USAGE, REQUEST)
TOOL_LISTS: Final = ("llm.tools.", "llm.request.functions.")
# Requests of MCP that an agent makes for something of its own; the others keep the connection.
MCP_REQUESTS: Final = ("resources/read", "prompts/get")
# Requests of A2A that give work to another agent, in each generation of the protocol; the others ask how it goes.
A2A_REQUESTS: Final = (
    "SendMessage",
    "SendStreamingMessage",
    "message/send",
    "message/stream",
    "tasks/send",
    "tasks/sendSubscribe",
)
MERGED_TOOLS: Final = "(merged tools)"  # written by ADK for a user interface: nothing is called by that name
REDACTED: Final = ("<REDACTED>", "[REDACTED]", "HIDDEN:non-empty")
MAX_NAME: Final = 200


def _by_name() -> dict[str, tuple[tuple[str, int, bool], ...]]:
    """Return, for each attribute, what it stands for: the thing, its rank among the names, and whether it is a text."""
    found: dict[str, tuple[tuple[str, int, bool], ...]] = {}
    for table in (_TEXTS, _VALUES):
        for thing, names in table.items():
            for rank, name in enumerate(names):
                found[name] = (*found.get(name, ()), (thing, rank, table is _TEXTS))
    return found


_THINGS: Final = _by_name()


def fields_of(attributes: dict[str, Json]) -> dict[str, Json]:
    """Return what the attributes say, by thing. This looks at each attribute once, because most spans have few."""
    found: dict[str, Json] = {}
    ranks: dict[str, int] = {}
    for name, value in attributes.items():
        things = _THINGS.get(name)
        if things is None or value is None:
            continue
        for thing, rank, is_text in things:
            if thing in ranks and ranks[thing] <= rank:
                continue
            if not is_text or (isinstance(value, str) and value):
                found[thing] = value
            elif isinstance(value, int) and not isinstance(value, bool):
                found[thing] = str(value)
            else:
                continue
            ranks[thing] = rank
    return found
