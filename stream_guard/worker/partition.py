"""One partition of the events: its sessions, its watermark and its offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from stream_guard.decoding.reader import DeadLetterSink
from stream_guard.judge.clock import QUORUM, SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import share_of
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.pipeline import Pipeline
from stream_guard.ports import Decoder, Record
from stream_guard.settings import SessionLimits
from stream_guard.worker.admission import OutgoingEvent, OutgoingEvents, PartitionAdmission, TenantLanes, by_share
from stream_guard.worker.rows import PartitionStore, RowChange


class SessionPartition:
    """Folds the records of a partition into its sessions, each record once, however often it is delivered."""

    def __init__(  # noqa: PLR0913  # the parts of a partition
        self,
        store: PartitionStore,
        judge: Judge,
        decoder: Decoder,
        dead_letters: DeadLetterSink,
        limits: SessionLimits,
        *,
        now: Callable[[], float],
        receiver: Callable[[], float] | None = None,
        counts: Counts | None = None,
        held: Mapping[str, Judge] | None = None,
    ) -> None:
        """Open a partition by its rows.

        ``now`` measures how long nothing came, and is a clock that nobody sets; stamps are held against ``receiver``,
        which says what time it is. Without ``counts``, those of the judge are used; ``held`` has those of
        tenants with another policy.
        """
        counts = counts if counts is not None else judge.counts
        self._store = store
        self._dead_letters = dead_letters
        self._now = now
        skew = limits.max_future_skew
        clock = SharedClock(receiver or now, skew=skew, live=True, quorum=QUORUM)
        self._sending = OutgoingEvents() if judge.across else None
        if held:
            self._judging: Judge = TenantLanes(store, judge, held, counts, limits, clock)
        else:
            forward = self._sending.add if self._sending is not None else None
            self._judging = Judge(judge, limits, store=store, counts=counts, clock=clock, forward=forward)
        self._version = judge.policy.version
        self._held = {share: own.policy.version for share, own in by_share(held or {}).items()}
        self._admission = PartitionAdmission(store, self._judging, self._sending, has_tenants=bool(limits.tenant_label))
        self._pipeline = Pipeline(decoder, self._judging, dead_letters, admission=self._admission)
        self._counts = counts
        self._outgoing: list[tuple[int, OutgoingEvent]] = []
        self._last_active = now()  # time of the last record
        self._watermark_wall = self._last_active  # time that belongs to the watermark
        progress = store.progress
        stored = None if progress is None else progress.watermark
        if progress is None or stored is None:
            return
        if stored <= progress.wall + skew or clock.is_credible(stored):  # else an earlier version's
            self._judging.watermark = stored
            self._watermark_wall = min(progress.wall, self._last_active)  # another machine's clock may be ahead

    @property
    def watermark(self) -> float:
        """The watermark; minus infinity before the first record."""
        return self._judging.watermark

    @property
    def foreign_keys(self) -> int:
        """How many events came under a key that is not their session's id."""
        return self._admission.foreign_keys

    def read_until(self, measured: float | None) -> float | None:
        """Return the wall time before which all that was written for the partition is folded; None when unknown.

        ``measured`` is the same for the topics that it reads itself.
        """
        return measured

    def take_outgoing(self) -> list[tuple[int, OutgoingEvent]]:
        """Return the events for cross-session rules since the last call, each with the tag of its topic."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def next_offset(self, topic: str) -> int | None:
        """Return the next offset to fold, or None when the partition has no record of the topic yet."""
        applied = self._store.applied.get(self._store.tag_of(topic))
        return None if applied is None else applied + 1

    def fold(self, topic: str, records: Sequence[Record], out: list[Finding]) -> None:
        """Fold records in the order of their offsets; skip those that are in the state already."""
        tag = self._store.tag_of(topic)
        applied = self._store.applied.get(tag, -1)
        first_new = next((at for at, record in enumerate(records) if record.position > applied), len(records))
        if first_new < len(records):
            self._admission.open(tag)
            self._judge(records[first_new:] if first_new else records, out)
            applied = records[-1].position
        self._store.applied[tag] = applied
        if self._sending is not None:
            self._outgoing += [(tag, event) for event in self._sending.take()]
        self._last_active = self._watermark_wall = self._now()

    def _judge(self, records: Sequence[Record], out: list[Finding]) -> None:
        """Judge records that the partition has not seen."""
        self._pipeline.run(records, out)

    def tick(self, grace: float, out: list[Finding]) -> bool:
        """Advance the watermark by the time that passed, when no record came for ``grace`` seconds.

        Returns whether a state changed. The caller knows that the partition has no unread records.
        """
        now, judge = self._now(), self._judging
        if now - self._last_active < grace:
            return False
        elapsed = now - self._watermark_wall
        self._pipeline.elapse(elapsed, out)
        if judge.watermark > -inf:
            out += judge.advance(judge.watermark + elapsed)
        self._watermark_wall = now
        return self._judging.changed or self._store.changed

    def version_of(self, finding: Finding) -> str:
        """Return the version of the policy that found it: that of the session's tenant, if it is held back."""
        return self._held.get(share_of(finding.session_id), self._version) if self._held else self._version

    def snapshot(self) -> list[RowChange]:
        """Return the row changes that make everything folded so far durable."""
        self._judging.commit()
        watermark = self._judging.watermark
        return self._store.snapshot(None if watermark == -inf else watermark, self._watermark_wall)
