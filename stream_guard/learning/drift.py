"""What new recordings no longer keep of what was learned from old ones, and which tools they call more or less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from stream_guard.judge.model import Event
from stream_guard.learning.candidates import Learned, Lesson, Shares, surprise
from stream_guard.learning.choosing import as_policy, judge
from stream_guard.learning.collecting import collect
from stream_guard.learning.facts import Facts
from stream_guard.registry import Registry
from stream_guard.settings import SessionLimits

_ERROR: Final = 0.05  # the probability to name a change that is none, over everything that is looked at
# Why a rule was not proposed, and is still one whose breaking says that something changed.
_COUNTED: Final = ("", "better rules take up the alarms", "rests on too little")


@dataclass(frozen=True, slots=True)
class NotKept:
    """A rule that new sessions break more often than the old ones did."""

    lesson: Lesson
    broken: tuple[str, ...]  # new sessions, in their order


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that is called in more or in fewer sessions."""

    tool: str
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class RecordingDrift:
    """What changed."""

    before: int  # sessions
    now: int
    rules: int  # rules that were looked at
    not_kept: Sequence[NotKept]
    tools: Sequence[ToolChange]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not self.not_kept and not self.tools


def find_drift(learned: Learned, new: Sequence[Event], registry: Registry, limits: SessionLimits) -> RecordingDrift:
    """Return what the new events no longer keep; nothing that chance alone explains."""
    lessons = [lesson for lesson in learned.lessons if lesson.refused_for in _COUNTED]
    facts = collect(new)
    names = [session.session_id for session in facts.sessions]
    policy = as_policy((lesson.candidate for lesson in lessons), registry)
    fired = judge(new, [policy], dict.fromkeys(names, (0,)), limits)[0]
    least = log(max(1, len(lessons)) / _ERROR)
    not_kept: list[NotKept] = []
    for lesson in lessons:
        broken = fired.by_rule.get(lesson.candidate.id, set())
        expected = (len(lesson.alarms | lesson.broken) + 1) / (learned.judged + 2)
        if surprise(len(broken), len(names), expected) >= least:
            not_kept.append(NotKept(lesson, tuple(name for name in names if name in broken)))
    not_kept.sort(key=lambda one: -len(one.broken))
    return RecordingDrift(learned.sessions, len(names), len(lessons), not_kept, _tool_changes(learned, facts))


def _tool_changes(learned: Learned, facts: Facts) -> list[ToolChange]:
    """Return the tools whose share of sessions changed, the largest change first."""
    now, sessions = Shares(facts).sessions, len(facts.sessions)
    tools = sorted({*learned.calls, *now})
    least = log(2 * max(1, len(tools)) / _ERROR)
    found: list[ToolChange] = []
    for tool in tools:
        was, is_now = learned.calls.get(tool, 0), now.get(tool, 0)
        share = (was + 1) / (learned.sessions + 2)
        more = surprise(is_now, sessions, share)
        fewer = surprise(sessions - is_now, sessions, 1 - share)
        if max(more, fewer) >= least:
            found.append(ToolChange(tool, was, is_now))
    return sorted(found, key=lambda one: -abs(one.now / max(1, sessions) - one.before / max(1, learned.sessions)))
