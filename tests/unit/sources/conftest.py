"""Followers that a test opened are closed behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.sources.following import Follower


@pytest.fixture(autouse=True)
def _close_followers() -> Iterator[None]:
    yield
    while Follower.opened:
        Follower.opened.pop().close()
