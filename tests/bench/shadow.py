"""The policy check of Shadow (package shadow-diff) on the same turns, where it can be installed."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from stream_guard.model import Turn
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.registry import Registry
from stream_guard.running.batch import evaluate
from tests.bench.environments import python_with
from tests.bench.measure import best_of

VERSION = "3.2.5"  # the one whose behaviour was measured
TURNS = (100, 1_000, 4_000)

# Runs in an environment of its own: its dependencies are not ours.
_THEIRS = """
import json, sys, time
from shadow.hierarchical import check_policy, load_policy
rules = load_policy(json.load(open(sys.argv[1])))
out = {}
for path in sys.argv[2:]:
    records = json.load(open(path))
    least = float("inf")
    for _ in range(3):
        began = time.process_time()
        check_policy(records, rules)
        least = min(least, time.process_time() - began)
    out[path] = least
print(json.dumps(out))
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


def measure(registry: Registry, cache: Path) -> dict[str, Any]:
    """Return how many times longer Shadow takes, for traces of several lengths, or why that is not known."""
    python = python_with("shadow-diff", VERSION, "shadow.hierarchical", cache)
    if python is None:
        return {"missing": f"shadow-diff {VERSION} cannot be installed here"}
    cache.mkdir(parents=True, exist_ok=True)
    rules = {"apiVersion": "shadow.dev/v1alpha1", "rules": [{"id": f"r{n}", **rule} for n, rule in enumerate(_RULES)]}
    policy_file = cache / "policy.json"
    policy_file.write_text(json.dumps(rules), encoding="utf-8")
    files = {turns: cache / f"trace-{turns}.json" for turns in TURNS}
    for turns, file in files.items():
        file.write_text(json.dumps(_records(turns)), encoding="utf-8")
    arguments = [str(python), "-c", _THEIRS, str(policy_file), *map(str, files.values())]
    theirs = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    policy = load_policy(policy_file, registry)
    ours = best_of({str(turns): partial(_evaluate, turns, policy) for turns in TURNS}, rounds=3)
    return {
        str(turns): {
            "shadow_s": theirs[str(file)],
            "ours_s": ours[str(turns)],
            "ratio": theirs[str(file)] / ours[str(turns)],
        }
        for turns, file in files.items()
    }


def _evaluate(turns: int, policy: Policy) -> None:
    evaluate(_turns(turns), policy)


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
