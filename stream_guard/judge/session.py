"""One live session: the engine's ``KeyState`` and what the tracker needs to place the next event."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from math import inf
from operator import attrgetter, itemgetter
from typing import Final
from zlib import crc32

import msgspec

from stream_guard.judge.catalogue import Catalogue
from stream_guard.judge.key_state import KeyState
from stream_guard.judge.marks import StoredMarks
from stream_guard.judge.model import Event, GateDecision, Json
from stream_guard.judge.paths import MISSING, lookup
from stream_guard.judge.seen_ids import SeenIds
from stream_guard.judge.stored import OpenCall, args_digest, exact_digest

_CERTAINLY_SMALL: Final = 256  # bytes of msgpack, whatever stands in it; measuring each value costs more than the rules
_EXCERPT_LIMIT: Final = 1024  # bytes of one argument that a stored session keeps for a key or a gate
_LARGE: Final = 16_384  # bytes, about, of arguments that are kept whole in memory until the result comes


class Session(KeyState):
    """Everything that is remembered of one session. None of it grows with the length of the session."""

    __slots__ = (
        "answered",
        "attempts",
        "before",
        "buffer",
        "buffer_sizes",
        "buffered",
        "catalogue",
        "cut_strangers",
        "ended",
        "explicit_part",
        "fresh_part",
        "ids",
        "jump",
        "lag",
        "lost_calls",
        "marks",
        "open",
        "open_count",
        "resting",
        "scheduled",
        "seq",
        "strangers",
        "written_under",
    )

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.seq = 0  # number of events applied; makes derived ids unique
        # Attempts are numbered from an offset of the session's own: a key may span sessions.
        self.attempts = crc32(_id_bytes(session_id)) << 24
        self.open: dict[str, list[OpenCall]] = {}  # calls without a result, by id; ids repeat in real traces
        self.open_count = 0
        self.lost_calls = False  # open calls were forgotten, so a result may be of any tool
        self.ids = SeenIds()  # of the last events
        self.catalogue: Catalogue | None = None  # of the tools that rules which stop ask about; not stored
        self.explicit_part = ""  # the source's own name of the current part
        self.fresh_part = False  # a user message opened the part and no turn has come since
        self.answered = False  # the last turn ended for good: the next request opens a part
        self.lag = 0.0  # how far this session's clock runs behind the stream's
        self.scheduled = inf  # its earliest entry among the table's deadlines
        self.buffer: list[tuple[float, int, Event]] = []  # events waiting for earlier ones, by time and arrival
        self.buffer_sizes: dict[int, int] = {}  # bytes of each of them, by arrival, in that order
        self.buffered = 0  # bytes of all of them
        self.resting = False  # closed as idle by the shared clock; its own next event may show that it was not
        self.ended = False  # resting after an end by somebody who may not end it: its limits go on
        # A jump in its own time closed the session before this one. The next event may take the jump back.
        self.before: Session | None = None
        self.written_under = ""  # the version of the policy by which its row was written, where it has one
        # States of rules that this policy does not have, as they are stored: another gate judges by them.
        self.strangers: list[tuple[int, tuple[str, ...], msgspec.Raw]] = []
        self.cut_strangers: list[int] = []  # tags of such rules that lost what they remembered
        self.marks: StoredMarks | None = None  # of its row, where a gate writes only what changes
        self.jump: Event | None = None

    def hold_back(self, event: Event, time: float) -> None:
        """Put an event behind the buffered ones of the same time."""
        arrival = 1 + next(reversed(self.buffer_sizes), 0)
        insort(self.buffer, (time, arrival, event), key=itemgetter(0, 1))
        size = self.buffer_sizes[arrival] = size_of(event)
        self.buffered += size

    def let_go(self) -> Event:
        """Return the earliest buffered event, which is not buffered any longer."""
        _, arrival, event = self.buffer.pop(0)
        self.buffered -= self.buffer_sizes.pop(arrival)
        return event

    def take_buffer(self, other: Session) -> None:
        """Take over the buffered events of another session of the same id; this one has none."""
        self.buffer, self.buffer_sizes, self.buffered = other.buffer, other.buffer_sizes, other.buffered
        other.buffer, other.buffer_sizes, other.buffered = [], {}, 0

    def add_open(self, call: OpenCall) -> None:
        """Remember a call until its result comes."""
        known = self.open.get(call.call_id)
        if known is None:
            self.open[call.call_id] = [call]
        else:
            known.append(call)
        self.open_count += 1

    def drop_open(self, call: OpenCall) -> None:
        """Forget a call: its result has come, or the limit is reached."""
        known = self.open[call.call_id]
        if len(known) == 1:
            del self.open[call.call_id]
        else:
            known[:] = [other for other in known if other is not call]
        self.open_count -= 1

    def drop_older_half(self) -> int:
        """Forget the older half of the open calls, and return how many that are."""
        calls = sorted((call for calls in self.open.values() for call in calls), key=attrgetter("attempt"))
        dropped = calls[: (len(calls) + 1) // 2]
        for call in dropped:
            self.drop_open(call)
        self.lost_calls = True
        return len(dropped)

    def take_open(self, call_id: str, tool: str) -> OpenCall | None:
        """Return the call that ``find_open`` finds, and forget it: its result has come."""
        known = self.open.get(call_id)
        if call_id and known is not None and len(known) == 1:
            del self.open[call_id]
            self.open_count -= 1
            return known[0]
        call = self.find_open(call_id, tool)
        if call is not None:
            self.drop_open(call)
        return call

    def find_open(self, call_id: str, tool: str) -> OpenCall | None:
        """Return the latest open call of an id; without an id, the latest of a tool."""
        if call_id:
            known = self.open.get(call_id)
            return known[-1] if known else None
        return self._find_open_of(tool)

    def find_asked(self, decision: GateDecision) -> OpenCall | None:
        """Return the open call that a gate decided on, by the id of the question, which the decision's begins with."""
        question, _, _ = decision.event_id.rpartition("/")
        for call in self.open.get(decision.call_id, ()):
            if call.event_id == question and call.asked:
                return call
        return None

    def _find_open_of(self, tool: str) -> OpenCall | None:
        of_tool = [call for calls in self.open.values() for call in calls if call.tool == tool]
        return max(of_tool, key=lambda call: call.attempt, default=None)

    def forget_before(self, time: float) -> None:
        """Forget the session from before a jump when that was longer ago than ``time``: nothing takes it back."""
        if self.jump is not None and (self.jump.time is None or self.jump.time <= time):
            self.before = self.jump = None


