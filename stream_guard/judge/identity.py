"""Identities: of events, of attempts, of findings and of tenants' sessions. Nothing else makes an id.

An event is its id and its exact content, in its session. An attempt is its call id, its tool, its arguments and how
many of these there were before. A finding is its rule, its session, the values of its key and what it is about. The
order in which events arrive is in no id.
"""

from __future__ import annotations

import json
from array import array
from hashlib import blake2b
from math import isnan, nan
from secrets import randbits
from typing import Final

import msgspec
import xxhash

from stream_guard.judge.arguments import read_call
from stream_guard.judge.model import RESERVED, Event, GateDecision, Json, ToolCall, ToolResult, Turn, UserMessage

_encode: Final = msgspec.msgpack.Encoder().encode
_encode_sorted: Final = msgspec.msgpack.Encoder(order="sorted").encode
_hash: Final = xxhash.xxh3_64_intdigest
_blake2b: Final = blake2b
_MOST_PARTS: Final = 100_000
_FLOAT: Final = 0xCB  # how msgpack begins a float; elsewhere it only costs a walk
MOST_TOLD: Final = 1000  # attempts, and events without an id, whose numbers a session remembers
_MOST_ATTEMPTS: Final = 1 << 24  # of one session, that a key across sessions tells from those of any other
_MOST_ACROSS: Final = (1 << 39) - 1  # sessions that it tells apart
_EXACT: Final = 32  # characters of an exact digest
_SHORT: Final = 24  # characters of the digest in a derived event id
TENANT: Final = "tenant"  # the label that names it
_WITHOUT_TENANT: Final = 2
BETWEEN: Final = "/"  # stands between a tenant and the id of its session


def tenant_session(tenant: str, session_id: str) -> str:
    """Return the name of a tenant's session. No two pairs of tenant and id have the same name."""
    if tenant:
        return f"{escape_tenant(tenant)}{BETWEEN}{session_id}"
    # Without a tenant, an id that could be taken for a tenant's session is that of nobody's.
    return f"{BETWEEN}{session_id}" if BETWEEN in session_id else session_id


def escape_tenant(tenant: str) -> str:
    """Return a tenant as it stands in names of sessions."""
    return tenant.replace("%", "%25").replace(BETWEEN, "%2F")


def share_of(key_id: str) -> str:
    """Return the share that a session, or a value of a key, belongs to by its id: its tenant's; empty for nobody's."""
    if key_id[:1] == RESERVED:
        # A key stands between two such characters, then its values, and behind a third the tenant, if there is one.
        return escape_tenant(key_id.rpartition(RESERVED)[2]) if key_id.count(RESERVED) > _WITHOUT_TENANT else ""
    return key_id.partition(BETWEEN)[0] if BETWEEN in key_id else ""


def digest(*parts: str) -> str:
    """Return the id of a finding. Equal parts give an equal id, on every machine and in every replay."""
    try:
        whole = _encode(parts)
    except UnicodeEncodeError:  # half of a surrogate pair
        whole = _walked(parts)
    return _blake2b(whole, digest_size=16).hexdigest()


def content_digest(event: Event, timed: bool = True, seed: int = 0) -> int:
    """Return a number that is the same for an event delivered again; never 0. What is stamped on it does not count.

    With a seed that nobody knows, nobody can make two events that have the same number.
    """
    return _hash(content_of(event, timed), seed) or 1


def exact_content(event: Event, timed: bool = True) -> str:
    """Return a digest that is the same in every run, and that nobody can find another event for."""
    return blake2b(content_of(event, timed), digest_size=16).hexdigest()


def own_id(event: Event, timed: bool) -> str:
    """Return the id of an event whose own is taken; made from its content, so that a redelivery of it has the same."""
    return f"{event.event_id}~{exact_content(event, timed)}"


def derived_id(event: Event, told: Occurrences) -> str:
    """Return the id of an event that came without one: made from its content, and how often that came before."""
    name = event.event_id or f"~{_told_exactly(event)[:_SHORT]}"
    return f"{name}.{told.add(_hash(name.encode('utf-8', 'surrogatepass')))}"


def event_identity(event: Event) -> tuple[str, str]:
    """Return the id that an event came with, and a digest of what it tells, whenever and by whomever."""
    given, event_id = event.event_id, event.event_id
    if len(event_id) > _EXACT and event_id[-_EXACT - 1] == "~":
        tail = event_id[-_EXACT:]
        if tail in (exact_content(event), exact_content(event, timed=False)):  # it has an id of its own: ``own_id``
            given = event_id[: -_EXACT - 1]
    return given, _told_exactly(event)


