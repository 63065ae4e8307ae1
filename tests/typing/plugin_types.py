"""What an author of a sink or a decoder may rely on, said in types; mypy reads this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, assert_type

import stream_guard as sg
from stream_guard.testing import alert, check_decoder_laws, check_sink_laws


class Shelf(sg.Sink):
    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        return cls()

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        assert_type(sg.encode_alert(alerts[0]), bytes)


class Words(sg.Decoder):
    def decode(self, record: sg.Record) -> Sequence[sg.Event]:
        record.check_whole()
        return [sg.UserMessage(session_id="s", event_id="1", text=record.value.decode("utf-8", "replace"))]


class Objects(sg.JsonDecoder):
    def read(self, data: sg.Json, record: sg.Record) -> Sequence[sg.Event]:
        assert_type(self.strict_keys, bool)
        raise sg.DecodeError(f"{record.origin}: {data}")


@sg.hookimpl
def stream_guard_sinks() -> dict[str, type[sg.Sink]]:
    return {"shelf": Shelf}


@sg.hookimpl
def stream_guard_decoders() -> dict[str, type[sg.Decoder]]:
    return {"words": Words, "objects": Objects}


def use_of_the_base_types(record: sg.Record) -> None:
    sink = assert_type(Shelf.open("top"), Shelf)
    sink.send([alert()])
    assert_type(sink.flush(), int)
    sink.close()
    assert_type(Words().decode(record), Sequence[sg.Event])
    assert_type(Objects(strict_keys=False).decode(record), Sequence[sg.Event])
    check_sink_laws(Shelf, "top", refused="")
    check_decoder_laws(Words, [b"hello"])
