"""What rules are shown of records: read by one decoder of their format, through the session table, as from a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings
from stream_guard.sources import open_source
from tests.vectors.case import WrongAnswerError

_NEVER: Final = "no text of any record \u2603"

# One rule for each thing that a source may leave out; its results say whether it could be judged.
NEEDS: Final[dict[str, dict[str, Any]]] = {
    "latency": {"kind": "max_latency", "params": {"max_ms": 10**9}},
    "content": {"kind": "forbidden_text", "params": {"text": _NEVER, "where": "response"}},
    "args": {"kind": "forbidden_text", "params": {"text": _NEVER, "where": "tool_args"}},
    "output": {"kind": "forbidden_text", "params": {"text": _NEVER, "where": "tool_result"}},
    "clock": {
        "kind": "tool_guard",
        "params": {"when": {"call_count_in_window_gt": {"value": 4000, "windowSeconds": 1}}},
    },
}


class Shown(NamedTuple):
    """The events that rules were shown, in order, and what rules and decoder made of the records."""

    events: Sequence[sg.Event]
    fired: frozenset[str]  # ids of the rules that found something
    unevaluable: frozenset[str]  # ids of the rules that could not judge everything
    refused: Sequence[str]  # reasons of the records that became no events


def show(form: str, records: Iterable[bytes], rules: Sequence[dict[str, Any]] = (), file: str = "") -> Shown:
    """Return what rules are shown; with ``file``, the records are the text of a file of that name."""
    return show_records(form, _read_file(file, records) if file else _as_topic(records), rules)


def show_records(form: str, records: Iterable[Record], rules: Sequence[dict[str, Any]] = ()) -> Shown:
    """Return what rules are shown of records."""
    events: list[sg.Event] = []
    installed = build_registry(extra=[_recorder(events)])
    assembly = Assembly(Settings(), installed)
    if form not in installed.decoders:
        raise WrongAnswerError(f"there is no format {form}; installed: {', '.join(installed.decoders)}")
    written = [{"id": "recorder", "kind": "recorder"}, *({"id": name, **rule} for name, rule in NEEDS.items()), *rules]
    policy = assembly.fit(load_policy(json.dumps({"rules": written}), installed, file="case.json"), form)
    counts = Counts()
    table = Judge(policy, mode="stream", counts=counts)
    refused = _Refusals()
    pipeline = Pipeline(assembly.make_decoder(form), table, refused)
    found: list[Finding] = []
    pipeline.run(list(records), found)
    pipeline.finish(found)
    found += table.end()
    unsure = frozenset(policy.rules[position].id for position, number in counts.unevaluable.items() if number)
    return Shown(events, frozenset(finding.rule_id for finding in found), unsure, refused.reasons)


class _Refusals:
    """Remembers why records were refused."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def add(self, _record: Record, reason: str) -> None:
        self.reasons.append(reason)


def _recorder(events: list[sg.Event]) -> object:
    class Recorder(sg.Rule[sg.Params, sg.NoState]):
        """Remembers every event that a rule is shown."""

        kind = "recorder"
        examples = ()

        def on_user_message(self, message: sg.UserMessage, _state: sg.NoState) -> None:
            events.append(message)

        def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> None:
            events.append(turn)

        def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> None:
            events.append(call)

        def on_decision(self, decision: sg.GateDecision, _state: sg.NoState) -> None:
            events.append(decision)

        def on_tool_result(self, result: sg.ToolResult, _state: sg.NoState) -> None:
            events.append(result)

    class Plugin:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [Recorder]

    return Plugin()


def _as_topic(records: Iterable[bytes]) -> list[Record]:
    return [Record(value, "telemetry/0", number) for number, value in enumerate(records)]


def _read_file(name: str, records: Iterable[bytes]) -> list[Record]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_bytes(b"\n".join(records))
        source = open_source(str(path))
        try:
            return [record for record in source if record is not None]
        finally:
            source.close()


def attempts(events: Iterable[sg.Event]) -> dict[int, sg.ToolCall]:
    """Return the attempts by their number."""
    return {event.attempt: event for event in events if isinstance(event, sg.ToolCall)}


def texts_in(value: Any) -> str:
    """Return every text in a value, and the value as JSON, one to a line."""
    found: dict[str, None] = {}
    _collect(value, found)
    return "\n".join([*found, json.dumps(value, ensure_ascii=False, default=str)])


def _collect(value: Any, found: dict[str, None]) -> None:
    if isinstance(value, str):
        found[value] = None
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(key, found)
            _collect(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
