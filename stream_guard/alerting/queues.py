"""Queues: one thread for each sink, which sends what waits in the outbox, tries again, and gives up in the end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from threading import Event, Thread
from typing import Final, TypeAlias, get_args

from stream_guard.alerting.outbox import AlertOutbox, Queued, State
from stream_guard.alerting.routes import AlertRoute, FloodGuard, sum_up
from stream_guard.errors import SinkError, StoreError
from stream_guard.judge.counts import Counts, DeliveryResult
from stream_guard.judge.model import Alert
from stream_guard.observability.steady_clock import steady_time
from stream_guard.ports import ResolvingSink, Sink

_BATCH: Final = 100  # alerts that a sink is given at once
_FIRST_PAUSE: Final = 0.5  # seconds after the first failure; doubled with each
_LONGEST_PAUSE: Final = 60.0
_LONGEST_ASKED: Final = 300.0  # a receiver may ask for a longer pause, up to this
_IDLE: Final = 5.0  # seconds between two looks at an outbox that nobody wrote to
_MEASURING: Final = 1.0  # seconds between two looks at how much waits
_PRUNING: Final = 600.0  # seconds between two prunings
_MOST_SUMMED: Final = 20_000  # alerts in one summary
_MOST_ACTIVE: Final = 5_000  # alerts that a receiver is reminded of

_logger = logging.getLogger(__name__)

IsSolved: TypeAlias = Callable[[Sequence[Alert]], Collection[str]]
"""Returns the ids of the alerts whose incident somebody has called solved."""


def nothing_solved(alerts: Sequence[Alert]) -> Collection[str]:
    """Stand in where there is no history to ask."""
    del alerts
    return ()


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How long a queue tries, and how long it remembers."""

    give_up: float = 86_400.0  # seconds after which an alert that its sink does not take is a dead letter
    keep: float = 7 * 86_400.0  # seconds in which ids of sent alerts are remembered, and what was summed up is kept


