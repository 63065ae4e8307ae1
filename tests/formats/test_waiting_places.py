"""A finding names the line of the record that brought its event, also where the event waited for later records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from stream_guard.cli.app import app
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.errors import Place
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.ports import DecoderMemory
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import SessionLimits, Settings
from stream_guard.storage.stores import CheckpointStore, MemoryStore
from tests.formats.exports import codex_rollout
from tests.formats.session import START
from tests.formats.telemetry import otlp, wrap

RULES = '{"rules": [{"id": "none", "kind": "no_call", "params": {"tool": "line-*"}}]}'
POLICY = load_policy(RULES, build_registry())
AGENT = "f" * 16


def span(trace: str, line: int, *, parent: str = AGENT, at: float | None = None, **more: str) -> dict[str, Any]:
    """Return a call of a tool that is named after the line that brings it."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"line-{line}"} | more
    return plain_span(trace, f"{line:016x}", parent, attributes, float(line) if at is None else at)


def agent(trace: str, at: float, session: str = "") -> dict[str, Any]:
    """Return the span around the calls of a trace. It names their session, or nobody does."""
    attributes = {"gen_ai.operation.name": "invoke_agent"} | ({"gen_ai.conversation.id": session} if session else {})
    return plain_span(trace, AGENT, "", attributes, at)


def plain_span(trace: str, span_id: str, parent: str, attributes: dict[str, str], at: float) -> dict[str, Any]:
    time = str(int((START + at) * 1e9))
    return {
        "traceId": trace * 32,
        "spanId": span_id,
        "parentSpanId": parent,
        "startTimeUnixNano": time,
        "endTimeUnixNano": time,
        "attributes": [{"key": name, "value": wrap(value)} for name, value in attributes.items()],
    }


# Two sessions in turns; each agent's span, which all its calls wait for, comes after them.
INTERLEAVED = [
    [span("a", 1)],
    [span("b", 2)],
    [span("a", 3), span("b", 3)],
    [span("b", 4)],
    [agent("a", 5.0, "one")],
    [agent("b", 6.0)],
    [span("a", 7)],
]


def as_otlp(spans: list[dict[str, Any]]) -> bytes:
    return otlp(spans)[0]


def as_flat(spans: list[dict[str, Any]]) -> bytes:
    return json.dumps(spans).encode()


def write(file: Path, records: Iterable[bytes]) -> Path:
    file.write_bytes(b"".join(record.strip() + b"\n" for record in records))
    return file


def lines_of(found: Sequence[Finding]) -> list[tuple[str, int]]:
    """Return the tool of each finding and the line that it names."""
    tools = (re.search(r"line-\d+", finding.detail) for finding in found)
    return [(tool[0] if tool else "", finding.line) for tool, finding in zip(tools, found, strict=True)]


def right(found: Sequence[Finding]) -> bool:
    return all(tool == f"line-{line}" for tool, line in lines_of(found))


def judged(records: Sequence[Record], *, settings: Settings | None = None, recorded: bool = False) -> list[Finding]:
    """Return what a run finds, with the events that waited to the end."""
    found, counts = list[Finding](), Counts()
    assembly = Assembly(settings or Settings())
    table = Judge(POLICY, assembly.settings.sessions, mode="batch" if recorded else "stream", counts=counts)
    decoder = assembly.make_decoder("auto", recorded=recorded)
    pipeline = Pipeline(decoder, table, DeadLetters(None, counts, format_name="auto"), RecordPlaces())
    pipeline.run(list(records), found)
    pipeline.finish(found)
    return found


def records(lines: Sequence[list[dict[str, Any]]], encode: Any = as_otlp) -> list[Record]:
    return [Record(encode(spans), "a.jsonl", number, number) for number, spans in enumerate(lines, 1)]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("encode", [as_otlp, as_flat])
def test_calls_of_two_sessions_in_turns_stand_in_their_own_lines(encode: Any, *, recorded: bool) -> None:
    found = judged(records(INTERLEAVED, encode), recorded=recorded)
    assert sorted(line for _, line in lines_of(found)) == [1, 2, 3, 3, 4, 7]
    assert right(found)
    assert {finding.file for finding in found} == {"a.jsonl"}


