"""Fixtures of the page's tests: a page that is open to all on this machine, and one with people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.house import House, open_house


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as opened:
        yield opened


PEOPLE = {"bot": {"role": "agent"}, "ada": {"role": "reviewer"}, "olga": {"role": "operator"}}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path, PEOPLE) as opened:
        yield opened
