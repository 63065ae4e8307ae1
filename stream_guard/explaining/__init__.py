"""Explanations: what a session did, event by event, whose states it changed, and how near the others came.

``follow_session`` runs the real engine over the events of a session and returns a ``SessionTimeline``: plain data,
for the command line and for a page.
"""

from stream_guard.explaining.near_misses import NearMiss
from stream_guard.explaining.timeline import (
    RuleAccount,
    SessionTimeline,
    StateChange,
    TimelineEntry,
    TimelineFinding,
    follow_session,
)

__all__ = [
    "NearMiss",
    "RuleAccount",
    "SessionTimeline",
    "StateChange",
    "TimelineEntry",
    "TimelineFinding",
    "follow_session",
]
