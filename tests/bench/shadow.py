"""The policy check of Shadow (package shadow-diff) on the same turns, where it can be installed.

What is timed begins with a loaded policy and a trace that has been read, and ends with what was found: Shadow has its
rules and its records, we have a policy and turns. What is made of a policy when it is first used is kept for the next
time, so the best of several rounds does not have it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from stream_guard.judge.model import Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from tests.bench.builds import answer, builds
from tests.bench.environments import python_with
from tests.bench.measure import cpu_seconds

VERSION = "3.2.5"  # the one whose behaviour was measured
ROUNDS = {100: 100, 1_000: 10, 4_000: 5}  # by turns: what takes milliseconds is disturbed by anything
_TRIES = 3

# Runs in an environment of its own: its dependencies are not ours.
_THEIRS = """
import gc, json, sys, time
from shadow.hierarchical import check_policy, load_policy
rules = load_policy(json.load(open(sys.argv[1])))
records = json.load(open(sys.argv[2]))
least = float("inf")
for _ in range(int(sys.argv[3])):
    gc.collect()
    began = time.process_time()
    check_policy(records, rules)
    least = min(least, time.process_time() - began)
print(json.dumps(least))
"""

_RULES: list[dict[str, Any]] = [
    {"kind": "must_call_before", "params": {"first": "lookup", "then": "pay"}},
    {"kind": "must_call_once", "params": {"tool": "close"}, "scope": "session"},
    {"kind": "no_call", "params": {"tool": "drop"}},
    {"kind": "max_turns", "params": {"limit": 100_000}},
    {"kind": "required_stop_reason", "params": {"allowed": ["end_turn", "tool_use"]}},
    {"kind": "max_total_tokens", "params": {"limit": 100_000_000}},
    {"kind": "must_include_text", "params": {"text": "thank you"}},
    {"kind": "forbidden_text", "params": {"text": "password"}, "scope": "session"},
    {"kind": "must_include_text_each", "params": {"text": "."}},
    {"kind": "must_remain_consistent", "params": {"path": "request.model"}},
    {"kind": "forbidden_text", "params": {"text": "secret"}, "when": [{"path": "model", "op": "==", "value": "m"}]},
    {"kind": "must_be_grounded", "params": {"retrieval_path": "request.metadata.chunks"}},
]


def measure(cache: Path) -> dict[str, Any]:
    """Return how many times longer Shadow takes, for traces of several lengths, or why that is not known."""
    python = python_with("shadow-diff", VERSION, "shadow.hierarchical", cache)
    if python is None:
        return {"missing": f"shadow-diff {VERSION} cannot be installed here"}
    rules = {"apiVersion": "shadow.dev/v1alpha1", "rules": [{"id": f"r{n}", **rule} for n, rule in enumerate(_RULES)]}
    policy_file = cache / "policy.json"
    policy_file.write_text(json.dumps(rules), encoding="utf-8")
    rows: dict[str, dict[str, float]] = {}
    with builds("tests.bench.shadow", str(policy_file)) as sides:
        for turns, rounds in ROUNDS.items():
            file = cache / f"trace-{turns}.json"
            file.write_text(json.dumps(_records(turns)), encoding="utf-8")
            command = [str(python), "-c", _THEIRS, str(policy_file), str(file), str(rounds)]
            theirs, ours = list[float](), dict[str, list[float]]()
            for _ in range(_TRIES):  # in turn, so that noise meets all alike
                theirs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
                for prefix, build in sides.items():
                    ours.setdefault(prefix, []).append(build.ask(str(turns)))
            for prefix, seconds in ours.items():
                rows[f"{prefix}{turns}"] = {
                    "shadow_s": min(theirs),
                    "ours_s": min(seconds),
                    "ratio": min(theirs) / min(seconds),
                }
    return rows


def _least(turns: int, policy: Policy) -> float:
    """Return the least CPU seconds of all rounds; each has turns of its own, on which nothing was noted yet.

    They are made one round after the other: Shadow has one trace in memory too, not as many as there are rounds.
    """
    return min(cpu_seconds(partial(evaluate, _turns(turns), policy)) for _ in range(ROUNDS[turns]))


def _pair(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    ask = {"role": "user", "content": f"question {number}"} if number % 4 == 0 else {"role": "tool", "content": "ok"}
    request = {"model": "m", "messages": [ask], "params": {}, "metadata": {"chunks": ["the parcel arrives on friday"]}}
    block: dict[str, Any] = {
        "type": "tool_use",
        "id": f"c{number}",
        "name": ("lookup", "pay", "close", "note")[number % 4],
        "input": {},
    }
    text = {"type": "text", "text": "The parcel arrives on Friday. thank you"}
    stop = "end_turn" if number % 4 == 3 else "tool_use"
    response = {
        "model": "m",
        "content": [text] if stop == "end_turn" else [text, block],
        "stop_reason": stop,
        "latency_ms": 10,
        "usage": {"input_tokens": 10, "output_tokens": 5, "thinking_tokens": 0},
    }
    return request, response


def _turns(count: int) -> list[Turn]:
    turns = []
    for number in range(count):
        request, response = _pair(number)
        turns.append(Turn(session_id="s", event_id=f"e{number}", request=request, response=response))
    return turns


def _records(count: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [
        {"version": "0.1", "id": "meta", "kind": "metadata", "parent": None, "payload": {}}
    ]
    for number in range(count):
        for kind, payload in zip(("chat_request", "chat_response"), _pair(number), strict=True):
            records.append(
                {"version": "0.1", "id": f"{kind}{number}", "kind": kind, "parent": None, "payload": payload}
            )
    return records


if __name__ == "__main__":
    loaded = load_policy(Path(sys.argv[1]), build_registry())
    answer({str(turns): partial(_least, turns, loaded) for turns in ROUNDS})