def test_a_call_that_a_later_record_releases_stands_in_its_own_line() -> None:
    released = judged(records([[span("a", 1)], [agent("a", 2.0)]]))
    given_up = judged(records([[span("a", 1)], [span("b", 2, at=500.0)]]))
    assert lines_of(released) == [("line-1", 1)]
    assert lines_of(given_up) == [("line-1", 1), ("line-2", 2)]


def test_what_waits_on_while_others_are_told_keeps_its_line() -> None:
    """Two calls are told after their wait; the two behind them wait on, each in a row of its own record."""
    lacking = [[span("a", n, parent=f"{n + 90:016x}", at=at)] for n, at in enumerate((0.0, 0.1, 28.0, 29.0), 1)]
    found = judged(records([[agent("a", 0.0)], *lacking[1:], [span("b", 5, at=31.0)]]))
    assert sorted(lines_of(found)) == [("line-2", 2), ("line-3", 3), ("line-4", 4), ("line-5", 5)]


def places_of(file: Path, form: str = "auto", settings: Settings | None = None) -> list[tuple[Event, Place | None]]:
    """Return the events of a recording, each with its place as it was known when the event came."""
    places = RecordPlaces()
    with Assembly(settings or Settings()) as assembly:
        events = assembly.read_events([str(file)], form, places=places)
        return [(event, places.of(event.session_id, event.event_id)) for event in events]


def test_content_in_a_log_record_and_its_span_stand_where_the_first_of_them_does(tmp_path: Path) -> None:
    said = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
    log = {
        "traceId": "a" * 32,
        "spanId": "e" * 16,
        "eventName": "gen_ai.client.inference.operation.details",
        "timeUnixNano": str(int((START + 1) * 1e9)),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": wrap("chat")},
            {"key": "gen_ai.input.messages", "value": wrap(json.dumps(said))},
        ],
    }
    chat = plain_span("a", "e" * 16, "", {"gen_ai.operation.name": "chat"}, 1.0)
    file = write(tmp_path / "a.jsonl", [as_otlp([span("a", 1, at=9.0)]), *otlp([], [log]), *otlp([chat])])
    told = places_of(file)
    assert [(type(event), place.line if place else 0) for event, place in told] == [
        (UserMessage, 2),
        (Turn, 2),
        (ToolCall, 1),
        (ToolResult, 1),
    ]


def test_an_answer_of_a_rollout_and_its_results_stand_in_their_own_lines(tmp_path: Path) -> None:
    """An answer waits for its tokens, and the results of its calls wait with it."""
    written = codex_rollout()
    file = write(tmp_path / "rollout.jsonl", written)
    calls = 0
    for event, place in places_of(file, "codex-rollout"):
        assert place is not None
        line = written[place.line - 1]
        if isinstance(event, ToolResult):
            calls += 1
            assert b"function_call_output" in line
            assert event.call_id.encode() in line
        elif isinstance(event, Turn):
            first = event.response["content"][0]
            assert (first.get("text") or first["id"]).encode() in line
    assert calls > 1


def test_the_tenant_of_a_session_does_not_hide_the_line(tmp_path: Path) -> None:
    """Decoders know the session by its own name, and tell of it before it has its tenant's."""
    by_service = Settings(sessions=SessionLimits(tenant_label="service"))
    lines = [[span("a", 1), agent("a", 2.0, "s")], [span("b", 1), agent("b", 3.0, "s")]]
    exports = [json.loads(as_otlp(spans)) for spans in lines]
    for export, name in zip(exports, ("acme", "zeta"), strict=True):
        named = [{"key": "service.name", "value": wrap(name)}]
        export["resourceSpans"][0]["resource"] = {"attributes": named}
    file = write(tmp_path / "a.jsonl", (json.dumps(export).encode() for export in exports))
    found = [(event.session_id, event.event_id, place) for event, place in places_of(file, settings=by_service)]
    (one, other) = [entry for entry in found if entry[1].startswith("c")]
    assert [one[0], one[2], other[0], other[2]] == ["acme/s", Place(str(file), 1), "zeta/s", Place(str(file), 2)]


