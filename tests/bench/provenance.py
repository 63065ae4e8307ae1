"""What rules about where values come from cost, against 50 rules of all kinds: the same events, in turns, CPU time.

    python -m tests.bench.provenance [EVENTS]

Prints JSON; a million events unless told otherwise, and what an event cost up to a tenth, three tenths and all of
them. It asserts nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import Registry, build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings
from tests.bench.measure import cpu_seconds
from tests.bench.workload import event_lines, policy

MANY: Final = 1_000_000
SESSIONS: Final = 1000  # of one turn: some 15,000 events
_SHARES: Final = (0.1, 0.3, 1.0)  # of the events, after which the costs so far are shown

RULES: Final[list[dict[str, Any]]] = [
    {"id": "injected", "kind": "no_injected_call", "params": {"tool": "@money"}},
    {
        "id": "given",
        "kind": "arg_provenance",
        "params": {"tool": "@money", "path": "order_id", "allow": {"user": True, "tools": "lookup_order"}},
    },
    {
        "id": "looked-up",
        "kind": "must_match_lookup",
        "params": {"tool": "issue_refund", "lookup": "lookup_order", "same_arg": "order_id"},
    },
    {
        "id": "as-agreed",
        "kind": "no_change_after_approval",
        "params": {"approval": "confirm_refund_amount", "tool": "issue_refund", "same_arg": "order_id"},
    },
]
FLOW: Final[dict[str, Any]] = {
    "id": "flow",
    "kind": "no_value_flow",
    "params": {"tool": "@money", "source": "lookup_order"},
}


def provenance_policy(registry: Registry, *more: dict[str, Any]) -> Policy:
    """Return a policy with a rule of each kind that asks where values come from, and more rules."""
    classes = {"money": ["issue_refund", "send_store_credit"]}
    return load_policy(json.dumps({"rules": [*RULES, *more], "tool_classes": classes}), registry, file="bench.json")


def _rarely_flowing(lines: Sequence[bytes]) -> list[bytes]:
    """Return events in which nine of ten results share no words in a row with what is sent.

    A value that flows ends the search for it. Where most do, as in the load of the other benchmarks, it looks cheap.
    """
    events = [json.loads(line) for line in lines]
    results = [event["output"] for event in events if event["kind"] == "tool_result"]
    for number, output in enumerate(results):
        if number % 10:
            output["note"] = " ".join(reversed(output["note"].split()))
    return [json.dumps(event).encode() for event in events]


class _Reader:
    """One policy over turns. The sessions of a turn end with it, as those of a recording do."""

    def __init__(self, rules: Policy, registry: Registry) -> None:
        self._counts = Counts()
        self._table = Judge(rules, counts=self._counts)
        self._decode = Assembly(Settings(), registry).make_decoder("native").decode
        self.seconds = 0.0
        self.findings = 0
        self._found: list[Any] = []

    def take(self, lines: Sequence[bytes]) -> None:
        self.seconds += cpu_seconds(lambda: self._judge(lines))
        self.findings += len(self._found)
        self._found.clear()

    def _judge(self, lines: Sequence[bytes]) -> None:
        for number, line in enumerate(lines):
            for event in self._decode(Record(value=line, origin="bench", position=number)):
                self._found += self._table.feed(event).findings
        self._found += self._table.end()


def measure(registry: Registry, events: int = MANY) -> dict[str, Any]:
    """Return the cost of an event under each policy, decoding included, and their ratios."""
    readers = {
        "no rules": _Reader(load_policy('{"rules": []}', registry, file="bench.json"), registry),
        "50 mixed rules": _Reader(policy(50, registry), registry),
        "provenance rules": _Reader(provenance_policy(registry), registry),
        "and value flow": _Reader(provenance_policy(registry, FLOW), registry),
    }
    lines = _rarely_flowing(event_lines(SESSIONS))
    shown: list[dict[str, Any]] = []
    done = 0
    for turn in count():
        fresh = [line.replace(b'"refund-', b'"refund-%d-' % turn) for line in lines[: events - done]]
        for reader in readers.values():
            reader.take(fresh)
        done += len(fresh)
        if done >= events * _SHARES[len(shown)]:
            shown.append(_costs(readers, done))
        if done >= events:
            break
    return {"findings": {name: reader.findings for name, reader in readers.items()}, "costs": shown}


def _costs(readers: Mapping[str, _Reader], done: int) -> dict[str, Any]:
    cost = {name: reader.seconds / done * 1e6 for name, reader in readers.items()}
    return {
        "events": done,
        "us_per_event": cost,
        "provenance_to_mixed": cost["provenance rules"] / cost["50 mixed rules"],
        "with_value_flow_to_mixed": cost["and value flow"] / cost["50 mixed rules"],
    }


if __name__ == "__main__":
    print(json.dumps(measure(build_registry(), int(sys.argv[1]) if len(sys.argv) > 1 else MANY), indent=1))
