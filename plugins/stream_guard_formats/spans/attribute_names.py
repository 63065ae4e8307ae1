"""The names of attributes under every known naming convention, and what each stands for."""

from __future__ import annotations

from typing import Final

from stream_guard import Json
from stream_guard_formats.spans.foreign_decisions import DECISION_NAMES
from stream_guard_formats.spans.raw_spans import SpanSort

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
