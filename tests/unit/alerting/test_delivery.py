"""Delivery: the one way of an alert to its sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import stream_guard as sg
from stream_guard.alerting import delivery as module
from stream_guard.alerting.delivery import Delivery, alerts_of
from stream_guard.judge.counts import Counts
from stream_guard.testing import alert

REFUSED = sg.SinkError("refused", retryable=False)
AWAY = sg.SinkError("away", retryable=True)


class Flaky(sg.Sink):
    """A sink that fails as it is told, and then takes everything."""

    def __init__(self, *failures: Exception, flush_failures: Sequence[Exception] = ()) -> None:
        self.sent: list[str] = []
        self.attempts = 0
        self._failures = iter(failures)
        self._flush_failures = iter(flush_failures)

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: object = None) -> Flaky:
        raise NotImplementedError

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        self.attempts += 1
        _raise_next(self._failures)
        self.sent += [one.alert_id for one in alerts]

    def flush(self) -> int:
        _raise_next(self._flush_failures)
        return len(self.sent)


def _raise_next(failures: Iterator[Exception]) -> None:
    failure = next(failures, None)
    if failure is not None:
        raise failure


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 0.0))


def test_what_fails_for_a_while_is_sent_again_and_counted_once() -> None:
    sink, counts = Flaky(AWAY, AWAY, AWAY), Counts()
    Delivery({"flaky": sink}, counts).deliver([alert(1), alert(2)])
    assert sink.sent == [alert(1).alert_id, alert(2).alert_id]
    assert counts.alerts == {("flaky", "ok"): 2}


def test_what_fails_for_good_is_raised_after_four_attempts() -> None:
    sink, counts = Flaky(*[AWAY] * 9), Counts()
    with pytest.raises(sg.SinkError, match="away"):
        Delivery({"flaky": sink}, counts).deliver([alert(1)])
    assert sink.attempts == 4
    assert counts.alerts == {("flaky", "failed"): 1}


def test_what_is_refused_is_not_sent_again() -> None:
    sink, counts = Flaky(REFUSED), Counts()
    with pytest.raises(sg.SinkError, match="refused"):
        Delivery({"flaky": sink}, counts).deliver([alert(1)])
    assert sink.attempts == 1
    assert counts.alerts == {("flaky", "rejected"): 1}


def test_flush_is_tried_again_too_and_gives_the_positions() -> None:
    sinks = {"one": Flaky(flush_failures=[AWAY]), "two": Flaky()}
    delivery = Delivery(sinks, Counts())
    delivery.deliver([alert(1)])
    assert delivery.flush() == {"one": 1, "two": 1}


def test_an_abandoned_delivery_is_not_tried_again() -> None:
    sink = Flaky(*[AWAY] * 9)
    delivery = Delivery({"flaky": sink}, Counts())
    delivery.abandon()
    with pytest.raises(sg.SinkError, match="away"):
        delivery.deliver([alert(1)])
    assert sink.attempts == 1


def test_no_alerts_are_no_call() -> None:
    sink = Flaky(REFUSED)
    Delivery({"flaky": sink}, Counts()).deliver([])
    assert sink.attempts == 0


def test_rules_in_shadow_mode_raise_no_alert() -> None:
    call = sg.ToolCall(session_id="s", event_id="e", tool="pay")
    rule = "{id: %s, kind: no_call, params: {tool: pay}%s}"
    policy = sg.parse_policy(f"rules: [{rule % ('loud', '')}, {rule % ('quiet', ', mode: shadow')}]")
    found = sg.evaluate([call], policy)
    assert {finding.rule_id for finding in found} == {"loud", "quiet"}
    assert [one.rule_id for one in alerts_of(found, policy.version)] == ["loud"]
