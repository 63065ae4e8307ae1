"""One partition of the stream: its sessions, its clock, and how far it came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.engine import Engine
from stream_guard.errors import DecodeError
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.ports import Decoder, HoldingDecoder, Record
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import SessionLimits
from stream_guard.worker.cross_session.table import SendingTable, SentEvent
from stream_guard.worker.rows import topic_tag
from stream_guard.worker.store import Change, PartitionStore


class Partition:
    """Folds a partition's records into its sessions, each record once, however often it is delivered."""

    def __init__(
        self,
        store: PartitionStore,
        engine: Engine,
        decoder: Decoder,
        dead_letters: DeadLetterSink,
        limits: SessionLimits,
        *,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._now = now
        self._lateness = engine.policy.max_out_of_orderness
        self._showing = SendingTable(engine, store, engine.counts, limits) if engine.cross_session else None
        self._table = self._showing or SessionTable(engine, store, engine.counts, limits)
        self._decoder = decoder.remember(self._table.memory) if isinstance(decoder, HoldingDecoder) else decoder
        self._decode = self._decoder.decode
        self._counts: Counts = engine.counts
        self._shown: list[tuple[int, SentEvent]] = []
        self._active = now()  # the time of the day at which something last came
        self._base = self._active  # the time of the day at which the watermark stood where it stands
        self.redelivered = 0
        self.foreign_keys = 0  # records whose key is not their session's id
        progress = store.progress
        if progress is not None and progress.watermark is not None:
            self._table.watermark = progress.watermark
            self._base = progress.wall

    @property
    def watermark(self) -> float:
        """How far its clock has come; minus infinity when nothing ever came."""
        return self._table.watermark

    def take_shown(self) -> list[tuple[int, SentEvent]]:
        """Return the events, since this was last asked, for rules that look across sessions, each with its topic."""
        shown, self._shown = self._shown, []
        return shown

    def next_offset(self, topic: str) -> int | None:
        """Return the offset that must come next, or None when nothing of the topic was ever judged."""
        applied = self._store.applied.get(topic_tag(topic))
        return None if applied is None else applied + 1

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Judge records in the order of their offsets; what was judged before is passed over."""
        tag = topic_tag(topic)
        applied = self._store.applied.get(tag, -1)
        horizon = self._store.horizon.get(tag, -1)
        for record in records:
            if record.position <= applied:
                self.redelivered += 1
                continue
            self._judge(record, tag, out, behind=record.position <= horizon)
            applied = record.position
            self._counts.records += 1
        self._store.applied[tag] = applied
        if self._showing is not None:
            self._shown += [(tag, shown) for shown in self._showing.shown]
            self._showing.shown.clear()
        self._active = self._base = self._now()

    def _judge(self, record: Record, tag: int, out: list[Finding], *, behind: bool, only: str = "") -> None:
        table = self._table
        if self._showing is not None:
            self._showing.begin(record.position)
        try:
            for event in self._decode(record):
                if only and event.session_id != only:
                    continue
                if behind and self._store.has_applied(event.session_id, tag, record.position):
                    self.redelivered += 1
                    if self._showing is not None:
                        self._showing.pass_over()
                    if event.time is not None and event.time - self._lateness > table.watermark:
                        table.advance(event.time - self._lateness, out)
                    continue
                if record.key is not None and record.key != event.session_id.encode("utf-8", "surrogatepass"):
                    self.foreign_keys += 1
                table.feed(event, out)
        except DecodeError as error:
            self._dead_letters.add(record, str(error))

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Let a partition on which nothing comes age by the wall clock; True when that changed a session.

        The caller knows that everything there is has been judged.
        """
        now, table = self._now(), self._table
        if now - self._active < grace:
            return False
        passed = max(0.0, now - self._base)
        if isinstance(self._decoder, HoldingDecoder):
            for event in self._decoder.elapse(passed):
                table.feed(event, out)
        if table.watermark > -inf:
            table.advance(table.watermark + passed, out)
        self._base = now
        return self._table.changed or self._store.changed

    def seal(self) -> list[Change]:
        """Return what has to be written so that everything judged so far is safe."""
        self._table.commit()
        watermark = self._table.watermark
        return self._store.seal(None if watermark == -inf else watermark, self._base)
