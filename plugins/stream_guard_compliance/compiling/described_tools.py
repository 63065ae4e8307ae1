"""Tools that a sentence describes: by the words of an action, by what they do, by an amount that they are given."""

from __future__ import annotations

import re
from typing import Final

from stream_guard import Json
from stream_guard_compliance.compiling.context import CompileContext, is_usable
from stream_guard_compliance.reading.actions import stem
from stream_guard_compliance.reading.catalogue import words_of
from stream_guard_compliance.reading.word_lists import word_set

_READS: Final = word_set("get list search find read lookup look fetch view show check calculate think describe")
_ACTS: Final = word_set(
    "exchange return redeem suspend resume lock unlock freeze unfreeze block unblock activate deactivate "
    "add apply approve archive assign book buy cancel charge checkout close commit create delete deploy disable drop "
    "edit enable enroll execute generate grant insert invite invoke issue make merge modify move order pay place post "
    "process publish purchase push refund register reject remove rename replace reschedule "
    "reserve reset restart revoke "
    "schedule send set start stop submit subscribe terminate transfer unsubscribe update upgrade upload void wipe write"
)
DESTROYS: Final = ("drop", "delete", "truncate", "remove", "purge", "wipe", "destroy", "erase", "overwrite")
_GENERIC: Final = word_set("any all the every each new anything something it them")
_AMOUNTS: Final = ("amount", "total", "price", "value", "cost", "refund_amount", "sum")
_SHARES: Final = (
    "percent",
    "percentage",
    "pct",
    "rate",
    "discount",
    "discount_percent",
    "discount_percentage",
    "value",
)


def described(words: tuple[str, ...], context: CompileContext) -> list[str]:
    """Return the known tools whose names or descriptions have every word of an action, and that do more than look."""
    stems = [stem(word) for word in words if word not in _GENERIC]
    found = context.catalogue.names if stems else ()
    return [
        name
        for name in found
        if words_of(name)[0] not in _READS
        and is_usable(name)
        and all(any(word.startswith(begins) for word in context.catalogue.words(name)) for begins in stems)
    ]


def is_asking(tool: str) -> bool:
    """Whether a tool asks a person: then its ok result is a yes. One that approves a thing is the agent's own yes."""
    if tool.lower().startswith("approve_"):
        return False
    return re.search(r"confirm|approv|ask_(?:user|human|customer)|request_consent", tool.lower()) is not None


def over(amount: float, unit: tuple[str, ...] = ()) -> Json:
    """Return the condition that an argument that looks like an amount, or like a percentage, is larger."""
    names = _SHARES if unit == ("percent",) else _AMOUNTS
    return {"any_of": [{"path": f"tool.args.{name}", "op": ">", "value": amount} for name in names]}


def destroys(name: str) -> bool:
    """Whether a tool is called like destroying something."""
    return any(word.startswith(DESTROYS) for word in words_of(name))


def acts(name: str) -> bool:
    """Whether a tool changes something, by the verb its name begins with; one that asks a person does not."""
    return words_of(name)[0] in _ACTS and not is_asking(name)
