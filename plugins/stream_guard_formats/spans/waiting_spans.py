"""Spans of one trace that wait, and which spans around them have not come yet.

Spans are sent when they end, so those inside come before those around them. Which agent's a span is, whether a person
or an agent wrote a message, and which spans are one call: the spans around it say all of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple

from stream_guard_formats.reading import digest
from stream_guard_formats.spans.attribute_names import RESULT_NAMES
from stream_guard_formats.spans.conventions import session_of, sort_of
from stream_guard_formats.spans.raw_spans import RawSpan
from stream_guard_formats.spans.trace_rows import TraceRow, WaitingSpans, encode_row

_MAX_DEPTH: Final = 100


class WaitLimits(NamedTuple):
    """How long spans wait, in seconds of event time."""

    session: float  # for the span that names the conversation
    parents: float  # for the spans around them; without an end, all that comes waits for the end of the input


class WaitingTrace:
    """The spans of one trace that wait: in which rows they are, and for which spans around them."""

    __slots__ = (
        *("_logged", "_parents", "began", "count", "due", "first"),
        *("lacking", "named", "places", "rows", "size", "trace"),
    )

    def __init__(self, trace: TraceRow) -> None:
        self.trace = trace
        self.rows: list[str] = []
        self.size = 0  # of the rows together
        self.count = 0
        self.due: float | None = None
        self.began = inf
        self.first = inf  # when the first of them ended
        self.named = bool(trace.session_id)  # the session is known, or that no span will name it
        self.lacking: dict[str, float] = {}  # spans that have not come: when the first that waits for each ended
        self.places: dict[str, tuple[str, int]] = {}  # by span: the origin and the line of the record, if it has a line
        self._parents: dict[str, str] = {}  # by span
        self._logged: dict[str, str] = {}  # spans made of log records, by digest

    @property
    def lacks_span(self) -> bool:
        """Whether log records describe a call to a model whose span has not come."""
        found = (span_id for span_id in self._logged.values() if span_id and span_id not in self._parents)
        return any(span_id not in self.trace.read for span_id in found)

    def until(self, waits: WaitLimits) -> float:
        """Return until when to wait, by the ids and the times; minus infinity where nothing is missing."""
        if waits.parents == inf:
            return inf
        if not self.named:
            return self.first + waits.session
        return min(self.lacking.values()) + waits.parents if self.lacking else -inf

    def add(self, brought: WaitingSpans, now: float) -> WaitingSpans:
        """Note spans. Return those that neither wait nor became events. A span without a time gets ``now``."""
        spans: dict[str, RawSpan] = {}
        for raw in brought.spans:
            if raw.span_id not in self._parents and raw.span_id not in spans and self.trace.is_new(raw):
                spans[raw.span_id] = raw
        logged: dict[str, RawSpan] = {}
        for raw in brought.logged:
            if (name := digest(encode_row(raw))) not in self._logged and self.trace.is_new(raw):
                logged[name] = raw
        self._parents |= {raw.span_id: raw.parent_id for raw in spans.values()}
        self._logged |= {name: raw.span_id if is_model_log(raw) else "" for name, raw in logged.items()}
        new = WaitingSpans(list(spans.values()), list(logged.values()), brought.service, brought.origin, brought.line)
        if new.line:
            for raw in (*new.logged, *new.spans):
                self.places.setdefault(raw.span_id, (new.origin, new.line))
        self._note(new, now)
        return new

    def _note(self, new: WaitingSpans, now: float) -> None:
        self.named = self.named or any(not raw.parent_id for raw in new.spans)
        for raw in (*new.spans, *new.logged):
            self.count += 1
            ended = raw.end or raw.start or now
            self.began, self.first = min(self.began, raw.start or ended), min(self.first, ended)
            self.named = self.named or bool(session_of(raw.attributes))
            since = self.lacking.pop(raw.span_id, inf)
            since = min(since, ended) if becomes_events(raw) else since
            if since < inf and (missing := self.missing_above(raw)):
                self.lacking[missing] = min(since, self.lacking.get(missing, inf))

    def missing_above(self, raw: RawSpan) -> str:
        """Return the id of the nearest span around this one that is not known and may still come, else nothing."""
        unknown = self._unknown_above(raw)
        return "" if unknown in self.trace.absent else unknown

    def _unknown_above(self, raw: RawSpan) -> str:
        above = raw.parent_id
        for _ in range(_MAX_DEPTH):
            parent = self._parents.get(above)
            if parent is None:
                if (read := self.trace.read.get(above)) is None:
                    return above
                parent = read.parent_id
            above = parent
        return ""  # a ring

    def give_up(self, before: float) -> None:
        """Wait no longer for spans for which others have waited since this time."""
        late = [span_id for span_id, since in self.lacking.items() if since <= before]
        for span_id in late:
            del self.lacking[span_id]
            self.trace.absent[span_id] = True

    def orphans(self, spans: Iterable[RawSpan]) -> int:
        """Return how many of the spans become events without a span that is around them."""
        absent = self.trace.absent
        return sum(becomes_events(raw) and self._unknown_above(raw) in absent for raw in spans) if absent else 0

    def split(self, brought: WaitingSpans) -> tuple[WaitingSpans, WaitingSpans]:
        """Return the spans whose parents are all known, and those that still lack one."""
        if not self.lacking:
            return brought, WaitingSpans()
        kept = [raw for raw in brought.spans if self.missing_above(raw)]
        left = {raw.span_id for raw in kept}
        logged = [raw for raw in brought.logged if raw.span_id in left or self.missing_above(raw)]
        held = {raw.span_id for raw in logged}
        complete = WaitingSpans(
            [raw for raw in brought.spans if raw.span_id not in left],
            [raw for raw in brought.logged if raw.span_id not in held],
            brought.service,
        )
        return complete, WaitingSpans(kept, logged, brought.service)

    def by_record(self, brought: WaitingSpans) -> list[WaitingSpans]:
        """Return the spans apart by the lines of their records, where these have lines."""
        if not self.places:
            return [brought] if brought.spans or brought.logged else []
        apart: dict[tuple[str, int], WaitingSpans] = {}
        for raws, are_spans in ((brought.spans, True), (brought.logged, False)):
            for raw in raws:
                origin, line = self.places.get(raw.span_id, ("", 0))
                row = apart.setdefault((origin, line), WaitingSpans([], [], brought.service, origin, line))
                (row.spans if are_spans else row.logged).append(raw)
        return list(apart.values())


def becomes_events(raw: RawSpan) -> bool:
    """Whether a span may become events; other spans only surround those that do."""
    sort = sort_of(raw.attributes, raw.name)
    if sort == "agent":
        return raw.kind == "client"
    return sort != "other" or any(name in raw.attributes for name in RESULT_NAMES)


def is_model_log(raw: RawSpan) -> bool:
    """Whether log records describe a call to a model that has a span of its own."""
    return not raw.parent_id and "span.type" not in raw.attributes
