"""What a turn costs, from a table of prices, where its record does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from stream_guard.model import Event, Json, Turn
from stream_guard.ports import Decoder, GlancingDecoder, HoldingDecoder, LineGlancingDecoder, Memory, Record
from stream_guard.settings import ModelPrice

_COST: Final = "cost_usd"
# A model's name may end in the date of its release, which a table of prices leaves out.
_DATE: Final = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)$")


class PricedDecoder:
    """Adds the cost to turns that tell their tokens and not their cost."""

    def __init__(self, decoder: Decoder, prices: Mapping[str, ModelPrice]) -> None:
        self._decoder = decoder
        self._prices = prices

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        return self._price(self._decoder.decode(record))

    def glance(self, records: list[Record], start: int, stop: int, ours: bytes) -> tuple[Sequence[int], int]:
        """Return what the decoder says of the records; nothing is certain where it cannot tell."""
        if not isinstance(self._decoder, GlancingDecoder):
            return (), start
        return self._decoder.glance(records, start, stop, ours)

    def glance_lines(self, chunk: bytes, start: int, origin: str, ours: bytes) -> bytes:
        """Return what the decoder says of the lines."""
        if not isinstance(self._decoder, LineGlancingDecoder):
            return b""
        return self._decoder.glance_lines(chunk, start, origin, ours)

    def _price(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            if type(event) is Turn and isinstance(usage := event.response.get("usage"), dict) and _COST not in usage:
                price = self._price_of(event)
                if price is not None:
                    event.response["usage"] = usage | {_COST: cost_of(usage, price)}
        return events

    def _price_of(self, turn: Turn) -> ModelPrice | None:
        written = turn.labels.get("model") or turn.response.get("model") or (turn.request or {}).get("model")
        model = str(written or "")
        return self._prices.get(model) or self._prices.get(_DATE.sub("", model))


class HoldingPricedDecoder(PricedDecoder):
    """The same for a decoder that holds events back."""

    def __init__(self, decoder: Decoder, holding: HoldingDecoder, prices: Mapping[str, ModelPrice]) -> None:
        super().__init__(decoder, prices)
        self._holding = holding

    def remember(self, memory: Memory) -> Decoder:
        """Let the decoder hold events back."""
        return with_prices(self._holding.remember(memory), self._prices)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough."""
        return self._price(self._holding.elapse(seconds))

    def finish(self) -> Sequence[Event]:
        """Return the events that still wait."""
        return self._price(self._holding.finish())


def with_prices(decoder: Decoder, prices: Mapping[str, ModelPrice]) -> Decoder:
    """Return the decoder with the cost in its turns; it holds events back only if the decoder does."""
    if isinstance(decoder, HoldingDecoder):
        return HoldingPricedDecoder(decoder, decoder, prices)
    return PricedDecoder(decoder, prices)


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
