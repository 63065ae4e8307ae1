"""On recordings of real agents, hardly a call is stopped because a rule has forgotten something; else it skips."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.forgetting import MOST, measure
from tests.bench.packs import SETS, VARIABLE, Recordings


@pytest.mark.slow
@pytest.mark.parametrize("one", SETS, ids=lambda one: one.name)
def test_few_calls_are_stopped_for_want_of_memory(one: Recordings) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set; it names the folder of the recordings")
    stopped = measure(Path(folder), one)
    assert stopped.attempts
    assert stopped.stopped <= MOST * stopped.attempts, stopped.causes
