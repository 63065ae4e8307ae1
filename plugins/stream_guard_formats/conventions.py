"""Attributes of spans under every known naming convention.

OpenTelemetry GenAI in all its generations, MCP, OpenInference, OpenLLMetry, the Vercel AI SDK, and Claude Code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_guard import Json
from stream_guard_formats.messages import unpack
from stream_guard_formats.raw_spans import RawSpan, Span, SpanSort
from stream_guard_formats.reading import number_at, text_at
from stream_guard_formats.span_messages import (
    arguments_in_messages,
    choices_of,
    documents_of,
    finish_reason_of,
    messages_of,
    result_in_messages,
)
from stream_guard_formats.usage import read_usage
from stream_guard_formats.verdicts import read_verdict

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
_SORTS: Final[dict[str, SpanSort]] = {
    "LLM": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "GUARDRAIL": "verdict",
    "EVALUATOR": "verdict",
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
    "apply_guardrail": "verdict",
    "run_guardrail": "verdict",
    "guardrail": "verdict",
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
    "tool.blocked_on_user": "verdict",
}
_SORT_NAMES: Final = (
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
_RESULTS: Final = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "output.value",
    "ai.toolCall.result",
    "ai.toolCall.output",
    "traceloop.entity.output",
    "output",
)
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_name", "traceloop.entity.name")
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
_PREFIXES_OF_USAGE: Final = ("gen_ai.usage.", "llm.token_count.", "llm.usage.", "ai.usage.")
_PLAIN_USAGE: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")
_PARAMS: Final = ("max_tokens", "temperature", "top_p", "top_k", "seed", "choice.count", "stream", "stop_sequences")
# Requests of MCP that an agent makes for something of its own; the others keep the connection.
_MCP_REQUESTS: Final = ("resources/read", "prompts/get")
_MERGED_TOOLS: Final = "(merged tools)"  # written by ADK for a user interface: nothing is called by that name
_REDACTED: Final = ("<REDACTED>", "[REDACTED]")
_MAX_NAME: Final = 200


def read_span(raw: RawSpan) -> Span:
    """Return the span with its attributes interpreted."""
    attributes = raw.attributes
    sort = sort_of(attributes, raw.name)
    span = Span(
        span_id=raw.span_id,
        parent_id=raw.parent_id,
        sort=sort,
        name=raw.name,
        start=raw.start,
        end=raw.end,
        failed=raw.failed or "error.type" in attributes or attributes.get("success") in (False, "false"),
        error=_error_of(raw),
        agent=_agent_of(attributes),
        run_id=text_at(attributes, "agent_id")[:_MAX_NAME],
    )
    if sort == "llm" or (sort == "agent" and raw.kind == "client"):
        return _read_model_call(span, raw)
    if sort == "tool":
        return _read_tool(span, raw)
    if sort == "agent":
        name = text_at(attributes, *_AGENT_SPANS) or raw.name
        return span._replace(name=name, agent=_versioned(name, attributes), outputs=_first(attributes, _RESULTS))
    if sort in ("retrieval", "memory"):
        return _read_store(span, raw)
    inputs, outputs = _first(attributes, _ARGUMENTS), _first(attributes, _RESULTS)
    if sort == "prompt":
        inputs = _captured(attributes.get("user_prompt", attributes.get("prompt")))
    return span._replace(
        inputs=inputs, outputs=outputs, verdict=read_verdict(attributes, raw.name) if sort == "verdict" else None
    )


def sort_of(attributes: dict[str, Json], name: str = "") -> SpanSort:
    """Return what a span is: a call to a model, a call of a tool, an agent, and so on."""
    method = attributes.get("mcp.method.name")
    if isinstance(method, str):
        return "tool" if method == "tools/call" or method in _MCP_REQUESTS else "other"
    for attribute in _SORT_NAMES:
        value = attributes.get(attribute)
        if isinstance(value, str) and (sort := _SORTS.get(value)) is not None:
            return "other" if sort == "tool" and _is_no_tool(attributes, name) else sort
    return "llm" if "gcp.vertex.agent.llm_request" in attributes else "other"  # ADK's call_llm names no operation


def _is_no_tool(attributes: dict[str, Json], name: str) -> bool:
    """Whether a span is called a tool's and is none: a hand-off that a tool call asked for, or a summary."""
    tool = text_at(attributes, *_TOOL_NAMES)
    return tool == _MERGED_TOOLS or (not tool and name.startswith("handoff to "))


def session_of(attributes: dict[str, Json]) -> str:
    """Return the id of the conversation that a span names, or an empty text."""
    return text_at(attributes, *SESSION_NAMES)


