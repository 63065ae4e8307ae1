"""Some records of a list are read before the first of them is judged: nobody but a clock can tell."""

from __future__ import annotations

import json

import pytest

from stream_guard.decoding.places import RecordPlaces
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.pipeline import Pipeline
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry

REGISTRY = build_registry()
POLICY = load_policy(
    '{"rules": [{"id": "no-mail", "kind": "no_call", "params": {"tool": "mail"}},'
    ' {"id": "most", "kind": "max_calls", "params": {"tool": "look", "n": 3}}]}',
    REGISTRY,
)
BROKEN = (5, 20, 21, 39)


class Letters:
    """Keeps the dead letters; at the record of one line there is no room for it."""

    def __init__(self, full_at: int = -1) -> None:
        self.lines: list[int] = []
        self._full_at = full_at

    def add(self, record: Record, reason: str) -> None:
        """Keep the line of a record."""
        assert reason
        if record.line == self._full_at:
            raise OSError("no space left on the device")
        self.lines.append(record.line)


def records(count: int = 50) -> list[Record]:
    """Calls of two sessions; some records are no JSON."""
    values = [
        {
            "kind": "tool_call",
            "session_id": f"s{number % 2}",
            "event_id": f"e{number}",
            "time": 1000.0 + number,
            "tool": "mail" if number % 3 == 0 else "look",
        }
        for number in range(count)
    ]
    return [
        Record(b"{broken" if number in BROKEN else json.dumps(value).encode(), "file", number, number + 1)
        for number, value in enumerate(values)
    ]


def pipeline(letters: Letters, places: RecordPlaces | None) -> Pipeline:
    return Pipeline(REGISTRY.decoders["native"](), Judge(POLICY), letters, places)


@pytest.mark.parametrize("located", [True, False])
def test_a_list_is_judged_as_its_records_one_by_one(located: bool) -> None:
    outcomes = []
    for size in (len(records()), 1):
        letters, found, ends = Letters(), list[Finding](), list[int]()
        judging = pipeline(letters, RecordPlaces() if located else None)
        for start in range(0, len(records()), size):
            judging.run(records()[start : start + size], found, ends)
        outcomes.append((found, ends, letters.lines))
    assert outcomes[0] == outcomes[1]
    found, ends, lines = outcomes[0]
    assert len(ends) == len(records())
    assert len(found) > 15
    assert [finding.line > 0 for finding in found] == [located] * len(found)
    assert lines == [number + 1 for number in BROKEN]


@pytest.mark.parametrize("located", [True, False])
def test_what_was_read_before_an_error_is_judged(located: bool) -> None:
    places = RecordPlaces() if located else None
    whole, part = list[Finding](), list[Finding]()
    pipeline(Letters(), places).run(records(21), whole)
    with pytest.raises(OSError, match="no space left"):
        pipeline(Letters(full_at=22), RecordPlaces() if located else None).run(records(), part)
    assert part == whole
    assert part
