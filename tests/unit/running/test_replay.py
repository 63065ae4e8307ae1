"""Replay: neither batches, shares nor interruptions change what is found, or its order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stream_guard as sg
from stream_guard.cli.progress import EVERY, Extent, PlainProgress, size_of
from stream_guard.commit import Positions
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.selection import EventSelection, Pacer, Share, TimeSpan
from stream_guard.decoding.wrapping import WrappedDecoder
from stream_guard.demo.sessions import sample_events
from stream_guard.errors import SettingsError, SourceError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Decoder, Record
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.running.replay import (
    Given,
    LocalWorker,
    Replay,
    ReplaySummary,
    ShareReader,
    can_be_shared,
    without_eviction,
)
from stream_guard.settings import SessionLimits
from stream_guard.sources import open_source
from stream_guard.sources.chaining import ChainedSource
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import rule_spec

REGISTRY = build_registry()
POLICY = load_policy(Path(__file__).parents[3] / "stream_guard" / "demo" / "policy.yaml", REGISTRY)
LINES = [json.dumps(event).encode() for event in sample_events(40)]
FEW = settings().max_examples // 2  # each example judges every line anew


class ListSource:
    """Records from a list, taken up where it was left."""

    def __init__(self, lines: list[bytes], at: int = 0) -> None:
        self._lines = lines
        self.at = at

    def __iter__(self) -> Iterator[Record | None]:
        while self.at < len(self._lines):
            line = self._lines[self.at]
            self.at += 1
            yield Record(line, "list", self.at - 1)
            if self.at % 7 == 0:
                yield None

    def positions(self) -> dict[str, int]:
        return {"list": self.at}

    def close(self) -> None:
        """Nothing is open."""


class MortalWorker(LocalWorker):
    """A share whose process dies instead of making a certain commit, those of all shares counted."""

    def __init__(self, reader: ShareReader, commits: Iterator[int], dies_at: int | None) -> None:
        super().__init__(reader)
        self._commits, self._dies_at = commits, dies_at

    def result(self) -> Any:
        if self._called[0] == "commit" and next(self._commits) == self._dies_at:
            raise InterruptedError
        return super().result()


class Parts:
    """A replay over a list, as many times as wanted on the same stores."""

    def __init__(
        self, lines: list[bytes], shares: int, policy: Policy = POLICY, limits: SessionLimits | None = None
    ) -> None:
        self.lines, self.policy, self.limits = lines, policy, without_eviction(limits or SessionLimits())
        self.stores = [MemoryStore() for _ in range(shares)]
        self.given: list[Finding] = []
        self.kept: list[Finding] = []
        self.handed_over = Given()
        self.dies_at: int | None = None  # the number of the commit that is not made

    def keep(self, found: list[Finding]) -> dict[str, int]:
        self.kept = found
        return {}

    def note(self, handed_over: Given, _kept: Positions) -> None:
        self.given += self.kept
        self.handed_over = handed_over

    def reader(self, number: int, span: TimeSpan | None) -> ShareReader:
        store, counts = self.stores[number], Counts()
        at = json.loads(store.meta().get("source", b"{}")).get("list", 0)
        return ShareReader(
            ListSource(self.lines, at),
            EventSelection(REGISTRY.decoders["native"](), Share(number, len(self.stores)), span),
            Judge(self.policy, self.limits, store=store, counts=counts),
            progress=store,
        )

    def run(self, batch: int, *, rounds: int = 10**9, span: TimeSpan | None = None) -> tuple[bool, ReplaySummary]:
        commits = itertools.count()
        workers = [MortalWorker(self.reader(number, span), commits, self.dies_at) for number in range(len(self.stores))]
        counts = Counts()
        self.letters = DeadLetters(None, counts, format_name="native")
        replay = Replay(workers, self.keep, self.letters, batch=batch, given=self.handed_over, note=self.note)
        left = iter(range(rounds))
        finished = replay.run(stopped=lambda: next(left, None) is None)
        summary = replay.summary()
        summary.counts.add(counts)
        return finished, summary


def ids(found: list[Finding]) -> list[str]:
    return [finding.alert_id for finding in found]


def wanted(lines: list[bytes]) -> list[str]:
    decoder = REGISTRY.decoders["native"]()
    return ids(evaluate([event for line in lines for event in decoder.decode(Record(line))], POLICY))


WANTED = wanted(LINES)


@settings(max_examples=FEW)
@given(batch=st.integers(1, 400), shares=st.integers(1, 5))
def test_neither_batch_size_nor_number_of_shares_changes_the_output(batch: int, shares: int) -> None:
    parts = Parts(LINES, shares)
    finished, told = parts.run(batch)
    assert finished
    assert ids(parts.given) == WANTED
    assert told.counts.records == len(LINES)
    assert sum(told.counts.events.values()) == len(LINES)


@settings(max_examples=FEW)
@given(batch=st.integers(1, 100), shares=st.integers(1, 3), stops=st.lists(st.integers(0, 3), max_size=4))
def test_a_replay_that_is_stopped_anywhere_goes_on_where_it_was(batch: int, shares: int, stops: list[int]) -> None:
    parts = Parts(LINES, shares)
    for rounds in stops:
        parts.run(batch, rounds=rounds)
    parts.run(batch)
    assert list(dict.fromkeys(ids(parts.given))) == WANTED


@settings(max_examples=FEW)
@given(batch=st.integers(10, 400), shares=st.integers(1, 3), deaths=st.lists(st.integers(0, 12), max_size=4))
@example(batch=400, shares=2, deaths=[1, 3])
def test_a_replay_that_dies_between_the_commits_of_its_shares_gives_each_finding_once(
    batch: int, shares: int, deaths: list[int]
) -> None:
    parts = Parts(LINES, shares)
    for death in deaths:
        parts.dies_at = death
        with suppress(InterruptedError):
            parts.run(batch)
    parts.dies_at = None
    parts.run(batch)
    assert sorted(ids(parts.given)) == sorted(WANTED)


def test_what_comes_after_the_end_was_given_is_given_too() -> None:
    parts = Parts(LINES[:100], 2)
    parts.run(30)
    before = len(parts.given)
    parts.lines = [*LINES[:100], *(line.replace(b'"session_id": "', b'"session_id": "later-') for line in LINES)]
    parts.run(30)
    assert len(parts.given) - before == len(WANTED)


@pytest.mark.parametrize(("form", "most"), [("native", 1.1), ("auto", 1.2)])
def test_a_share_decodes_no_records_that_are_certainly_of_others(tmp_path: Path, form: str, most: float) -> None:
    """A format that is found out is not certain in the first records."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, lines in zip(files, (LINES[:-5], LINES[-5:]), strict=True):
        file.write_bytes(b"".join(line + b"\n" for line in lines))
    decoded, judged = 0, list[Finding]()
    for number in range(2):
        decoder = CountingDecoder(REGISTRY.decoders[form]())
        source = ChainedSource([partial(open_source, str(file)) for file in files])
        table = Judge(POLICY, without_eviction(SessionLimits()))
        reader = ShareReader(source, EventSelection(decoder, Share(number, 2)), table)
        batches = [reader.advance(10**6), reader.finish()]
        decoded += decoder.decoded
        judged += [finding for batch in batches for _, finding in batch.found]
    assert sorted(ids(judged)) == sorted(WANTED)
    assert len(LINES) <= decoded <= len(LINES) * most


