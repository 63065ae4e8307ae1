"""A glance at native records: whose they are, from the fields before their session, without decoding them."""

from __future__ import annotations

import re
from typing import Final

from stream_guard import EVENT_KINDS, Record

_SPACE: Final = r"[\x20\t\r\n]*+"
# The fields at the top of a record up to its session, a plain ASCII id: the kind, then values that hold no others.
_HEAD: Final = re.compile(
    rf"""\{{ {_SPACE} "kind" {_SPACE} : {_SPACE} "(?:{"|".join(EVENT_KINDS)})" {_SPACE} , {_SPACE}
    (?: (?!"session_id") "[^"\\]*+" {_SPACE} : {_SPACE}
        (?: "[^"\\]*+" | [-+0-9.eE]++ | true | false | null ) {_SPACE} , {_SPACE} )*+
    "session_id" {_SPACE} : {_SPACE} "([\x20!#-\[\]-~]++)" """.encode(),
    re.VERBOSE,
)


def session_at_glance(record: Record) -> bytes | None:
    """Return the session that all events of a record belong to; None where a glance is not enough, or with headers."""
    if record.headers:
        return None
    value = record.value
    head = _HEAD.match(value)
    if head is None:
        return None
    # A call in a record that cannot be decoded belongs to the session that is named last, wherever that is.
    find, end = value.find, head.end()
    if find(b'"session', end) >= 0 or find(b'"thread_id"', end) >= 0 or find(b'"conversation_id"', end) >= 0:
        return None
    return head[1]
