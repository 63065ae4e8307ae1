"""No call sends away what certain results say."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from math import inf
from struct import Struct
from typing import Final
from zlib import crc32

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.events import remember_ungated
from stream_guard_rules.shared.fingerprints import MOST_TEXT, decoded_forms, is_read_whole, without_blanks
from stream_guard_rules.shared.json_values import texts_in
from stream_guard_rules.shared.lost_memory import FORGOTTEN, UNREAD

_MOST_FINGERPRINTS: Final = 65_536
_MOST_SOURCES: Final = 32
_LEAST_ROOM: Final = 4096
_MARK_BYTES: Final = 4
_BLOCK: Final = 64  # pieces of a text that are cut at once
_SHORT, _LONG = 256, 8192  # characters of a text of which all pieces are remembered, and of one that is not long yet
_STEP: Final = 4  # one piece in four of a longer text is remembered, of a long one one in eight


class GuardedResult(sg.State):
    """One result that must not leave: when it came, from which tool, and fingerprints of its text."""

    time: float | None
    tool: str
    marks: bytes  # four bytes each


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
    lost: float = -inf  # the time of the latest result of which not everything is remembered


class NoValueFlow(sg.Rule[NoValueFlowParams, NoValueFlowState]):
    """What certain results say must not be sent away: ``min_chars`` characters in a row are enough.

    Case and blanks do not count, and base64, hexadecimal and URL encoding are looked through. Of a text over 256
    characters one piece in four is remembered, of one over 8192 one in eight: then up to 3, or 7, characters more must
    agree. Of each text the first 200,000 characters are looked at, and 65,536 pieces are remembered. Beyond that, a
    call in which nothing is found could not be judged, for as long as what was lost would be remembered.
    """

    kind = "no_value_flow"
    state_limit = 278528
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

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.tool.expanded, *self.params.source.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """Results and arguments, and a clock for ``within_seconds``."""
        clock: frozenset[sg.Need] = frozenset(("clock",) if self.params.within_seconds is not None else ())
        return clock | frozenset(("content",))

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        """Whether the call sends something away."""
        return self.params.tool.matches(call.tool)

    def on_tool_result(self, result: sg.ToolResult, state: NoValueFlowState) -> sg.Verdict:
        """Remember what must not leave."""
        condition = self.params.source_when
        if not self.params.source.matches(result.tool) or (condition is not None and not condition.holds(result)):
            return None
        if result.output is None:
            return sg.Unsure("unevaluable", "the output") if result.status != "blocked" else None
        marks, is_whole = self._fingerprints(result.output)
        if marks:
            state.sources.append(GuardedResult(result.time, result.tool[:64], marks))
            _bound(state)
        if not is_whole:
            state.lost = max(state.lost, inf if result.time is None else result.time)
        return None

    def on_tool_call(self, call: sg.ToolCall, state: NoValueFlowState) -> sg.Verdict:
        """Compare what is sent with what must not leave."""
        if not self.params.tool.matches(call.tool):
            return None
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        sources = [source for source in state.sources if self._counts(source.time, call)]
        has_lost = state.lost > -inf and self._counts(state.lost, call)
        if not sources:
            return FORGOTTEN if has_lost else None
        forms, is_whole = _sent_forms(list(texts_in(call.args)))
        found = self._find(forms, sources)
        if found is not None:
            return _hit(call, found)
        if has_lost or not is_whole:
            return FORGOTTEN if has_lost else UNREAD
        return None

    def _find(self, forms: Sequence[str], sources: Sequence[GuardedResult]) -> GuardedResult | None:
        """Return the newest source of which something is sent."""
        newest = frozenset(_marks_of(sources[-1]))
        sent: set[int] = set()
        for form in forms:
            for pieces in self._pieces(form, every=True):
                marks = list(map(crc32, pieces))
                if not newest.isdisjoint(marks):
                    return sources[-1]  # no source comes before it, whatever else is sent
                if len(sources) > 1:
                    sent.update(marks)
        return next((source for source in reversed(sources[:-1]) if not sent.isdisjoint(_marks_of(source))), None)

    def on_ungated(self, event: sg.Event, state: NoValueFlowState) -> None:
        """Remember results outside the gate too."""
        remember_ungated(self, event, state)

    def _counts(self, time: float | None, call: sg.ToolCall) -> bool:
        """Whether a result of that time is still remembered at a call."""
        span = self.params.within_seconds
        return span is None or time is None or call.time is None or call.time - time <= span

    def _fingerprints(self, output: sg.Json) -> tuple[bytes, bool]:
        """Return the fingerprints of what a result says, and whether these are all: only what is kept is worked out."""
        pieces: dict[bytes, None] = {}
        is_whole = True
        for text in texts_in(output):
            forms = decoded_forms(text)
            is_whole = is_whole and is_read_whole(text, forms)
            for form in forms:
                for cut in self._pieces(form, every=False):
                    pieces.update(dict.fromkeys(cut))
                if len(pieces) > _MOST_FINGERPRINTS:
                    return _packed(crc32(piece) for piece in islice(pieces, _MOST_FINGERPRINTS)), False
        return _packed(map(crc32, pieces)), is_whole

    def _pieces(self, text: str, *, every: bool) -> Iterator[list[bytes]]:
        """Yield pieces of a text without blanks, and of its letters and digits alone.

        ``every`` asks for all of them. One side is enough for that: of what is remembered, some will do.
        """
        length = self.params.min_chars
        if len(text) < length and text.isascii():
            return
        plain, short = without_blanks(text[:MOST_TEXT])
        step = 1 if every or len(plain) <= _SHORT else _STEP if len(plain) <= _LONG else 2 * _STEP
        yield _cut(plain, length, step)
        if short != plain:
            yield _cut(short, length, step)


def _hit(call: sg.ToolCall, source: GuardedResult) -> sg.Hit:
    evidence = {"tool": call.tool, "source": source.tool}
    return sg.Hit(f"{call.tool} sends what {source.tool} returned", evidence)


def _cut(text: str, length: int, step: int) -> list[bytes]:
    """Return the pieces of a text that begin at every ``step``-th character, in any order."""
    last = len(text) - length
    if not text.isascii():
        pieces = [text[start : start + length] for start in range(0, last + 1, step)]
        return [piece.encode("utf-8", "surrogatepass") for piece in pieces]
    gap = -length % step
    size = length + gap
    data = text.encode() + bytes(gap)
    # The text from its beginning, from its second piece and so on, one after the other: now pieces do not overlap.
    rows = [data[start : start + (last - start) // size * size + size] for start in range(0, min(size, last + 1), step)]
    tiled = b"".join(rows)
    cut: list[bytes] = []
    for place in range(0, len(tiled), _BLOCK * size):
        cut += _cutter(length, gap, min(_BLOCK, (len(tiled) - place) // size))(tiled, place)
    return cut


@lru_cache(maxsize=4 * _BLOCK)
def _cutter(length: int, gap: int, count: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    """Return what cuts so many pieces at once: to cut each takes five times as long."""
    return Struct(f"{length}s{gap}x" * count).unpack_from


def _sent_forms(texts: Sequence[str]) -> tuple[list[str], bool]:
    """Return what a call sends, and whether that is all of it.

    That is all its texts in a row, as it may split one, and what each says where it is encoded.
    """
    joined = "".join(texts)
    forms, is_whole = [joined], len(joined) <= MOST_TEXT
    for text in texts:
        decoded = decoded_forms(text)
        is_whole = is_whole and is_read_whole(text, decoded)
        forms += decoded[0 if len(joined) > MOST_TEXT else 1 :]
    return forms, is_whole


def _packed(marks: Iterable[int]) -> bytes:
    return array("I", marks).tobytes()


def _marks_of(source: GuardedResult) -> Sequence[int]:
    return array("I", source.marks)


def _bound(state: NoValueFlowState) -> None:
    """Join two sources where there are too many, and forget the oldest beyond what is remembered."""
    sources = state.sources
    while len(sources) > _MOST_SOURCES:
        _join_smallest(sources)
    left = _MOST_FINGERPRINTS - sum(map(_count, sources))
    if left < 0 and state.lost == -inf:  # once something is lost, room for more makes no judgement whole again
        _drop_repeated(sources)
        left = _MOST_FINGERPRINTS - sum(map(_count, sources))
        if left < _LEAST_ROOM:  # it would be full again at once, and this looks at everything
            left -= _LEAST_ROOM
    while left < 0:
        oldest = sources.pop(0)
        left += _count(oldest)
        state.lost = max(state.lost, inf if oldest.time is None else oldest.time)


def _drop_repeated(sources: list[GuardedResult]) -> None:
    """Leave to older sources what no newer one says: agents read the same page, or file, again and again."""
    lasting: set[int] = set()  # of newer sources without a time, which are never too old
    known: set[int] = set()
    for source in reversed(sources):
        marks = dict.fromkeys(_marks_of(source))
        repeated = lasting if source.time is None else known
        source.marks = _packed(mark for mark in marks if mark not in repeated)
        known.update(marks)
        if source.time is None:
            lasting.update(marks)
    sources[:] = [source for source in sources if source.marks]


def _join_smallest(sources: list[GuardedResult]) -> None:
    """Join the two neighbours that have the fewest fingerprints: to join the oldest each time would copy nearly all."""
    sizes = [_count(older) + _count(newer) for older, newer in pairwise(sources)]
    place = sizes.index(min(sizes))
    older, newer = sources[place : place + 2]
    marks = _packed({*_marks_of(older), *_marks_of(newer)})
    time = None if older.time is None or newer.time is None else max(older.time, newer.time)
    sources[place : place + 2] = [GuardedResult(time, newer.tool, marks)]


def _count(source: GuardedResult) -> int:
    """Return how many fingerprints a source has."""
    return len(source.marks) // _MARK_BYTES
