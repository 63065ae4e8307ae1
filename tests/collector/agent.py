"""An agent under OpenTelemetry's instrumentations, with a fake model and tools in an MCP server.

python -m tests.collector.agent URL, where a collector listens. The MCP server is a process of its own, and exports too.
"""

from __future__ import annotations

import asyncio
import http.client
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.util.genai import types
from opentelemetry.util.genai.handler import TelemetryHandler

from tests.formats.real_spans import ASKED, CALLS, CONVERSATION, MODEL, Result, Text, ask


class ToCollector(SpanExporter):
    """Sends spans over OTLP/HTTP, as the SDK's own exporter does."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        connection = http.client.HTTPConnection(self._host, timeout=30)
        body = encode_spans(spans).SerializeToString()
        connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200, answer.status
        return SpanExportResult.SUCCESS


def set_up(url: str) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToCollector(url)))
    trace.set_tracer_provider(provider)
    return provider


def serve(url: str) -> None:
    """Be the MCP server, on standard input and output."""
    set_up(url)
    server = MCPServer("orders")

    @server.tool(name="lookup_order")
    def lookup_order(order_id: str) -> str:
        return f"{order_id}: paid 20.5"

    @server.tool(name="send_mail")
    def send_mail(to: str) -> str:
        return f"sent to {to}"

    server.run("stdio")


async def work(url: str) -> None:
    """Ask the model, run the tools that it asks for on the MCP server, and ask again."""
    provider = set_up(url)
    telemetry = TelemetryHandler(tracer_provider=provider)
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "tests.collector.agent", url, "server"])
    messages: list[Any] = [types.InputMessage(role="user", parts=[Text(content=ASKED)])]
    agent: Any
    run: Any
    async with Client(parameters) as tools:
        with telemetry.invoke_local_agent(request_model=MODEL, agent_name="refunds") as agent:
            agent.conversation_id = CONVERSATION
            messages.append(types.InputMessage(role="assistant", parts=ask(telemetry, messages)))
            for call_id, tool, args, _ in CALLS:
                with telemetry.tool(tool) as run:
                    run.tool_call_id, run.arguments = call_id, args
                    await tools.call_tool(tool, args)
                messages.append(types.InputMessage(role="tool", parts=[Result(id=call_id, response="done")]))
            ask(telemetry, messages)
    provider.shutdown()


if __name__ == "__main__":
    if sys.argv[2:] == ["server"]:
        serve(sys.argv[1])
    else:
        asyncio.run(work(sys.argv[1]))
