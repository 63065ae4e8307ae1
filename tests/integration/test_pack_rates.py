"""The policy packs on recordings of real agents: the figures of docs/packs.md, and the limit that they keep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.packs import MOST_BENIGN, VARIABLE, benign_shares, tables

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recordings() -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set; it names the folder of the recordings")
    return Path(folder)


def test_the_page_has_the_figures_that_are_measured(recordings: Path, root: Path) -> None:
    assert tables(recordings) in (root / "docs" / "packs.md").read_text()


def test_few_sessions_that_went_well_have_an_alert(recordings: Path) -> None:
    over = {place: share for place, share in benign_shares(recordings).items() if share > MOST_BENIGN}
    assert over == {}