def count_attempt(told: Occurrences, call_id: str, tool: str, args: Json) -> tuple[int, int]:
    """Count an attempt at a tool with these arguments.

    Return how many of these there were before in its session, and how many bytes it takes to tell of one.
    """
    data = canonical((call_id, tool, {} if args is None else args))
    return told.add(_hash(data)), len(data)


def attempt_identity(call: ToolCall) -> str:
    """Return the identity of an attempt in its session: nobody can find another attempt that has it."""
    args = args_digest(call.args, call.contested != "")
    return digest(call.call_id, call.tool, args.hex(), str(call.before))


def attempt_across(session_id: str, attempt: int) -> int:
    """Return the number by which a key that spans sessions knows an attempt: each session numbers its own from 0."""
    if attempt >= _MOST_ATTEMPTS:
        return attempt  # an earlier version numbered the attempts of this session so
    data = session_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(_blake2b(data, digest_size=8).digest(), "big") % _MOST_ACROSS * _MOST_ATTEMPTS + attempt


def args_digest(args: Json, contested: bool = False) -> bytes:
    """Return a digest of arguments that nobody can find other arguments for; in any order of keys, and 1.0 as 1.

    Contested arguments are never those that one reader takes from them. Some sources leave out an empty object.
    """
    data = canonical({} if args is None else args)
    return _blake2b(data + b"~" if contested else data, digest_size=16).digest()


def canonical(value: Json) -> bytes:
    """Return a value as bytes that equal values share, whatever an agent's process may hold; it never raises."""
    try:
        data = _encode_sorted(value)
        return data if _FLOAT not in data else _encode_sorted(_whole_numbers(value))
    except (OverflowError, ValueError, TypeError):  # an integer too large, half a surrogate pair
        return b"~" + _as_json(value, whole=True)
    except RecursionError:
        return _walked(value)


def written(value: Json) -> str:
    """Return a value as a text that equal values share: JSON, or for what JSON has no form for, the canonical bytes."""
    try:
        return msgspec.json.encode(_whole_numbers(value), order="sorted").decode()
    except (ValueError, TypeError, RecursionError):  # half a surrogate pair; in this process it may be anything
        return canonical(value).hex()


