"""The timeline of a session: each event that rules saw, the states it changed, and what was found at it.

The session is run through the real engine, by watched rules (see ``watching``), so a timeline finds what every other
mode finds, under the same ids. States are told only where they changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.decoding.places import RecordPlaces
from stream_guard.errors import Place
from stream_guard.explaining.near_misses import NearMiss, NearMisses
from stream_guard.explaining.states import NOTHING, describe_event, describe_state, take, tool_of, watch
from stream_guard.judge.bound import BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json, SessionEnd
from stream_guard.judge.ports import Store
from stream_guard.judge.rule import Mode, State, Verdict
from stream_guard.judge.spec import Policy
from stream_guard.redaction import redact, redact_text
from stream_guard.reports.safe import visible
from stream_guard.settings import SessionLimits

EntryKind: TypeAlias = Literal[
    "user_message", "turn", "tool_call", "decision", "tool_result", "deadline", "part_end", "session_end"
]
PlaceOf: TypeAlias = Callable[[str], Place | None]
"""Returns the file and line of an event by its id; None where that is not known."""

MOST_ENTRIES: Final = 50_000


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """One rule whose state an event changed, in words."""

    rule_id: str
    before: str
    after: str
    key: str = ""  # which of the rule's states, where it has one for each value of a key


class TimelineFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule found at an entry: redacted, as an alert is."""

    alert_id: str
    rule_id: str
    kind: str
    severity: str
    detail: str
    evidence: dict[str, Json] = {}
    reason: str = ""
    index: int | None = None
    at: str = "event"
    then: str = ""  # what a gate does about it
    shadow: bool = False
    suppressed: int = 0


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event as the rules saw it, a deadline that passed, or an end."""

    number: int  # from 0, in the order in which rules saw them
    kind: EntryKind
    event_id: str
    what: str  # on one line, redacted
    index: int | None = None  # the turn it belongs to
    time: float | None = None
    agent: str = ""
    tool: str = ""
    changes: tuple[StateChange, ...] = ()
    findings: tuple[TimelineFinding, ...] = ()
    file: str = ""
    line: int = 0


class RuleAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one rule over the whole session."""

    rule_id: str
    slot: str
    kind: str
    asked: int  # how many events it judged, inside its gate
    findings: int
    changes: int
    state: str  # the last one, in words
    lacking: dict[str, int] = {}  # what was missing where it could not judge, and how often
    near_miss: NearMiss | None = None  # of a rule that did not fire: where it came closest


class SessionTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """One session, event by event."""

    session_id: str
    policy_version: str
    entries: tuple[TimelineEntry, ...]
    rules: tuple[RuleAccount, ...]
    left_out: int = 0  # entries without findings beyond the limit

    @property
    def findings(self) -> list[TimelineFinding]:
        """Everything that was found, in order."""
        return [finding for entry in self.entries for finding in entry.findings]


def follow_session(
    events: Iterable[Event],
    policy: Policy,
    session_id: str,
    *,
    places: RecordPlaces | None = None,
    mode: Mode = "batch",
    limits: SessionLimits | None = None,
    most_entries: int = MOST_ENTRIES,
    end: bool = True,
) -> SessionTimeline:
    """Return the timeline of one session of the events. ``end``: the end of the events is the end of the session.

    Events of other sessions only count for rules whose key spans sessions; elsewhere they may be left out.
    """
    notes = _Notes(session_id, policy, None if places is None else partial(places.of, session_id), most_entries)
    counts = Counts()
    judge = Judge(watch(policy, notes), limits, mode=mode, counts=counts)
    if places is not None:
        judge.tell_names(places.name)
    notes.feed(judge, events)
    if end:
        notes.end(judge)
    return notes.finish(counts)


def follow_on(
    events: Iterable[Event], policy: Policy, session_id: str, store: Store, limits: SessionLimits
) -> SessionTimeline:
    """Return the timeline of events that come after what a store has of their session; the session goes on."""
    notes = _Notes(session_id, policy, None, MOST_ENTRIES)
    counts = Counts()
    notes.feed(Judge(watch(policy, notes), limits, store=store, counts=counts), events)
    return notes.finish(counts)


