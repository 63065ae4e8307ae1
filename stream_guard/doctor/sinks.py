"""The checks of sinks: whether each is there and lets us in; on request, whether it takes a test alert."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Final

from stream_guard.doctor.topics import Check, Status
from stream_guard.errors import SettingsError, SinkError
from stream_guard.judge.model import Alert
from stream_guard.ports import ProbedSink, Sink
from stream_guard.running.assembly import Assembly
from stream_guard.settings import RouteSettings

_ADVICE: Final = "check the address, the network, and the token, secret or password of the sink"
_UNTRIED: Final = "only a test alert shows more: --send-test"


def check_sinks(ways: Mapping[str, RouteSettings], assembly: Assembly, *, send_test: bool) -> Iterator[Check]:
    """Yield a check for each sink, by the name of its route; with ``send_test`` each is sent an alert."""
    for name, way in ways.items():
        about = f"sink {name}"
        try:
            sink = assembly.open_sink(way.read_to(), route=way)
        except (SettingsError, SinkError) as error:
            yield Check(about, Status.FAIL, f"cannot be opened: {error}", "mend the route, or what it leads to")
            continue
        found, advice = "can be opened", "" if send_test else _UNTRIED
        try:
            if isinstance(sink, ProbedSink):
                found, advice = sink.probe(), ""
            tried = f"; {_send_test(sink)}" if send_test else ""
        except SinkError as error:
            yield Check(about, Status.FAIL, str(error), _ADVICE)
        else:
            yield Check(about, Status.OK, f"{found}{tried}", advice)


def _send_test(sink: Sink) -> str:
    """Send an alert that says what it is; SinkError where it is not taken."""
    alert_id = f"test-{token_hex(8)}"
    alert = Alert(
        alert_id=alert_id,
        rule_id="stream-guard-test",
        kind="stream_guard_test",
        severity="info",
        session_id="",
        event_id="",
        index=None,
        time=time.time(),
        detail="A test alert, sent by stream-guard doctor. Nothing happened.",
        policy_version="",
    )
    sink.send([alert])
    sink.flush()
    return f"took the test alert {alert_id}"
