"""A system prompt as a document: headings, lists, examples, code and tool descriptions, cut into sentences with places.

Every pattern here has bounded repeats over plain character classes, and each line is looked at a bounded number of
times: the time is linear in the length of the prompt.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from stream_guard_compliance.reading.lines import Passage, passages_of
from stream_guard_compliance.reading.verbs import BOTH, VERBS
from stream_guard_compliance.reading.word_lists import word_set

_STOP: Final = re.compile(r"""[.!?]{1,20}["'\u201d\u2019)\]*`_]{0,6}|</[A-Za-z][\w.-]{0,60}>""")
_TAGS: Final = re.compile(r"<([A-Za-z][\w.-]{0,60})>")
_ABBREVIATIONS: Final = word_set("e.g i.e eg ie etc vs mr mrs ms dr approx incl no st fig cf resp al ex")
# Words that begin a sentence: a stop glued to one of them ends the sentence before it.
_STARTERS: Final = word_set(
    "if when first never always do don't you your the then for only use make please this it in after before once "
    "unless be avoid ensure keep all any every each however otherwise also note remember call ask"
)
_LABEL_BOLD: Final = re.compile(r"\*\*([^*\n]{1,120}?)(:\*\*|\*\*\s?:)(?=\s|$)")
_LABEL: Final = re.compile(r"([A-Z][^:.!?\n`\"]{0,80}|[A-Z]{3,30}):(?=\s)")
_TOOL_LABEL: Final = re.compile(
    r"[*_]{0,3}`?([A-Za-z][\w.-]{1,80})(?:\([^()\n]{0,200}\))?`?[*_]{0,3}\s?(?::|\s[-\u2013\u2014]\s)"
)
_MARKED: Final = re.compile(r"(?<![\w*])\*(\S[^*\n]{0,400}?)\*(?![\w*])")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a prompt, with what it stands under."""

    text: str  # in one line, without marks of emphasis and without its label
    offset: int  # of its first character in the prompt
    end: int  # behind its last character
    heading: str = ""
    leads: tuple[str, ...] = ()  # the lines that open the lists it stands in, outermost first ("Never call:")
    label: str = ""  # what stands before a colon at the beginning of its block ("Simple tasks:")
    is_item: bool = False
    is_heading: bool = False
    is_code: bool = False  # code, JSON or a template's statement
    is_example: bool = False
    describes: str = ""  # the tool that its item describes
    block: int = 0  # where its paragraph or item begins
    outer: tuple[str, ...] = ()  # the headings above its own, outermost first
    opens: bool = False  # it says something only together with the items of the list it opens


@dataclass(slots=True)
class _Above:
    """What the lines so far have opened: headings, lists, a line that ends with a colon."""

    heading: str = ""
    outer: tuple[str, ...] = ()
    lead: str = ""
    lead_indent: int = 0
    items: list[tuple[int, str]] = field(default_factory=list)

    def leads(self, indent: int) -> tuple[str, ...]:
        while self.items and self.items[-1][0] >= indent:
            self.items.pop()
        return tuple(text for text in (self.lead, *(text for _, text in self.items)) if text)


def split(prompt: str) -> list[Sentence]:
    """Return the sentences in order; the same prompt gives the same sentences."""
    sentences: list[Sentence] = []
    above = _Above()
    path: list[tuple[int, str]] = []  # the headings that are open, with their levels
    blocks = list(passages_of(prompt))
    for block, following in itertools.zip_longest(blocks, blocks[1:]):
        if block.sort == "code":
            text = prompt[block.content : block.end].strip()
            sentences.append(Sentence(text, block.content, block.end, above.heading, is_code=True))
        elif block.sort == "heading":
            heading = clean(prompt[block.content : block.end]).rstrip(": ")
            if block.level:  # a tag stands inside the section it is in
                path = [(level, text) for level, text in path if level < block.level]
            above = _Above(heading, tuple(text for _, text in path))
            path += [(block.level, heading)] if block.level else []
            sentences.append(
                Sentence(above.heading, block.content, block.end, is_heading=True, is_example=block.is_example)
            )
        elif block.sort == "row":
            sentences += _of_row(prompt, block, above)
        else:
            sentences += _of_block(prompt, block, above)
            text = clean(prompt[block.content : block.end])
            listed = following is not None and following.sort == "item" and following.start == block.end
            if block.sort == "text" and listed and len(text.split()) <= _SHORT_LEAD and text.lower().endswith(_CARRIES):
                above.lead, above.lead_indent = f"{text}:", block.indent  # a colon is often left out
    return sentences


_SHORT_LEAD: Final = 3  # words
_CARRIES: Final = ("must", "must not", "never", "always", "do not", "don't", "shall", "shall not")


_NAME: Final = re.compile(r"[*_`]{0,3}([A-Za-z][\w.-]{1,80})(?:\(\))?[*_`]{0,3}")


def _of_row(prompt: str, block: Passage, above: _Above) -> list[Sentence]:
    """Return a row of a table as a sentence: what its first cell names, and what the others say about it."""
    cells = [clean(cell) for cell in prompt[block.content : block.end].strip().strip("|").split("|")]
    said = " ".join(cell for cell in cells[1:] if cell)
    if not said:
        return []
    name = _NAME.fullmatch(cells[0])
    found = Sentence(
        f"{cells[0]}: {said}" if cells[0] else said,
        block.content,
        block.end,
        above.heading,
        is_item=True,
        is_example=block.is_example,
        describes=name.group(1) if name else "",
        block=block.start,
        outer=above.outer,
    )
    return [found]


def _of_block(prompt: str, block: Passage, above: _Above) -> list[Sentence]:
    """Return the sentences of a paragraph or an item, and note what it opens."""
    is_item = block.sort == "item"
    if not is_item and not (above.items and block.indent > above.items[0][0]):
        above.items.clear()
        above.lead = ""
    leads = above.leads(block.indent) if is_item else tuple(text for _, text in above.items if text)
    tool = _TOOL_LABEL.match(prompt, block.content, block.end) if is_item else None
    label, begin = _label(prompt, block)
    found: list[Sentence] = []
    for start, end in _sentence_spans(prompt, begin, block.end):
        text = clean(prompt[start:end])
        if text:
            found.append(
                Sentence(
                    text,
                    start if found else block.content,
                    end,
                    above.heading,
                    leads,
                    label,
                    is_item,
                    is_example=block.is_example,
                    describes=tool.group(1) if tool else "",
                    block=start if prompt[start:end].lstrip().startswith("<") else block.start,
                    outer=above.outer,
                )
            )
    if not found and label:
        found = [
            Sentence(
                f"{label}:", block.content, block.end, above.heading, leads, "", is_item, is_example=block.is_example
            )
        ]
    opened = found[-1].text if found and found[-1].text.endswith(":") else ""
    if is_item:
        above.items.append((block.indent, opened or (f"{label}:" if label else "")))
    elif opened:
        above.lead, above.lead_indent = opened, block.indent
    return found


def _label(prompt: str, block: Passage) -> tuple[str, int]:
    """Return what stands before a colon at the beginning of a block, and where the words behind it begin."""
    bold = _LABEL_BOLD.match(prompt, block.content, block.end)
    if bold:
        return clean(bold.group(1)).rstrip(": "), bold.end()
    plain = _LABEL.match(prompt, block.content, block.end)
    if plain and _is_title(plain.group(1)) and prompt[plain.end() : block.end].strip():
        return clean(plain.group(1)), plain.end()
    return "", block.content


def _is_title(text: str) -> bool:
    """Whether words before a colon name something; "Keep it short:" says something."""
    words = text.lower().split()
    gives_order = words[0] in {"never", "always", "do", "don't", "only", "you", "your"} or (
        words[0] in VERBS and words[0] not in BOTH and len(words) > 1
    )
    return len(words) <= 6 and not gives_order and not set(words) & _FINITE


_FINITE: Final = word_set("is are was were be told said says asked wrote will has have had can might would must should")


def _sentence_spans(prompt: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a block stand: a stop before white space ends one, or one glued to a first word."""
    begin = start
    for stop in _STOP.finditer(prompt, start, end):
        after = stop.end()
        if after < begin:
            continue
        glued = after < end and not prompt[after].isspace()
        if stop.group()[0] == "<":  # <rule>a sentence</rule>
            if _tag_before(prompt, begin, end) == stop.group()[2:-1]:
                yield begin, after
                begin = after
            continue
        if glued and not _is_glued(prompt, stop.start(), after, end):
            continue
        if _is_abbreviation(prompt, begin, stop.start()) or _in_parenthesis(prompt, begin, stop.start()):
            continue
        if _in_quotes(prompt, begin, stop, end) or _tag_before(prompt, begin, end):
            continue
        yield begin, after
        begin = after
    if prompt[begin:end].strip():
        yield begin, end


