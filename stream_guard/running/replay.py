"""Replay: recordings and topic ranges through the rules; the same input gives the same output, byte for byte.

The settled order of the output is that of the input: by the record that brought a finding out, then by session;
what only the end of the input reveals comes last. Neither the size of the batches nor the number of shares
changes it: every share reads the whole input, numbers the records alike, and judges the sessions that are its own.
Records that belong to another share at a glance are only counted; decoding and judging are what costs.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from stream_guard.commit import Commit, Positions
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.selection import EventSelection
from stream_guard.errors import SourceError, StreamGuardError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, resolved
from stream_guard.judge.spec import Policy
from stream_guard.pipeline import Pipeline
from stream_guard.ports import BatchedSource, Record, Source
from stream_guard.running.checkpoint import SOURCE_META, Checkpoint
from stream_guard.settings import SessionLimits

END: Final = 2**63  # the number of what only the end of the input reveals
NEXT_META: Final = "next"
GIVEN_META: Final = "given"
_AT_ONCE: Final = 500  # records of a source that gives many at once

Numbered: TypeAlias = tuple[int, Finding]
NumberedLetter: TypeAlias = tuple[int, Record, str]  # with the reason


def can_be_shared(policy: Policy) -> bool:
    """Whether sessions can be judged apart from each other: no rule has a key that spans them."""
    return all("session" in spec.key for spec in policy.rules)


def without_eviction(limits: SessionLimits) -> SessionLimits:
    """Return limits under which no session is closed to make room: who is closed would depend on the batches."""
    return limits.model_copy(update={"max_live": sys.maxsize})


class ReplayBatch(msgspec.Struct, frozen=True, gc=False):
    """The findings of one stretch of the input."""

    found: list[Numbered]
    letters: list[NumberedLetter]
    next_record: int  # its number
    ended: bool
    positions: dict[str, int]


@resolved
class Given(msgspec.Struct, frozen=True):
    """How far the findings of a replay were handed over."""

    rule_errors: frozenset[str] = frozenset()  # reported once for the whole replay, not once for each share
    until: tuple[int, ...] = ()  # by share: the number of the first record whose findings were not
    at_end: bool = False  # those of the end of the input were

    def has(self, share: int, number: int) -> bool:
        """Whether the findings of a record were handed over."""
        return share < len(self.until) and number < self.until[share]


class ReplaySummary(msgspec.Struct, frozen=True):
    """What a share did, beside its findings and dead letters."""

    counts: Any  # a Counts; msgspec does not look inside
    left_out: int  # events outside the time span


class _Letters:
    """Collects the dead letters of a stretch, each with the number of its record."""

    def __init__(self) -> None:
        self._waiting: list[NumberedLetter] = []
        self.begin([], 0)

    def begin(self, batch: Sequence[Record], number: int) -> None:
        """Take the batch of the records that are judged next, and the number of its first one."""
        self._batch = batch
        self._number = number
        self._at = 0

    def add(self, record: Record, reason: str) -> None:
        """Keep the place and the reason; nobody asks for the value."""
        while self._batch[self._at] is not record:  # they come in order
            self._at += 1
        self._waiting.append((self._number + self._at, msgspec.structs.replace(record, value=b"", headers=()), reason))

    def take(self) -> list[NumberedLetter]:
        """Return what was added since the last time."""
        taken, self._waiting = self._waiting, []
        return taken


class ShareReader:
    """Reads the whole input in stretches and judges the sessions of one share."""

    def __init__(
        self,
        source: Source,
        selection: EventSelection,
        judge: Judge,
        *,
        progress: Checkpoint | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._source = source
        self._selection = selection
        self._judge = judge
        self._letters = letters = _Letters()
        self._progress = progress
        self._stopped = stopped
        self._pipeline = Pipeline(selection.simplest(), judge, letters, RecordPlaces())
        self._batches = self._open_batches()
        self._batch: list[Record] = []
        self._at = 0  # in the batch: the record whose number is the next
        self._next = 0 if progress is None else int(progress.meta().get(NEXT_META, b"0"))
        self._ended = False

    def advance(self, until: int) -> ReplayBatch:
        """Judge the records before number ``until``, fewer when the input ends or the replay is stopped."""
        found: list[Finding] = []
        numbers: list[int] = []
        selection, stopped = self._selection, self._stopped
        while self._next < until and not stopped() and self._has_more():
            stop = min(len(self._batch), self._at + until - self._next)
            own, end = selection.own_at_glance(self._batch, self._at, stop)
            selection.certain = True
            step = max(1, len(own)) if selection.keeps_all_times else 1  # each of them may wait for its time
            for first in range(0, len(own), step):
                self._judge_own(own[first : first + step], found, numbers)
                if stopped():
                    break
            else:
                self._pass_over(end)
                if end < stop:
                    selection.certain = False
                    self._judge_own((end,), found, numbers)
        return self._to_batch(list(zip(numbers, found, strict=True)))

    def _judge_own(self, own: Sequence[int], found: list[Finding], numbers: list[int]) -> None:
        """Judge the records at some places of the batch; note the number of its record for each finding."""
        batch, first, ends = self._batch, self._next - self._at, list[int]()
        self._letters.begin(batch, first)
        self._pipeline.run([batch[at] for at in own], found, ends)
        for at, end in zip(own, ends, strict=True):
            numbers.extend([first + at] * (end - len(numbers)))
        self._pass_over(own[-1] + 1, judged=len(own))

    def finish(self) -> ReplayBatch:
        """Judge what is still open: nothing more will come."""
        found: list[Finding] = []
        self._pipeline.finish(found)
        found += self._judge.end()
        self._pipeline.locate(found)
        return self._to_batch([(END, finding) for finding in found])

    def commit(self) -> None:
        """Commit states and progress; without a checkpoint, only keep the memory small."""
        if self._progress is None:
            self._judge.make_room()
            return
        self._judge.commit()
        positions = msgspec.json.encode(dict(self._source.positions()))
        self._progress.commit({SOURCE_META: positions, NEXT_META: str(self._next).encode()})

    def summary(self) -> ReplaySummary:
        """Return what happened beside the findings."""
        return ReplaySummary(self._judge.counts, self._selection.left_out)

    def _open_batches(self) -> Iterator[list[Record]]:
        """Return the records of the source; many at once where nobody asks between two of them how far it has come."""
        if self._progress is None and isinstance(self._source, BatchedSource):
            return self._source.batches(_AT_ONCE)
        return ([] if record is None else [record] for record in self._source)

    def _has_more(self) -> bool:
        """Whether a record stands at the place in the batch, if need be the next batch; at the end of the input not."""
        while self._at == len(self._batch):
            batch = next(self._batches, None)
            if batch is None:
                self._ended = True
                return False
            self._batch, self._at = batch, 0
        return True

    def _pass_over(self, at: int, judged: int = 0) -> None:
        """Go to a place in the batch; the records before it, but for those judged, are of others, and only counted."""
        passed = at - self._at
        self._at = at
        self._next += passed
        self._judge.counts.records += passed - judged

    def _to_batch(self, found: list[Numbered]) -> ReplayBatch:
        return ReplayBatch(found, self._letters.take(), self._next, self._ended, dict(self._source.positions()))


class LocalWorker:
    """Calls a reader of this process: ``call`` notes what, and ``result`` does it.

    There are two steps so that shares in processes of their own can work at the same time.
    """

    def __init__(self, reader: ShareReader) -> None:
        self._reader = reader
        self._called: tuple[str, tuple[int, ...]] = ("summary", ())

    def call(self, method: str, *values: int) -> None:
        """Note the call."""
        self._called = (method, values)

    def result(self) -> Any:
        """Make the call."""
        method, values = self._called
        return getattr(self._reader, method)(*values)


ShareWorker: TypeAlias = "LocalWorker | ProcessWorker"


class Replay:
    """Leads the shares through the input together, and merges their findings into one settled order.

    ``keep`` makes the findings of each stretch durable before any share commits it, and ``note`` how far they go now.
    A replay that dies between two shares that commit knows from ``given`` what it has handed over. Records that no
    share can read go to ``letters``, in the order of the input.
    """

    def __init__(
        self,
        workers: Sequence[ShareWorker],
        keep: Callable[[list[Finding]], Mapping[str, int]],
        letters: DeadLetters,
        *,
        batch: int,
        given: Given | None = None,
        note: Callable[[Given, Positions], None] = lambda _given, _kept: None,
        watch: Callable[[int, Mapping[str, int]], None] = lambda _records, _positions: None,
    ) -> None:
        self._workers = workers
        self._commit: Commit[list[Finding]] = Commit(keep, letters)
        self._note = note
        self._batch = batch
        self._watch = watch
        self._before = given or Given()
        self._reported = set(self._before.rule_errors)

    def run(self, *, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Replay to the end of the input; return False when it was stopped before."""
        at = min(batch.next_record for batch in self._all("advance", 0))
        while True:
            batches = self._all("advance", at + self._batch)
            _check_same_input(batches)
            self._hand_over(batches)
            at = min(batch.next_record for batch in batches)
            self._watch(at, batches[0].positions)
            if all(batch.ended for batch in batches):
                break
            if stopped():
                return False
        self._hand_over(self._all("finish"), at_end=True)
        return True

    def summary(self) -> ReplaySummary:
        """Return what the shares did, added up."""
        total, left_out = Counts(), 0
        for number, share in enumerate(self._all("summary")):
            if number:  # every share reads every record, and lets the same spans wait
                share.counts.records = share.counts.orphan_spans = 0
            total.add(share.counts)
            left_out += share.left_out
        return ReplaySummary(total, left_out)

    def _all(self, method: str, *values: int) -> list[Any]:
        for worker in self._workers:
            worker.call(method, *values)
        return [worker.result() for worker in self._workers]

    def _hand_over(self, batches: Sequence[ReplayBatch], *, at_end: bool = False) -> None:
        letters = sorted((letter for batch in batches for letter in batch.letters), key=_number)
        # A stable sort: findings of one record and session keep their order.
        until, before = tuple(batch.next_record for batch in batches), self._before
        known = at_end and before.at_end and before.until == until  # and the input has not grown since
        fresh = [
            numbered
            for share, batch in enumerate(batches)
            for numbered in batch.found
            if not known and not before.has(share, numbered[0])
        ]
        merged = sorted(fresh, key=lambda one: (one[0], one[1].session_id))
        given = []
        for _, finding in merged:
            if finding.kind == "rule_error":
                if finding.alert_id in self._reported:
                    continue
                self._reported.add(finding.alert_id)
            given.append(finding)
        handed_over = Given(frozenset(self._reported), until, at_end)

        def write(kept: Positions) -> None:
            self._note(handed_over, kept)
            self._all("commit")

        unreadable = [(record, reason) for _, record, reason in letters]
        self._commit.run(given, write, lambda _: None, unreadable)


