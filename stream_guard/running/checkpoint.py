"""What a checkpoint says beside the sessions' states: how far the source was read, and where the sinks stood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from stream_guard.sources.marks import FileMark
from stream_guard.storage.stores import CheckpointStore, MemoryStore

SINK_META: Final = "sink:"
SOURCE_META: Final = "source"
FILES_META: Final = "files"
DEAD_LETTERS_META: Final = "dead_letters"
WATERMARK_META: Final = "watermark"

Checkpoint: TypeAlias = CheckpointStore | MemoryStore
"""Where progress is written down. A run without one starts from the beginning each time."""


def source_positions(checkpoint: Checkpoint | None) -> dict[str, int]:
    """Return where the last run stopped reading, by origin."""
    raw = None if checkpoint is None else checkpoint.meta().get(SOURCE_META)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, int])


def file_marks(checkpoint: Checkpoint | None) -> dict[str, FileMark]:
    """Return how the files that the last run read are recognised; empty for a checkpoint of an earlier version."""
    raw = None if checkpoint is None else checkpoint.meta().get(FILES_META)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, FileMark])


def position_of(checkpoint: Checkpoint | None, name: str) -> int | None:
    """Return where a sink, or the dead letters, stood at the last commit; None when they were not there."""
    raw = None if checkpoint is None else checkpoint.meta().get(name)
    return None if raw is None else msgspec.json.decode(raw, type=int)


def sink_positions(positions: Mapping[str, int]) -> dict[str, bytes]:
    """Return the positions of sinks as meta data."""
    return {f"{SINK_META}{name}": msgspec.json.encode(position) for name, position in positions.items()}
