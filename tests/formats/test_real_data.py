"""Real recordings, where they are at hand: what is counted is what their pages say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.reports.formats_counts import SETS, VARIABLE, Set, count


@pytest.mark.parametrize("one", SETS, ids=lambda one: str(one.name))
def test_counts_are_those_on_the_page_beside_the_recordings(one: Set) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set; it names the folder of the recordings")
    found, _ = count(Path(folder), one)
    assert {name: found[name] for name in one.wanted} == dict(one.wanted)
