"""A system prompt as a document: headings, lists, examples, code and tool descriptions, cut into sentences with places.

Every pattern here has bounded repeats over plain character classes, and each line is looked at a bounded number of
times: the time is linear in the length of the prompt.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stream_guard_compliance.reading.symbols import BOTH, VERBS
from stream_guard_compliance.reading.values import Token, word_set

# The lines of a prompt put together to blocks: paragraphs, items of lists, headings, code, examples.

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


# The document cut into sentences.

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


# What a sentence stands under: conditions and opposites that headings, leads and labels set, and lists to complete.

_SCOPES: Final = word_set("if when whenever for during after before once while unless in on until where")
_SCOPED: Final = word_set(
    "task tasks request requests mode question questions inquiry inquiries directive directives case cases user users "
    "customer customers files projects repositories operations issues errors environment platform query queries"
)
_TURNS: Final = (
    *(" never ", " do not ", " don't ", " not to ", " bad ", " wrong ", " incorrect ", " avoid ", " forbidden "),
    *(" prohibited ", " mistakes ", "anti-pattern", "don'ts"),
)
_NARROWS: Final = word_set("mode phase step stage summary title summaries titles commit commits")
_CARRY: Final = word_set("must should shall never always not don't to can may cannot")
_TOOLS: Final = word_set("tools tool functions")


def scope_of(sentence: Sentence) -> str:
    """Return the condition that a heading, the line that opens its list, or a label sets for a sentence."""
    for above in (*sentence.outer, sentence.heading, *sentence.leads):
        words = _words(above)
        if words and (words[0] in _SCOPES or "cases" in words or "if" in words or "when" in words):
            return above.rstrip(": ")
    for label in (sentence.label, *(lead for lead in sentence.leads if len(lead.split()) <= 4)):
        words = _words(label)
        if words and (words[0] in _SCOPES or set(words) & _SCOPED or "(" in label):
            return label.rstrip(": ")
    return ""


_IN_MODE: Final = re.compile(
    r"\b(?:you are|you're)(?: currently| now){0,1}(?: operating| working| running){0,1} in "
    r"\W{0,3}(\w{3,20})\W{0,3} mode\b"
    r"|\b(?:active|current)(?: \w{1,20}){0,2} mode:\W{0,4}(\w{3,20})",
    re.IGNORECASE,
)


def modes_of(prompt: str) -> frozenset[str]:
    """Return the modes that a prompt says the agent is in: what holds in such a mode holds."""
    stated = [match for match in _IN_MODE.finditer(prompt) if not _is_condition(prompt, match.start())]
    return frozenset(word.lower() for match in stated for word in match.groups() if word)


def _is_condition(prompt: str, start: int) -> bool:
    """Whether "you are in plan mode" stands behind a word that makes a condition of it."""
    before = prompt[max(0, start - 20) : start].lower().split()
    return bool(before) and before[-1] in {"when", "if", "while", "whenever", "unless", "once", "until", "after"}


def without_mode(tokens: Sequence[Token], modes: frozenset[str]) -> Sequence[Token]:
    """Return a sentence without "In plan mode," at its beginning, where the prompt says that this is the mode."""
    at = next((number for number, token in enumerate(tokens[:7]) if token.low.rstrip(",:") == "mode"), -1)
    words = {word for token in tokens[: max(at, 0)] for word in token.low.split()}
    if at < 1 or not words & modes or not words <= modes | _IN_A_MODE or not words & {"in", "while", "during"}:
        return tokens
    rest = tokens[at + 1 :]
    return rest[1:] if rest and rest[0].text in {",", ":"} else rest


_IN_A_MODE: Final = word_set("in while when during whilst you are currently the this if operating")


def is_turned(sentence: Sentence, modes: frozenset[str] = frozenset()) -> bool:
    """Whether a heading or a lead turns or narrows what stands under it: "Never do this:", "Phase 2", "Plan mode"."""
    label = "" if _NUMBERED.fullmatch(sentence.label) else sentence.label  # "Step 2:" numbers an item of a list
    above = [_words(line) for line in (*sentence.outer, sentence.heading, *sentence.leads, label)]
    plain = [{word.strip(".,:()*") for word in words} for words in above]
    if any(_NARROWS & words and not ("mode" in words and words & modes) for words in plain):
        return True
    return any(mark in f" {' '.join(words)} " for words in above[:-1] for mark in _TURNS)


_NUMBERED: Final = re.compile(r"(?i)step \d{1,2}")


def completes(sentence: Sentence) -> bool:
    """Whether an item without a verb of its own completes an order: "When NOT to use X:", "Only when:"."""
    words = _words(sentence.leads[-1]) if sentence.is_item and sentence.leads else []
    return bool(words) and (words[0] in {"when", "if", "only", "never", "avoid", "don't"} or words[:2] == ["do", "not"])


def join_lists(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Put the items of a list behind the words that open it, where they make no sense alone."""
    joined: list[Sentence] = []
    gathered: dict[str, tuple[int, list[str]]] = {}
    completed: set[str] = set()  # leads that say something only together with their items
    for sentence in sentences:
        lead = sentence.leads[-1] if sentence.leads else sentence.heading
        if sentence.is_item and not sentence.is_example and _is_bare(sentence.text) and _opening(lead):
            # Bare names: all of them belong to one rule.
            if lead not in gathered:
                gathered[lead] = (len(joined), [])
                joined.append(sentence)
            gathered[lead][1].append(sentence.text.rstrip(".,;"))
            place = gathered[lead][0]
            joined[place] = replace(joined[place], end=sentence.end)
        elif sentence.is_item and not sentence.leads and _heads(sentence):
            text = f"{_HEADS[' '.join(_words(sentence.heading))]} {_lower(sentence.text)}"
            joined.append(replace(sentence, text=text, heading=""))
        elif sentence.is_item and sentence.leads and _carries(lead) and _is_order(sentence.text):
            completed.add(lead)
            joined.append(replace(sentence, leads=sentence.leads[:-1]))
        elif sentence.is_item and sentence.leads and _carries(lead):
            completed.add(lead)
            text = f"{lead.rstrip(': ')} {_lower(sentence.text)}"
            joined.append(replace(sentence, text=text, leads=sentence.leads[:-1]))
        else:
            joined.append(sentence)
    for lead, (place, names) in gathered.items():
        heading = "" if joined[place].heading == lead else joined[place].heading
        joined[place] = replace(joined[place], text=f"{_opening(lead)} {', '.join(names)}.", leads=(), heading=heading)
    completed.update(gathered)
    return [replace(one, opens=True) if one.text in completed else one for one in joined]