def size_of(event: Event) -> int:
    """Return the bytes that an event takes in a row, about."""
    try:
        return len(_encode(event))
    except (TypeError, ValueError, OverflowError, RecursionError):  # an in-process caller may pass anything
        return len(repr(event))


def _id_bytes(given_id: str) -> bytes:
    # Most ids are ASCII: their bytes are there, and need no codec to be looked up.
    return given_id.encode() if given_id.isascii() else given_id.encode("utf-8", "surrogatepass")


_encode: Final = msgspec.msgpack.Encoder().encode


def condense(call: OpenCall, paths: Iterable[tuple[str, ...]]) -> None:
    """Keep of a call's arguments a digest, and what the policy reads."""
    if call.digest == 0:
        call.exact = exact_digest(call.args)
        call.digest, call.args = args_digest(call.args), _excerpt(call.args, paths)


def is_large(value: Json) -> bool:
    """Whether a value takes more memory than an open call may keep of it."""
    if type(value) is not dict:
        return _is_large_within(value)
    left = _LARGE - 64 * len(value)
    for key, item in value.items():
        if type(item) is str:
            left -= len(item)
        elif isinstance(item, dict) or isinstance(item, list):  # noqa: SIM101  # compiled, a union is made each time
            return _is_large_within(value)
        left -= len(key) if type(key) is str else len(str(key))  # a caller in this process may pass anything
    return left < 0


def _is_large_within(value: Json) -> bool:
    """Whether a value that holds others is large; most are so small in a row that nothing in them need be measured."""
    try:
        if len(_encode(value)) < _CERTAINLY_SMALL:
            return False
    except (OverflowError, ValueError, TypeError, RecursionError):
        pass  # what no store can hold is measured as it is
    left = _LARGE
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if type(item) is str:
            left -= len(item)
        elif type(item) is dict:
            left -= 64 * len(item) + sum(map(len, map(str, item)))
            waiting += item.values()
        elif isinstance(item, list):
            left -= 64 * len(item)
            waiting += item
        if left < 0:
            return True
    return False


def _excerpt(args: Json, paths: Iterable[tuple[str, ...]]) -> Json:
    """Return the values at the paths as nested objects; an index into a list becomes a key."""
    if isinstance(args, str):
        return ""  # text that is not JSON: still to be told from arguments without a value
    excerpt: dict[str, Json] = {}
    for steps in paths:
        value = lookup(args, steps)
        if value is MISSING or not _can_be_kept(value):
            continue
        inner = excerpt
        for step in steps[:-1]:
            inner = inner.setdefault(step, {})
        inner[steps[-1]] = value
    return excerpt or None


def _can_be_kept(value: Json) -> bool:
    try:
        return len(msgspec.msgpack.encode(value)) <= _EXCERPT_LIMIT
    except (OverflowError, ValueError, TypeError, RecursionError):  # too large, too deep, half a surrogate pair
        return False
