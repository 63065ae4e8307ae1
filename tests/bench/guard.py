"""The inline gate: how long a check takes, beside a dictionary lookup and a hook call, also late in long sessions."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pluggy

from stream_guard.inline import Guard
from stream_guard.model import Action, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.registry import Registry

TOOLS = ("pay", "mail", "read", "search", "delete")
ROUNDS = 5
_hookspec, _hookimpl = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")


class _Spec:
    @_hookspec
    def check(self, attempt: ToolCall) -> None:
        """Be asked about an attempt."""


class _Plugin:
    @_hookimpl
    def check(self, attempt: ToolCall) -> str:
        return attempt.tool


def policy(registry: Registry) -> Policy:
    """Return 50 rules of an agent: arguments, texts, counts and windows, as one finds them in rule sets; few match."""
    rules: list[dict[str, Any]] = []
    for number in range(10):
        tool, path = TOOLS[number % len(TOOLS)], f"body.field_{number}"
        rules += [
            {"when": {"tool_name_in": [tool], "arg_gt": {"path": "amount", "value": 10_000 + number}}, "then": "block"},
            {"when": {"all_of": [{"tool_name_in": [tool]}, {"arg_present": {"path": path}}]}, "then": "pause"},
            {"when": {"arg_regex": {"path": "to", "pattern": f"@(gmail|yahoo){number}\\."}}, "then": "pause"},
            {"when": {"call_count_in_run_gt": {"tool": tool, "value": 10**9}}, "then": "terminate_session"},
            {
                "when": {"call_count_in_window_gt": {"tool": tool, "value": 50 + number, "windowSeconds": 1}},
                "then": "pause",
            }
            if number % 2
            else {"when": {"not": {"tool_name_regex": "^[a-z]+$"}}, "then": "block"},
        ]
    listed = [{"id": f"rule-{number}", **rule} for number, rule in enumerate(rules)]
    agent = {"id": "agent", "parent": None, "execution_mode": "hitl", "operations": list(TOOLS), "rules": listed}
    return load_policy(json.dumps({"agents": [agent]}), registry, file="bench.json")


def attempts(count: int, session: str, start: int = 0) -> list[ToolCall]:
    """Return attempts of one session, half a second apart."""
    return [
        ToolCall(
            session_id=session,
            event_id=f"e{number}",
            time=1_767_600_000.0 + number * 0.5,
            run_id="r1",
            agent="agent",
            tool=TOOLS[number % len(TOOLS)],
            call_id=f"c{number}",
            args={
                "amount": number % 900,
                "to": f"ann-{number}@corp.example",
                "body": {"subject": "your order", "n": number},
            },
        )
        for number in range(start, start + count)
    ]


def measure(registry: Registry, count: int = 20_000) -> dict[str, Any]:
    """Return microseconds of a check, of what it is held against, and of checks late in long sessions."""
    loaded = policy(registry)
    tools = dict.fromkeys(TOOLS, 1)
    hooks = pluggy.PluginManager("bench")
    hooks.add_hookspecs(_Spec)
    hooks.register(_Plugin())
    sample = attempts(count, "s")
    return {
        "check_50_rules": _best(lambda: _timed(Guard(loaded).check, attempts(count, "s"), Action.ALLOW)),
        "dict_lookup": _best(lambda: _timed(lambda attempt: tools[attempt.tool], sample)),
        "pluggy_call": _best(lambda: _timed(lambda attempt: hooks.hook.check(attempt=attempt), sample)),
        "late_in_session": {str(length): _late(loaded, length) for length in (100, 10_000, 100_000)},
    }


def _late(loaded: Policy, length: int) -> float:
    """Return the median of 2,000 checks in a session that has seen this many attempts."""
    guard = Guard(loaded)
    for attempt in attempts(length, "s"):
        guard.check(attempt)
    taken = [_timed(guard.check, attempts(400, "s", length + 400 * number))[0] for number in range(ROUNDS)]
    return min(taken)


def _timed(work: Callable[[ToolCall], Any], sample: Sequence[ToolCall], wanted: object = None) -> tuple[float, float]:
    """Return the median and the 99th percentile of single calls, in microseconds."""
    clock, taken = time.perf_counter_ns, []
    gc.collect()
    for attempt in sample:
        began = clock()
        answer = work(attempt)
        taken.append(clock() - began)
        if wanted is not None and answer.action is not wanted:
            raise AssertionError(f"the benchmark measures something else: {answer}")
    taken.sort()
    return taken[len(taken) // 2] / 1000, taken[len(taken) * 99 // 100] / 1000


def _best(work: Callable[[], tuple[float, float]]) -> dict[str, float]:
    """Return the least of several rounds: what else runs on the machine only ever adds."""
    rounds = [work() for _ in range(ROUNDS)]
    return {"p50_us": min(one[0] for one in rounds), "p99_us": min(one[1] for one in rounds)}
