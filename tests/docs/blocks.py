"""The fenced blocks of a page, with the place and the words that lead to each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FENCE = "```"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its first line's number, and the last line of prose above it."""

    language: str
    text: str
    line: int
    lead: str


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the blocks of a page in order; a fence that is never closed is an error."""
    lead, language, inside, start = "", "", list[str](), 0
    opened = False
    for number, line in enumerate(page.splitlines(), 1):
        if not opened and line.startswith(FENCE):
            opened, language, inside, start = True, line.removeprefix(FENCE).strip(), [], number + 1
        elif opened and line == FENCE:
            opened = False
            yield Block(language, "".join(f"{text}\n" for text in inside), start, lead)
            lead = ""
        elif opened:
            inside.append(line)
        elif line.strip():
            lead = line.strip()
    if opened:
        raise ValueError(f"line {start - 1}: this block is never closed")
