"""Spans in many records give the session that they give in one export, whichever record names it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, ToolResult, Turn, UserMessage
from stream_guard.judge.ports import DecoderMemory
from stream_guard.ports import Record
from stream_guard.running.assembly import Assembly
from stream_guard.storage.stores import CheckpointStore, MemoryStore
from tests.formats.session import SESSION_ID, START
from tests.formats.telemetry import TRACE, current, otlp, otlp_span, sketches, wrap
from tests.formats.test_corpus import DECODERS, decode

OTLP = DECODERS["otlp-json"]
NAME = "gen_ai.conversation.id"


def spans_of_the_corpus(*, named: bool = True) -> list[dict[str, Any]]:
    """Return the session's spans, in the order of their ends; the agents', which end last, name the conversation."""
    spans = [otlp_span(one, current(one)) for one in sketches()]
    if not named:
        for span in spans:
            span["attributes"] = [pair for pair in span["attributes"] if pair["key"] != NAME]
    return spans


def chat(number: int, *, turns: int, session: str = "", trace: str = TRACE, parent: str = "") -> dict[str, Any]:
    """Return a call to a model that sends the history of ``turns`` turns before it."""
    history = []
    for turn in range(turns):
        history += [message("user", f"question {turn}"), message("assistant", f"answer {turn}")]
    history.append(message("user", f"question {turns}"))
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.output.messages": json.dumps([message("assistant", f"answer {turns}")]),
    } | ({NAME: session} if session else {})
    at = str(int((START + number) * 1e9))
    return {
        "traceId": trace,
        "spanId": f"{number + 1:016x}",
        "parentSpanId": parent,
        "startTimeUnixNano": at,
        "endTimeUnixNano": at,
        "attributes": [{"key": name, "value": wrap(value)} for name, value in attributes.items()],
    }


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


class Reader:
    """A decoder and the store that its memory is in; the process may die between two records."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.events: list[Event] = []
        self.restart()

    def restart(self) -> None:
        self.memory = DecoderMemory(self.store)
        decoder = OTLP()
        assert decoder.waits
        self.decoder: Any = decoder.remember(self.memory)

    def read(self, exports: Sequence[Sequence[dict[str, Any]]], *, restarts: bool = False) -> Reader:
        for number, spans in enumerate(exports):
            [value] = otlp(list(spans))
            self.events += self.decoder.decode(Record(value, "topic/0", number))
            self.memory.flush()
            if restarts:
                self.restart()
        return self

    def finish(self) -> list[Event]:
        self.events += self.decoder.finish()
        return self.events


@st.composite
def cuts(draw: Any) -> list[list[dict[str, Any]]]:
    """Return the corpus session as exports: cut anywhere, the spans inside the agents' in any order."""
    *inside, last = spans_of_the_corpus()
    spans = [*draw(st.permutations(inside)), last]
    places = sorted(draw(st.sets(st.integers(1, len(spans) - 1))))
    return [spans[start:stop] for start, stop in zip([0, *places], [*places, len(spans)], strict=True)]


@given(exports=cuts(), restarts=st.booleans())
def test_session_is_the_same_however_its_spans_are_cut_into_exports(exports: Any, *, restarts: bool) -> None:
    first_named = next(n for n, export in enumerate(exports) if any(NAME in json.dumps(span) for span in export))
    events = Reader().read(exports, restarts=restarts).finish()
    assert {event.session_id for event in events} == {SESSION_ID}
    if first_named == len(exports) - 1:  # all of it was held back until the end
        assert events == decode("otlp-json")


def test_conversation_that_only_the_last_span_names_gets_all_that_came_before() -> None:
    *before, last = spans_of_the_corpus(named=False)
    last["attributes"].append({"key": NAME, "value": wrap(SESSION_ID)})
    reader = Reader().read([[span] for span in before], restarts=True)
    assert reader.events == []
    assert reader.read([[last]]).events == decode("otlp-json")


def test_conversation_is_named_by_the_best_of_the_names_a_span_has() -> None:
    names = ["thread_id", "session.id", "gen_ai.conversation.id", "session_id"]  # the best last
    for count in range(1, len(names) + 1):
        span = chat(0, turns=0)
        span["attributes"] += [{"key": name, "value": wrap(f"by {name}")} for name in names[:count]]
        assert {event.session_id for event in Reader().read([[span]]).finish()} == {f"by {names[count - 1]}"}


