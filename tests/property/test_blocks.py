"""Records that are read ahead in blocks: the same findings, dead letters and counts as one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_guard_formats import native, native_reading

import stream_guard as sg
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.selection import EventSelection, Share
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline, open_table
from stream_guard.ports import Decoder, Record
from stream_guard.registry import build_registry
from stream_guard.running.replay import ShareReader
from tests.bench.workload import event_lines, policy
from tests.c_modules import open_c_module

REGISTRY = build_registry()
POLICY = policy(10, REGISTRY)
NATIVE = event_lines(4)
OTHERS = [
    b'{"kind": "tool_call", "session_id": "s", "tool": "t", "tool": "u"}\n',  # a key given twice
    b'{"kind": "tool_call", "session_id": "s", "tool": "lookup_order"}\n',  # no id
    b'{"kind": "turn", "session_id": "\\u0000s", "event_id": "e"}\n',  # an id that no session has
    b'{"messages": [{"role": "user", "content": "hi"}], "session_id": "chat", "model": "m"}\n',  # another format
    b"{broken\n",
    b"\n",
    b"[]\n",
]


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let native records be read in C, in this build too."""
    built = open_c_module(native_reading, tmp_path_factory.mktemp("c"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "READS", True)
        patch.setattr(native, "read_events", built.read_events)
        assert native.NativeDecoder().decode_block([Record(NATIVE[0])]) not in (None, [None])
        yield


class OneByOne(sg.Decoder):
    """A decoder that reads no blocks."""

    def __init__(self, inner: Decoder) -> None:
        super().__init__()
        self._inner = inner

    def decode(self, record: Record) -> Any:
        """Ask the decoder inside."""
        return self._inner.decode(record)


def judged(decoder: Decoder, records: list[Record]) -> tuple[Any, ...]:
    found, ends, counts = list[Finding](), list[int](), Counts()
    letters = DeadLetters(None, counts, format_name="native")
    table = open_table(POLICY, counts, mode="stream")
    pipeline = Pipeline(decoder, table, letters, RecordPlaces())
    pipeline.run(records, found, ends)
    pipeline.finish(found)
    table.end_all(found)
    return found, ends, letters.summary(), counts.records, dict(counts.events)


LINES = st.lists(st.one_of(st.sampled_from(NATIVE), st.sampled_from(NATIVE), st.sampled_from(OTHERS)), max_size=50)


@pytest.mark.parametrize("form", ["native", "auto"])
@given(lines=LINES, files=st.integers(1, 3))
def test_blocks_change_nothing(form: str, lines: list[bytes], files: int) -> None:
    # The input is named first by records that teach the format `auto` all that it learns.
    lines = NATIVE[:12] * (form == "auto") + lines
    records = [Record(line, f"file-{at * files // len(lines)}", at, at + 1) for at, line in enumerate(lines)]
    make = REGISTRY.decoders[form]
    assert judged(make(), records) == judged(OneByOne(make()), records)


class Given:
    """A source of records in lists."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def batches(self, most: int) -> Iterator[list[Record]]:
        """Yield them a few at a time."""
        for start in range(0, len(self._records), min(most, 20)):
            yield self._records[start : start + min(most, 20)]

    def positions(self) -> dict[str, int]:
        """Say nothing."""
        return {}

    def close(self) -> None:
        """Close nothing."""


@given(lines=LINES, until=st.integers(1, 70))
@settings(max_examples=20)
def test_a_share_numbers_findings_and_letters_by_their_records(lines: list[bytes], until: int) -> None:
    records = [Record(line, "file", at, at + 1) for at, line in enumerate(lines)]
    together: list[tuple[int, str]] = []
    letters: list[tuple[int, str]] = []
    for number in range(2):
        selection = EventSelection(REGISTRY.decoders["native"](), Share(number, 2))
        reader = ShareReader(Given(records), selection, open_table(POLICY, Counts()))
        while not (batch := reader.advance(reader._next + until)).ended:
            together += [(at, finding.alert_id) for at, finding in batch.found]
            letters += [(at, reason) for at, _, reason in batch.letters]
        together += [(at, finding.alert_id) for at, finding in batch.found]
        letters += [(at, reason) for at, _, reason in batch.letters]
        assert reader.summary().counts.records == len(records)
    found, ends, counts = list[Finding](), list[int](), Counts()
    alone = DeadLetters(None, counts, format_name="native")
    Pipeline(OneByOne(REGISTRY.decoders["native"]()), open_table(POLICY, counts), alone).run(records, found, ends)
    starts = [0, *ends]
    expected = [(at, finding.alert_id) for at in range(len(records)) for finding in found[starts[at] : ends[at]]]
    assert sorted(together) == sorted(expected)
    assert len(letters) == alone.total
    assert all(json.dumps(reason) and lines[at] in OTHERS for at, reason in letters)