class SinkQueue:
    """Sends what waits for one sink, in order, as fast as the sink takes it. Nothing else waits for it.

    A failure makes the batch smaller and the pause longer; a success makes the batch larger again. An alert that fails
    alone lets the others pass, so that one bad alert does not hold up a queue.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        route: AlertRoute,
        outbox: AlertOutbox,
        counts: Counts,
        *,
        limits: QueueLimits | None = None,
        is_solved: IsSolved = nothing_solved,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self.name = name
        self.route = route
        self.floods = FloodGuard(route, clock)
        self._sink, self._outbox, self._counts = sink, outbox, counts
        self._limits = limits or QueueLimits()
        self._is_solved = is_solved
        self._clock = clock
        self._resolving = sink if isinstance(sink, ResolvingSink) else None
        self._failures = 0
        self._size = _BATCH
        self._not_before = 0.0  # when the next try may be made
        self._reminded = self._pruned = clock()
        self._measured = 0.0
        for result in get_args(DeliveryResult):  # a counter that begins with 1 shows no increase
            counts.alerts[name, result] += 0
        self._wake = Event()
        self._knows_of_held = False  # and will sum it up in time
        self._ending = False
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread = Thread(target=self._run, name=f"stream_guard-{self.name}", daemon=True)
        self._thread.start()

    def wake(self, states: Collection[State]) -> None:
        """Say in which states something new is in the outbox.

        What is held back in a flood does not wake the thread each time: it would do nothing but look.
        """
        if "waiting" in states or (states and not self._knows_of_held):
            self._wake.set()

    def end(self) -> None:
        """Ask the thread to send what it can and end; a sink that fails again is not tried further."""
        self._ending = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread; return whether it has ended."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))
            return not self._thread.is_alive()
        return True

    def step(self) -> float:
        """Do the next piece of work; return in how many seconds there may be more, 0 for at once."""
        now = self._clock()
        self._sum_up(now)
        if now < self._not_before and not self._ending:
            self._measure(now)
            return self._not_before - now
        if self._resolving is not None:
            self._remind(self._resolving, now)
        batch = self._next_batch(now)
        if batch:
            self._send(batch)
        elif now - self._pruned > _PRUNING:
            self._outbox.prune(now - self._limits.keep)
            self._pruned = now
        self._measure(now)
        return max(0.0, self._not_before - self._clock()) if batch else self._pause(now)

    def _run(self) -> None:
        try:
            # What was put off before the last end may be tried now, whatever the clock said then.
            self._outbox.hasten(self.name, self._clock())
        except StoreError as error:
            _logger.error("the queue of %s: %s", self.name, error)  # noqa: TRY400  (it says why)
        while True:
            ending = self._ending
            try:
                pause = self.step()
            except StoreError as error:  # the disk, or the outbox was closed while a slow sink held this thread
                if ending or self._ending:
                    return
                _logger.error("the queue of %s cannot go on: %s", self.name, error)  # noqa: TRY400  (it says why)
                pause = _IDLE
            except Exception:
                _logger.exception("the queue of %s stumbled; it goes on", self.name)
                pause = _IDLE
            if ending and (pause > 0 or self._failures):
                return
            if pause > 0:
                self._wake.wait(pause)
                if not self._ending:
                    self._wake.clear()

    def _next_batch(self, now: float) -> list[Queued]:
        """Return what is to be sent next: what failed alone before goes alone again."""
        rows = self._outbox.take(self.name, "waiting", self._size, due=None if self._ending else now)
        if rows and rows[0].tries:
            return rows[:1]
        return list(takewhile(lambda row: not row.tries, rows))

    def _send(self, batch: Sequence[Queued]) -> None:
        try:
            self._sink.send([row.alert for row in batch])
            self._sink.flush()
        except SinkError as error:
            self._fail(batch, error)
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything, and the other queues must go on
            self._fail(batch, SinkError(f"{type(error).__name__}: {error}", retryable=True))
        else:
            if self._failures:
                _logger.info("%s takes alerts again", self.name)
            if self._failures > 1:  # it was away, and what failed alone meanwhile is not to blame
                self._outbox.hasten(self.name, self._clock())
            self._failures, self._not_before = 0, 0.0
            self._size = min(_BATCH, self._size * 2)
            self._count("ok", len(batch))
            self._counts.note_sent(self.name, (row.alert.time for row in batch), self._clock())
            if self._resolving is None:
                self._outbox.finish(batch)
            else:
                self._outbox.activate(batch, self._clock() + self._resolving.resolve_after)

    def _fail(self, batch: Sequence[Queued], error: SinkError) -> None:
        alone, now, problem = len(batch) == 1, self._clock(), str(error)
        if not error.retryable:
            if alone:
                self._give_up(batch, "rejected", problem)
            else:
                self._size = max(1, len(batch) // 2)  # one of them is refused, and not for the others' sake
            return
        if not self._failures:
            _logger.warning("%s does not take alerts; they wait in %s: %s", self.name, self._outbox.path, problem)
        self._failures += 1
        self._count("retried", len(batch))
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
        self._not_before = now + max(pause, min(error.retry_after, _LONGEST_ASKED))
        self._size = max(1, len(batch) // 2)
        late = [row for row in batch if now - row.queued > self._limits.give_up]
        if late:
            self._give_up(late, "failed", problem)
        elif alone:
            self._outbox.put_off(batch[0], self._not_before + (_LONGEST_PAUSE if batch[0].tries else 0.0), problem)

    def _give_up(self, rows: Sequence[Queued], result: DeliveryResult, problem: str) -> None:
        self._outbox.bury(rows, problem)
        self._count(result, len(rows))
        _logger.error(
            "%d alerts for %s are dead letters in %s, see `stream-guard outbox list`: %s",
            len(rows),
            self.name,
            self._outbox.path,
            problem,
        )

    def _sum_up(self, now: float) -> None:
        """Put summaries in place of what was held back for a whole period, or of everything held when this ends."""
        self._knows_of_held = False  # before the look: what comes in after it wakes the thread
        oldest = self._outbox.oldest(self.name, "held")
        self._knows_of_held = oldest is not None
        if oldest is None or (now < oldest + self.route.period and not self._ending):
            return
        rows = self._outbox.take(self.name, "held", _MOST_SUMMED)
        summaries = sum_up([row.alert for row in rows], self.route)
        self._outbox.replace(rows, summaries, now)
        self._count("summed", len(rows))

    def _remind(self, sink: ResolvingSink, now: float) -> None:
        """Send what lasts again, because a receiver that was restarted has forgotten it; say what is over."""
        if now - self._reminded < sink.resend and not self._ending:
            return
        self._reminded = now
        active = self._outbox.take(self.name, "active", _MOST_ACTIVE)
        if not active:
            return
        # A finding opens its incident again a moment after it was queued.
        settled = [row.alert for row in active if now - row.queued > min(_IDLE, sink.resend)]
        try:
            solved = set(self._is_solved(settled))
        except StoreError as error:  # the history is away: alerts go out all the same
            _logger.warning("what was solved cannot be told to %s: %s", self.name, error)
            solved = set()
        over = [row for row in active if row.due <= now or row.alert.alert_id in solved]
        ended = {row.number for row in over}
        lasting = [row for row in active if row.number not in ended]
        try:
            for start in range(0, len(over), _BATCH):
                part = over[start : start + _BATCH]
                sink.resolve([row.alert for row in part])
                self._outbox.finish(part)
            for start in range(0, 0 if self._ending else len(lasting), _BATCH):
                self._sink.send([row.alert for row in lasting[start : start + _BATCH]])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  # as in sending
            _logger.warning("%s could not be reminded of what lasts: %s", self.name, error)

    def _pause(self, now: float) -> float:
        """Return how long nothing has to be done."""
        due = [now + _IDLE, self._measured + _MEASURING if now > self._measured else now + _IDLE]
        if (waiting := self._outbox.next_due(self.name)) is not None:
            due.append(waiting)
        if (held := self._outbox.oldest(self.name, "held")) is not None:
            due.append(held + self.route.period)
        if self._resolving is not None:
            due.append(self._reminded + self._resolving.resend)
        return max(0.01, min(due) - now)

    def _measure(self, now: float) -> None:
        """Tell the metrics how much waits, and since when; not at every step, because that counts rows."""
        if 0 <= now - self._measured < _MEASURING and not self._ending:
            return
        self._measured = now
        depths = self._outbox.depths(self.name)
        for state in ("waiting", "held", "active", "dead"):
            self._counts.outbox[self.name, state] = depths.get(state, 0)
        self._counts.outbox_oldest[self.name] = self._outbox.oldest(self.name, "waiting") or 0.0

    def _count(self, result: DeliveryResult, number: int) -> None:
        self._counts.alerts[self.name, result] += number