def test_trace_that_nobody_names_is_told_when_its_root_is_there() -> None:
    *before, root = spans_of_the_corpus(named=False)
    reader = Reader().read([before])
    assert reader.events == []
    assert {event.session_id for event in reader.read([[root]]).events} == {TRACE}
    assert [event.event_id for event in reader.events] == [event.event_id for event in decode("otlp-json")]


def test_waiting_ends_by_the_clock_of_the_spans_and_the_trace_stays_a_session_of_its_own() -> None:
    other = "f" * 32
    first = chat(0, turns=0, parent="00000000000000aa")
    reader = Reader().read([[first]], restarts=True)
    reader.read([[chat(59, turns=0, trace=other, session="other")]], restarts=True)
    assert {event.session_id for event in reader.events} == {"other"}
    reader.read([[chat(60, turns=0, trace=other, session="other")]], restarts=True)
    assert {event.session_id for event in reader.events} == {"other", TRACE}
    late = chat(61, turns=1, session=SESSION_ID)
    assert reader.read([[late]]).events[-1].session_id == TRACE


def test_silence_ends_the_waiting_too() -> None:
    reader = Reader().read([[chat(0, turns=0, parent="00000000000000aa")]])
    assert reader.decoder.elapse(59.0) == []
    assert {event.session_id for event in reader.decoder.elapse(1.0)} == {TRACE}


@pytest.mark.parametrize(("field", "bad"), [("traceId", "\0x"), ("named", "\0x"), ("named", "y" * 600)])
def test_id_that_no_session_can_have_is_refused_with_the_record_that_brings_it(field: str, bad: str) -> None:
    reader = Reader().read([[chat(0, turns=0, parent="00000000000000aa")]])
    span = chat(1, turns=0, trace=bad) if field == "traceId" else chat(1, turns=0, session=bad)
    with pytest.raises(DecodeError, match="the session's id"):
        reader.read([[span]])
    assert {event.session_id for event in reader.finish()} == {TRACE}


@pytest.mark.parametrize("number", [str(2**70), "1e308", 2**64, -(2**65)])
def test_span_that_waits_may_hold_numbers_of_any_size(number: Any) -> None:
    span = chat(0, turns=0, parent="00000000000000aa")
    span["attributes"].append({"key": "size", "value": {"intValue": number}})
    assert len(Reader().read([[span]], restarts=True).finish()) == 2


def test_history_is_told_once_however_long_it_is_and_however_often_it_is_sent() -> None:
    exports = [
        [chat(turn, turns=turn, session=SESSION_ID, trace=f"{turn + 1:032x}") for turn in (number,)]
        for number in range(100)
    ]
    events = Reader().read(exports, restarts=True).finish()
    assert [type(event) for event in events] == [UserMessage, Turn] * 100
    assert [event.text for event in events if isinstance(event, UserMessage)] == [f"question {n}" for n in range(100)]
    assert len({event.event_id for event in events}) == len(events)


def test_what_waits_is_in_the_checkpoint_with_the_sessions(tmp_path: Path) -> None:
    *before, last = spans_of_the_corpus(named=False)
    last["attributes"].append({"key": NAME, "value": wrap(SESSION_ID)})
    events: list[Event] = []
    for span in (*before, last):  # a process for every record
        store = CheckpointStore(tmp_path / "progress.db")
        memory = DecoderMemory(store)
        decoder: Any = OTLP()
        events += decoder.remember(memory).decode(Record(otlp([span])[0]))
        memory.flush()
        store.commit({})
        store.close()
    assert events == decode("otlp-json")


def test_span_that_is_delivered_twice_is_told_once() -> None:
    spans = spans_of_the_corpus()
    assert Reader().read([spans, spans, spans[:3]], restarts=True).finish() == decode("otlp-json")


def test_result_that_a_span_leaves_out_is_taken_from_the_call_that_follows() -> None:
    spans = spans_of_the_corpus()
    for span in spans:
        left_out = ("gen_ai.tool.call.result", "gen_ai.tool.call.arguments")
        span["attributes"] = [pair for pair in span["attributes"] if pair["key"] not in left_out]
    wanted = [event for event in decode("otlp-json") if isinstance(event, ToolResult)]
    found = [event for event in Reader().read([spans]).finish() if isinstance(event, ToolResult)]
    assert found == wanted


