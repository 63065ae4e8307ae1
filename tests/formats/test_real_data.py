"""Real recordings, where they are at hand: what is counted is what their pages say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench import formats_read
from tests.reports.formats_counts import SETS, VARIABLE, Set, count, sweep


def recordings() -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set; it names the folder of the recordings")
    return Path(folder)


@pytest.mark.parametrize("one", SETS, ids=lambda one: str(one.name))
def test_counts_are_those_on_the_page_beside_the_recordings(one: Set) -> None:
    found, _ = count(recordings(), one)
    assert {name: found[name] for name in one.wanted} == dict(one.wanted)


def test_every_record_there_is_becomes_events_or_a_reason() -> None:
    found, reasons = sweep(recordings())
    assert found["records"] > found["refused"] > 0
    assert all(reasons)


@pytest.mark.slow
@pytest.mark.parametrize("one", formats_read.SETS, ids=lambda one: str(one.name))
def test_calls_are_those_that_code_without_the_decoders_counts(one: formats_read.Recordings) -> None:
    found = formats_read.read(recordings(), one)
    assert found["files"] > 0
    assert found["calls"] == found["counted"]
    assert found["dead letters"] == 0
