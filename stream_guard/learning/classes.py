"""Classes of tools that rules are learned for: what many tools have in common needs fewer sessions to be learned."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stream_guard.judge.patterns import ToolPattern

ANY: Final = "*"
ACTS: Final = "@act"  # every tool that does more than look, also those that are not known yet
_ACTING: Final = ToolPattern([ACTS])
_GRAVE: Final = ToolPattern(["@write", "@money", "@egress", "@delete"])
_WORDS: Final = {ANY: "any tool", ACTS: "what acts"}


@lru_cache(maxsize=4096)
def acts(tool: str) -> bool:
    """Whether a tool does more than look."""
    return _ACTING.matches(tool)


@lru_cache(maxsize=4096)
def is_grave(tool: str) -> bool:
    """Whether a tool changes, sends or pays something; a class of such tools is grave too."""
    return tool == ACTS or _GRAVE.matches(tool)


def in_words(tool: str) -> str:
    """Return a tool or a class as a sentence names it."""
    return _WORDS.get(tool, tool)


def in_id(tool: str) -> str:
    """Return a tool or a class as it stands in the id of a rule."""
    return {ANY: "any", ACTS: "acts"}.get(tool, tool)
