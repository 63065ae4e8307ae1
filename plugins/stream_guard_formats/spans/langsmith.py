"""LangSmith runs: a root run with its children, a list of runs, or single runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
from stream_guard_formats.chat.messages import SESSION_FIELDS, unpack
from stream_guard_formats.conversation import Conversation, derived_session
from stream_guard_formats.reading import (
    first_object,
    has_fields,
    name_of,
    object_at,
    objects_in,
    objects_of,
    seconds,
    text_at,
)
from stream_guard_formats.spans.raw_spans import Span, SpanSort
from stream_guard_formats.spans.span_reader import SpanReader

_SORTS: Final[dict[str, SpanSort]] = {"llm": "llm", "tool": "tool", "retriever": "retrieval"}
_LONGEST_REPR: Final = 10_000
_DEEPEST: Final = 100


class LangSmithDecoder(JsonDecoder):
    """Reads runs with ``run_type``. Chains around calls repeat what the calls hold, and only group them."""

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a run, or a list of runs."""
        is_run = has_fields(data, "run_type", "inputs") or has_fields(data, "run_type", "child_runs")
        return 0.95 if is_run or "run_type" in first_object(data) else 0.0

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one record: always, it may hold one trace in pieces."""
        return bool(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the runs in time order, session by session, or raise DecodeError."""
        if isinstance(data, dict) and "run_type" not in data:
            data = data.get("runs", data)
        if not isinstance(data, list):
            data = [data]
        roots = objects_of(data, "runs", "runs")
        if not any("run_type" in run for run in roots):
            raise DecodeError(
                f'a LangSmith run has "run_type", and this {name_of(data[0]) if data else "list"} has none'
            )
        sessions: dict[str, list[dict[str, Json]]] = {}
        for run in _walk(roots):
            sessions.setdefault(text_at(run, "trace_id") or text_at(run, "id"), []).append(run)
        events: list[Event] = []
        for trace_id, runs in sessions.items():
            session_id = next((name for run in runs if (name := _thread(run))), "")
            conversation = Conversation(session_id or trace_id or derived_session(record.value))
            events += SpanReader(conversation).read([_span(run) for run in runs])
        return events


def _walk(roots: Sequence[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    """Yield the runs and their children; a child that does not name its parent gets it from its place."""
    left = [(run, 0) for run in reversed(roots)]
    while left:
        run, depth = left.pop()
        yield run
        if depth < _DEEPEST:
            parent = {"parent_run_id": run.get("id"), "trace_id": run.get("trace_id", run.get("id"))}
            children = objects_in(run, "child_runs", "runs")
            left += [
                (parent | {key: value for key, value in child.items() if value}, depth + 1)
                for child in reversed(children)
            ]


def _thread(run: dict[str, Json]) -> str:
    # The session_id of a run itself is its project.
    metadata = object_at(object_at(run, "extra"), "metadata") or object_at(run, "metadata")
    return text_at(metadata, *SESSION_FIELDS)


def _span(run: dict[str, Json]) -> Span:
    sort = _SORTS.get(text_at(run, "run_type"), "other")
    metadata = object_at(object_at(run, "extra"), "metadata")
    agent = text_at(metadata, "lc_agent_name", "ls_agent_name")
    if sort == "other" and agent and agent == text_at(run, "name"):
        sort = "agent"
    inputs, outputs = run.get("inputs"), run.get("outputs")
    answer: dict[str, Json] = {}
    generation: dict[str, Json] = {}
    if sort == "llm":
        generation = _generation(outputs)
        answer = object_at(generation, "message")
        outputs = [answer] if answer else [text_at(generation, "text")] if generation else outputs
        inputs = inputs.get("messages", inputs.get("prompts", inputs)) if isinstance(inputs, dict) else inputs
    elif sort == "tool":
        inputs = _arguments(inputs)
        outputs = outputs.get("output", outputs) if isinstance(outputs, dict) else outputs
    elif sort == "retrieval":
        outputs = _chunks(outputs)
    failed = bool(run.get("error")) or run.get("status") == "error"
    return Span(
        span_id=text_at(run, "id")[:200],
        parent_id=text_at(run, "parent_run_id")[:200],
        sort=sort,
        name="retrieval" if sort == "retrieval" else text_at(run, "name"),
        start=seconds(run.get("start_time")),
        end=seconds(run.get("end_time")),
        inputs=inputs,
        outputs=outputs if outputs is not None or not failed else text_at(run, "error"),
        call_id=_call_id(outputs) if sort == "tool" else "",
        failed=failed,
        error=text_at(run, "error")[:1000] if sort == "llm" else "",
        model=_model(run, answer) if sort == "llm" else "",
        usage=_usage(run, answer) if sort == "llm" else None,
        stop_reason=_stop_reason(run, answer, generation) if sort == "llm" else "",
    )


def _generation(outputs: Json) -> dict[str, Json]:
    """Return the first generation of the first prompt, as LangChain records it, or an empty object."""
    found = outputs.get("generations") if isinstance(outputs, dict) else None
    while isinstance(found, list) and found:
        found = found[0]
    return found if isinstance(found, dict) else {}


def _fields(answer: dict[str, Json]) -> dict[str, Json]:
    return object_at(answer, "kwargs") or object_at(answer, "data") or answer


def _model(run: dict[str, Json], answer: dict[str, Json]) -> str:
    extra = object_at(run, "extra")
    return (
        text_at(object_at(_fields(answer), "response_metadata"), "model_name", "model")
        or text_at(object_at(run, "outputs"), "model")
        or text_at(object_at(extra, "metadata"), "ls_model_name")
        or text_at(object_at(extra, "invocation_params"), "model", "model_name")
    )


def _usage(run: dict[str, Json], answer: dict[str, Json]) -> Json:
    outputs = object_at(run, "outputs")
    said = _fields(answer).get("usage_metadata") or outputs.get("usage_metadata") or outputs.get("usage")
    reported = object_at(object_at(outputs, "llm_output"), "token_usage")
    counted = {name: run[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens") if run.get(name)}
    return said or reported or counted or None


def _stop_reason(run: dict[str, Json], answer: dict[str, Json], generation: dict[str, Json]) -> str:
    if run.get("error"):
        return "error"
    metadata = object_at(_fields(answer), "response_metadata")
    choices = object_at(run, "outputs").get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return (
        text_at(metadata, "finish_reason", "stop_reason")
        or text_at(object_at(generation, "generation_info"), "finish_reason", "stop_reason")
        or text_at(first, "finish_reason")
    )[:100]


def _arguments(inputs: Json) -> Json:
    """Return the arguments of a tool's run. LangChain writes them as Python does, under ``input``."""
    if not isinstance(inputs, dict) or set(inputs) != {"input"}:
        return inputs
    written = inputs["input"]
    if not isinstance(written, str):
        return written
    read = unpack(written)
    if isinstance(read, str) and read[:1] == "{" and len(read) <= _LONGEST_REPR:
        try:
            return ast.literal_eval(read)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return read
    return read


def _chunks(outputs: Json) -> Json:
    """Return the documents that a retriever found, as objects with ``text``."""
    found = outputs.get("documents") if isinstance(outputs, dict) else outputs
    if not isinstance(found, list):
        return outputs
    texts = (text_at(_fields(one), "page_content", "text") if isinstance(one, dict) else one for one in found)
    return [{"text": text} for text in texts]


def _call_id(output: Json) -> str:
    return text_at(_fields(output), "tool_call_id")[:512] if isinstance(output, dict) else ""