def _number(letter: NumberedLetter) -> int:
    return letter[0]


def _check_same_input(batches: Sequence[ReplayBatch]) -> None:
    """Raise SourceError when shares read other records under the same numbers: somebody changed the input."""
    first = batches[0]
    for batch in batches[1:]:
        ends_apart = first.ended and batch.ended and batch.next_record != first.next_record
        moved = batch.next_record == first.next_record and batch.positions != first.positions
        if ends_apart or moved:
            raise SourceError(
                "the input changed while it was read, so the processes read different records; "
                "read a copy that nobody writes to, or use one process"
            )


# A share of a replay in a process of its own.
#
# A copy of this process (a fork) works at once; a fresh one imports everything first, which takes a second. But a copy
# has this process's connections too, and locks that its other threads hold would stay locked for ever. So the caller
# says whether a copy may be made, and it is made only of a process with a single thread.

_PATIENCE: Final = 5.0  # seconds that a process may take to leave
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class ProcessWorker:
    """Calls a ``ShareReader`` in another process; ``make`` is called there, and must be importable by name.

    ``may_copy`` says that nothing is open in this process which a copy of it must not have.
    """

    def __init__(
        self, make: Callable[..., ShareReader], *values: Any, name: str, resumes: bool = False, may_copy: bool = False
    ) -> None:
        self._name = name
        self._resumes = resumes
        self._pipe, theirs = Pipe()
        self._process: BaseProcess
        if may_copy and _has_one_thread():
            copied = (self._pipe, theirs, make, values)
            self._process = get_context("fork").Process(target=_serve_as_copy, args=copied, name=name, daemon=True)
            with _holding_signals():
                self._process.start()
        else:
            sent = (theirs, make, values)
            self._process = get_context("spawn").Process(target=_serve, args=sent, name=name, daemon=True)
            self._process.start()
        theirs.close()

    def call(self, method: str, *values: int) -> None:
        """Send the call."""
        try:
            self._pipe.send((method, values))
        except OSError as error:
            raise self._gone() from error

    def result(self) -> Any:
        """Wait for the result; an error in the other process is raised here."""
        try:
            worked, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if not worked:
            raise StreamGuardError(value)
        return value

    def close(self) -> None:
        """End the process; its uncommitted work is lost and will be repeated."""
        self._pipe.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _gone(self) -> StreamGuardError:
        self._process.join(_PATIENCE)
        again = "it goes on from its last commit" if self._resumes else "nothing was reported"
        return StreamGuardError(f"{self._name} ended with exit code {self._process.exitcode}; start again: {again}")


def _has_one_thread() -> bool:
    """Whether this process is known to have no thread beside this one, be it Python's or a library's."""
    try:
        return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Let signals wait: the hooks that Python calls at a fork drop the exception that Ctrl-C raises in them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_as_copy(
    leading: Connection, pipe: Connection, make: Callable[..., ShareReader], arguments: tuple[Any, ...]
) -> None:
    """Answer calls in a copy of the process that leads."""
    leading.close()  # its end of the pipe: while it is open anywhere, the pipe does not end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which the one that leads may handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    _serve(pipe, make, arguments)


def _serve(pipe: Connection, make: Callable[..., ShareReader], arguments: tuple[Any, ...]) -> None:
    """Answer calls until the pipe is closed."""
    # Ctrl-C reaches every process of the terminal; the one that leads decides when all of them stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader: ShareReader | None = None
    while True:
        try:
            method, values = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            reader = reader or make(*arguments)
            answer = (True, getattr(reader, method)(*values))
        except StreamGuardError as error:
            answer = (False, str(error))
        try:
            pipe.send(answer)
        except OSError:
            return
