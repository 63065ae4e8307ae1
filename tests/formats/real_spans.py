"""Run an agent whose model is a function here, under OpenTelemetry's own GenAI telemetry, and write what it sends.

python -m tests.formats.real_spans FOLDER, with the variables of OpenTelemetry that say what is captured.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.json.common._log_encoder import encode_logs as logs_to_json
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as spans_to_json
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs as logs_to_proto
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as spans_to_proto
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai import types
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


# Version 1.2 of the package gave the parts of messages these names; the versions before had them without "Part".
Text: Any = getattr(types, "TextPart", None) or getattr(types, "Text")  # noqa: B009  # one of them is there
Call: Any = getattr(types, "ToolCallRequestPart", None) or getattr(types, "ToolCallRequest")  # noqa: B009  # as above
Result: Any = getattr(types, "ToolCallResponsePart", None) or getattr(types, "ToolCallResponse")  # noqa: B009  # as above


def ask(telemetry: TelemetryHandler, messages: list[Any]) -> list[Any]:
    """Be the model: call both tools first, and answer when their results are there."""
    has_result = any(message.role == "tool" for message in messages)
    reason = "stop" if has_result else "tool_call"
    parts: list[Any] = [Text(content=ANSWERS[has_result])]
    if not has_result:
        parts += [Call(id=call_id, name=tool, arguments=args) for call_id, tool, args, _ in CALLS]
    call: Any
    with telemetry.inference("openai", request_model=MODEL) as call:
        call.input_messages = list(messages)
        call.output_messages = [types.OutputMessage(role="assistant", parts=parts, finish_reason=reason)]
        call.response_model_name, call.response_id = MODEL, f"chatcmpl-{int(has_result)}"
        call.finish_reasons, call.input_tokens, call.output_tokens = [reason], 75, 12
    return parts


def run_agent(telemetry: TelemetryHandler) -> None:
    """Do what an agent does: ask, run the tools, ask again; one tool fails."""
    messages = [types.InputMessage(role="user", parts=[Text(content=ASKED)])]
    agent: Any
    run: Any
    with telemetry.invoke_local_agent(request_model=MODEL, agent_name="refunds") as agent:
        agent.conversation_id = CONVERSATION
        messages.append(types.InputMessage(role="assistant", parts=ask(telemetry, messages)))
        for call_id, tool, args, output in CALLS:
            with suppress(LookupError), telemetry.tool(tool) as run:
                run.tool_call_id, run.arguments = call_id, args
                result = Result(id=call_id, response=output or FAILURE)
                messages.append(types.InputMessage(role="tool", parts=[result]))
                if output is None:
                    raise LookupError(FAILURE)
                run.tool_result = output
        ask(telemetry, messages)


def main(folder: Path) -> None:
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK's own
    tracing, logging = TracerProvider(), LoggerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    run_agent(TelemetryHandler(tracer_provider=tracing, logger_provider=logging))
    ended, written = spans.get_finished_spans(), logs.get_finished_logs()
    (folder / "spans.pb").write_bytes(spans_to_proto(ended).SerializeToString())
    (folder / "spans.json").write_text(spans_to_json(ended).to_json())
    (folder / "logs.pb").write_bytes(logs_to_proto(written).SerializeToString())
    (folder / "logs.json").write_text(logs_to_json(written).to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
