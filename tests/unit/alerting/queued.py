"""Sinks that do as they are told, and queues that are stepped by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import stream_guard as sg
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import SinkQueue
from stream_guard.alerting.routes import AlertRoute
from stream_guard.judge.counts import Counts
from stream_guard.testing import alert

AWAY = sg.SinkError("away", retryable=True)


REFUSED = sg.SinkError("refused", retryable=False)


class Receiver:
    """A sink that does as it is told by a function of the alerts, and remembers what it took."""

    def __init__(self, behave: Callable[[Sequence[sg.Alert]], None] = lambda _: None) -> None:
        self.behave = behave
        self.taken: list[sg.Alert] = []
        self.tries = 0

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: object = None) -> Receiver:
        raise NotImplementedError

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        self.tries += 1
        self.behave(alerts)
        self.taken += alerts

    def flush(self) -> int:
        return 0

    def close(self) -> None:
        pass

    @property
    def ids(self) -> list[str]:
        return [one.alert_id for one in self.taken]


class Board(Receiver):
    """A receiver that shows alerts until it is told that they are over."""

    resend = 60.0
    resolve_after = 3600.0

    def __init__(self) -> None:
        super().__init__()
        self.over: list[str] = []

    def resolve(self, alerts: Sequence[sg.Alert]) -> None:
        self.over += [one.alert_id for one in alerts]


class World:
    """An outbox, a clock that is moved by hand, and queues that are stepped by hand."""

    def __init__(self, path: Path) -> None:
        self.now = 1_000_000.0
        self.outbox = AlertOutbox(path)
        self.counts = Counts()

    def clock(self) -> float:
        return self.now

    def queue(self, sink: Receiver, route: AlertRoute | None = None, **options: object) -> SinkQueue:
        return SinkQueue(
            "there",
            sink,
            route or AlertRoute(),
            self.outbox,
            self.counts,
            clock=self.clock,
            **options,  # type: ignore[arg-type]  # as the caller says
        )

    def put(self, queue: SinkQueue, *alerts: sg.Alert) -> None:
        self.outbox.put([(queue.name, one, state) for one, state in queue.floods.sort(alerts)], self.now)

    def run(self, queue: SinkQueue, seconds: float = 0.0, steps: int = 10_000) -> None:
        """Step until nothing is left to do before the time is over."""
        until = self.now + seconds
        for _ in range(steps):
            pause = queue.step()
            if self.now + pause > until:
                self.now = until
                return
            self.now += pause
        raise AssertionError("the queue never rests")


def many(number: int, **fields: object) -> list[sg.Alert]:
    return [msgspec.structs.replace(alert(one), **fields) for one in range(number)]
