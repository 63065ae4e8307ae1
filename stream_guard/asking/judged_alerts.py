"""Between judging and delivery: findings that need a judge wait at the desk, and come back with its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stream_guard.alerting.delivery import Delivery, alerts_of
from stream_guard.asking.desk import QuestionDesk, SettledFinding
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert, Finding
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers


class JudgedBatch(NamedTuple):
    """What rules found in a batch of records."""

    alerts: Sequence[Alert]
    asked: Sequence[Finding]  # a judge is asked about them before they are alerts
    judge: Judge


class JudgedAlerts:
    """The alerts on their way to the sinks, and those that wait. Where the answers are no desk, none waits."""

    def __init__(self, delivery: Delivery, answers: JudgeAnswers = NO_ANSWERS) -> None:
        self._delivery = delivery
        self._desk = answers if isinstance(answers, QuestionDesk) else None
        self._taken: list[SettledFinding] = []

    def keep(self, judged: JudgedBatch) -> dict[str, int]:
        """Have the alerts delivered, or on disk, and the questions too; return where the sinks stand."""
        self._delivery.deliver([*judged.alerts, *self._exchange(judged.asked, judged.judge)])
        positions = self._delivery.flush()
        if self._desk is not None and self._taken:
            self._desk.told(self._taken)  # the alerts are out: from now on a crash does not repeat them
            self._taken = []
        return positions

    def _exchange(self, asked: Sequence[Finding], judge: Judge) -> list[Alert]:
        """Have findings wait for the judge, on disk, and return the alerts whose wait is over."""
        if self._desk is None:
            return []
        version = judge.policy.version
        left = [judge.settle(finding, None) for finding in self._desk.put(asked, version)] if asked else []
        alerts = alerts_of([finding for finding in left if finding is not None], version)
        self._taken = self._desk.take()
        for finding, answer, made_under in self._taken:
            settled = judge.settle(finding, answer)
            alerts += [] if settled is None else alerts_of([settled], made_under)
        return alerts

    def are_there(self) -> bool:
        """Whether a finding has its answer now, and nobody has told of it."""
        return self._desk is not None and self._desk.has_settled()

    def wait(self) -> None:
        """Wait for the answers that are still to come, as long as the settings say."""
        if self._desk is not None:
            self._desk.drain()


def questions_in(found: Iterable[Finding]) -> list[Finding]:
    """Return those of the findings that a judge is to be asked about."""
    return [finding for finding in found if finding.inquiry is not None]