class CountingDecoder(WrappedDecoder):
    """Counts the records that are decoded."""

    decoded = 0

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        self.decoded += 1
        return events

    def around(self, decoder: Decoder) -> CountingDecoder:
        self._decoder = decoder
        return self

    def session_at_glance(self, record: Record) -> bytes | None:
        return self._decoder.session_at_glance(record)


def test_sessions_that_are_packed_away_between_batches_are_judged_alike() -> None:
    parts = Parts(LINES, 2, limits=SessionLimits(in_memory=1, max_live=1))
    _, told = parts.run(13)
    assert ids(parts.given) == WANTED
    assert told.counts.evictions == {}


def test_a_share_that_committed_ahead_of_another_waits_for_it() -> None:
    parts = Parts(LINES, 2)
    parts.reader(0, None).advance(0)
    ahead = parts.reader(0, None)
    parts.given += [finding for _, finding in ahead.advance(50).found]
    ahead.commit()
    parts.run(20)
    assert sorted(ids(parts.given)) == sorted(WANTED)


def test_a_record_nobody_can_read_is_told_once() -> None:
    parts = Parts([b"{broken", *LINES[:30], b'{"kind":"turn","session_id":"\\u0000x"}'], 3)
    _, told = parts.run(10)
    assert parts.letters.total == 2
    assert told.counts.dead_letters == {"decode": 2}
    assert len(parts.letters.summary()) == 2


def test_an_input_that_grows_between_the_reads_of_two_shares_is_an_error() -> None:
    parts = Parts(list(LINES), 2)
    workers = [LocalWorker(parts.reader(number, None)) for number in range(2)]
    workers[0].call("advance", len(LINES) + 1)
    assert workers[0].result().ended
    parts.lines.append(LINES[0])
    replay = Replay(workers, lambda _found: {}, DeadLetters(None, Counts(), format_name="native"), batch=30)
    with pytest.raises(SourceError, match="the input changed while it was read"):
        replay.run()


def test_only_events_of_the_span_are_judged_and_the_others_are_counted() -> None:
    times = sorted(json.loads(line)["time"] for line in LINES)
    span = TimeSpan(times[100], times[200])
    inside = [line for line in LINES if span.start <= json.loads(line)["time"] < span.stop]
    parts = Parts(LINES, 2)
    _, told = parts.run(50, span=span)
    assert ids(parts.given) == wanted(inside)
    assert told.left_out == len(LINES) - len(inside) > 0


def test_an_event_without_a_time_is_in_no_span_but_all_of_time() -> None:
    assert TimeSpan().holds(None)
    assert not TimeSpan(start=5).holds(None)
    assert TimeSpan(1, 2).holds(1)
    assert not TimeSpan(1, 2).holds(2)


