"""What several tests share: topics as a source, a database server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stream_guard.sources import kafka as source_module
from tests.history.postgres import Server, started


@pytest.fixture
def hurried_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask sooner than in earnest: what is waited for here is there, or never will be."""
    monkeypatch.setattr("stream_guard.kafka.client.ATTEMPT", 1.2)
    monkeypatch.setattr(source_module, "QUIET", 0.5)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A database server of this file's tests."""
    with started() as server:
        yield server
