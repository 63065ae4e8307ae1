"""One event as it is shown to the rules of one key, with what they find and what they have against it."""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

from stream_guard.judge.key_state import KeyState
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.objections import Objection

Findings: TypeAlias = list[Finding]
Objections: TypeAlias = list[Objection]


class Evaluation:
    """What one showing needs and yields. Without an event, a deadline has passed or a scope has ended."""

    __slots__ = ("event", "findings", "key_state", "memory", "objections")

    def __init__(
        self,
        event: Event | None,
        key_state: KeyState,
        memory: Set[int],
        findings: Findings,
        objections: Objections | None = None,
    ) -> None:
        self.event = event
        self.key_state = key_state
        self.memory = memory  # of the event's session, which need not be the key
        self.findings = findings
        self.objections = objections  # None: nobody is asked about the event
