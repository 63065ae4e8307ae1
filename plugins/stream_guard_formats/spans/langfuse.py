"""Langfuse exports: one record for each trace, with its observations in no order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.conversation import Conversation, derived_session, label
from stream_guard_formats.reading import (
    as_object,
    first_object,
    has_fields,
    name_of,
    object_at,
    objects_in,
    seconds,
    text_at,
)
from stream_guard_formats.spans.foreign_decisions import read_decision
from stream_guard_formats.spans.raw_spans import Span, SpanSort
from stream_guard_formats.spans.span_reader import SpanReader
from stream_guard_formats.usage import read_usage

_SORTS: Final[dict[str, SpanSort]] = {
    "GENERATION": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "GUARDRAIL": "decision",
    "EVALUATOR": "decision",
}
# What instrumentations put in front of a tool's name when they name its span.
_OBSERVATIONS: Final = ("GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "GUARDRAIL")
_PREFIXES: Final = ("execute_tool ", "running tool: ")


class LangfuseDecoder(JsonDecoder):
    """Reads ``{"trace": ..., "observations": [...]}``, with inputs and outputs in any known convention."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a trace with its observations, or some of them."""
        if has_fields(data, "trace", "observations"):
            return 1.0
        if has_fields(data, "id", "observations") or has_fields(data, "traceId", "type", "startTime"):
            return 0.8
        observation = first_object(data)
        return 0.9 if "traceId" in observation and observation.get("type") in _OBSERVATIONS else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one record: always, it may hold one trace in pieces."""
        return bool(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the trace's events in time order, trace by trace, or raise DecodeError."""
        if isinstance(data, list):
            return [event for export in _by_trace(data) for event in self.read(export, record)]
        export = as_object(data, "a Langfuse export")
        trace = export.get("trace", export if "observations" in export else None)
        if not isinstance(trace, dict):
            raise DecodeError(f'"trace" must be an object, this is {name_of(trace)}; export traces with observations')
        session_id = text_at(trace, "sessionId") or text_at(trace, "id") or derived_session(record.value)
        labels = {"env": label(text_at(trace, "environment"))} if text_at(trace, "environment") else None
        conversation = Conversation(session_id, labels=labels)
        observations = objects_in(export, "observations", "observations")
        return SpanReader(conversation).read([_span(observation) for observation in observations])


def _by_trace(items: list[Json]) -> list[Json]:
    """Return the exports in a list; observations of the same trace are one export."""
    exports: list[Json] = []
    loose: dict[str, list[Json]] = {}
    for item in items:
        if isinstance(item, dict) and "observations" not in item and text_at(item, "traceId"):
            loose.setdefault(text_at(item, "traceId"), []).append(item)
        else:
            exports.append(item)
    for trace_id, observations in loose.items():
        session = next((found for item in observations if (found := text_at(item, "sessionId"))), "")
        exports.append({"trace": {"id": trace_id, "sessionId": session}, "observations": observations})
    return exports


def _span(observation: dict[str, Json]) -> Span:
    name = text_at(observation, "name")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    sort = _SORTS.get(text_at(observation, "type"), "other")
    found: dict[str, Any] = {
        "span_id": text_at(observation, "id")[:200],
        "parent_id": text_at(observation, "parentObservationId")[:200],
        "sort": sort,
        "name": name,
        "start": seconds(observation.get("startTime")),
        "end": seconds(observation.get("endTime")),
        "inputs": observation.get("input"),
        "outputs": observation.get("output"),
        "failed": observation.get("level") == "ERROR",
        "error": text_at(observation, "statusMessage")[:1000],
    }
    if sort == "llm":
        usage, cost = object_at(observation, "usageDetails"), object_at(observation, "costDetails").get("total")
        cost = observation.get("calculatedTotalCost", observation.get("totalCost")) if cost is None else cost
        found["model"], found["usage"] = text_at(observation, "model"), read_usage(usage, cost=cost)
    elif sort == "agent":
        found["agent"] = name[:200]
    elif sort == "retrieval":
        chunks = unpack(found["outputs"])
        found["name"], found["inputs"] = "retrieval", {"query": unpack(found["inputs"])}
        found["outputs"] = chunks if isinstance(chunks, list) or chunks is None else [chunks]
    elif sort == "decision":
        said = unpack(found["outputs"])
        found["decision"] = read_decision(said if isinstance(said, dict) else {"decision": said}, name)
    return Span(**found)
