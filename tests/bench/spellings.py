"""The packs under four spellings of all names of tools: what they catch, and how often they alarm for nothing.

STREAM_GUARD_DATA=<folder> python -m tests.bench.spellings

Whether a rule sends alerts is chosen as packs choose it: none of severity ``info``, which is about a habit, and of the
others by alarms on sessions that went well, but for each suite by the other suites only. An alert about a call that a
person refused in the recording is no alarm for nothing: the person said so. Prints a table for each pack: figures only,
nothing of the recordings.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from stream_guard.analysis.labels import DetectionShare
from stream_guard.judge.model import Event, Severity, ToolCall, ToolResult, Turn
from stream_guard.judge.spec import Policy
from stream_guard.running.batch import evaluate
from tests.bench.packs import (
    BENIGN,
    MOST_BENIGN,
    SETS,
    SPELLINGS,
    VARIABLE,
    Recordings,
    all_packs,
    labelled,
    respell,
    rules_of,
)
from tests.bench.scorecard import MORE, NEITHER, read_hints

SUITES: Final = ("suite", "corpus")  # words for it in labels

Sessions = dict[str, set[str]]


class PackAlarms(NamedTuple):
    """What fired under one spelling: sessions that went well by suite, bad ones by set, and both by rule."""

    well: Sessions
    bad: Sessions
    fired: Sessions

    def share(self, rules: Collection[str], sessions: Collection[str]) -> DetectionShare:
        """Return the share of the sessions in which one of the rules fired."""
        hit = set[str]().union(*(self.fired.get(rule, set()) for rule in rules))
        return DetectionShare(len(hit & set(sessions)), len(sessions))

    def sent(self, rules: Sequence[str], without: str) -> list[str]:
        """Return the rules that send alerts, where all suites but one choose: those that none says are too loud."""
        return [rule for rule in rules if not any(self._is_loud(rule, suite) for suite in self.well.keys() - {without})]

    def _is_loud(self, rule: str, suite: str) -> bool:
        interval = self.share([rule], self.well[suite]).interval
        return interval is not None and interval[0] > MOST_BENIGN


def measure(folder: Path, policy: Policy, spelling: str) -> PackAlarms:
    """Judge all sessions of all sets under a spelling."""
    spell = SPELLINGS[spelling]
    found = PackAlarms(defaultdict(set), defaultdict(set), defaultdict(set))
    for one in (*SETS, *MORE):
        for path in sorted(folder.glob(one.pattern)):
            told: list[Event] = []
            for events, group, suite in _read(path, one):
                told += (respell(event, spell) for event in events)
                names = {f"{path.name}/{event.session_id}" for event in events}
                if group == BENIGN:
                    found.well[suite] |= names
                elif group not in NEITHER:
                    found.bad[one.name] |= names
            refused, well = _refused(told), set[str]().union(*found.well.values())
            for finding in evaluate(told, policy):
                name = f"{path.name}/{finding.session_id}"
                if name not in well or (finding.session_id, finding.event_id) not in refused:
                    found.fired[finding.rule_id].add(name)
    return found


def _refused(events: Sequence[Event]) -> set[tuple[str, str]]:
    """Return the calls that a person or a gate refused in the recording: a session and the id of an event each."""
    results = (event for event in events if isinstance(event, ToolResult))
    blocked = {(event.session_id, event.call_id) for event in results if event.status == "blocked"}
    return {(session, event) for session, event, call in _calls(events) if (session, call) in blocked}


def _calls(events: Sequence[Event]) -> Iterator[tuple[str, str, str]]:
    """Yield the session, the event and the id of each call, also of those that a turn announces."""
    for event in events:
        if isinstance(event, ToolCall):
            yield event.session_id, event.event_id, event.call_id
        elif isinstance(event, Turn) and isinstance(event.response.get("content"), list):
            uses = (block for block in event.response["content"] if block.get("type") == "tool_use")
            for number, block in enumerate(uses):
                yield event.session_id, f"{event.event_id}/{number}", str(block.get("id"))


def _read(path: Path, one: Recordings) -> Iterator[tuple[Sequence[Event], str, str]]:
    """Yield the events of each record with its group and suite."""
    if one.name == "hintbench":
        yield from ((events, group, one.name) for events, group in read_hints(path))
        return
    group_of = one.group
    both = None if group_of is None else lambda label: f"{group_of(label)}\n{_suite(path, one, label)}"
    for events, told in labelled(path, both):
        group, _, suite = told.partition("\n")
        yield events, group, suite or one.name


def _suite(path: Path, one: Recordings, label: Mapping[str, Any]) -> str:
    told = next((str(label[word]) for word in SUITES if word in label), "")
    if one.name.startswith("tau"):
        told = path.name.partition("_")[0].partition(".")[0]
    return f"{one.name} {told}".strip()


def table(pack: str, rules: Sequence[str], shadow: Collection[str], found: Mapping[str, PackAlarms]) -> Iterator[str]:
    """Yield, for each spelling, what a pack catches and where it alarms for nothing."""
    yield f"### {pack}\n"
    yield "| spelling | caught | went well, with an alert | most in one suite | modes chosen by the other suites |"
    yield "| --- | --- | --- | --- | --- |"
    sent = [rule for rule in rules if rule not in shadow]
    for spelling, one in found.items():
        caught = one.share(sent, set[str]().union(*one.bad.values()))
        alarms = {suite: one.share(sent, sessions) for suite, sessions in one.well.items() if sessions}
        worst = max(alarms, key=lambda suite: (alarms[suite].interval or (0.0, 0.0))[0])
        chosen = [one.share(one.sent(rules, suite), one.well[suite]) for suite in alarms]
        shares = (caught, _whole(list(alarms.values())), alarms[worst], _whole(chosen))
        told = [f"{share.hits} of {share.of}: {share}" for share in shares]
        yield f"| `{spelling}` | {told[0]} | {told[1]} | {worst}: {told[2]} | {told[3]} |"
    yield ""


def _whole(shares: Sequence[DetectionShare]) -> DetectionShare:
    return DetectionShare(sum(share.hits for share in shares), sum(share.of for share in shares))


def main() -> int:
    """Print the tables."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    policy = all_packs()
    shadow = {spec.id for spec in policy.rules if spec.shadow}
    habits = {spec.id for spec in policy.rules if spec.severity is Severity.INFO}
    found = {spelling: measure(Path(folder), policy, spelling) for spelling in SPELLINGS}
    for pack, rules in rules_of().items():
        print("\n".join(table(pack, [rule for rule in rules if rule not in habits], shadow, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
