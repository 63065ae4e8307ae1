"""Rules about what must not leave: text that one tool returned and another sends away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.fingerprints import MOST_TEXT, compact, readings, texts_in
from stream_guard_rules.outside_gate import remember_ungated

_MOST_MARKS: Final = 4096
_MOST_SOURCES: Final = 32
_BLOCKS: Final = (32, 8, 1)  # pieces of a text that are unpacked at once
_SIGNS: Final = re.compile(r"[^a-z0-9]+")
_SHORT, _LONG = 256, 8192  # characters of a text of which all pieces are remembered, and of one that is not long yet
_STEP: Final = 4  # one of so many pieces of a longer text is remembered, of a long one half of these


class GuardedResult(sg.State):
    """One result that must not leave: when it came, from which tool, and fingerprints of its text."""

    time: float | None
    tool: str
    marks: list[int]


class NoValueFlowParams(sg.Params):
    """Parameters of ``no_value_flow``."""

    tool: sg.ToolPattern = Field(description="the tools that send things away: a name, a glob, a class, or a list")
    source: sg.ToolPattern = Field(default=sg.ToolPattern("*"), description="the tools whose results must not leave")
    source_when: sg.Condition | None = Field(
        default=None, description="conditions over a result that must not leave, such as a label"
    )
    min_chars: int = Field(
        default=12, ge=6, le=200, description="characters in a row, blanks left out, that both must have"
    )
    within_seconds: sg.Duration | None = Field(default=None, description="how long a result is remembered")


class NoValueFlowState(sg.State):
    """The results that must not leave."""

    sources: list[GuardedResult] = []


class NoValueFlow(sg.Rule[NoValueFlowParams, NoValueFlowState]):
    """What certain results say must not be sent away: ``min_chars`` characters in a row are enough.

    Case and blanks do not count, and base64, hexadecimal and URL encoding are looked through. Of each text the first
    20,000 characters are looked at. 4096 fingerprints are remembered. Of a text over 256 characters one piece in four
    is kept, of one over 8192 one in eight: then up to 3, or 7, characters more must agree.
    """

    kind = "no_value_flow"
    state_limit = 32768
    examples = (
        sg.Example(
            claim="a secret in what is sent is a hit, in base64 too",
            params={"tool": "http_post", "source": "read_secret"},
            trace=[
                {"result": "read_secret", "output": "key=Xq7LmP92vRt4Zk8W"},
                {"call": "http_post", "args": {"body": "it is xq7lmp92vrt4 zk8w"}},
                {"call": "http_post", "args": {"body": "WHE3TG1QOTJ2UnQ0Wms4Vw=="}},
            ],
            hits=[1, 2],
        ),
        sg.Example(
            claim="a few characters alike, and results of other tools, are fine",
            params={"tool": "http_post", "source": "read_secret"},
            trace=[
                {"result": "read_secret", "output": "key=Xq7LmP92vRt4Zk8W"},
                {"result": "read_file", "output": "nothing to hide here at all"},
                {"call": "http_post", "args": {"body": "Xq7LmP9 nothing to hide here"}},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: NoValueFlowParams) -> None:
        super().__init__(params)
        self._blocks = [(Struct(f"{params.min_chars}s" * size), size) for size in _BLOCKS]

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.tool.expanded, *self.params.source.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """Results and arguments, and a clock for ``within_seconds``."""
        clock: frozenset[sg.Need] = frozenset(("clock",) if self.params.within_seconds is not None else ())
        return clock | frozenset(("content",))

    def on_tool_result(self, result: sg.ToolResult, state: NoValueFlowState) -> sg.Verdict:
        """Remember what must not leave."""
        condition = self.params.source_when
        if not self.params.source.matches(result.tool) or (condition is not None and not condition.holds(result)):
            return None
        if result.output is None:
            return sg.Unsure("unevaluable", "the output") if result.status != "blocked" else None
        forms = (form for text in texts_in(result.output) for form in readings(text))
        marks = dict.fromkeys(one for form in forms for one in self._marks(form, every=False))
        if marks:
            kept = list(marks)[:_MOST_MARKS]
            state.sources = _bounded([*state.sources, GuardedResult(result.time, result.tool[:64], kept)])
        return None

    def on_tool_call(self, call: sg.ToolCall, state: NoValueFlowState) -> sg.Verdict:
        """Compare what is sent with what must not leave."""
        if not self.params.tool.matches(call.tool):
            return None
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        sources = [source for source in state.sources if self._counts(source, call)]
        if not sources:
            return None
        texts = list(texts_in(call.args))
        sent = {one for form in _sent_forms(texts) for one in self._marks(form, every=True)}
        for source in reversed(sources):
            if not sent.isdisjoint(source.marks):
                evidence = {"tool": call.tool, "source": source.tool}
                return sg.Hit(f"{call.tool} sends what {source.tool} returned", evidence)
        return None

    def on_ungated(self, event: sg.Event, state: NoValueFlowState) -> None:
        """Remember results outside the gate too."""
        remember_ungated(self, event, state)

    def _counts(self, source: GuardedResult, call: sg.ToolCall) -> bool:
        span = self.params.within_seconds
        if span is None or source.time is None or call.time is None:
            return True
        return call.time - source.time <= span

    def _marks(self, text: str, *, every: bool) -> list[int]:
        """Return fingerprints of a text without blanks, and of its letters and digits alone.

        ``every`` asks for those of all pieces. One side is enough for that: of what is remembered, some will do.
        """
        plain = "".join(text[:MOST_TEXT].lower().split())
        step = 1 if every or len(plain) <= _SHORT else _STEP if len(plain) <= _LONG else 2 * _STEP
        marks, short = self._grams(plain, step), compact(plain)
        if short == plain:
            return marks
        if step > 1 or not plain.isascii():
            return marks + self._grams(short, step)
        data, length = short.encode(), self.params.min_chars
        return marks + [crc32(data[start : start + length]) for start in _around(plain, length, len(data))]

    def _grams(self, text: str, step: int) -> list[int]:
        length = self.params.min_chars
        if not text.isascii():
            grams = (text[start : start + length] for start in range(0, len(text) - length + 1, step))
            return [crc32(gram.encode("utf-8", "surrogatepass")) for gram in grams]
        data = text.encode()
        if step == 1:
            return self._all_grams(data)
        return [crc32(data[start : start + length]) for start in range(0, len(data) - length + 1, step)]

    def _all_grams(self, data: bytes) -> list[int]:
        """Return the fingerprints of all pieces, in any order. To unpack many at once is quicker than to cut each."""
        length = self.params.min_chars
        marks: list[int] = []
        for offset in range(length):
            place, left = offset, (len(data) - offset) // length
            for block, size in self._blocks:
                while left >= size:
                    marks += map(crc32, block.unpack_from(data, place))
                    place += size * length
                    left -= size
        return marks


def _around(plain: str, length: int, size: int) -> list[int]:
    """Return where pieces begin that reach over a sign that is left out; all others are as they were."""
    starts: list[int] = []
    left_out = before = 0
    for match in _SIGNS.finditer(plain):
        place = match.start() - left_out
        starts.extend(range(max(before, place - length + 1), min(place, size - length + 1)))
        before = place
        left_out += match.end() - match.start()
    return starts


def _sent_forms(texts: Sequence[str]) -> Iterator[str]:
    """Yield what a call sends: all its texts in a row, as it may split one, and what each says where it is encoded."""
    joined = "".join(texts)
    yield joined
    for text in texts:
        yield from readings(text)[0 if len(joined) > MOST_TEXT else 1 :]


def _bounded(sources: list[GuardedResult]) -> list[GuardedResult]:
    """Return the newest sources that fit."""
    left = _MOST_MARKS
    kept: list[GuardedResult] = []
    for source in reversed(sources[-_MOST_SOURCES:]):
        left -= len(source.marks)
        if left < 0 and kept:
            break
        kept.insert(0, source)
    return kept
