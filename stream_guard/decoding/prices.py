"""What a turn costs, from a table of prices, where its record does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from stream_guard.decoding.wrapping import WrappedDecoder
from stream_guard.judge.model import Event, Json, Turn
from stream_guard.ports import Decoder, Record
from stream_guard.settings import ModelPrice

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
