"""However the spans of a trace are cut into records, shuffled or sent twice, they become the same events."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, Turn, UserMessage
from stream_guard.judge.ports import DecoderMemory
from stream_guard.ports import Record
from stream_guard.settings import Settings
from stream_guard.storage.stores import MemoryStore
from tests.formats.telemetry import otlp_current, otlp_events
from tests.formats.test_conventions import NAMED, call, chat, export, span, text
from tests.formats.test_corpus import DECODERS, decode

Unit = tuple[str, Any]  # a span, or a log record
LIVE = Settings()
RECORDED = LIVE.model_copy(update={"decode": LIVE.decode.model_copy(update={"parent_wait": inf})})


class Spans:
    """Reads exports, as live telemetry or as a recording; the process may die between two of them."""

    def __init__(self, *, recorded: bool, restarts: bool = False) -> None:
        self.counts = Counts()
        self.events: list[Event] = []
        self._recorded, self._restarts = recorded, restarts
        self._store = MemoryStore()
        self._restart()

    def _restart(self) -> None:
        self._memory = DecoderMemory(self._store, self.counts)
        decoder: Any = DECODERS["otlp-json"]
        self._decoder = decoder.configure(RECORDED if self._recorded else LIVE).remember(self._memory)

    def read(self, *exports: Any) -> list[Event]:
        """Return the events of the exports, as far as they are told."""
        found: list[Event] = []
        for one in exports:
            found += self._decoder.decode(Record(json.dumps(one).encode()))
            self._memory.flush()
            if self._restarts:
                self._restart()
        self.events += found
        return found

    def elapse(self, seconds: float) -> list[Event]:
        found: list[Event] = self._decoder.elapse(seconds)
        self.events += found
        return found

    def finish(self) -> list[Event]:
        self.events += self._decoder.finish()
        return self.events


def units(record: bytes) -> list[Unit]:
    """Return the spans and the log records of an export, one by one."""
    data = json.loads(record)
    spans = [one for resource in data["resourceSpans"] for scope in resource["scopeSpans"] for one in scope["spans"]]
    logs = [
        one
        for resource in data.get("resourceLogs", ())
        for scope in resource["scopeLogs"]
        for one in scope["logRecords"]
    ]
    return [*(("span", one) for one in spans), *(("log", one) for one in logs)]


def exported(found: Sequence[Unit]) -> dict[str, Any]:
    return export(*([one for sort, one in found if sort == wanted] for wanted in ("span", "log")))


@st.composite
def exports(draw: Any, whole: list[Unit]) -> list[dict[str, Any]]:
    """Return the spans in exports of any size, in any order, some of them twice."""
    found = draw(st.permutations([*whole, *draw(st.lists(st.sampled_from(whole), max_size=4))]))
    places = sorted(draw(st.sets(st.integers(1, len(found) - 1))))
    return [exported(found[a:b]) for a, b in zip([0, *places], [*places, len(found)], strict=True)]


@given(data=st.data(), restarts=st.booleans())
def test_recording_gives_the_same_events_in_whatever_order_its_spans_are(data: Any, *, restarts: bool) -> None:
    [record] = otlp_current()
    spans = Spans(recorded=True, restarts=restarts)
    spans.read(*data.draw(exports(units(record))))
    assert spans.finish() == decode("otlp-json")
    assert spans.counts.orphan_spans == 0


@given(data=st.data(), again=st.booleans())
def test_messages_in_log_records_are_joined_with_their_spans_in_whatever_order_they_come(
    data: Any, *, again: bool
) -> None:
    [record] = otlp_events()
    found = units(record)
    for place, (sort, one) in enumerate(found):  # what was logged first has the earlier time
        if sort == "log":
            one["observedTimeUnixNano"] = str(int(one["observedTimeUnixNano"]) + place * 1000)
    spans = Spans(recorded=True)
    spans.read(*(exported([one]) for one in data.draw(st.permutations(found * 2 if again else found))))
    assert spans.finish() == decode("otlp-json:events")


@given(data=st.data(), restarts=st.booleans())
def test_live_spans_that_are_sent_when_they_end_give_the_same_events(data: Any, *, restarts: bool) -> None:
    [record] = otlp_current()
    whole = units(record)
    places = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
    cut = [exported(whole[a:b]) for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    spans = Spans(recorded=False, restarts=restarts)
    assert spans.read(*cut) == decode("otlp-json")
    assert spans.read(*cut) == spans.elapse(inf) == []


AGENT = NAMED | {"gen_ai.operation.name": "invoke_agent"}
TOOL = NAMED | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask", "gen_ai.tool.call.id": "c1"}
ASKED = chat(2, 1, (1, 2), [text("user", "Who won?")], [call("c1", "ask", {"q": "final"})])
PROMPT = chat(5, 4, (3, 4), [text("user", "final")], [text("assistant", "Spain.")])
INNER = span(4, 3, (3, 5), AGENT | {"gen_ai.agent.name": "researcher"})
ASK = span(3, 1, (2, 6), TOOL | {"gen_ai.tool.call.arguments": '{"q": "final"}', "gen_ai.tool.call.result": "Spain."})


def outer(end: float, parent: int = 0) -> dict[str, Any]:
    return span(1, parent, (0, end), AGENT | {"gen_ai.agent.name": "lead"})


def other_trace(at: float) -> dict[str, Any]:
    """Return a span of another trace, which moves the clock."""
    return export([chat(9, 0, (at, at), [text("user", "hi")], []) | {"traceId": "b" * 32}])


def agents(events: Sequence[Event]) -> dict[str, str]:
    """Return who said each thing, and who called each tool."""
    found = {event.text: event.agent for event in events if isinstance(event, UserMessage)}
    for event in events:
        blocks = event.response["content"] if isinstance(event, Turn) else []
        found |= {block.get("text") or block["name"]: event.agent for block in blocks}
    return found


def test_live_spans_wait_for_the_agents_around_them_and_a_prompt_of_an_agent_is_no_users() -> None:
    spans = Spans(recorded=False, restarts=True)
    assert spans.read(*(export([one]) for one in (ASKED, PROMPT, INNER, ASK))) == []
    events = spans.read(export([outer(20)]))
    assert agents(events) == {"Who won?": "lead", "ask": "lead", "Spain.": "researcher"}
    assert [event.text for event in events if isinstance(event, UserMessage)] == ["Who won?"]
    assert spans.counts.orphan_spans == 0


@pytest.mark.parametrize("parent", ["remote", "still running"])
def test_parent_that_does_not_come_delays_nothing_for_longer_than_the_wait(parent: str) -> None:
    spans = Spans(recorded=False, restarts=True)
    assert spans.read(export([ASKED]), other_trace(31.9)) != []
    assert {event.session_id for event in spans.events} == {"conv-1"}  # the other trace's, whose root is there
    told = spans.read(other_trace(32.0))
    assert [type(event) for event in told] == [UserMessage, Turn]
    assert spans.counts.orphan_spans == 1
    more = chat(6, 1, (40, 41), [text("user", "And now?")], [text("assistant", "Done.")])
    assert agents(spans.read(export([more]))) == {"And now?": "", "Done.": ""}  # for the same parent, nothing waits
    assert spans.counts.orphan_spans == 2
    late = outer(50) if parent == "still running" else outer(50, parent=7)
    assert spans.read(export([late])) == []
    assert spans.finish()[-1] is spans.events[-1]
    again = chat(8, 1, (51, 52), [text("user", "Bye.")], [text("assistant", "Bye!")])
    assert agents(spans.read(export([again])) or spans.finish())["Bye!"] == "lead"


def test_silence_ends_the_wait_for_a_parent() -> None:
    spans = Spans(recorded=False)
    spans.read(export([ASKED]))
    assert spans.elapse(29.9) == []
    assert len(spans.elapse(0.1)) == 2


def test_what_is_given_up_for_one_parent_still_waits_for_another() -> None:
    spans = Spans(recorded=False, restarts=True)
    spans.read(export([ASKED]), export([chat(5, 4, (30, 31), [text("user", "final")], [text("assistant", "Spain.")])]))
    told = spans.read(other_trace(32.0))
    assert "Spain." not in agents(told)
    inner = span(4, 3, (29, 33), AGENT | {"gen_ai.agent.name": "researcher"})
    assert spans.read(export([inner])) == []
    asking = span(3, 1, (28, 34), TOOL)
    assert agents(spans.read(export([asking])))["Spain."] == "researcher"


def test_spans_that_wait_for_many_parents_are_told_a_few_times_and_not_one_by_one() -> None:
    spans = Spans(recorded=False)
    for number in range(100):  # one every 30 ms, each with a parent of its own that never comes
        at = number * 0.03
        spans.read(export([chat(1000 + number, 5000 + number, (at, at), [text("user", f"question {number}")], [])]))
    told = [len(spans.elapse(0.03)) for _ in range(1200)]
    assert sum(told) == 200
    assert 0 < sum(count > 0 for count in told) <= 4


def test_spans_without_any_time_wait_no_longer_than_others() -> None:
    timeless = {key: value for key, value in ASKED.items() if "TimeUnixNano" not in key}
    spans = Spans(recorded=False)
    assert spans.read(export([timeless])) == []
    assert len(spans.elapse(30.0)) == 2


def test_too_much_that_waits_is_told_without_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from stream_guard_formats.spans import stitching  # the limit is the plugin's own

    monkeypatch.setattr(stitching, "_MAX_ALL_BYTES", 3000)
    spans = Spans(recorded=True)
    for number in range(20):
        spans.read(export([ASKED | {"traceId": f"{number:032x}"}]))
    assert 0 < spans.counts.orphan_spans < 20
    assert len([event for event in spans.finish() if isinstance(event, Turn)]) == 20


def test_rows_in_which_spans_once_waited_are_read() -> None:
    from stream_guard_formats.spans.stitching import TraceRow, encode_row

    first = Spans(recorded=False)
    [raw] = _raws(export([ASKED]))
    memory = DecoderMemory(first._store)
    memory.put(f"t{raw.trace_id}", encode_row(TraceRow("conv-1", 61.0, "shop", [raw])), 0.0)
    memory.flush()
    first._restart()
    events = first.read(export([outer(20)]))
    assert agents(events) == {"Who won?": "lead", "ask": "lead"}


def _raws(data: Any) -> list[Any]:
    from stream_guard_formats.spans.otlp_json import _spans

    return list(_spans(data))


def test_recording_is_read_to_its_end_however_long_its_agent_ran(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text("".join(json.dumps(export([one])) + "\n" for one in (ASKED, PROMPT, INNER, ASK, outer(4000))))
    events = list(sg.read_events(file))
    assert agents(events) == {"Who won?": "lead", "ask": "lead", "Spain.": "researcher"}
    assert [event.text for event in events if isinstance(event, UserMessage)] == ["Who won?"]


def cases() -> list[Any]:
    file = Path(__file__).parent.parent / "golden" / "vectors" / "telemetry" / "cases.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [pytest.param(one, id=one["name"]) for one in found if one["format"] == "otlp-json"]


def single(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return records of one span or one log record each, with the resource that it is from."""
    found = []
    for record in (json.loads(one) if isinstance(one, str) else one for one in records):
        for sort, scopes, ones in (
            ("resourceSpans", "scopeSpans", "spans"),
            ("resourceLogs", "scopeLogs", "logRecords"),
        ):
            for resource in record.get(sort, ()):
                for scope in resource[scopes]:
                    found += [{sort: [resource | {scopes: [scope | {ones: [one]}]}]} for one in scope[ones]]
    return found


@pytest.mark.parametrize("case", cases())
def test_case_of_telemetry_gives_the_same_events_in_whatever_order_its_spans_are(case: dict[str, Any]) -> None:
    found = single(case["records"])
    wanted = _read(found)
    by_end = sorted(found, key=lambda one: json.dumps(one).rpartition("endTimeUnixNano")[2][:30])
    for order in (by_end, found[::-1], random.Random(7).sample(found, len(found)), found + found):
        assert _read(order) == wanted
    assert _read([json.loads(one) if isinstance(one, str) else one for one in case["records"]]) == wanted


def _read(records: Sequence[Any]) -> dict[str, list[Event]]:
    """Return the events by session, in order."""
    spans = Spans(recorded=True)
    spans.read(*records)
    by_session: dict[str, list[Event]] = {}
    for event in spans.finish():
        by_session.setdefault(event.session_id, []).append(event)
    return by_session
