"""What the page is made of: the history it shows, the policy in force, and who may look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stream_guard.guard.reviews import Reviews
from stream_guard.history.database import Database
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.page.live import LiveAlerts
from stream_guard.page.rendering import Templates
from stream_guard.page.series import SeriesReader
from stream_guard.page.sign_in import Forms
from stream_guard.registry import Registry
from stream_guard.serve.access import Door
from stream_guard.settings import Settings
from stream_guard.worker.rollouts import ListedRollout


@dataclass(frozen=True, slots=True)
class PageParts:
    """Given by whoever mounts the page."""

    database: Database  # a connection of its own: whoever looks holds nobody up
    reviews: Reviews
    policy: Callable[[], Policy]
    door: Door
    settings: Settings
    registry: Registry
    counts: Counts | None = None  # of the process that judges; None where another one does
    policy_file: Path | None = None
    rollouts: Callable[[], Sequence[ListedRollout]] = tuple  # of a group of workers whose policies come from a topic


@dataclass(frozen=True, slots=True)
class PageTools:
    """What the views share."""

    parts: PageParts
    forms: Forms
    templates: Templates
    live: LiveAlerts = field(repr=False)
    series: SeriesReader = field(repr=False)
