"""No response and no call has personal data in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, Literal, TypeAlias

import re2
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.json_values import texts_in

PiiType: TypeAlias = Literal["email", "phone", "card", "ssn", "ip", "iban"]
_ALL: Final[tuple[PiiType, ...]] = ("email", "phone", "card", "ssn", "ip", "iban")


def _digits(text: str) -> str:
    return "".join(char for char in text if char in "0123456789")


def _passes_luhn(text: str) -> bool:
    digits = [int(char) for char in _digits(text)]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2])
    return 13 <= len(digits) <= 19 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_card(text: str) -> bool:
    """Whether it is the number of a card: check digits, length and first digits as issuers give them.

    A number in one piece behind a word such as order, item or tracking is of what the word says.
    """
    digits = _digits(text)
    named = text[:1].isalpha() and text.endswith(digits)
    return not named and _ISSUED.fullmatch(digits) is not None and _passes_luhn(digits)


def _is_ssn(text: str) -> bool:
    """Whether the number can have been issued: no area 000, 666 or 9xx, no group 00, no serial 0000."""
    digits = _digits(text)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def _is_address(text: str) -> bool:
    """Whether it is an IP address: octets in range, and not a version number."""
    if _VERSION.match(text) is not None or not _digits(text):  # `a::b` is more likely code
        return False
    try:
        IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _is_iban(text: str) -> bool:
    """Whether the check digits are right (ISO 13616)."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_phone(text: str) -> bool:
    return 7 <= len(_digits(text)) <= 15


# Digits of full width, and the signs between them: people type them, and systems take them.
_WIDE: Final = "[\uff10-\uff19]"
_NARROW: Final = {wide: chr(wide - 0xFEE0) for wide in (*range(0xFF08, 0xFF1B), 0xFF20)} | {0x3000: " "}

# Visa, Mastercard, American Express, Diners, Discover, JCB, UnionPay, Maestro.
_ISSUED: Final = re2.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|(?:5[1-5][0-9]{2}|2[2-7][0-9]{2})[0-9]{12}|3[47][0-9]{13}|3[068][0-9]{12}"
    r"|3(?:0|[68]|5)[0-9]{14}|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12,15}|62[0-9]{14,17}|(?:50|5[6-9]|6[0-9])[0-9]{11,17}"
)
# A release has four numbers too; what stands before them tells.
_VERSION: Final = re2.compile(r"(?i)(?:version|release|build|v)\b")

# Candidates are cheap and linear; whether one is real is then worked out.
_PATTERNS: Final[dict[PiiType, str]] = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.[A-Za-z]{2,24}",
    "phone": (
        r"(?:\+[0-9]{1,3}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{1,4}(?:[ .-]?[0-9]{2,4}){1,4}"
        r"|\(?\b[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}\b|\b[0-9]{3}-[0-9]{4}\b)"
    ),
    # Dots separate the groups of a card only where people write them: a number with many decimals is no card.
    "card": (
        r"(?:\b(?i:order|item|product|tracking|shipment|parcel|invoice|reference|ticket|case|booking|serial|imei|isbn|sku)"
        r"(?i: ?(?:id|number|no|nr|code))?\b[^0-9\n]{0,12})?"
        r"\b(?:[2-6](?:[ -]?[0-9]){12,18}|[2-6][0-9]{3}(?:\.[0-9]{4}){3}(?:\.[0-9]{3})?"
        r"|3[0-9]{3}\.[0-9]{6}\.[0-9]{4,5})\b"
    ),
    "ssn": r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
    "ip": (
        r"(?:\b(?i:version|release|build|v)[ .:]{0,2})?\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b"
        r"|(?:\b[0-9A-Fa-f]{1,4}:(?:[0-9A-Fa-f]{0,4}:){1,6}|::)[0-9A-Fa-f]{1,4}\b"
    ),
    "iban": r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{2,4}){3,8}\b",
}
_REAL: Final[dict[PiiType, Callable[[str], bool]]] = {
    "email": lambda _text: True,
    "phone": _is_phone,
    "card": _is_card,
    "ssn": _is_ssn,
    "ip": _is_address,
    "iban": _is_iban,
}