def _read_model_call(span: Span, raw: RawSpan) -> Span:
    attributes = raw.attributes
    inputs, outputs = messages_of(raw)
    answers, choices = choices_of(outputs, attributes)
    request: dict[str, Json] = {
        "model": text_at(attributes, "gen_ai.request.model", "llm.model_name", "ai.model.id", "model"),
        "provider": text_at(attributes, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
        "system": unpack(attributes.get("gen_ai.system_instructions")),
        "tools": _tools_of(attributes),
        "params": {name: value for name in _PARAMS if (value := attributes.get(f"gen_ai.request.{name}")) is not None},
    }
    first_chunk = number_at(attributes, "gen_ai.response.time_to_first_chunk")
    milliseconds = number_at(attributes, "ai.stream.msToFirstChunk") or number_at(attributes, "ttft_ms")
    response: dict[str, Json] = {
        "id": text_at(attributes, "gen_ai.response.id", "ai.response.id", "request_id"),
        "time_to_first_chunk_ms": first_chunk * 1000 if first_chunk is not None else milliseconds,
        "choices": choices,
    }
    return span._replace(
        name=text_at(attributes, *_AGENT_SPANS) or raw.name if span.sort == "agent" else raw.name,
        inputs=inputs,
        outputs=answers,
        model=text_at(attributes, *_MODELS),
        usage=_usage(attributes),
        stop_reason=finish_reason_of(attributes, outputs),
        request={name: value for name, value in request.items() if value},
        response={name: value for name, value in response.items() if value},
        identity=text_at(attributes, "request_id") if "span.type" in attributes else "",
        remote=raw.kind == "client" and span.sort == "agent",
    )


def _read_tool(span: Span, raw: RawSpan) -> Span:
    attributes = raw.attributes
    method = text_at(attributes, "mcp.method.name")
    inputs, outputs = _first(attributes, _ARGUMENTS), _first(attributes, _RESULTS)
    if inputs is None and "full_command" in attributes:
        inputs = {"command": attributes["full_command"]}
    if method in _MCP_REQUESTS:
        name = method
        inputs = {"uri": text_at(attributes, "mcp.resource.uri")} if method == "resources/read" else _variables(raw)
    else:
        name = text_at(attributes, *_TOOL_NAMES) or raw.name
    if raw.events and (inputs is None or outputs is None):
        inputs = arguments_in_messages(raw) if inputs is None else inputs
        outputs = result_in_messages(raw) if outputs is None else outputs
    verdict = read_verdict(attributes, raw.name)
    return span._replace(
        name=name,
        inputs=_captured(inputs),
        outputs=outputs,
        call_id=text_at(attributes, *_CALL_IDS),
        failed=span.failed or attributes.get("gen_ai.tool.status") == "error",
        protocol="mcp" if method else "",
        identity=_identity_of(attributes),
        verdict=verdict,
    )


def _identity_of(attributes: dict[str, Json]) -> str:
    """Return a name that all views of a call share and no other call has, where the convention gives one."""
    if "span.type" in attributes and (call_id := text_at(attributes, "tool_use_id")):
        return call_id
    request, session = text_at(attributes, "jsonrpc.request.id"), text_at(attributes, "mcp.session.id")
    return f"{session} {request}" if request and session else ""


def _read_store(span: Span, raw: RawSpan) -> Span:
    """Read a retrieval, or what was done with a memory: what was asked for, and what came of it."""
    attributes = raw.attributes
    args: dict[str, Json] = {
        "query": _first(attributes, ("gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input.value")),
        "data_source": text_at(attributes, "gen_ai.data_source.id"),
        "store": text_at(attributes, "gen_ai.memory.store.id"),
        "record": text_at(attributes, "gen_ai.memory.record.id"),
    }
    records = unpack(attributes.get("gen_ai.memory.records"))
    found: Json = None
    name = text_at(attributes, "gen_ai.operation.name")
    if span.sort == "retrieval":
        name, found = "retrieval", documents_of(attributes)
    elif name == "search_memory":
        found = records
    elif records is not None:
        args["records"] = records
    given = {key: value for key, value in args.items() if value not in (None, "")}
    return span._replace(name=name, inputs=given or None, outputs=found)


def _variables(raw: RawSpan) -> dict[str, Json]:
    prefix = "gen_ai.prompt.variable."
    found: dict[str, Json] = {"name": text_at(raw.attributes, "gen_ai.prompt.name")}
    return found | {name[len(prefix) :]: value for name, value in raw.attributes.items() if name.startswith(prefix)}


def _tools_of(attributes: dict[str, Json]) -> Json:
    """Return the tools as the model was given them."""
    tools = unpack(_first(attributes, ("gen_ai.tool.definitions", "ai.prompt.tools", "llm.tools")))
    if isinstance(tools, list):
        return [unpack(tool) for tool in tools]
    prefixes = ("llm.tools.", "llm.request.functions.")
    names = [name for name in attributes if name.startswith(prefixes)]
    flat = [unpack(attributes[name]) if name.endswith("json_schema") else attributes[name] for name in names]
    return flat or None


def _agent_of(attributes: dict[str, Json]) -> str:
    return _versioned(text_at(attributes, *_AGENTS), attributes)


def _versioned(name: str, attributes: dict[str, Json]) -> str:
    version = text_at(attributes, "gen_ai.agent.version", "agent.version")
    name = name[:_MAX_NAME]
    return f"{name}@{version[:50]}" if name and version and "@" not in name else name


def _error_of(raw: RawSpan) -> str:
    """Return what went wrong: the message, or the type of the error."""
    attributes = raw.attributes
    for name, fields in raw.events:
        if name in ("exception", "gen_ai.client.operation.exception"):
            attributes = fields | attributes
    message = raw.status_message or text_at(attributes, "exception.message", "error.message", "error", "error_message")
    return (message or text_at(attributes, "error.type", "exception.type"))[:1000]


def _usage(attributes: dict[str, Json]) -> dict[str, Json] | None:
    """Return the usage. Spans count cached tokens inside the input; those of Claude Code count them beside it."""
    if "span.type" in attributes:
        return read_usage({name: attributes.get(name) for name in _PLAIN_USAGE}, cache_beside=True)
    found = {
        name[len(prefix) :]: value
        for name, value in attributes.items()
        for prefix in _PREFIXES_OF_USAGE
        if name.startswith(prefix)
    }
    cost = _first(attributes, ("gen_ai.usage.cost", "llm.cost.total", "gen_ai.usage.total_cost"))
    return read_usage(found, cost=cost, cache_beside=False) if found or cost is not None else None


def _captured(value: Json) -> Json:
    return None if isinstance(value, str) and value in _REDACTED else value


def _first(attributes: dict[str, Json], names: Iterable[str]) -> Json:
    for name in names:
        if (value := attributes.get(name)) is not None:
            return value
    return None
