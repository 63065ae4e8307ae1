"""The product, driven by its interface; no other file of this folder knows it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stream_guard.judge.judge import Judge
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import Event, Finding, ToolCall
from stream_guard.judge.spec import Policy

Mode: TypeAlias = Literal["batch", "stream", "inline"]


class Product:
    """One run of the product; a restart goes on with the rows that were there after a commit."""

    def __init__(self, policy: Policy, mode: Mode, limits: Limits | None = None) -> None:
        self._policy, self._mode, self._limits = policy, mode, limits
        self._rows: dict[str, tuple[bytes, float | None]] = {}
        self._judge = self._open()
        self._asked: set[tuple[str, ...]] = set()

    def _open(self) -> Judge:
        return Judge(self._policy, self._limits, mode=self._mode)

    def feed(self, event: Event) -> list[Finding]:
        """Judge an event. Inline a call is a question; one that comes again is told, as telemetry would."""
        if self._mode != "inline" or not isinstance(event, ToolCall) or self._was_asked(event):
            return list(self._judge.feed(event).findings)
        return list(self._judge.ask(event).findings)

    def _was_asked(self, call: ToolCall) -> bool:
        content = (call.session_id, call.event_id, call.tool, call.call_id, repr(call.args))
        was_asked = content in self._asked
        if call.event_id:
            self._asked.add(content)
        return was_asked

    def advance(self, time: float) -> list[Finding]:
        return self._judge.advance(time)

    def end_all(self) -> list[Finding]:
        return self._judge.end()

    def commit_and_restart(self) -> None:
        self._commit()
        self._judge = self._open()
        self._judge.load((name, blob, deadline) for name, (blob, deadline) in self._rows.items())

    def _commit(self) -> None:
        for name, blob, deadline in self._judge.changes():
            if blob is None:
                self._rows.pop(name, None)
            else:
                self._rows[name] = blob, deadline

    def rows(self) -> int:
        """How many rows there are after a commit: sessions, and values of keys that span sessions."""
        self._commit()
        return len(self._rows) - 1  # one is that of the clock
