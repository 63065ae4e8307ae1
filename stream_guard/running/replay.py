"""Replay: archives and topic ranges through the rules again; the same input gives the same output, byte for byte.

The settled order of the output is that of the input: by the record that brought a finding out, then by session;
what only the end of the input reveals comes last. Neither the size of the batches nor the number of shares
changes it: every share reads the whole input, numbers the records alike, and judges the sessions that are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.selection import EventSelection
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import Pipeline
from stream_guard.policy.spec import Policy
from stream_guard.ports import Record, Source
from stream_guard.sessions.table import SessionTable
from stream_guard.settings import SessionLimits

END: Final = 2**63  # the number of what only the end of the input reveals
NEXT_META: Final = "next"
REPORTED_META: Final = "told"

Numbered: TypeAlias = tuple[int, Finding]


def can_be_shared(policy: Policy) -> bool:
    """Whether sessions can be judged apart from each other: no rule has a key that spans them."""
    return all("session" in spec.key for spec in policy.rules)


def without_eviction(limits: SessionLimits) -> SessionLimits:
    """Return limits under which no session is closed to make room: who is closed would depend on the batches."""
    return limits.model_copy(update={"max_live": sys.maxsize})


class ReplayBatch(msgspec.Struct, frozen=True, gc=False):
    """What came of one stretch of the input."""

    found: list[Numbered]
    following: int  # the number of the next record
    ended: bool
    positions: dict[str, int]


class ReplaySummary(msgspec.Struct, frozen=True):
    """What a share has to say at the end, beside its findings."""

    counts: Any  # a Counts; msgspec does not look inside
    dead_letters: int
    reasons: list[str]
    left_out: int


class Progress(Protocol):
    """Where a share keeps its states and how far it came."""

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Write everything that was put, and the meta data, in one transaction."""

    def meta(self) -> Mapping[str, bytes]:
        """Return the meta data of the last commit."""


class ShareReader:
    """One share of a replay: reads the input in stretches, and judges what is its own."""

    def __init__(
        self,
        source: Source,
        selection: EventSelection,
        table: SessionTable,
        letters: DeadLetters,
        *,
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._source = source
        self._selection = selection
        self._table = table
        self._letters = letters
        self._progress = progress
        self._stopped = stopped
        self._pipeline = Pipeline(selection, table, letters)
        self._records = (record for record in source if record is not None)
        self._next = 0 if progress is None else int(progress.meta().get(NEXT_META, b"0"))
        self._ended = False

    def advance(self, until: int) -> ReplayBatch:
        """Judge the records before number ``until``, fewer when the input ends or the replay is stopped."""
        found: list[Finding] = []
        numbers: list[int] = []
        self._pipeline.run(self._take(until, found, numbers), found)
        return self._batch(list(zip(numbers, found, strict=True)))

    def finish(self) -> ReplayBatch:
        """Judge what is still open: nothing more will come."""
        found: list[Finding] = []
        self._pipeline.finish(found)
        self._table.end_all(found)
        return self._batch([(END, finding) for finding in found])

    def commit(self) -> None:
        """Bring states and progress to safety; without a place for that, only keep the memory small."""
        if self._progress is None:
            self._table.commit_if_full()
            return
        self._table.commit()
        positions = msgspec.json.encode(dict(self._source.positions()))
        self._progress.commit({"source": positions, NEXT_META: str(self._next).encode()})

    def tell(self) -> ReplaySummary:
        """Return what happened beside the findings."""
        return ReplaySummary(self._table.counts, self._letters.total, self._letters.summary(), self._selection.left_out)

    def _take(self, until: int, found: list[Finding], numbers: list[int]) -> Iterator[Record]:
        while self._next < until and not self._stopped():
            record = next(self._records, None)
            if record is None:
                self._ended = True
                return
            yield record
            # The pipeline comes back for more when it has judged the record: what is new was brought out by it.
            if len(found) > len(numbers):
                numbers.extend([self._next] * (len(found) - len(numbers)))
            self._next += 1

    def _batch(self, found: list[Numbered]) -> ReplayBatch:
        return ReplayBatch(found, self._next, self._ended, dict(self._source.positions()))


class ShareWorker(Protocol):
    """A share that is asked first and answers later, so that all of them can work at the same time."""

    def ask(self, what: str, *values: int) -> None:
        """Begin what the method of that name of ``ShareReader`` does."""

    def answer(self) -> Any:
        """Return what it returned."""


class LocalWorker:
    """A share in this process: it works when it is asked for the answer."""

    def __init__(self, reader: ShareReader) -> None:
        self._reader = reader
        self._asked: tuple[str, tuple[int, ...]] = ("tell", ())

    def ask(self, what: str, *values: int) -> None:
        """Remember what is wanted."""
        self._asked = (what, values)

    def answer(self) -> Any:
        """Do it."""
        what, values = self._asked
        return getattr(self._reader, what)(*values)


class Replay:
    """Leads the shares through the input together, and merges what they find into the settled order.

    ``give`` gets the findings of each stretch before any share commits it, and makes them durable: a replay that
    dies in between repeats findings, with the same ids, and loses none.
    """

    def __init__(
        self,
        workers: Sequence[ShareWorker],
        give: Callable[[list[Finding]], None],
        *,
        batch: int,
        told: Sequence[str] = (),
        watch: Callable[[int, Mapping[str, int]], None] = lambda _records, _positions: None,
    ) -> None:
        self._workers = workers
        self._give = give
        self._batch = batch
        self._watch = watch
        self.told = set(told)  # rules that raised: one alert for all of the replay, not one for each share

    def run(self, *, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Replay to the end of the input; return False when it was stopped before."""
        at = min(batch.following for batch in self._all("advance", 0))
        while True:
            batches = self._all("advance", at + self._batch)
            self._hand_over(batches)
            self._all("commit")
            at = min(batch.following for batch in batches)
            self._watch(at, batches[0].positions)
            if all(batch.ended for batch in batches):
                break
            if stopped():
                return False
        self._hand_over(self._all("finish"))
        self._all("commit")
        return True

    def tell(self) -> ReplaySummary:
        """Return what the shares have to say, added up."""
        total, letters, reasons, left_out = Counts(), 0, list[str](), 0
        for number, told in enumerate(self._all("tell")):
            if number:  # every share reads every record
                told.counts.records = 0
            total.add(told.counts)
            letters, left_out = letters + told.dead_letters, left_out + told.left_out
            reasons += told.reasons
        return ReplaySummary(total, letters, reasons, left_out)

    def _all(self, what: str, *values: int) -> list[Any]:
        for worker in self._workers:
            worker.ask(what, *values)
        return [worker.answer() for worker in self._workers]

    def _hand_over(self, batches: Sequence[ReplayBatch]) -> None:
        # Stable: what one session's record brought out stays in the order in which it was found.
        merged = sorted(
            (numbered for batch in batches for numbered in batch.found), key=lambda one: (one[0], one[1].session_id)
        )
        given = []
        for _, finding in merged:
            if finding.kind == "rule_error":
                if finding.alert_id in self.told:
                    continue
                self.told.add(finding.alert_id)
            given.append(finding)
        self._give(given)
