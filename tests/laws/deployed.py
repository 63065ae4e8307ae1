"""What a deployed process would have: settings from the variables of a manifest, and the sinks they lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

from stream_guard.judge.counts import Counts
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings, load_settings


def load_deployed(variables: Mapping[str, str]) -> Settings:
    """Return the settings that the program reads from these variables; SettingsError for one that it does not know."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_GUARD_")}
    with mock.patch.dict(os.environ, {**others, **variables}, clear=True):
        return load_settings()


def open_routes(settings: Settings, folder: Path) -> Iterator[str]:
    """Open every sink of the settings, as a process does at its start, and yield where each route leads."""
    delivery = settings.delivery.model_copy(update={"outbox": folder / "outbox.db"})
    with Assembly(settings.model_copy(update={"delivery": delivery})) as assembly:
        assembly.open_delivery([], Counts(), routes=True)
        yield from (route.read_to() for route in delivery.routes.values())
