"""How rules about what must not come out are written."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shapes.texts import Text

PiiType: TypeAlias = Literal["email", "phone", "card", "ssn", "ip", "iban"]
_ALL: Final[tuple[PiiType, ...]] = ("email", "phone", "card", "ssn", "ip", "iban")


class NoPiiParams(sg.Params):
    """Parameters of ``no_pii``."""

    types: list[PiiType] = Field(
        default=list(_ALL), min_length=1, description="which personal data: email, phone, card, ssn, ip, iban"
    )


class NoLongQuoteParams(sg.Params):
    """Parameters of ``no_long_quote``."""

    text: Text = Field(description="the text that must not be repeated")
    words: int = Field(default=8, ge=3, le=100, description="how many words in a row are a quote")
