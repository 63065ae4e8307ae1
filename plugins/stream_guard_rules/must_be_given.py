"""Values of a call were given: by the user, a result, the prompt, or the description of the tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.events import remember_ungated
from stream_guard_rules.shared.evidence import as_evidence
from stream_guard_rules.shared.fingerprints import MOST_TEXT
from stream_guard_rules.shared.json_values import short_digest, texts_in
from stream_guard_rules.shared.lost_memory import FORGOTTEN, UNREAD
from stream_guard_rules.shared.requests import definitions, offered_in, schema_of, system_prompt

_SKETCH_BYTES: Final = 2**15
_MOST_GIVEN: Final = 30_000  # of a sketch so full, one value in forty is taken for given that is not
_ROW: Final = 4  # words in a row that are one value without what stands between them
_MOST_WORDS: Final = 6  # of a value; more is a text of the agent's own
_MOST_WORDS_OF_TEXT: Final = 12
_LONGEST: Final = 100
_SHORTEST: Final = 3

_TOKEN: Final = re.compile(r"[^\W_]+")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SHARE: Final = re.compile(r"[*.]*\.\w{1,5}|\*+")  # all files of a sort are no name
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")  # worked out
_COUNTED: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_COUNTS: Final = {word: number for number, word in enumerate(_COUNTED.split())}
_NOBODY: Final = frozenset(("none", "null", "true", "false", "default"))
_WORDED: Final = (
    "content contents message text body description note notes comment reason summary subject prompt instruction "
    "instructions question answer thought status explanation justification code command script query expression formula"
)
_TEXTS: Final = frozenset(_WORDED.split())
# "A document titled ..." names no document; "a document folder" does name the folder.
_UNNAMED: Final = re.compile(
    r"\b(?:an?|any|some|another)\s+(?:(?:new|different|single|separate|specific|certain|particular)\s+)?([^\W\d_]{3,})"
    r"(?=\s?(?:[.,;:!?)]|$|\s(?:titled|called|named|labell?ed|for|in|on|of|to|with|from|that|which|where|who|and|or|if|by"
    r"|at|as|into|onto|inside|within|about|containing)\b))",
    re.IGNORECASE,
)
_ANY_OF_ITS_KIND: Final = "~"  # beside words that were said like that
_NAMES: Final = (
    "id name file filename folder directory dir path title user username account recipient receiver city place "
    "location source destination"
)
_NAMING: Final = frozenset(_NAMES.split())


class MustBeGivenParams(sg.Params):
    """Parameters of ``must_be_given``."""

    tool: sg.ToolPattern = Field(
        default_factory=lambda: sg.ToolPattern("*"),
        description="the tools whose calls are judged: a name, a glob, a list",
    )
    numbers: bool = Field(default=True, description="numbers count too, except 0 and 1")
    texts: bool = Field(
        default=False, description="short texts count too, such as a message; agents often word them themselves"
    )


class MustBeGivenState(sg.State):
    """Words, rows of words and numbers that were given."""

    given: sg.Sketch | None = None
    count: int = 0
    unread: bool = False
    latest: str = ""  # a digest of the prompt and the schemas that were read last


class MustBeGiven(sg.Rule[MustBeGivenParams, MustBeGivenState]):
    """A value of a call must have been given by the user, by a result, by the prompt, or by the tool's own schema.

    A value is a number, or a text of a few words: an id, a name, a place. It was given where its words were, in any
    spelling: ``TeamNotes.txt`` by "team notes" and "txt". Dates are worked out, and are not asked about. What was given
    is kept in a sketch, which may claim one too many; of more than 30,000 words nothing can be judged. Where a name or
    an id is asked for, "a document" from the user gives none.
    """

    kind = "must_be_given"
    state_limit = 40960
    examples = (
        sg.Example(
            claim="a name that nobody gave is a hit",
            params={},
            trace=[
                {"user": "Send the report to my manager."},
                {"call": "send", "args": {"recipient": "bob@example.org"}},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="what the user wrote or a result says was given, in any spelling",
            params={},
            trace=[
                {"user": "Move the team notes into Archive."},
                {"call": "find", "args": {"name": "team_notes"}},
                {"result": "find", "output": {"matches": ["./docs/TeamNotes.txt"], "size": 2048}},
                {"call": "move", "args": {"source": "docs/TeamNotes.txt", "to": "archive", "bytes": 2048}},
            ],
            hits=[],
        ),
        sg.Example(
            claim="a number that nobody gave is a hit, and one that was rounded is none",
            params={},
            trace=[
                {"user": "Fill the tank with three gallons."},
                {"result": "convert", "output": {"liters": 11.3562}},
                {"call": "fill", "args": {"liters": 11.36, "gallons": 3}},
                {"call": "fill", "args": {"liters": 40}},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="a thing of which the user says no more than what it is was not named",
            params={},
            trace=[
                {"user": "Make a folder for my letters, and put a note into the cupboard folder."},
                {"call": "make", "args": {"folder": "letters"}},
                {"call": "open", "args": {"folder": "cupboard"}},
                {"call": "make", "args": {"folder": "note"}},
                {"call": "find", "args": {"sort": "note"}},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="texts of the agent's own are not asked about, unless the rule says so",
            params={},
            trace=[
                {"user": "Tell Ann that I am late."},
                {"call": "send", "args": {"to": "Ann", "message": "Sorry!"}},
                {"call": "calculate", "args": {"expression": "(158 + 141) * 2"}},
            ],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """Messages, results and arguments."""
        return frozenset(("content",))

    def on_user_message(self, message: sg.UserMessage, state: MustBeGivenState) -> sg.Verdict:
        """Remember what the user gave, and apart from that what was mentioned without a name."""
        unnamed = _UNNAMED.findall(message.text[:MOST_TEXT])
        for word in unnamed:
            self._learn(word, state, _ANY_OF_ITS_KIND)
        named = _UNNAMED.sub(" . ", message.text[:MOST_TEXT]) if unnamed else message.text
        self._learn(named, state)
        state.unread = state.unread or len(message.text) > MOST_TEXT
        return None

    def on_turn(self, turn: sg.Turn, state: MustBeGivenState) -> sg.Verdict:
        """Remember what the prompt and the schemas of the tools give."""
        listed, prompt = offered_in(turn), system_prompt(turn.request)
        seen = short_digest([listed, prompt])
        if seen == state.latest:
            return None  # most requests carry the same prompt and the same list
        state.latest = seen
        self._learn(prompt, state)
        if isinstance(listed, list):
            self._learn_schemas(listed, state)
        return None

    def on_tool_result(self, result: sg.ToolResult, state: MustBeGivenState) -> sg.Verdict:
        """Remember what the result gave."""
        for text in texts_in(result.output):
            self._learn(text, state)
        return None

    def on_tool_call(self, call: sg.ToolCall, state: MustBeGivenState) -> sg.Verdict:
        """Ask who gave the values of the call."""
        if not self.params.tool.matches(call.tool):
            return None
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        for name, value in _arguments(call.args):
            if self._is_asked_about(name, value) and not _is_given(value, call.tool, name, state):
                if state.unread or state.count > _MOST_GIVEN:
                    return UNREAD if state.unread else FORGOTTEN
                detail = f"{call.tool} is called with a value of {name} that nobody gave"
                return sg.Hit(detail, {"tool": call.tool, "argument": name[:64], "value": as_evidence(value)})
        return None

    def on_ungated(self, event: sg.Event, state: MustBeGivenState) -> None:
        """Remember what was given outside the gate too."""
        remember_ungated(self, event, state)

    def _is_asked_about(self, name: str, value: sg.Json) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, int | float):
            return self.params.numbers and value not in {0, 1, -1}
        if not isinstance(value, str) or len(value) > _LONGEST or _SHARE.fullmatch(value) or _DATE.fullmatch(value):
            return False
        words = {part.lower() for part in _PARTS.findall(name)}
        is_text = bool(words & _TEXTS) and not words & {"id", "name"}
        if (is_text and not self.params.texts) or value.lower() in _NOBODY:
            return False
        return len(value.split()) <= (_MOST_WORDS_OF_TEXT if is_text else _MOST_WORDS)

    def _learn(self, text: str, state: MustBeGivenState, place: str = "") -> None:
        sketch = sg.Sketch() if state.given is None else state.given
        for word in {*_words(text), *_rows(text), *_numbers(text)}:
            number = sg.sketch_number(f"{place}:{word}")
            if number not in sketch:
                sketch.add(number, _SKETCH_BYTES)
                state.count += 1
        state.given = sketch
        state.unread = state.unread or len(text) > MOST_TEXT

    def _learn_schemas(self, listed: list[sg.Json], state: MustBeGivenState) -> None:
        for tool, definition in definitions(listed):
            properties = (schema_of(definition) or {}).get("properties")
            for name, said in properties.items() if isinstance(properties, dict) else ():
                for text in texts_in(said):
                    self._learn(text, state, f"{tool}.{name}")


def _arguments(value: sg.Json) -> Iterator[tuple[str, sg.Json]]:
    """Yield every plain value of the arguments with the name that it stands under."""
    waiting: list[tuple[str, sg.Json]] = [("", value)]
    for name, item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            waiting += item.items()
        elif isinstance(item, list):
            waiting += [(name, one) for one in item]
        else:
            yield name, item


def _is_given(value: sg.Json, tool: str, name: str, state: MustBeGivenState) -> bool:
    places = ["", f"{tool}.{name}"]
    if _NAMING.isdisjoint(part.lower() for part in _PARTS.findall(name)):
        places.append(_ANY_OF_ITS_KIND)

    def known(word: str) -> bool:
        return state.given is not None and any(sg.sketch_number(f"{where}:{word}") in state.given for where in places)

    text = next(texts_in(value), "")
    if _NUMBER.fullmatch(text):
        return known(_number(text))
    whole = "".join(_TOKEN.findall(text.lower()))
    return len(whole) < _SHORTEST or known(whole) or all(known(part) for part in set(_parts(text)))


def _words(text: str) -> Iterator[str]:
    yield from _parts(text[:MOST_TEXT])
    yield from map(_singular, _TOKEN.findall(text[:MOST_TEXT].lower()))


def _parts(text: str) -> Iterator[str]:
    """Yield the words of a text, split at capitals too."""
    yield from (_singular(part.lower()) for part in _PARTS.findall(text))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > _SHORTEST and word.endswith("s") else word


def _rows(text: str) -> Iterator[str]:
    """Yield words in a row as one: TeamNotes.txt is given by team notes txt."""
    tokens = _TOKEN.findall(text[:MOST_TEXT].lower())
    for start in range(len(tokens)):
        yield from ("".join(tokens[start : start + length]) for length in range(1, _ROW + 1))


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text in one form, also rounded, and those that are written as words."""
    for written in _NUMBER.findall(text[:MOST_TEXT].replace(",", "")):
        yield _number(written)
        if "." in written:
            yield from (_number(f"{float(written):.{digits}f}") for digits in range(3))
    yield from (_number(str(_COUNTS[word])) for word in _TOKEN.findall(text[:MOST_TEXT].lower()) if word in _COUNTS)


def _number(written: str) -> str:
    return f"={float(written[:300]):.12g}"