class Raises(sg.Rule[sg.Params, sg.NoState]):
    """Raises at every call."""

    kind = "raises"

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> None:
        raise ValueError(call.tool)


@pytest.mark.parametrize("shares", [1, 3])
def test_a_rule_that_raises_is_told_once_whatever_the_shares(shares: int) -> None:
    policy = Policy(rules=(rule_spec(Raises, {}),), version="t")
    parts = Parts(LINES, shares, policy)
    _, told = parts.run(10)
    first = next(json.loads(line) for line in LINES if b'"tool_call"' in line or b'"tool_use"' in line)
    assert [(finding.kind, finding.session_id) for finding in parts.given] == [("rule_error", first["session_id"])]
    assert told.counts.rule_errors[0] > 1


def test_a_key_that_spans_sessions_cannot_be_shared() -> None:
    assert can_be_shared(POLICY)
    policy = load_policy("rules: [{id: a, kind: no_call, params: {tool: x}, key: [agent]}]", REGISTRY)
    assert not can_be_shared(policy)


def test_events_pass_at_the_pace_at_which_they_happened() -> None:
    now, waited = [50.0], []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    pacer = Pacer(10, wait, clock=lambda: now[0])
    for moment in (1000.0, 1020.0, 1010.0, 1050.0):
        pacer.pass_at(moment)
    assert waited == [2.0, 3.0]
    now[0] += 60  # the work itself took a minute: nothing is waited for twice
    pacer.pass_at(1060.0)
    assert waited == [2.0, 3.0]


def test_a_share_holds_every_session_exactly_once() -> None:
    shares = [Share(number, 4) for number in range(4)]
    for number in range(200):
        assert sum(share.holds(f"session-{number}") for share in shares) == 1
    assert Share().holds("\ud800")


def test_plain_progress_says_rate_and_remaining_time_now_and_then() -> None:
    now, said = [0.0], list[str]()
    progress = PlainProgress(Extent(10_000), clock=lambda: now[0], print_line=said.append)
    progress(100, {"a": 1000})
    assert said == []
    now[0] += EVERY
    progress(300, {"a": 2000, "b": 1000})
    assert said == ["300 records, 20/s, 30%, about 35 s left"]


def test_progress_of_what_has_no_size_says_the_rate_alone() -> None:
    now, said = [0.0], list[str]()
    progress = PlainProgress(Extent(None), clock=lambda: now[0], print_line=said.append)
    progress(0, {"topic/0": 7})
    now[0] += EVERY
    progress(50, {"topic/0": 57})
    assert said == ["50 records, 5/s"]


def test_progress_over_a_topic_counts_from_where_the_reading_begins() -> None:
    now, said = [100.0], list[str]()
    progress = PlainProgress(
        Extent(400, {"events/0": 1_000, "events/1": 50}), clock=lambda: now[0], print_line=said.append
    )
    progress(0, {"events/0": 1_000, "events/1": 50})
    now[0] += EVERY
    progress(100, {"events/0": 1_060, "events/1": 90})
    assert said == ["100 records, 10/s, 25%, about 30 s left"]


def test_the_size_of_an_archive_is_that_of_its_lines_unpacked(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.jsonl").write_bytes(b"x" * 100)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"y" * 1000))
    (tmp_path / "other.txt").write_bytes(b"z")
    assert size_of(str(tmp_path)) == 1100
    assert size_of(str(tmp_path / "b.jsonl.gz")) == 1000
    assert size_of("kafka://here/topic") is None


@pytest.mark.parametrize(
    ("source", "flags", "found"),
    [
        ("a.jsonl", (None, None), ("a.jsonl", TimeSpan())),
        ("a.jsonl", ("1970-01-01T00:01:00Z", "90.5"), ("a.jsonl", TimeSpan(60.0, 90.5))),
        ("a.jsonl", ("1970-01-01", None), ("a.jsonl", TimeSpan(start=0.0))),
        ("kafka://b/t", ("12", None), ("kafka://b/t?from=12", TimeSpan())),
        (
            "kafka://b/t?gaps=accept",
            ("2026-01-31T12:00:00+01:00", "9"),
            ("kafka://b/t?gaps=accept&from=2026-01-31T12:00:00+01:00&to=9", TimeSpan()),
        ),
    ],
)
def test_bounds_are_times_of_events_in_files_and_part_of_the_address_of_topics(
    source: str, flags: tuple[Any, Any], found: tuple[str, TimeSpan]
) -> None:
    from stream_guard.cli.replaying import bounds_of

    assert bounds_of(source, *flags) == found


def test_bounds_that_are_no_times_or_given_twice_are_refused() -> None:
    from stream_guard.cli.replaying import bounds_of

    with pytest.raises(SettingsError, match="--from yesterday is not a time"):
        bounds_of("a.jsonl", "yesterday", None)
    with pytest.raises(SettingsError, match="--to is given"):
        bounds_of("kafka://b/t?to=5", None, "6")