class _OpenEntry:
    """A entry while its event is shown to rules."""

    __slots__ = ("agent", "changes", "event", "index", "kind", "time")

    def __init__(self, kind: EntryKind, event: Event | None, time: float | None, index: int | None) -> None:
        self.kind = kind
        self.event = event
        self.time = time
        self.index = index
        self.changes: dict[tuple[int, str], tuple[str, str]] = {}


class _Notes:
    """Writes down what watched rules tell, event by event."""

    def __init__(self, session_id: str, policy: Policy, place_of: PlaceOf | None, most_entries: int) -> None:
        self.found: list[Finding] = []
        self._judge: Judge | None = None
        self._taken = 0  # findings of the judge's present call that are among them
        self._session_id = session_id
        self._policy = policy
        self._place_of = place_of
        self._most_entries = most_entries
        self._misses = NearMisses(policy)
        self._bounds = [BoundRule(number, spec, policy.agents) for number, spec in enumerate(policy.rules)]
        self._entries: list[TimelineEntry] = []
        self._left_out = 0
        self._open: _OpenEntry | None = None
        self._flushed = 0  # findings that belong to closed entries
        self._last: Event | None = None
        self._asked: Counter[int] = Counter()
        self._changed: Counter[int] = Counter()
        self._states: dict[int, str] = {}
        self._described: dict[int, tuple[bytes, str]] = {}  # by rule: the state that was described last

    def feed(self, judge: Judge, events: Iterable[Event]) -> None:
        """Feed events to a judge of watched rules."""
        self._judge, across = judge, bool(judge.across)
        for event in events:
            if across or event.session_id == self._session_id:
                self._taken = 0
                judge.feed(event)
                self._take_found()

    def end(self, judge: Judge) -> None:
        """End all sessions of the judge."""
        self._taken = 0
        judge.end()
        self._take_found()

    def _take_found(self) -> None:
        """Take over what the judge has found since the last time."""
        found = self._judge.found if self._judge is not None else []
        self.found += found[self._taken :]
        self._taken = len(found)

    def see(self, event: Event) -> None:
        """Begin the entry of an event."""
        self._close()
        if event.session_id == self._session_id:
            self._last = event
            self._misses.see(event)
            self._open = _OpenEntry(_kind(event), event, event.time, event.index if event.index >= 0 else None)

    def answered(
        self, number: int, shown: Event | float, before: bytes, state: State, verdict: Verdict, *, inside: bool
    ) -> None:
        """Note the change of a rule's state. A deadline and the end of a part are entries of their own."""
        entry = self._entry(shown)
        if entry is None:
            return
        self._asked[number] += inside
        self._misses.answered(number, shown, state, verdict, inside=inside)
        now = take(state)
        if before == now:
            return
        key = self._key(number, shown)
        known = entry.changes.get((number, key))
        first = known[0] if known is not None else self._describe(number, before)
        after = describe_state(state)
        self._described[number] = (now, after)
        entry.changes[number, key] = (first, after)
        self._changed[number] += 1
        self._states[number] = after

    def _entry(self, shown: Event | float) -> _OpenEntry | None:
        """Return the entry that a call belongs to: the open one, unless the call is about something else."""
        entry = self._open
        if isinstance(shown, float | int):
            if entry is None or entry.kind != "deadline" or entry.time != shown:
                self._close()
                if self._last is None:
                    return None
                entry = self._open = _OpenEntry("deadline", None, float(shown), None)
        elif shown.session_id != self._session_id:
            return None
        elif isinstance(shown, SessionEnd) and (entry is None or entry.event is not shown):
            self._close()
            entry = self._open = _OpenEntry("part_end", shown, shown.time, shown.index if shown.index >= 0 else None)
        return entry

    def _describe(self, number: int, before: bytes) -> str:
        """Return an earlier state in words; most often it is the one that was described last."""
        known, words = self._described.get(number, (b"", ""))
        return words if known == before else describe_state(self._bounds[number].decoder.decode(before))

    def _key(self, number: int, shown: Event | float) -> str:
        bound = self._bounds[number]
        if bound.key is None or isinstance(shown, float | int | SessionEnd):
            return ""
        address = bound.key(shown)
        return redact_text("/".join(map(str, address[1:]))) if isinstance(address, tuple) else ""

    def _close(self) -> None:
        """End the open entry: what was found since it began belongs to it."""
        self._take_found()
        entry, self._open = self._open, None
        found = [finding for finding in self.found[self._flushed :] if finding.session_id == self._session_id]
        self._flushed = len(self.found)
        if entry is None and found:  # of a rule across sessions, which another session's event set off
            entry = _OpenEntry("deadline", None, found[0].time, None)
        if entry is None:
            return
        if len(self._entries) >= self._most_entries and not found:
            self._left_out += 1
            return
        self._entries.append(self._written(entry, found))

    def _written(self, entry: _OpenEntry, found: Sequence[Finding]) -> TimelineEntry:
        event = entry.event
        event_id = event.event_id if event is not None else ""
        place = self._place_of(event_id) if self._place_of is not None and event_id else None
        rules = self._policy.rules
        return TimelineEntry(
            number=len(self._entries) + self._left_out,
            kind=entry.kind,
            event_id=event_id,
            what=_what(entry),
            index=entry.index,
            time=entry.time,
            agent=redact_text(event.agent) if event is not None else "",
            tool=tool_of(event) if event is not None else "",
            changes=tuple(
                StateChange(rule_id=rules[number].id, before=before, after=after, key=key)
                for (number, key), (before, after) in entry.changes.items()
            ),
            findings=tuple(map(_finding, found)),
            file=place.file if place is not None else "",
            line=place.line if place is not None else 0,
        )

    def finish(self, counts: Counts) -> SessionTimeline:
        """Return everything that was written down."""
        self._close()
        of_rule = Counter(finding.slot for finding in self.found if finding.session_id == self._session_id)
        lacking: dict[str, dict[str, int]] = {}
        for (rule_id, lacks), times in counts.lacking.items():
            lacking.setdefault(rule_id, {})[lacks] = times
        accounts = [
            RuleAccount(
                rule_id=spec.id,
                slot=spec.slot,
                kind=spec.kind,
                asked=self._asked[number],
                findings=of_rule[spec.slot],
                changes=self._changed[number],
                state=self._states.get(number, NOTHING),
                lacking=lacking.get(spec.id, {}),
                near_miss=None if of_rule[spec.slot] else self._misses.nearest(number, self._session_id),
            )
            for number, spec in enumerate(self._policy.rules)
        ]
        return SessionTimeline(
            session_id=self._session_id,
            policy_version=self._policy.version,
            entries=tuple(self._entries),
            rules=tuple(accounts),
            left_out=self._left_out,
        )


def _kind(event: Event) -> EntryKind:
    tag: EntryKind = type(event).__struct_config__.tag  # type: ignore[assignment]  # the tags of events are these kinds
    return tag


def _what(entry: _OpenEntry) -> str:
    if entry.kind == "part_end":
        return "the user began something new"
    if entry.event is None:
        return "a deadline passed"
    return describe_event(entry.event)


def _finding(finding: Finding) -> TimelineFinding:
    return TimelineFinding(
        alert_id=finding.alert_id,
        rule_id=finding.rule_id,
        kind=finding.kind,
        severity=finding.severity.word,
        detail=visible(redact_text(finding.detail)),
        evidence=redact(finding.evidence),
        reason=finding.reason,
        index=finding.index,
        at=finding.at,
        then=finding.then.word if finding.then is not None else "",
        shadow=finding.shadow,
        suppressed=finding.suppressed,
    )
