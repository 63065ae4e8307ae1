"""The inline gate: how long a check takes, beside a dictionary lookup and a hook call, also late in long sessions."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count as counting
from typing import Any

import pluggy

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from tests.bench.builds import answer, builds

TOOLS = ("pay", "mail", "read", "search", "delete")
ROUNDS = 9
LENGTHS = ("100", "10000", "100000")
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


def measure(count: int = 11_200) -> dict[str, Any]:
    """Return microseconds of a check, of what it is held against, and of checks late in long sessions.

    Checks are of the plain build and, where there is one, of the compiled; the two take turns. Over all rounds they are
    100,000 of each.
    """
    tools = dict.fromkeys(TOOLS, 1)
    hooks = pluggy.PluginManager("bench")
    hooks.add_hookspecs(_Spec)
    hooks.register(_Plugin())
    sample = attempts(count, "s")
    measured: dict[str, Any] = {}
    with builds("tests.bench.guard", str(count)) as sides:
        taken: dict[str, list[int]] = {prefix: [] for prefix in sides}
        for _ in range(ROUNDS):
            for prefix, build in sides.items():
                taken[prefix] += build.ask("check")
        for prefix, build in sides.items():
            measured[f"{prefix}check_50_rules"] = _percentiles(taken[prefix])
            measured[f"{prefix}late_in_session"] = {length: build.ask(length) for length in LENGTHS}
    measured["dict_lookup"] = _percentiles(_rounds(lambda attempt: tools[attempt.tool], sample))
    measured["pluggy_call"] = _percentiles(_rounds(lambda attempt: hooks.hook.check(attempt=attempt), sample))
    return measured


def _works(loaded: Policy, count: int) -> dict[str, Callable[[], Any]]:
    """Return what a build is asked for: the nanoseconds of some checks, and those late in sessions of some lengths."""
    works: dict[str, Callable[[], Any]] = {
        "check": lambda: _timed(ticking(loaded).check, attempts(count, "s"), Action.ALLOW)
    }
    return works | {length: partial(_late, loaded, int(length)) for length in LENGTHS}


def ticking(loaded: Policy) -> Guard:
    """Return a guard for which half a second passes between two attempts, as it did for the agent."""
    return Guard(loaded, clock=counting(1_767_600_000.0, 0.5).__next__)


def _late(loaded: Policy, length: int) -> float:
    """Return the median of checks in a session that has seen this many attempts, the least of several rounds."""
    guard = ticking(loaded)
    for attempt in attempts(length, "s"):
        guard.check(attempt)
    rounds = [_timed(guard.check, attempts(400, "s", length + 400 * number)) for number in range(ROUNDS)]
    return min(sorted(taken)[len(taken) // 2] for taken in rounds) / 1000


def _timed(work: Callable[[ToolCall], Any], sample: Sequence[ToolCall], wanted: object = None) -> list[int]:
    """Return how many nanoseconds each call took."""
    clock, taken = time.perf_counter_ns, []
    gc.collect()
    for attempt in sample:
        began = clock()
        answer = work(attempt)
        taken.append(clock() - began)
        if wanted is not None and answer.action is not wanted:
            raise AssertionError(f"the benchmark measures something else: {answer}")
    return taken


def _rounds(work: Callable[[ToolCall], Any], sample: Sequence[ToolCall]) -> list[int]:
    return [one for _ in range(ROUNDS) for one in _timed(work, sample)]


def _percentiles(taken: list[int]) -> dict[str, float]:
    """Return percentiles over every single call of several rounds: what else ran on the machine is in them."""
    taken = sorted(taken)
    return {f"p{percent:g}_us": taken[int(len(taken) * percent / 100)] / 1000 for percent in (50, 90, 99, 99.9)}


if __name__ == "__main__":
    answer(_works(policy(build_registry()), int(sys.argv[1])))
