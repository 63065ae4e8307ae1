"""Run an agent whose model is a small server here, under OpenTelemetry's own instrumentation, and write what it sends.

python -m tests.formats.real_spans FOLDER, with the variables of OpenTelemetry that say what is captured.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from openai import OpenAI
from opentelemetry.exporter.otlp.json.common._log_encoder import encode_logs as logs_to_json
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as spans_to_json
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs as logs_to_proto
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as spans_to_proto
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler

MODEL = "refunds-large"
CONVERSATION = "order-17"
ASKED = "Please refund order A-1."
CALLS = (
    ("call_1", "lookup_order", {"order_id": "A-1"}, "paid 20.5"),
    ("call_2", "send_mail", {"to": "anna@example.org"}, None),
)
ANSWERS = ("Let me look at it.", "I could not send the mail.")
FAILURE = "no such mailbox"


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Be the model: call both tools first, and answer when their results are there."""
    has_result = any(message["role"] == "tool" for message in messages)
    message: dict[str, Any] = {"role": "assistant", "content": ANSWERS[has_result], "refusal": None}
    if not has_result:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
            for call_id, tool, args, _ in CALLS
        ]
    return {
        "id": f"chatcmpl-{int(has_result)}",
        "object": "chat.completion",
        "created": 1_767_600_000,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop" if has_result else "tool_calls"}],
        "usage": {"prompt_tokens": 75, "completion_tokens": 12, "total_tokens": 87},
    }


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = json.dumps(answer(body["messages"])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        del format, args


@contextmanager
def model_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_agent(client: OpenAI, telemetry: TelemetryHandler) -> None:
    """Do what an agent does: ask, run the tools, ask again; one tool fails."""
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    agent: Any
    run: Any
    with telemetry.invoke_local_agent(request_model=MODEL, agent_name="refunds") as agent:
        agent.conversation_id = CONVERSATION
        reply = client.chat.completions.create(model=MODEL, messages=messages).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call_id, tool, args, output in CALLS:
            with suppress(LookupError), telemetry.tool(tool) as run:
                run.tool_call_id, run.arguments = call_id, args
                messages.append({"role": "tool", "tool_call_id": call_id, "content": output or FAILURE})
                if output is None:
                    raise LookupError(FAILURE)
                run.tool_result = output
        client.chat.completions.create(model=MODEL, messages=messages)


def main(folder: Path) -> None:
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK's own
    tracing, logging = TracerProvider(), LoggerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    instrumentor = OpenAIInstrumentor()  # type: ignore[no-untyped-call]  # the package's own
    instrumentor.instrument(tracer_provider=tracing, logger_provider=logging)
    with model_server() as url, OpenAI(base_url=url, api_key="none") as client:
        run_agent(client, TelemetryHandler(tracer_provider=tracing, logger_provider=logging))
    ended, written = spans.get_finished_spans(), logs.get_finished_logs()
    (folder / "spans.pb").write_bytes(spans_to_proto(ended).SerializeToString())
    (folder / "spans.json").write_text(spans_to_json(ended).to_json())
    (folder / "logs.pb").write_bytes(logs_to_proto(written).SerializeToString())
    (folder / "logs.json").write_text(logs_to_json(written).to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
