"""Commands read many events: the collector of circles looks less often than Python lets it."""

from __future__ import annotations

import gc
import sys

import pytest

from stream_guard.cli import YOUNG_OBJECTS, main


def test_a_command_lets_the_collector_wait_for_more_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    monkeypatch.setattr(sys, "argv", ["stream-guard", "--help"])
    try:
        with pytest.raises(SystemExit):
            main()
        assert gc.get_threshold()[0] == YOUNG_OBJECTS
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
