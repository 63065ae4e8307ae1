"""A commit that fails loses nothing that was found: the next one that succeeds returns it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from stream_guard.errors import StoreError
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Event, ToolCall, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.storage.stores import CheckpointStore, MemoryStore

POLICY = load_policy("rules: [{id: r, kind: no_call, params: {tool: rm}}]", build_registry(), file="p.yaml")
REMOVAL = ToolCall(session_id="s", event_id="e1", call_id="c", tool="rm", args={})
HELLO = UserMessage(session_id="t", event_id="e2", text="hi")
Answer = TypeVar("Answer")


class Full(CheckpointStore):
    """A file whose disk is full at times."""

    is_full = False

    def together(self, names: Iterable[str], work: Callable[[], Answer]) -> Answer:
        return super().together(names, (lambda: self._fail(work)) if self.is_full else work)

    def _fail(self, work: Callable[[], Answer]) -> Answer:
        work()
        raise StoreError("the disk is full")


class SharedAndFull(MemoryStore):
    """Rows that other gates read too: what could not be stored is gone."""

    is_shared = True  # type: ignore[misc]
    is_full = False

    def together(self, names: Iterable[str], work: Callable[[], Answer]) -> Answer:
        before = dict(self._rows)
        found = super().together(names, work)
        if self.is_full:
            self._rows = before
            raise StoreError("the disk is full")
        return found


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("event", [REMOVAL, HELLO])
def test_what_was_found_is_returned_when_it_is_stored(tmp_path: Path, event: Event, *, shared: bool) -> None:
    store = SharedAndFull() if shared else Full(tmp_path / "sessions.db")
    guard = Guard(POLICY, store=store)
    store.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError, match="full"):
            guard.observe(REMOVAL)
    store.is_full = False
    found = [[one.event_id for one in guard.observe(told)] for told in (event, REMOVAL, REMOVAL)]
    assert found == ([[], ["e1"], []] if shared and event is HELLO else [["e1"], [], []])
    store.close()
