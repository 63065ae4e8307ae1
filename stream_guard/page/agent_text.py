"""Text that agents wrote, as a person may safely read it: escaped, and with signs that nobody sees made visible."""

from __future__ import annotations

import json
import unicodedata
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from stream_guard.history.alert_rows import session_key
from stream_guard.judge.model import Json
from stream_guard.redaction import mask_secrets

_KEPT: Final = frozenset("\n\t")
# Format signs (bidirectional, zero-width, tags), controls, halves of pairs, private signs, and separators of lines.
_HIDDEN: Final = frozenset(("Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"))
# Blank to the eye, although Unicode calls them letters or spaces.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\ufe0f\ufe0e")
_LINE: Final = 72  # signs that are still read on one line
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:@=+,")


def shown(value: object) -> Markup:
    """Return any text so that it is only text: nothing in it is markup, invisible or a secret, such as in an id."""
    text = mask_secrets(str(value))
    if text.isascii() and text.isprintable():
        return escape(text)
    # No sign that is hidden means anything in markup, so they may be put in after the rest was escaped.
    return Markup(str(escape(text)).translate({ord(sign): str(_sign(sign)) for sign in _hidden_in(text)}))  # noqa: S704  # it is escaped


def shown_plain(value: object) -> str:
    """Return the same where there can be no elements: in a title, or in the value of a field that is not sent."""
    text = mask_secrets(str(value))
    return text.translate({ord(sign): f"[U+{ord(sign):04X}]" for sign in _hidden_in(text)})


def shown_json(value: Json) -> Markup:
    """Return a value as JSON, on one line where it is short, with every sign of it visible."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return shown(line if len(line) <= _LINE else json.dumps(value, indent=2, ensure_ascii=False, default=str))


def session_path(session_id: str) -> str:
    """Return the address of a session. An id that has a secret, or that might be read as a path, goes by its key."""
    if session_id and set(session_id) <= _PLAIN and len(session_id) <= 200 and mask_secrets(session_id) == session_id:
        return f"/sessions/{quote(session_id, safe='')}"
    return f"/sessions/~{session_key(session_id)}"


def _hidden_in(text: str) -> set[str]:
    return {sign for sign in set(text) - _KEPT if unicodedata.category(sign) in _HIDDEN or sign in _BLANK}


def _sign(sign: str) -> Markup:
    point = f"U+{ord(sign):04X}"
    name = unicodedata.name(sign, "a sign without a name").lower()
    return Markup('<span class="hidden-sign" title="{}">{}</span>').format(name, point)
