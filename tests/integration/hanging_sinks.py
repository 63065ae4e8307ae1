"""A plugin with two sinks that never come back from what they are asked for.

The file of the target says that an alert has reached the sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import stream_guard as sg


class HangingSink(sg.Sink):
    """Takes alerts, and never returns."""

    def __init__(self, target: str) -> None:
        self._file = Path(target)
        self._never = Event()

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> HangingSink:
        return cls(target)

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        with self._file.open("a") as file:
            file.write("".join(f"{one.alert_id}\n" for one in alerts))
        self._never.wait()

    def close(self) -> None:
        self._never.wait()


class HangingDirectSink(HangingSink):
    """The same, inside the commit."""

    direct: ClassVar[bool] = True


@sg.hookimpl
def stream_guard_sinks() -> Mapping[str, type[sg.Sink]]:
    """Return the sinks by name."""
    return {"hanging": HangingSink, "hanging-direct": HangingDirectSink}
