"""What several tests of topics as a source share."""

from __future__ import annotations

import pytest

from stream_guard.sources import kafka as source_module


@pytest.fixture
def hurried_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask sooner than in earnest: what is waited for here is there, or never will be."""
    monkeypatch.setattr("stream_guard.kafka.client.ATTEMPT", 1.2)
    monkeypatch.setattr(source_module, "QUIET", 0.5)
