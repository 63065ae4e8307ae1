"""READ FIRST: the way of an event through the system, on one page.

    source -> decode -> sessions -> engine (rules) -> alerts -> sinks

A record comes from a source and becomes events, or a dead letter (``decoding.reader``). Each event goes to its
session, which drops duplicates, pairs calls with results, splits parts and keeps time (``judge.judge``). The
session shows the event to the engine. The engine folds it into the states of the rules and returns findings
(``judge.fold``). Findings become alerts, and alerts go to sinks (``alerting.delivery``).

Every mode uses these parts. The embedded runner, ``check`` and ``replay`` run a ``Pipeline`` over a source. A worker
runs one for each Kafka partition. ``evaluate`` and the inline guard have events already, and start at the judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.reader import DeadLetterSink, EventReader, letter_of
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.ports import Store
from stream_guard.judge.rule import Mode
from stream_guard.judge.spec import Policy
from stream_guard.ports import Decoder, Record


def open_table(
    policy: Policy,
    counts: Counts | None = None,
    limits: Limits | None = None,
    store: Store | None = None,
    *,
    mode: Mode = "batch",
    clock: SharedClock | None = None,
) -> Judge:
    """Return the judge of one policy, by the name that it had at the front door before it had one interface."""
    return Judge(policy, limits, mode=mode, store=store, counts=counts, clock=clock)


class EventAdmission(Protocol):
    """What is looked at before an event is judged, where somebody may have judged it before."""

    def begin(self, record: Record) -> None:
        """Take note that the next events are those of a record."""

    def admits(self, event: Event, record: Record, out: list[Finding]) -> bool:
        """Whether an event is to be judged."""


class Pipeline:
    """One partition's worth of work: records in, findings out, nothing lost silently."""

    def __init__(
        self,
        decoder: Decoder,
        judge: Judge,
        dead_letters: DeadLetterSink,
        places: RecordPlaces | None = None,
        admission: EventAdmission | None = None,
    ) -> None:
        if places is not None:
            judge.memory.origins = places.tell
            judge.tell_names(places.name)
        self.reader = EventReader(decoder, dead_letters, judge.memory)
        self._places = places
        self._admission = admission
        self._feed = judge.feed
        self._counts = judge.counts

    def run(self, records: Sequence[Record], out: list[Finding], ends: list[int] | None = None) -> None:
        """Judge records; append the findings in the order in which they are made.

        ``ends`` gets, for each record, how many findings there are after it.
        """
        for record in records:
            if record.headers and letter_of(record):
                self._counts.redriven_records += 1
            self._judge(self.reader.read(record), record, out)
            if ends is not None:
                ends.append(len(out))
        self._counts.records += len(records)

    def _judge(self, events: Sequence[Event], record: Record | None, out: list[Finding]) -> None:
        """Judge the events of a record that are admitted; their findings name the file and the line of it."""
        feed, places, admission = self._feed, self._places, self._admission
        if admission is not None and record is not None:
            admission.begin(record)
        for event in events:
            if admission is not None and record is not None and not admission.admits(event, record, out):
                continue
            if places is None:
                out += feed(event).findings
                continue
            places.note(record, event)
            if found := feed(event).findings:  # at once: a place is not remembered for ever
                out += [places.located(finding) for finding in found]
        if places is not None and places.told and record is not None:
            places.forget_told()

    def locate(self, found: list[Finding]) -> None:
        """Give findings that came without a record, such as those of an end, the file and the line of their events."""
        if self._places is not None:
            found[:] = [finding if finding.line else self._places.located(finding) for finding in found]

    def elapse(self, seconds: float, out: list[Finding]) -> None:
        """Judge the events that have waited long enough after so many seconds without a record."""
        self._judge(self.reader.elapse(seconds), None, out)

    def finish(self, out: list[Finding]) -> None:
        """Judge the events that still wait: no record will follow. The caller ends the sessions next."""
        self._judge(self.reader.finish(), None, out)