def test_lines_outlive_a_restart_of_a_run(tmp_path: Path) -> None:
    """What waits is stored with the line of its record."""
    found = list[Finding]()
    read = records([[span("a", 1)], [span("a", 2)], [agent("a", 3.0)]])
    for record in read:
        with closing(CheckpointStore(tmp_path / "state.db")) as store:
            table = Judge(POLICY, mode="stream", store=store)
            letters = DeadLetters(None, Counts(), format_name="otlp-json")
            Pipeline(Assembly().make_decoder("otlp-json"), table, letters, RecordPlaces()).run([record], found)
            table.commit()
            store.commit({})
    assert lines_of(found) == [("line-1", 1), ("line-2", 2)]


def test_records_without_lines_are_stored_without_a_place() -> None:
    """A worker's rows are as large as before: the topic and the offset are no place."""
    memory = DecoderMemory(MemoryStore())
    decoder: Any = Assembly().make_decoder("otlp-json")
    decoder.remember(memory).decode(Record(as_otlp([span("a", 1)]), "topic/0", 7))
    [row] = [memory.get(name) for name in memory.rows() if name.startswith("w")]
    assert row is not None
    assert row.endswith(b',"","",0]')


@given(order=st.permutations(range(4)), recorded=st.booleans())
def test_lines_are_right_in_any_order_of_calls_and_the_span_around_them(order: list[int], *, recorded: bool) -> None:
    """The span around comes anywhere; times are those of the calls, so some come late and some are given up."""
    lines = [[agent("a", 40.0)] if one == 0 else [span("a", at, at=12.0 * one)] for at, one in enumerate(order, 1)]
    found = judged(records(lines), recorded=recorded)
    assert len(found) == 3
    assert right(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files; a trace begins in one and ends in the other."""
    root = tmp_path_factory.mktemp("waiting")
    traces = root / "traces"
    traces.mkdir()
    write(traces / "1.jsonl", [as_otlp([span("a", 1)]), as_otlp([span("b", 2)]), as_otlp([span("a", 3)])])
    write(traces / "2.jsonl", [as_otlp([span("b", 1)]), as_otlp([agent("a", 8.0)]), as_otlp([agent("b", 9.0)])])
    (root / "policy.json").write_text(RULES)
    return root


def check(folder: Path, *traces: str, form: str) -> str:
    command = ["check", *(str(folder / trace) for trace in traces), "--policy", str(folder / "policy.json")]
    done = CliRunner().invoke(app, [*command, "--format", form])
    assert done.exit_code == 1, done.output
    return done.stdout


@pytest.mark.parametrize("traces", [("traces",), ("traces/1.jsonl", "traces/2.jsonl")])
def test_check_names_the_right_file_and_line(folder: Path, traces: tuple[str, ...]) -> None:
    rows = json.loads(check(folder, *traces, form="json"))
    assert sorted((Path(row["file"]).name, row["line"], row["detail"]) for row in rows) == [
        ("1.jsonl", 1, "line-1 was called"),
        ("1.jsonl", 2, "line-2 was called"),
        ("1.jsonl", 3, "line-3 was called"),
        ("2.jsonl", 1, "line-1 was called"),
    ]


def test_sarif_and_the_table_show_the_same_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    [run] = json.loads(check(folder, "traces", form="sarif"))["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    shown = sorted((place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places)
    assert shown == [("traces/1.jsonl", 1), ("traces/1.jsonl", 2), ("traces/1.jsonl", 3), ("traces/2.jsonl", 1)]
    monkeypatch.setenv("FORCE_COLOR", "1")  # on a terminal
    monkeypatch.setenv("COLUMNS", "200")
    table = check(folder, "traces", form="table")
    assert all(f"{file}:{line}" in table for file, line in shown), table
