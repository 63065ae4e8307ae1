"""Commands read many events: the collector of circles looks less often than Python lets it."""

from __future__ import annotations

import gc
import sys

import pytest

from stream_guard.cli import YOUNG_OBJECTS, main, pass_over_loaded


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


def test_the_collector_passes_over_what_a_command_has_loaded() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(YOUNG_OBJECTS)
        pass_over_loaded()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_a_process_of_somebody_else_is_left_alone() -> None:
    frozen = gc.get_freeze_count()
    pass_over_loaded()
    assert gc.get_freeze_count() == frozen
