"""Guess the class of a tool from the words of its name, its arguments and its description: for a person to check."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from stream_guard.judge.patterns import tool_words

SHELL, MONEY, EGRESS, WRITE, READ = "shell", "money", "egress", "write", "read"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELL_WORDS: Final = _words("bash shell terminal powershell cmd python")
_RUN_WORDS: Final = _words("run exec execute eval interpreter")
_CODE_ARGUMENTS: Final = _words("command cmd code script commands")
_MONEY_WORDS: Final = _words(
    "pay payment payments payout refund reimburse charge purchase buy checkout withdraw wire money funds disburse"
)
_AMOUNTS: Final = _words("amount price total currency sum iban")
_EGRESS_WORDS: Final = _words(
    "send post email mail message sms share invite publish push forward reply upload tweet notify broadcast"
)
_WRITE_WORDS: Final = _words(
    "create update modify edit write delete remove cancel add set insert replace move copy rename book rebook exchange "
    "return change close assign apply patch clear reset approve reject order place schedule transfer merge commit"
)
_READ_WORDS: Final = _words(
    "get list read search find lookup fetch view show query check browse describe count calculate grep glob look load "
    "retrieve status inspect summarize summarise open verify validate preview quote estimate think"
)
_OPEN_WORDS: Final = _words("confirm ask")  # a question to a person, or the act itself: only a person can tell


def words_of(name: str) -> list[str]:
    """Return the words of a tool's name, in lower case; of an MCP tool, those behind the server's name."""
    return tool_words(name.rsplit("__", 1)[-1] if name.startswith("mcp__") else name)


def guess_class(name: str, arguments: Iterable[str] = (), described: Collection[str] = ()) -> str:
    """Return shell, money, egress, write or read; empty where nothing says it.

    The first word that says what is done decides, so that ``get_payment`` reads and ``refund_order`` pays. A tool that
    takes an amount, and does not read, moves money. Where the name says nothing, its description may (``described``).
    """
    guessed = _by_name(name, arguments)
    return guessed or next((one for one in (READ, MONEY, EGRESS, WRITE) if one in described), "")


def _by_name(name: str, arguments: Iterable[str]) -> str:
    words, named = words_of(name), {argument.lower() for argument in arguments}
    if _SHELL_WORDS & set(words) or (_CODE_ARGUMENTS & named and _RUN_WORDS & set(words)):
        return SHELL
    for word in words:
        if word in _OPEN_WORDS:
            return ""
        if word in _READ_WORDS:
            return READ
        if word in _MONEY_WORDS and "git" not in words:  # git has a checkout of its own
            return MONEY
        if word in _EGRESS_WORDS | _WRITE_WORDS:
            moves_money = bool(_AMOUNTS & named or _MONEY_WORDS & set(words))
            return MONEY if moves_money else EGRESS if word in _EGRESS_WORDS else WRITE
    return MONEY if _AMOUNTS & named and words else ""
