"""How many calls of real agents a rule that stops would stop for a doubt: it forgot, or values may be taken otherwise.

STREAM_GUARD_DATA=<folder> python -m tests.bench.forgetting

Prints a table, as Markdown: figures only, nothing of the recordings. The rules of all packs are there, each as one that
stops, and rules of the kinds with a bounded memory that ask about more calls than a sensible policy would.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from stream_guard.judge.content import FORGOTTEN, TAKEN_ALIKE
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from tests.bench.packs import SETS, VARIABLE, Recordings, labelled, registry

MOST: Final = 0.005
"""The share of calls that rules may stop for this."""
_UNREAD: Final = "the rest of a text that is too long to be read"
_WORDS: Final = {FORGOTTEN: "forgotten", TAKEN_ALIKE: "a number or a flag as a text", _UNREAD: "too long"}
_DOUBTS: Final = frozenset(_WORDS)
_WIDE: Final[dict[str, dict[str, Any]]] = {
    "flow": {"kind": "no_value_flow", "params": {"tool": "*", "source": "*"}},
    **{
        f"origin of {path}": {"kind": "arg_provenance", "params": {"tool": "*", "path": path, "deny": {"tools": "*"}}}
        for path in ("command", "file_path", "recipient", "url", "order_id")
    },
    "injected": {"kind": "no_injected_call", "params": {"tool": "*"}},
    "evasion": {"kind": "no_denial_evasion", "params": {}},
    "runs": {"kind": "tool_guard", "params": {"when": {"call_count_in_run_gt": {"value": 1000}}}},
    "tools": {"kind": "no_tool_change", "params": {}},
    "lookup": {
        "kind": "must_match_lookup",
        "params": {"tool": "*", "lookup": "*get*", "same_arg": "order_id", "if_absent": "ignore"},
    },
    "approval": {"kind": "no_change_after_approval", "params": {"approval": "*get*", "tool": "*cancel*"}},
    "file": {"kind": "max_calls", "params": {"n": 1000}, "key": ["session", "args.file_path"]},
    **{
        f"{path} over {over}": {"kind": "tool_guard", "params": {"when": {"arg_gt": {"path": path, "value": over}}}}
        for path in ("amount", "price", "total", "quantity", "limit", "timeout", "page", "max_results")
        for over in (0, 100)
    },
    **{
        f"{path} is {value}": {"kind": "tool_guard", "params": {"when": {"arg_eq": {"path": path, "value": value}}}}
        for path in ("force", "recursive", "confirm", "replace_all", "overwrite")
        for value in (True, False)
    },
    "sum": {"kind": "max_aggregate", "params": {"measure": "sum", "path": "tool.args.amount", "over": 1e9}},
}


class Stopped(NamedTuple):
    """The attempts of a set, how many would have been stopped, and how many by each rule and cause."""

    attempts: int
    stopped: int
    causes: Mapping[tuple[str, str], int]


def stopping(policy: Policy) -> Policy:
    """Return the policy with every rule as one that stops."""
    return replace(policy, rules=tuple(replace(rule, then=Action.BLOCK, shadow=False) for rule in policy.rules))


def policies() -> Iterator[Policy]:
    """Yield the packs, and the wide rules, as rules that stop."""
    yield stopping(load_policy(json.dumps({"packs": list(registry().policy_packs)}), registry()))
    rules = [{"id": name, **rule} for name, rule in _WIDE.items()]
    yield stopping(load_policy(json.dumps({"rules": rules}), registry()))


def judge(events: Sequence[Event], policy: Policy) -> Stopped:
    """Return how many calls a policy would stop for such a doubt."""
    counts, found = Counts(), list[Finding]()
    table = Judge(policy, counts=counts)
    stopped = before = 0
    for event in events:
        found += table.feed(event).findings
        found.clear()
        doubts = sum(count for place, count in counts.lacking.items() if place[1] in _DOUBTS)
        stopped += doubts > before
        before = doubts
    lost = {place: count for place, count in counts.lacking.items() if place[1] in _DOUBTS}
    return Stopped(sum(counts.tools.values()), stopped, lost)


def measure(folder: Path, one: Recordings) -> Stopped:
    """Judge the sessions of a set."""
    attempts, stopped, causes = 0, 0, Counter[tuple[str, str]]()
    for path in sorted(folder.glob(one.pattern)):
        events = [event for found, _ in labelled(path, one.group) for event in found]
        both = [judge(events, policy) for policy in policies()]
        attempts += both[0].attempts
        for one_policy in both:
            stopped += one_policy.stopped
            causes.update(one_policy.causes)
    return Stopped(attempts, stopped, causes)


def table(folder: Path) -> str:
    """Return a row for each set, with every cause."""
    lines = ["| recordings | calls | stopped for a doubt | causes |", "| --- | --- | --- | --- |"]
    for one in SETS:
        stopped = measure(folder, one)
        causes = "; ".join(f"{rule}: {count} ({_WORDS[why]})" for (rule, why), count in sorted(stopped.causes.items()))
        share = f"{stopped.stopped / stopped.attempts:.2%}" if stopped.attempts else "-"
        lines.append(f"| {one.name} | {stopped.attempts} | {stopped.stopped} ({share}) | {causes or 'none'} |")
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    print(table(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
