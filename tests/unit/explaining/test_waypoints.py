"""States from a waypoint on are those of a session that is followed from its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import msgspec
import pytest

import stream_guard as sg
from stream_guard.demo.sessions import sample_events
from stream_guard.explaining import waypoints
from stream_guard.explaining.timeline import StateChange, follow_session
from stream_guard.explaining.waypoints import FoldedSession, NumberedEvent
from stream_guard.judge.model import Event
from stream_guard.registry import build_registry
from stream_guard.testing import events
from stream_guard.testing.running import one_rule_policy

REGISTRY = build_registry()
Told = tuple[dict[int, tuple[StateChange, ...]], dict[str, int]]


def numbered(made: Iterable[Event]) -> list[NumberedEvent]:
    """Number events as the history does: each has an id."""
    return [
        (number, event if event.event_id else msgspec.structs.replace(event, event_id=f"kept-{number}"))
        for number, event in enumerate(made, 1)
    ]


def followed(made: list[NumberedEvent], policy: sg.Policy, session: str) -> Told:
    """Return by number what changed and where findings stand, from one look at the whole session."""
    numbers: dict[str, int] = {}
    for number, event in made:
        numbers.setdefault(event.event_id, number)
    changes: dict[int, tuple[StateChange, ...]] = {}
    places, at = {}, 1
    for entry in follow_session([event for _, event in made], policy, session, end=False).entries:
        at = numbers.get(entry.event_id, at)
        if entry.changes:
            changes[at] = (*changes.get(at, ()), *entry.changes)
        places.update({finding.alert_id: at for finding in entry.findings})
    return changes, places


def windows(make: Callable[[], list[NumberedEvent]], policy: sg.Policy, session: str, size: int) -> Told:
    """Return the same, looked at in windows, the last one first."""
    folded = FoldedSession(session, policy)
    made = make()
    folded.fold(made, len(made))
    changes: dict[int, tuple[StateChange, ...]] = {}
    for first in reversed(range(1, len(made) + 1, size)):
        begin = folded.waypoint_before(first)
        assert begin < first
        last = first + size - 1
        found = folded.changes(make()[begin : last + folded.ahead], first, last)
        assert not found.keys() & changes.keys()
        changes |= found
    return changes, folded.places


@pytest.mark.parametrize("kind", sorted(REGISTRY.kinds))
def test_every_kind_is_told_from_waypoints_as_from_the_beginning(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = REGISTRY.kinds[kind]
    monkeypatch.setattr(waypoints, "_APART", 2)
    for example in rule.examples:
        policy = one_rule_policy(rule, example.params)

        def make(trace: Any = example.trace) -> list[NumberedEvent]:
            return numbered(events(trace))

        expected = followed(make(), policy, "s")
        for size in (1, 3):
            assert windows(make, policy, "s", size) == expected


@pytest.mark.parametrize("apart", [7, 250])
def test_a_long_session_is_told_from_waypoints_as_from_the_beginning(
    apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waypoints, "_APART", apart)
    policy = sg.parse_policy((files("stream_guard.demo") / "policy.yaml").read_text(), REGISTRY)

    def make() -> list[NumberedEvent]:
        told = [event for event in sample_events(40) if event["kind"] != "session_end"]
        return numbered(
            msgspec.convert(event | {"session_id": "s", "event_id": f"e{number}", "time": 1e9 + number}, Event)
            for number, event in enumerate(told)
        )

    expected = followed(make(), policy, "s")
    assert len(expected[0]) > 200
    assert len(expected[1]) > 5
    assert windows(make, policy, "s", 60) == expected


def test_many_waypoints_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waypoints, "_APART", 1)
    monkeypatch.setattr(waypoints, "_MOST", 10)
    policy = sg.parse_policy("rules: [{id: few, kind: max_calls, params: {tool: '*', n: 1000}}]", REGISTRY)
    made = numbered(events([{"call": "Read"}] * 500))
    folded = FoldedSession("s", policy)
    folded.fold(made, 500)
    begins = {folded.waypoint_before(number) for number in range(1, 502)}
    assert 0 in begins
    assert 4 <= len(begins) <= 10
    again = numbered(events([{"call": "Read"}] * 500))[folded.waypoint_before(400) :]
    assert set(folded.changes(again, 400, 450)) == {*range(400, 451)}