def _is_glued(prompt: str, stop: int, after: int, end: int) -> bool:
    """Whether a stop without white space behind it ends a sentence: "support.First, if ..."."""
    if prompt[stop] != "." or not prompt[max(0, stop - 2) : stop].islower() or not prompt[after].isupper():
        return False
    word = re.match(r"[A-Za-z']{1,12}", prompt[after : min(after + 12, end)])
    return (
        word is not None
        and word.group().lower() in _STARTERS
        and prompt[after + len(word.group()) : after + len(word.group()) + 1] in (" ", ",")
    )


def _is_abbreviation(prompt: str, begin: int, stop: int) -> bool:
    word = (prompt[max(begin, stop - 12) : stop].split() or [""])[-1]
    plain = word.strip("(*_\"'`").lower()
    return plain in _ABBREVIATIONS or (len(plain) == 1 and plain.isalpha() and plain not in "aix")


def _tag_before(prompt: str, begin: int, end: int) -> str:
    """Return the tag that a sentence begins with and that is closed behind it in the same block, or nothing."""
    while begin < end and prompt[begin].isspace():
        begin += 1
    tag = _TAGS.match(prompt, begin, end)
    return tag.group(1) if tag and prompt.find(f"</{tag.group(1)}>", begin, min(end, begin + _LONG_TAG)) > 0 else ""


_LONG_TAG: Final = 600  # characters


def _in_quotes(prompt: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Whether a stop stands inside quotation marks that are closed soon: a text of two sentences is one text."""
    stretch = prompt[max(begin, stop.start() - 200) : stop.start()]
    rest = prompt[stop.start() : min(end, stop.start() + 200)].split("\n", 1)[0]
    if stretch.count('"') % 2 == 1:
        return '"' in rest[2:]
    opened = re.search(r"""(?:^|[\s(])'(?=[A-Z])[^'\n]*$""", stretch)
    return opened is not None and re.search(r"""'(?:[\s.,;)]|$)""", rest[2:]) is not None


def _in_parenthesis(prompt: str, begin: int, stop: int) -> bool:
    """Whether a bracket opened in the last stretch of the sentence is still open."""
    stretch = prompt[max(begin, stop - 200) : stop]
    return stretch.rfind("(") > stretch.rfind(")")


def clean(text: str) -> str:
    """Return the text in one line and without the marks of emphasis around words."""
    plain = " ".join(_MARKED.sub(r"\1", text.replace("**", "")).split())
    tag = _TAGS.match(plain)
    closed = f"</{tag.group(1)}>" if tag else ""
    return plain[tag.end() : -len(closed)].strip() if tag and plain.endswith(closed) else plain
