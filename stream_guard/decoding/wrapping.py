"""A decoder around another one: it looks at the events of that, or changes them."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.identity import TENANT, tenant_session
from stream_guard.judge.model import RESERVED, Event, Json, Turn
from stream_guard.ports import Decoder, Memory, Record
from stream_guard.settings import ModelPrice


class WrappedDecoder(Decoder):
    """Passes the events of another decoder through ``on_events``, those too that it held back."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: as the other one does."""
        return self._decoder.waits

    @abstractmethod
    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events that take the place of these."""

    @abstractmethod
    def around(self, decoder: Decoder) -> Decoder:
        """Return the same around another decoder."""

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        return self.on_events(self._decoder.decode(record))

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return self.around(self._decoder.remember(memory))

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough."""
        return self.on_events(self._decoder.elapse(seconds))

    def finish(self) -> Sequence[Event]:
        """Return the events that still wait."""
        return self.on_events(self._decoder.finish())

    def advice(self) -> Sequence[str]:
        """Return what the decoder advises."""
        return self._decoder.advice()


# What a turn costs, from a table of prices, where its record does not say.


_COST: Final = "cost_usd"
# A model's name may end in the date of its release, which a table of prices leaves out.
_DATE: Final = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")


class PricedDecoder(WrappedDecoder):
    """Adds the cost to turns that tell their tokens and not their cost."""

    def __init__(self, decoder: Decoder, prices: Mapping[str, ModelPrice]) -> None:
        super().__init__(decoder)
        self._prices = prices

    def around(self, decoder: Decoder) -> PricedDecoder:
        """Return the same around another decoder."""
        return PricedDecoder(decoder, self._prices)

    def session_at_glance(self, record: Record) -> bytes | None:
        """Return what the decoder says: a price changes no session."""
        return self._decoder.session_at_glance(record)

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events, turns with their cost."""
        return [self._priced(event) if type(event) is Turn else event for event in events]

    def _priced(self, turn: Turn) -> Turn:
        usage = turn.response.get("usage")
        if not isinstance(usage, dict) or _COST in usage or (price := self._price_of(turn)) is None:
            return turn
        return replace(turn, response={**turn.response, "usage": usage | {_COST: cost_of(usage, price)}})

    def _price_of(self, turn: Turn) -> ModelPrice | None:
        written = turn.labels.get("model") or turn.response.get("model") or (turn.request or {}).get("model")
        model = str(written or "")
        return self._prices.get(model) or self._prices.get(_DATE.sub("", model))


def cost_of(usage: Mapping[str, Json], price: ModelPrice) -> float:
    """Return the dollars for the tokens of a turn. Cached tokens are part of the input, at a price of their own."""
    read, written = _tokens(usage, "cache_read_tokens"), _tokens(usage, "cache_write_tokens")
    plain = max(0, _tokens(usage, "input_tokens") - read - written)
    thinking = price.output if price.thinking is None else price.thinking
    dollars = plain * price.input
    dollars += read * (price.input if price.cache_read is None else price.cache_read)
    dollars += written * (price.input if price.cache_write is None else price.cache_write)
    dollars += _tokens(usage, "output_tokens") * price.output + _tokens(usage, "thinking_tokens") * thinking
    return dollars / 1e6


def _tokens(usage: Mapping[str, Json], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else 0


# Tenants in the names of sessions: events of two tenants under one session id are two sessions.


class TenantDecoder(WrappedDecoder):
    """Puts the tenant, which a label of each event names, before the id of its session, and into the label ``tenant``.

    Keys, routes, incidents and the page go by that label. An event without a tenant cannot claim one by it.
    """

    def __init__(self, decoder: Decoder, label: str) -> None:
        super().__init__(decoder)
        self._label = label

    def around(self, decoder: Decoder) -> TenantDecoder:
        """Return the same around another decoder."""
        return TenantDecoder(decoder, self._label)

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return super().remember(_TenantMemory(memory, self._place))

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events in the sessions of their tenants."""
        return [self._place(event) for event in events]

    def _place(self, event: Event) -> Event:
        if not event.session_id or event.session_id[0] == RESERVED:
            return event  # no session has such an id: the reader refuses it
        tenant = event.labels.get(self._label, "")
        session_id = tenant_session(tenant, event.session_id)
        if event.labels.get(TENANT, "") == tenant:
            return replace(event, session_id=session_id)
        others = {name: value for name, value in event.labels.items() if name != TENANT}
        return replace(event, session_id=session_id, labels={**others, TENANT: tenant} if tenant else others)


class _TenantMemory:
    """A memory that is told of events before they have their tenant."""

    def __init__(self, memory: Memory, place: Callable[[Event], Event]) -> None:
        self.get, self.put, self.drop, self.rows = memory.get, memory.put, memory.drop, memory.rows
        self.count_orphans = memory.count_orphans
        self._memory = memory
        self._place = place

    def part(self, name: str) -> _TenantMemory:
        """Return a memory of its own inside this one."""
        return _TenantMemory(self._memory.part(name), self._place)

    def note_origin(self, event: Event, origin: str, line: int) -> None:
        """Tell where the record stood that brought an event, in the session that the event has with its tenant."""
        self._memory.note_origin(self._place(event), origin, line)


# A decoder that shows every event to somebody before it is judged.


Watch: TypeAlias = Callable[[Sequence[Event]], None]


class WatchedDecoder(WrappedDecoder):
    """Passes events on as they are."""

    def __init__(self, decoder: Decoder, watch: Watch) -> None:
        super().__init__(decoder)
        self._watch = watch

    def around(self, decoder: Decoder) -> WatchedDecoder:
        """Return the same around another decoder."""
        return WatchedDecoder(decoder, self._watch)

    def on_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Show the events."""
        self._watch(events)
        return events


def watched(decoder: Decoder, watch: Watch | None) -> Decoder:
    """Return the decoder with its events shown to ``watch``; the decoder itself without one."""
    return decoder if watch is None else WatchedDecoder(decoder, watch)


# Topics of different formats in one run: each record is decoded in the format of its topic.


class TopicDecoder(Decoder):
    """Decodes records in the format of their topic, or in the default format.

    Each format has one decoder: spans on one topic and their log records on another belong together.
    """

    def __init__(self, default: str, decoders: Mapping[str, Decoder], formats: Mapping[str, str]) -> None:
        self._default = default
        self._decoders = decoders
        self._formats = formats

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: where one of the formats does."""
        return any(decoder.waits for decoder in self._decoders.values())

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        topic = record.origin.rpartition("/")[0]  # the origin is topic/partition
        return self._decoders[self._formats.get(topic, self._default)].decode(record)

    def remember(self, memory: Memory) -> TopicDecoder:
        """Return this decoder with waiting decoders, each with memory of its own."""
        decoders = {name: decoder.remember(memory.part(name)) for name, decoder in self._decoders.items()}
        return TopicDecoder(self._default, decoders, self._formats)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events of all topics that have waited long enough."""
        return [event for decoder in self._decoders.values() for event in decoder.elapse(seconds)]

    def finish(self) -> Sequence[Event]:
        """Return the events of all topics that still wait."""
        return [event for decoder in self._decoders.values() for event in decoder.finish()]

    def advice(self) -> Sequence[str]:
        """Return what the decoders of all topics advise."""
        return [text for decoder in self._decoders.values() for text in decoder.advice()]
