"""What the tests of policies share."""

from __future__ import annotations

import pytest

from stream_guard.registry import Registry, build_registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The kinds and dialects that are installed."""
    return build_registry()