class NoPiiParams(sg.Params):
    """Parameters of ``no_pii``."""

    types: list[PiiType] = Field(
        default=list(_ALL), min_length=1, description="which personal data: email, phone, card, ssn, ip, iban"
    )
    where: Literal["response", "tool_args"] = Field(
        default="response", description="where to look: in responses, or in every text of the arguments of calls"
    )
    tool: sg.ToolPattern | None = Field(
        default=None, description="with `tool_args`, of which tools: a name, a glob, a class, or a list"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> NoPiiParams:
        if self.tool is not None and self.where != "tool_args":
            raise PydanticCustomError("tool", '"tool" is about arguments; write "where: tool_args" with it')
        return self


class NoPii(sg.Rule[NoPiiParams, sg.NoState]):
    """No response, or no call of a tool, may have personal data in it.

    Numbers are checked: card numbers and IBANs by their check digits, social security numbers by the ranges that
    were issued, addresses by their octets. Digits of full width are digits. The evidence does not repeat the data.
    """

    kind = "no_pii"
    examples = (
        sg.Example(
            claim="each response with such data is a hit",
            params={"types": ["email", "card"]},
            trace=[{"turn": "Write to ann@example.org."}, {"turn": "Your card is 4111 1111 1111 1111."}],
            hits=[0, 1],
        ),
        sg.Example(
            claim="a call of a tool with such data is a hit, wherever it stands in the arguments",
            params={"types": ["card"], "where": "tool_args", "tool": "post_*"},
            trace=[
                {"call": "post_note", "args": {"body": {"lines": ["card 4111 1111 1111 1111"]}}},
                {"call": "pay", "args": {"card": "4111 1111 1111 1111"}},
            ],
            hits=[0],
        ),
        sg.Example(
            claim="a number that fails its check digits is none, nor is that of an order",
            params={"types": ["card"]},
            trace=[{"turn": "Your card is 4111 1111 1111 1112."}, {"turn": "Your order 4111111111111111 is here."}],
            hits=[],
        ),
    )

    def __init__(self, params: NoPiiParams) -> None:
        super().__init__(params)
        self._patterns = [(kind, re2.compile(_PATTERNS[kind]), _REAL[kind]) for kind in dict.fromkeys(params.types)]

    def texts(self) -> Sequence[sg.TextPattern]:
        """The patterns of such data: the engine searches for all texts together."""
        if self.params.where == "tool_args":
            return []  # numbers in arguments are no texts, and would not be searched
        patterns = [_PATTERNS[kind] for kind in dict.fromkeys(self.params.types)]
        return [sg.TextPattern("response", pattern) for pattern in (*patterns, _WIDE)]

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def handlers(self) -> list[str]:
        """Of responses or of calls."""
        return ["on_turn" if self.params.where == "response" else "on_tool_call"]

    def tools(self) -> sg.ToolPattern | None:
        """The tools whose arguments are looked into."""
        return self.params.tool

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look into the response."""
        found = self._types_in(turn.text)
        if not found:
            return None
        return sg.Hit(f"the response has personal data in it: {', '.join(found)}", {"types": found})

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Verdict:
        """Look into the arguments."""
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        found = self._types_in("\n".join(texts_in(call.args)))
        if not found:
            return None
        evidence = {"tool": call.tool, "types": found}
        return sg.Hit(f"the call of {call.tool} has personal data in it: {', '.join(found)}", evidence)

    def _types_in(self, text: str) -> list[PiiType]:
        """Look for candidates, and check whether they are real."""
        text = text.encode("utf-8", "replace").decode()
        if not text.isascii():
            text = text.translate(_NARROW)
        return [
            kind
            for kind, pattern, is_real in self._patterns
            if any(is_real(match.group()) for match in pattern.finditer(text))
        ]
