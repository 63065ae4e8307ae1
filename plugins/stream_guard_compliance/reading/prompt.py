"""A system prompt cut into sentences: with headings, lists and code marked, and with offsets.

Every pattern here is a run over plain character classes with bounded repeats, and each character is looked
at a bounded number of times: the time is linear in the length of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BULLET: Final = re.compile(r"[ \t]{0,40}(?:[-*\u2022\u2013+]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]{1,40}")
_HEADING: Final = re.compile(r"[ \t]{0,3}#{1,6}[ \t]{0,10}")
_FENCE: Final = re.compile(r"[ \t]{0,10}(?:```|~~~)")
_STOP: Final = re.compile(r"""[.!?]{1,20}["'\u201d\u2019)\]]{0,4}""")
_ABBREVIATIONS: Final = frozenset(("e.g", "i.e", "etc", "vs", "mr", "mrs", "ms", "dr", "approx", "incl", "no", "st"))
_MARKS: Final = "*_"  # emphasis of Markdown, where it stands around words


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a prompt."""

    text: str  # in one line, as the reader of a report sees it
    offset: int  # of its first character in the prompt
    heading: str = ""  # the heading it stands under
    lead: str = ""  # the sentence that opens the list it stands in ("Never call:")
    is_item: bool = False  # an item of a list
    is_heading: bool = False
    is_code: bool = False  # a block of code, or tools declared as JSON


@dataclass(slots=True)
class _Block:
    start: int
    end: int
    sort: str  # text, item, heading, code
    content: int  # where the words begin, behind a bullet or a heading's marks


def split(prompt: str) -> list[Sentence]:
    """Return the sentences in order; the same prompt gives the same sentences."""
    sentences: list[Sentence] = []
    heading = lead = ""
    for block in _blocks(prompt):
        if block.sort == "code":
            sentences.append(Sentence(prompt[block.content : block.end], block.content, heading, is_code=True))
            lead = ""
            continue
        if block.sort == "heading":
            heading, lead = _clean(prompt[block.content : block.end]).rstrip(": "), ""
            sentences.append(Sentence(heading, block.content, is_heading=True))
            continue
        is_item = block.sort == "item"
        if not is_item:
            lead = ""
        last = ""
        for start, end in _sentence_spans(prompt, block.content, block.end):
            last = _clean(prompt[start:end])
            if last:
                sentences.append(Sentence(last, start, heading, lead if is_item else "", is_item=is_item))
        if not is_item and last.endswith(":"):
            lead = last
    return sentences


def _blocks(prompt: str) -> Iterator[_Block]:
    """Yield paragraphs, items of lists, headings and code, each with its place."""
    current: _Block | None = None
    fenced = False
    start = 0
    for line in prompt.splitlines(keepends=True):
        end = start + len(line)
        sort, content = _sort_of(line, start)
        if _FENCE.match(line):
            fenced, sort, content = not fenced, "fence", start
        if fenced and sort != "fence":
            sort, content = "code", start
        continues = current is not None and (
            (sort == "text" and current.sort in {"text", "item"}) or (sort == "code" and current.sort == "code")
        )
        if continues and current is not None:
            current.end = end
        else:
            if current is not None:
                yield current
            current = None if sort in {"blank", "fence"} else _Block(start, end, sort, content)
        start = end
    if current is not None:
        yield current


def _sort_of(line: str, start: int) -> tuple[str, int]:
    stripped = line.strip()
    if not stripped:
        return "blank", start
    heading = _HEADING.match(line)
    if heading:
        return "heading", start + heading.end()
    if stripped[0] in "[{" and stripped[-1] in "]}" and '"' in stripped:
        return "code", start
    if stripped[0] == "<" and stripped[-1] == ">" and len(stripped) < 80 and " " not in stripped:
        return "heading", start  # a tag such as <rules>
    bullet = _BULLET.match(line)
    return ("item", start + bullet.end()) if bullet else ("text", start)


def _sentence_spans(prompt: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a block stand: they end with a stop before white space, outside quotes."""
    begin = start
    for stop in _STOP.finditer(prompt, start, end):
        after = stop.end()
        if after < end and not prompt[after].isspace():
            continue
        if _is_abbreviation(prompt, begin, stop.start()) or _goes_on(prompt, after, end):
            continue
        yield begin, after
        begin = after
    if prompt[begin:end].strip():
        yield begin, end


def _is_abbreviation(prompt: str, begin: int, stop: int) -> bool:
    word_start = max(begin, stop - 8)
    word = prompt[word_start:stop].split()[-1:] or [""]
    plain = word[0].strip("(").lower()
    return plain in _ABBREVIATIONS or (len(plain) == 1 and plain.isalpha() and plain not in "ai")


def _goes_on(prompt: str, after: int, end: int) -> bool:
    """Whether the next word is written small: then the stop ended no sentence."""
    for position in range(after, min(after + 40, end)):
        char = prompt[position]
        if not char.isspace():
            return char.islower()
    return False


def _clean(text: str) -> str:
    """Return the text in one line and without the marks of emphasis around words."""
    words = [word.strip("*") if word.strip(_MARKS) else "" for word in text.split()]
    return " ".join(word for word in words if word)