POLICY = """
rules:
  - id: look-first
    kind: must_call_before
    params: {first: search_rules, second: issue_refund}
  - id: one-mail
    kind: max_calls
    params: {tool: send_mail, n: 0}
"""


def alerts_of(command: list[str], folder: Path) -> list[tuple[str, str, str]]:
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    text = (folder / "alerts.jsonl").read_text() if command[0] == "run" else done.stdout
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return sorted((one["rule_id"], one["session_id"], one["alert_id"]) for one in found)


def test_batch_and_stream_find_the_same_in_a_session_that_is_named_last(tmp_path: Path) -> None:
    policy, recording = tmp_path / "policy.yaml", tmp_path / "spans.jsonl"
    policy.write_text(POLICY)
    lines = [line for span in spans_of_the_corpus() for line in otlp([span])]
    recording.write_bytes(b"".join(lines))
    common = [str(recording), "--policy", str(policy), "--from-format", "otlp-json"]
    batch = alerts_of(["check", *common, "--format", "jsonl"], tmp_path)
    assert {(rule, session) for rule, session, _ in batch} == {("look-first", SESSION_ID), ("one-mail", SESSION_ID)}
    checkpoint, sink = tmp_path / "progress.db", tmp_path / "alerts.jsonl"
    stream = ["run", *common, "--alerts", f"jsonl:{sink}", "--checkpoint", str(checkpoint), "--no-serve"]
    assert alerts_of(stream, tmp_path) == batch


def test_converted_recording_has_its_spans_under_the_conversation_that_is_named_last(tmp_path: Path) -> None:
    recording, written = tmp_path / "spans.jsonl", tmp_path / "events.jsonl"
    *before, last = spans_of_the_corpus(named=False)
    last["attributes"].append({"key": NAME, "value": wrap(SESSION_ID)})
    recording.write_bytes(b"".join(line for span in (*before, last) for line in otlp([span])))
    done = CliRunner().invoke(app, ["convert", str(recording), "--output", str(written)])
    assert done.exit_code == 0, done.output
    native = DECODERS["native"]()
    found = [event for line in written.read_bytes().splitlines() for event in native.decode(Record(line))]
    assert found == decode("otlp-json")


def test_spans_may_be_five_seconds_late_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    assembly, policy, formats = Assembly(), tmp_path / "policy.yaml", ("native", "otlp-json", "otlp-proto")
    policy.write_text(POLICY)
    assert [assembly.load_policy(policy, form).max_out_of_orderness for form in formats] == [0.0, 5.0, 5.0]
    policy.write_text(POLICY + "sessions: {max_out_of_orderness: 0}\n")
    assert [assembly.load_policy(policy, form).max_out_of_orderness for form in formats] == [0.0, 0.0, 0.0]


def test_call_that_is_sent_late_is_judged_in_its_place(tmp_path: Path) -> None:
    policy, recording = tmp_path / "policy.yaml", tmp_path / "spans.jsonl"
    policy.write_text("rules: [{id: r, kind: must_call_before, params: {first: look, second: pay}}]\n")
    tools = {"pay": 3.0, "look": 1.0}  # the one that happened later is sent first
    spans = [otlp([tool(name, at)])[0] for name, at in tools.items()]
    recording.write_bytes(b"".join(spans))
    command = ["check", str(recording), "--policy", str(policy), "--from-format", "otlp-json", "--format", "jsonl"]
    assert CliRunner().invoke(app, command).exit_code == 0
    policy.write_text(policy.read_text().replace("first: look, second: pay", "first: pay, second: look"))
    assert CliRunner().invoke(app, command).exit_code == 1


def tool(name: str, at: float) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, NAME: SESSION_ID}
    attributes |= {"gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "done"}
    moment = str(int((START + at) * 1e9))
    return {
        "traceId": TRACE,
        "spanId": f"{int(at):016x}",
        "parentSpanId": "00000000000000aa",
        "startTimeUnixNano": moment,
        "endTimeUnixNano": moment,
        "attributes": [{"key": key, "value": wrap(value)} for key, value in attributes.items()],
    }
