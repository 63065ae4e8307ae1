"""The lines of a prompt put together to blocks: paragraphs, items of lists, headings, code, examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_BULLET: Final = re.compile(
    r"[ \t]{0,60}(?:[-*\u2022\u2013+\u25cf\u27a4]|\(?\d{1,3}(?:\.\d{1,3}){0,3}[.)]?|\(?[a-zA-Z][.)])[ \t]{1,40}"
)
_NUMBER_ALONE: Final = re.compile(r"[ \t]{0,60}\d{1,3}[ \t]")  # "3 files" is no item
_HEADING: Final = re.compile(r"[ \t]{0,3}(#{1,6})[ \t]{0,10}(?=\S)")
_FENCE: Final = re.compile(r"[ \t]{0,40}(?:```|~~~)")
_TAG: Final = re.compile(r"</?([A-Za-z][\w.-]{0,60})(?: [^<>\n]{0,200})?>")
_TEMPLATE: Final = re.compile(r"\{[%{#][^\n]{0,300}[%}#]\}")
_SPEAKER: Final = re.compile(
    r"(?:user|assistant|human|ai|model|agent|customer|task|action|observation|thought|input|output|question|answer|"
    r"query|response|result|tool)(?: \d{1,3})?:(?:\s|$)",
    re.IGNORECASE,
)
_EXAMPLE: Final = re.compile(
    r"(?:good |bad |few.shot |correct |incorrect |usage |sample )?examples?\b|for (?:example|instance)\b|e\.g\.|"
    r"sample (?:conversation|dialogue)",
    re.IGNORECASE,
)
_SHORT_LINE: Final = 60  # a line this short that ends without a stop ends its paragraph before a capital


@dataclass(slots=True)
class Passage:
    """Lines that belong together, and what they are."""

    start: int
    end: int
    sort: str  # text, item, heading, code, row
    content: int  # where the words begin, behind a bullet or a heading's marks
    indent: int = 0
    level: int = 0
    is_example: bool = False


def passages_of(prompt: str) -> Iterator[Passage]:
    """Yield paragraphs, items of lists, headings and code, each with its place."""
    current: Passage | None = None
    inside = _Inside()
    start = 0
    for line in prompt.splitlines(keepends=True):
        end = start + len(line)
        sort, content, indent, level = _sort_of(line, start)
        sort = inside.sort(line, sort)
        if current is not None and _continues(prompt, current, line, sort, indent):
            current.end = end
        else:
            if current is not None:
                yield current
            current = None
            if sort not in {"blank", "fence", "tag"}:
                content = start if sort == "code" else content
                current = Passage(start, end, sort, content, indent, level, inside.is_example(line, sort, level))
            elif sort == "tag":
                yield Passage(start, end, "heading", start, is_example=inside.is_example(line, sort, level))
        start = end
    if current is not None:
        yield current


def _continues(prompt: str, current: Passage, line: str, sort: str, indent: int) -> bool:
    """Whether a line goes on with the block before it."""
    if sort == "code" and current.sort == "code":
        return True
    if sort != "text" or current.sort not in {"text", "item"}:
        return False
    last = prompt[max(current.start, current.end - 2 * _SHORT_LINE) : current.end].rstrip()
    line_before = last.rsplit("\n", 1)[-1]
    begins_anew = line.lstrip()[:1].isupper() or line.lstrip()[:1] in '*`"<'
    if current.sort == "item" and indent <= current.indent and begins_anew:
        return False
    if last.endswith(":") or (_SPEAKER.match(line.lstrip()) and begins_anew):
        return False
    return not (begins_anew and len(line_before) < _SHORT_LINE and not last.endswith((",", ";")))


@dataclass(slots=True)
class _Inside:
    """Whether the line stands in fenced code, in braces of code, or in examples."""

    fenced: bool = False
    braces: int = 0
    tags: list[str] = field(default_factory=list)
    example_level: int = 0  # of the heading that opened examples
    after_lead: bool = False  # behind a line such as "Examples:"
    lead_indent: int = 0
    lead_is_item: bool = False

    def sort(self, line: str, sort: str) -> str:
        stripped = line.strip()
        if _FENCE.match(line):
            one_line = stripped.count("```") >= 2
            self.fenced = self.fenced if one_line else not self.fenced
            return "code" if one_line else "fence"
        if self.fenced:
            return "code"
        if self.braces:
            self.braces = max(0, self.braces + _depth(stripped))
            return "code"
        if stripped[:1] in ("{", "[") and _depth(stripped) > 0 and (len(stripped) < 4 or '"' in stripped):
            self.braces = _depth(stripped)
            return "code"
        return sort

    def is_example(self, line: str, sort: str, level: int) -> bool:
        stripped = line.strip()
        if sort == "tag":
            self._tag(stripped)
            return bool(self.tags)
        if sort == "heading":
            self.after_lead = False
            if self.example_level and level <= self.example_level:
                self.example_level = 0
            if not self.example_level and _EXAMPLE.match(stripped.lstrip("# *")):
                self.example_level = level
        indent = len(line) - len(line.lstrip())
        if self.after_lead and sort in {"text", "item"} and indent <= self.lead_indent:
            self.after_lead = sort == "item" and not self.lead_is_item
        bare = stripped.lstrip("-*\u2022 ").rstrip("* ")
        if sort in {"text", "item"} and bare.endswith(":") and _EXAMPLE.match(bare) and len(bare) < _SHORT_LINE:
            self.after_lead, self.lead_indent, self.lead_is_item = True, indent, sort == "item"
            return True
        return bool(self.tags or self.example_level or self.after_lead or _SPEAKER.match(stripped))

    def _tag(self, stripped: str) -> None:
        tag = _TAG.match(stripped)
        name = tag.group(1).lower() if tag else ""
        if stripped.startswith("</"):
            if name in self.tags:
                del self.tags[self.tags.index(name) :]
        elif "example" in name or self.tags:
            self.tags.append(name)


def _depth(line: str) -> int:
    return line.count("{") + line.count("[") - line.count("}") - line.count("]")


def _sort_of(line: str, start: int) -> tuple[str, int, int, int]:  # noqa: PLR0911  # one for each sort
    """Return what a line is, where its words begin, how far it is indented, and the level of a heading."""
    stripped = line.strip()
    indent = len(line) - len(line.lstrip())
    if not stripped or not stripped.strip("-=_*~ "):
        return "blank", start, indent, 0
    heading = _HEADING.match(line)
    if heading:
        return "heading", start + heading.end(), indent, len(heading.group(1))
    if _TEMPLATE.fullmatch(stripped) or (stripped[0] in "[{" and stripped[-1] in "]}," and '"' in stripped):
        return "code", start, indent, 0
    if stripped[0] == "<" and _TAG.fullmatch(stripped):
        return "tag", start, indent, 0
    if stripped[0] == "|" and stripped[-1] == "|" and len(stripped) > 2:
        return ("row" if stripped.strip("|-: ") else "blank"), start + indent, indent, 0
    bullet = _BULLET.match(line)
    if bullet and not _NUMBER_ALONE.match(line):
        return "item", start + bullet.end(), indent, 0
    return "text", start + indent, indent, 0
