"""Hook vectors: what coding agents give a hook, and what it answers, asked of a real gate over HTTP."""

from __future__ import annotations

import base64
import contextlib
import copy
import io
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from stream_guard.agent_hooks.command import main
from stream_guard.agent_hooks.dialects import dialect_of
from tests.agent_plugins import NODE, play
from tests.vectors.case import CannotRunError, LeftOut, WrongAnswerError, check_fields, expect
from tests.wires.gate import serving

_KNOWN: Final = frozenset(
    (
        *("id", "agent", "event", "stdin", "stdin_b64", "grow", "carrier", "before", "why", "source"),
        *("pause_as", "gate", "on_error", "gate_says", "policy_wish", "expect"),
    )
)
_THEN: Final = {"block": "block", "pause": "pause", "terminate": "terminate_session"}
_MARKS: Final = frozenset(("hook_event_name", "event", "hookName", "agent_action_name", "hook", "sessionId"))
_NO_GATE: Final = "http://127.0.0.1:9"


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case: the smallest policy under which the gate decides as it says, then the hook as its agent starts it."""
    check_fields("the fields", case, _KNOWN)
    wanted = case["expect"]
    with _gate(case) as gate:
        if case.get("carrier") == "plugin":
            said, code, stderr = _plugin(case, gate), None, ""
        elif case.get("carrier") == "http":
            said, code, stderr = _post(case, gate)
        else:
            said, code, stderr = start(case, gate)
    _compare("answer", said, wanted.get("stdout_json"))
    expect("exit", code, wanted.get("exit"))
    if wanted.get("stderr_contains") is not None and wanted["stderr_contains"].lower() not in stderr.lower():
        raise WrongAnswerError(f"standard error: got {stderr!r}, expected it to say {wanted['stderr_contains']!r}")
    return None


@contextlib.contextmanager
def _gate(case: dict[str, Any]) -> Iterator[str]:
    if case.get("gate") == "down":
        yield _NO_GATE
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), json.dumps(_policy(case))) as (address, _),
    ):
        _play_earlier(case, address)
        yield address


def _play_earlier(case: dict[str, Any], address: str) -> None:
    """Let the session do what it did before: payloads go through the hook, calls that are only named are told."""
    before = case.get("before") or []
    for number, one in enumerate(before if isinstance(before, list) else [before]):
        payload = one.get("stdin", one) if isinstance(one, dict) else {"tool": one}
        if not isinstance(payload, dict):
            raise CannotRunError("this runner knows before as payloads, or as calls that are named")
        if _MARKS & payload.keys():
            start({**case, "stdin": payload, "stdin_b64": None, "grow": None}, address)
            continue
        session = dialect_of(case["agent"]).read(case["stdin"], str(case.get("event") or "")).session
        called = {
            "session_id": session,
            "tool": str(payload.get("tool") or payload.get("tool_name")),
            "call_id": f"b{number}",
        }
        args = payload.get("args") or payload.get("tool_input") or {}
        told = [{"kind": "tool_call", "args": args, **called}, {"kind": "tool_result", "status": "ok", **called}]
        body = json.dumps({"events": told}).encode()
        request = urllib.request.Request(f"{address}/v1/events", body, {"content-type": "application/json"})
        urllib.request.urlopen(request, timeout=30).close()


def _policy(case: dict[str, Any]) -> dict[str, Any]:
    """Return a policy under which the gate decides as the case says, for whatever the event is about."""
    says = case.get("gate_says", "allow")
    if says == "obligation":
        return {"rules": [{"id": "owed", "kind": "must_call_once", "params": {"tool": "a_tool_that_is_never_called"}}]}
    if says not in _THEN:
        return {"rules": []}
    about = {"then": _THEN[says], "reason": "The policy says so."}
    anything = {"pattern": "(?s).", "where": "user"}
    return {
        "rules": [
            {"id": "calls", "kind": "no_call", "params": {"tool": "*"}, **about},
            {"id": "prompts", "kind": "forbidden_text", "params": anything, **about},
        ]
    }


def _stdin(case: dict[str, Any]) -> bytes:
    if case.get("stdin_b64") is not None:
        return base64.b64decode(case["stdin_b64"])
    payload = copy.deepcopy(case["stdin"])
    for grow in _listed(case.get("grow")):
        _grow(payload, grow)
    return payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _grow(payload: Any, grow: dict[str, Any]) -> None:
    """Put a unit so many times where a JSON pointer says."""
    pointer = next(value for name, value in grow.items() if name not in ("unit", "times"))
    parts = [part.replace("~1", "/").replace("~0", "~") for part in str(pointer).split("/")[1:]]
    for part in parts[:-1]:
        payload = payload[int(part)] if isinstance(payload, list) else payload[part]
    unit, times = grow["unit"], grow["times"]
    key: Any = int(parts[-1]) if isinstance(payload, list) else parts[-1]
    payload[key] = unit * times if isinstance(unit, str) else [copy.deepcopy(unit) for _ in range(times)]


def start(case: dict[str, Any], gate: str) -> tuple[Any, int | None, str]:
    """Start the hook as the agent's settings do."""
    options = ["--gate", gate, "--timeout", "30", "--event", str(case.get("event") or "")]
    for name in ("on_error", "pause_as"):
        if case.get(name):
            options += [f"--{name.replace('_', '-')}", case[name]]
    out, err = io.StringIO(), io.StringIO()
    given = SimpleNamespace(buffer=io.BytesIO(_stdin(case)))
    with (
        tempfile.TemporaryDirectory() as state,
        mock.patch.dict("os.environ", {"XDG_STATE_HOME": state}),
        mock.patch("sys.stdin", given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main([case["agent"], *options])
    if code is None:
        raise CannotRunError(f"no hook is called {case['agent']}")
    text = out.getvalue()
    return json.loads(text) if text.strip() else None, code, err.getvalue()


def _plugin(case: dict[str, Any], gate: str) -> Any:
    """Give a handler of the agent's plugin what the agent gives it."""
    if NODE is None:
        raise CannotRunError("needs node, to run the plugin")
    settings = {"STREAM_GUARD_HOOK__ON_ERROR": case["on_error"]} if case.get("on_error") else {}
    [said] = play(case["agent"], gate, [json.loads(_stdin(case))], **settings)
    return said


def _post(case: dict[str, Any], gate: str) -> tuple[Any, None, str]:
    """Ask the gate itself, as an agent with hooks over HTTP does, or the plugin of one."""
    pause = f"?pause_as={case['pause_as']}" if case.get("pause_as") else ""
    request = urllib.request.Request(
        f"{gate}/v1/hooks/{case['agent']}{pause}", data=_stdin(case), headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answered:
            status, body = answered.status, answered.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    wanted = case["expect"].get("status")
    if wanted is not None:
        expect("status", status, wanted)
    said = json.loads(body)
    return said or None, None, ""


def _compare(what: str, got: Any, wanted: Any) -> None:
    """Compare an answer: the same keys and no others, ``*`` any text that is not empty, ``any_of`` one of several."""
    if isinstance(wanted, dict) and set(wanted) == {"any_of"}:
        failures = []
        for one in wanted["any_of"]:
            try:
                return _compare(what, got, one)
            except WrongAnswerError as wrong:
                failures.append(str(wrong))
        raise WrongAnswerError("; or ".join(failures))
    if wanted == "*":
        if not isinstance(got, str) or not got:
            raise WrongAnswerError(f"{what}: got {got!r}, expected a text")
    elif isinstance(wanted, dict):
        if not isinstance(got, dict) or set(got) != set(wanted):
            raise WrongAnswerError(f"{what}: got {got!r}, expected {wanted!r}")
        for key, value in wanted.items():
            _compare(f"{what}.{key}", got[key], value)
    else:
        expect(what, got, wanted)
    return None