# Headings of a word or two under which every item is forbidden, or a duty.
_HEADS: Final = {
    **dict.fromkeys(
        ("never", "do not", "don't", "don'ts", "never do", "you must not", "must not", "you must never"), "Never"
    ),
    **dict.fromkeys(("always", "you must", "must", "always do", "you must always", "do's"), "Always"),
}


def _heads(sentence: Sentence) -> bool:
    """Whether a heading is the verb of every item under it; an item with a verb for this of its own is read alone."""
    first = _words(sentence.text)[:1]
    begins = first == [] or first[0] in _CARRY | {"do", "if", "when", "only", "you"}
    return " ".join(_words(sentence.heading)) in _HEADS and not begins and not sentence.is_example


def _words(text: str) -> list[str]:
    return text.lower().replace("\u2019", "'").strip("*_:# ").split()


def _is_bare(text: str) -> bool:
    return len(text) <= 80 and len(text.strip("`.,; ").split()) == 1


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _opening(lead: str) -> str:
    """Return the words that a list of names is read behind, where its lead or heading forbids or allows tools."""
    words = _words(lead)
    if not words or len(words) > 12:
        return ""
    if words[-1] in _TOOLS and words[0] in {"allowed", "permitted"}:
        return "Only call"
    if words[-1] in _TOOLS and words[0] in {"forbidden", "prohibited", "banned", "disallowed"}:
        return "Never call"
    says = lead.rstrip(": ") if lead.endswith(":") else ""
    if any(word.startswith(("confirm", "approv", "permission")) for word in words):
        return f"{says} before calling" if says and "before" not in words else ""
    names = words[-1] in {"call", "use", "invoke", "run", "execute"} or words[-2:] in (
        ["these", "tools"],
        ["following", "tools"],
        ["the", "tools"],
        ["following", "functions"],
    )
    return says if names else ""


def _is_order(text: str) -> bool:
    """Whether an item says itself what its lead says: "Don't:", and under it "Don't ..."."""
    return _words(text)[:1] in (["don't"], ["never"], ["always"]) or _words(text)[:2] == ["do", "not"]


def _carries(lead: str) -> bool:
    """Whether a lead ends in words that every item completes: "You must:", "Never:"."""
    return lead.endswith(":") and _words(lead)[-1:] != [] and _words(lead)[-1] in _CARRY
