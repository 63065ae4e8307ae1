"""Tools at which an attempt can meet predicates, whatever its arguments and its counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import stream_guard as sg
from stream_guard_rules.shared.predicate_tests import Numbers, Test
from stream_guard_rules.shared.predicates import (
    When,
    predicates_of,
)

_PATTERN_SIGNS: Final = frozenset("*?|()@")


def reachable_tools(when: When, test: Test, counted: Sequence[str | None]) -> sg.ToolFilter | None:
    """Return the tools at which an attempt can match or is counted; None where that can be any tool."""
    if None in counted or not _tests_names(when):
        return None
    names = _required_names(when)
    if names is not None:
        wanted = sorted(names.union(tool for tool in counted if tool is not None))
        if all(map(is_plain_name, wanted)):
            return sg.ToolPattern(wanted)
    return _ReachableTools(test, counted)


def is_plain_name(tool: str) -> bool:
    """Whether a tool's name means itself as a pattern too, and is no glob or class there."""
    return not _PATTERN_SIGNS & set(tool)


class _ReachableTools:
    """Matches the tools at which an attempt could match, whatever its arguments and the counts."""

    exact = None

    def __init__(self, test: Test, counted: Sequence[str | None]) -> None:
        self._test = test
        self._counted = counted

    def matches(self, tool: str) -> bool:
        """Whether the name alone leaves a match possible, or the attempt has to be counted."""
        nothing_known: Numbers = [None] * len(self._counted)
        bare = sg.ToolCall(session_id="", tool=tool, captured=False)
        return tool in self._counted or self._test(bare, nothing_known, []) is not False


def _tests_names(when: When) -> bool:
    """Whether some predicate is about the tool's name."""
    for name, value in predicates_of(when):
        inner = [value] if name == "not_" else value if name in {"all_of", "any_of"} else []
        if name.startswith("tool_name") or any(map(_tests_names, inner)):
            return True
    return False


def _required_names(when: When) -> frozenset[str] | None:
    """Return the tools of which a match needs one, or None when it could be any."""
    found: frozenset[str] | None = None
    for name, value in predicates_of(when):
        parts = [_required_names(inner) for inner in value] if name == "all_of" else []
        if name == "tool_name_in":
            parts = [frozenset(value)]
        for part in parts:
            if part is not None:
                found = part if found is None else found & part
    return found
