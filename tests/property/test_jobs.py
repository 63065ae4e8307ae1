"""``--jobs``: however many processes share a recording, the report is the same, byte for byte."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_guard.alerting.delivery import alerts_of
from stream_guard.analysis.never_saw import never_saw
from stream_guard.cli.sharing import Job, open_reader
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.selection import Share, TimeSpan
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Finding
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.running.replay import LocalWorker, Replay
from stream_guard.settings import Settings

REGISTRY = build_registry()
SETTINGS = Settings.model_validate({"decode": {"max_record_bytes": 1024}})  # some are longer
POLICY = b"""
sessions: {idle: 600}
rules:
  - {id: order, kind: must_call_before, params: {first: look, second: pay}}
  - {id: once, kind: must_call_once, params: {tool: pay}}
  - {id: never, kind: no_call, params: {tool: "drop_*"}}
  - {id: calls, kind: max_calls, params: {tool: look, n: 1}}
  - {id: same, kind: must_remain_consistent, params: {path: tool.args.account}}
  - {id: words, kind: forbidden_text, params: {text: "secret"}}
"""
LATE = POLICY.replace(b"{idle: 600}", b"{idle: 600, max_out_of_orderness: 30}")
_SESSIONS = ("a", "b", "c", "ä", "a/b", "\u2028")
_sessions = st.sampled_from(_SESSIONS)
_HOSTILE = (
    b"{broken",
    b"",
    b"null",
    b'{"kind": "turn", "session_id": "\\u0000x"}',
    b'{"kind": "tool_call", "session_id": "a", "tool": "pay", "session_id": "b"}',
    b'{"kind": "tool_call", "session_id": "a", "tool": "pay", "args": {"session_id": "c"}',
    b'{"kind": "tool_call", "session_id": "b", "tool": "pay", "args": {"thread_id": "a"}, "x": }',
    b'{"kind": "tool_call", "session\\u005fid": "a", "args": {"session_id": "b"}, "tool": "drop_it"}',
    b'{"kind": "tool_call", "note": "\\"session_id\\": \\"c\\"", "session_id": "a", "tool": "drop_it"}',
    b'{"kind": "tool_call", "session_id": "c", "tool": "drop_it", "args": {"a": 1, "a": 2}}',
    b'{"kind": "tool_call", "session_id": "c", "time": "yesterday", "tool": "drop_it"}',
    b'{"kind": "tool_call", "session_id": "\\u0061", "tool": "drop_it", "event_id": "u"}',
    b'{"kind": "tool_call", "session_id": "\xff", "tool": "drop_it"}',
    b'{"kind": "nonsense", "session_id": "a"}',
    b'{"sessionId": "a", "type": "user", "uuid": "1", "message": {"role": "user", "content": "secret"}}',
    b'{"type": "system", "subtype": "init", "session_id": "b"}',
    b'[{"kind": "tool_call", "session_id": "a", "tool": "drop_a"}, {"kind": "turn", "session_id": "\\u0000"}]',
    # Read as native only behind a native record, which a share may have left to others.
    b'[{"kind": "tool_call", "session_id": "b", "tool": "drop_b", "run_type": "llm"}]',
    b'{"kind": "tool_call", "session_id": "b", "tool": "drop_it", "args": {"conversation_id": "a"}, "args": 1}',
    b'{"kind": "tool_call", "session_id": "a", "tool": "drop_it", "note": "' + b"x" * 2000 + b'"}',
    b'{"kind": "tool_call", "note": "' + b"x" * 2000 + b'", "session_id": "b", "tool": "drop_it"}',
)


@st.composite
def _event(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(("tool_call", "tool_call", "tool_result", "turn", "user_message", "session_end")))
    event: dict[str, Any] = {"kind": kind}
    if draw(st.booleans()):
        event["time"] = draw(st.sampled_from((1000.0, 1010.0, 1020.5, 1100.0, 5000.0)))
    if draw(st.booleans()):
        event["event_id"] = f"e{draw(st.integers(0, 30))}"
    event["session_id"] = draw(_sessions)
    if kind == "tool_call":
        event |= {"tool": draw(st.sampled_from(("look", "pay", "drop_all"))), "call_id": draw(st.sampled_from("123"))}
        event["args"] = {"account": draw(st.integers(1, 2)), "note": draw(st.sampled_from(("", '"session_id":"b"')))}
    elif kind == "tool_result":
        event |= {"call_id": draw(st.sampled_from("123")), "output": "fine"}
    elif kind == "turn":
        event["response"] = {"content": draw(st.sampled_from(("fine", "a secret"))), "stop_reason": "end_turn"}
    elif kind == "user_message":
        event["text"] = "hello"
    return event


_record = st.one_of(
    _event().map(lambda event: json.dumps(event, ensure_ascii=False).encode()),
    _event().map(lambda event: json.dumps(event, separators=(",", ":")).encode()),
    st.lists(_event(), min_size=1, max_size=3).map(lambda events: json.dumps(events).encode()),
    st.sampled_from(_HOSTILE),
)


def _report(files: tuple[str, ...], policy: bytes, jobs: int, form: str, span: TimeSpan, batch: int) -> tuple[Any, ...]:
    """Return everything that a report is made of."""
    job = Job(files, policy, Path("policy.yaml"), form, jobs, SETTINGS, span)
    found, counts = list[Finding](), Counts()
    letters = DeadLetters(None, counts, format_name=form)

    def keep(given: list[Finding]) -> dict[str, int]:
        found.extend(given)
        return {}

    with Assembly(job.settings, REGISTRY) as assembly:
        workers = [LocalWorker(open_reader(job, Share(number, jobs), assembly)) for number in range(jobs)]
        replay = Replay(workers, keep, letters, batch=batch)
        replay.run()
    summary = replay.summary()
    counts.add(summary.counts)
    # What a rule waits for is looked for until it is seen, in each share; whether it was seen is what is reported.
    numbers = {name: getattr(counts, name) for name in vars(counts) if name not in {"paths", "fields"}}
    missing = never_saw(load_policy(policy, REGISTRY), counts)
    alerts = msgspec.json.encode(alerts_of(found, "v"))
    return alerts, numbers, missing, letters.summary(), letters.total, summary.left_out


@settings(max_examples=settings().max_examples, deadline=None)
@given(
    records=st.lists(_record, max_size=40),
    policy=st.sampled_from((POLICY, LATE)),
    form=st.sampled_from(("auto", "native")),
    span=st.sampled_from((TimeSpan(), TimeSpan(1005.0, 2000.0))),
    batch=st.integers(1, 50),
    cut=st.integers(0, 40),
)
def test_the_report_does_not_depend_on_the_number_of_shares(
    records: list[bytes], policy: bytes, form: str, span: TimeSpan, batch: int, cut: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, part in (("one.jsonl", records[:cut]), ("two.jsonl", records[cut:])):
            file = Path(folder) / name
            file.write_bytes(b"\n".join(part) + b"\n")
            files.append(str(file))
        alone = _report(tuple(files), policy, 1, form, span, batch)
        assert _report(tuple(files), policy, 2, form, span, batch) == alone
        assert _report(tuple(files), policy, 3, form, span, 7) == alone