def _as_json(value: object, *, whole: bool = False) -> bytes:
    """Return a value that msgpack has no form for as JSON, with 5.0 as 5 where that is the same."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)
        if whole:
            text = json.dumps(json.loads(text, parse_float=_read_float), ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")
    except Exception:  # noqa: BLE001  # too deep, keys of several types, a value that holds itself or has no repr
        return _walked(value)


def _read_float(text: str) -> Json:
    return _whole_numbers(float(text))


def _whole_numbers(value: Json) -> Json:
    """Return the value with 5.0 as 5, and one NaN for all: JSON has one sort of number."""
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else nan if isnan(value) else value
    return value


def content_of(event: Event, timed: bool) -> bytes:
    """Return what an event tells, with its time where that counts.

    Inline the time is the receiver's, and another at each delivery. The agent of an event may become known only when
    a recording is complete, so it counts only where there is no time.
    """
    kind, said = _told(event)
    time = event.time if timed else None
    # Stored sessions hold digests of this: another form would make another event of each that is delivered again.
    told = (kind, time, said) if time is not None else (kind, None, event.agent, event.run_id, said)
    try:
        return _encode(told)
    except (TypeError, ValueError, OverflowError, RecursionError):  # a huge number; in this process it may be anything
        return _as_json(told)


def _told_exactly(event: Event) -> str:
    return blake2b(canonical(_told(event)), digest_size=16).hexdigest()


def _told(event: Event) -> tuple[str, tuple[Json, ...]]:  # noqa: PLR0911  # one for each kind of event
    """Return the kind of an event, and what it tells.

    A turn that is sent again as history has what was said, and no longer its usage or its stop reason.
    """
    # By the exact type: to tell that a struct is no instance of a class takes longer than the rest.
    if type(event) is Turn:
        return "Turn", (event.response.get("content"),)
    if type(event) is ToolCall:
        if type(event.args) is str or event.contested:
            event = read_call(event)  # arguments that are still to be read make no other call of it
            if event.contested:
                return "ToolCall", (event.tool, event.call_id, event.args, event.contested)
        return "ToolCall", (event.tool, event.call_id, event.args)
    if type(event) is ToolResult:
        return "ToolResult", (event.call_id, event.status, event.output)
    if type(event) is UserMessage:
        return "UserMessage", (event.text,)
    if type(event) is GateDecision:
        return "GateDecision", (event.call_id, event.action)
    return "SessionEnd", ()


def _walked(told: object) -> bytes:
    """Write a value that no encoder takes, level by level: it may be nested deeper than a function can call itself."""
    written: list[str] = []
    waiting: list[object] = [told]
    for item in waiting:  # grows while it is walked
        if isinstance(item, dict):
            names = sorted(item, key=_part)
            written.append(repr(("dict", *map(_part, names))))
            waiting += [item[name] for name in names]
        elif isinstance(item, list | tuple):
            written.append(f"list {len(item)}")
            waiting += item
        else:
            written.append(_part(item))
        if len(written) >= _MOST_PARTS:  # it may hold itself: what is cut equals nothing
            written.append(str(randbits(128)))
            break
    return "\n".join(written).encode("utf-8", "surrogatepass")


def _part(item: object) -> str:
    """Write what has no parts; whole numbers in hex, as Python writes none of more than 4300 digits otherwise."""
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    try:
        return hex(item) if type(item) is int else repr(item)
    except Exception:  # noqa: BLE001  # an in-process caller may pass anything
        return f"{type(item).__name__} {randbits(128)}"


class Occurrences:
    """How often something was told in a session: of attempts, and of events that came without an id.

    The longest unheard of is forgotten beyond a limit. What comes again after that is counted on from the highest
    count that was forgotten, so that no two occurrences have the same number.
    """

    __slots__ = ("_counts", "_floor", "_plain")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._floor = 0
        self._plain = True  # each count is 1

    def add(self, key: int, /) -> int:
        """Count one more; return how many there were before."""
        counts = self._counts
        before = counts.pop(key, self._floor)
        counts[key] = before + 1
        if before:
            self._plain = False
        while len(counts) > MOST_TOLD:
            self._floor = max(self._floor, counts.pop(next(iter(counts))))
        return before

    def stored(self) -> tuple[int, bytes, bytes]:
        """Return the floor, the keys, the one that was told last at the end, and their counts; none where each is 1."""
        counts = self._counts
        return self._floor, array("Q", counts).tobytes(), b"" if self._plain else array("Q", counts.values()).tobytes()

    def restore(self, floor: int, keys: bytes, counts: bytes, /) -> None:
        """Know what was stored, behind what is known already."""
        numbers = array("Q", keys)
        told = array("Q", counts) if counts else [1] * len(numbers)
        for key, count in zip(numbers, told, strict=True):
            self._counts.pop(key, None)
            self._counts[key] = count
        self._floor, self._plain = floor, not counts


_NO_IDS: Final[dict[int, int]] = {}  # of the sessions that have only one generation: nothing is added to an older one


class SeenIds:
    """The last event ids in two generations: the older one is forgotten when the other is full.

    Ids are digests, in memory as in a stored session: what is kept of an event leaves the cache, and is slow to free.
    All digests of a session have its own seed, drawn at random and stored with them: whoever could compute them could
    make a call that is taken for another one, and dropped as told before.
    """

    __slots__ = ("_older", "_recent", "seed")

    def __init__(self) -> None:
        self.seed = randbits(64)
        self._recent: dict[int, int] = {}
        self._older = _NO_IDS

    def add(self, event_id: str, content: int, most: int, /) -> bool:
        """Remember what an id stands for; False: it is known, and nothing changes. ``most`` fill a generation."""
        recent = self._recent
        try:
            key = _hash(event_id.encode(), self.seed)
        except UnicodeEncodeError:  # half of a surrogate pair, from a caller in this process
            key = self._key(event_id)
        if key in recent or key in self._older:
            return False
        recent[key] = content
        if len(recent) >= most:
            self._older, self._recent = recent, {}
        return True

    def content(self, event_id: str, /) -> int | None:
        """Return the digest of what an id stands for; 0 where an earlier version kept none, None for a new id."""
        key = self._key(event_id)
        known = self._recent.get(key)
        return known if known is not None else self._older.get(key)

    def stored(self) -> tuple[bytes, bytes, bytes]:
        """Return the ids of both generations, and the contents in the same order and the seed: each of 64 bits."""
        recent, older = self._recent, self._older
        contents = array("Q", [*recent.values(), *older.values(), self.seed])
        return array("Q", recent).tobytes(), array("Q", older).tobytes(), contents.tobytes()

    def restore(self, recent: bytes, older: bytes, contents: bytes, /) -> None:
        """Know what was stored, and nothing else; earlier versions kept no seed, or no contents."""
        keys, older_keys, values = array("Q", recent), array("Q", older), array("Q", contents)
        known = len(keys) + len(older_keys)
        self.seed = values.pop() if len(values) == known + 1 else 0
        if len(values) != known:
            values = array("Q", bytes(len(recent) + len(older)))
        self._recent = dict(zip(keys, values, strict=False))
        self._older = dict(zip(older_keys, values[len(keys) :], strict=True))

    def _key(self, event_id: str) -> int:
        return _hash(event_id.encode("utf-8", "surrogatepass"), self.seed)
