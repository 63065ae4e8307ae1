"""The laws of every sink, ours and those of other packages; ``check_sink_laws(kind, target)`` runs them all.

A law that breaks raises AssertionError with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from stream_guard.errors import SinkError
from stream_guard.judge.model import Alert
from stream_guard.ports import Sink
from stream_guard.testing.shorthand import alert

# What an agent may write: a terminal's commands, text that turns around, markup, and half a character.
HOSTILE: Final = "\x1b[2J\u202eevil\u2066\r\n[bold]x[/bold]\ud800\x00\u2028"


def check_sink_laws(kind: type[Sink], target: str, *, refused: str | None = None) -> None:
    """Hold a sink to all laws. ``target`` can be opened; ``refused``, if given, cannot."""
    for law in (check_nothing_to_send, check_odd_alerts, check_sending_again, check_closing_twice):
        with _named(law, kind):
            sink = kind.open(target)
            try:
                law(sink)
            finally:
                sink.close()
    with _named(check_reopening, kind):
        check_reopening(kind, target)
    if refused is not None:
        check_refusal(kind, refused)


@contextmanager
def _named(law: Callable[..., None], kind: type[Sink]) -> Iterator[None]:
    """Turn an exception into a broken law: the target can be opened, so nothing may fail."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{law.__name__}: {kind.__name__} raised {error!r}") from error


def _require(kept: object, law: str) -> None:
    if not kept:
        raise AssertionError(law)


def check_nothing_to_send(sink: Sink) -> None:
    """Sending no alerts is no error."""
    sink.send([])
    _require(sink.flush() >= 0, "check_nothing_to_send: flush returns a position, 0 where there is none")


def check_odd_alerts(sink: Sink) -> None:
    """Alerts with hostile text, and with values that JSON does not have, are delivered."""
    sink.send(odd_alerts())
    sink.flush()


def odd_alerts() -> list[Alert]:
    """Return alerts whose content is hostile or odd."""
    return [
        alert(1, detail=HOSTILE, session_id=HOSTILE, rule_id=HOSTILE, evidence={HOSTILE: [HOSTILE]}),
        alert(2, evidence={"object": object(), "bytes": b"\xff", "big": 2**70, "nan": float("nan")}),
        alert(3, time=float("inf"), index=None, reason=HOSTILE, suppressed=3),
    ]


def check_sending_again(sink: Sink) -> None:
    """Sending the same alerts again is harmless, and the position does not go back."""
    sink.send([alert(4), alert(5)])
    position = sink.flush()
    sink.send([alert(4), alert(5)])
    _require(sink.flush() >= position, "check_sending_again: the position went back")


def check_closing_twice(sink: Sink) -> None:
    """Closing twice is harmless."""
    sink.send([alert(6)])
    sink.close()
    sink.close()


def check_reopening(kind: type[Sink], target: str) -> None:
    """A sink that is opened at its last position takes the alerts that came after it once more."""
    sink = kind.open(target)
    position = sink.flush()
    sink.send([alert(7)])
    sink.close()
    sink = kind.open(target, position=position)
    sink.send([alert(7), alert(8)])
    _require(sink.flush() >= position, "check_reopening: the position went back")
    sink.close()


def check_refusal(kind: type[Sink], target: str) -> None:
    """A target that cannot be opened raises SinkError that is not retryable and has a message."""
    try:
        kind.open(target).close()
    except SinkError as error:
        _require(not error.retryable, "check_refusal: trying again opens no wrong target; raise with retryable=False")
        _require(str(error), "check_refusal: the error has no message")
    else:
        raise AssertionError(f"check_refusal: {kind.__name__} opens {target!r}")
