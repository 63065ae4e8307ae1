"""What stands for a session where the protocol has none: the first of several keys that a message carries."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import uuid4

from stream_guard.errors import SettingsError
from stream_guard.http.traceparent import LABEL, read_traceparent, trace_labels
from stream_guard.policy.message_parts import did_you_mean, show

META: Final = "io.github.stream-guard/session"  # the key of ``_meta`` by which a client names its session
DEFAULT: Final = "meta,mcp-session,connection"
_SORTS: Final = ("meta", "mcp-session", "trace", "principal", "connection")
_HEADER: Final = "header:"
_LONGEST: Final = 200


class SessionKey(NamedTuple):
    """The id of a session, what it was taken from, and the trace context of the message."""

    id: str
    by: str
    traceparent: str = ""


class SessionKeys:
    """Finds the session of a message, by an order such as ``meta,trace,connection``.

    ``meta`` is what the client says under ``io.github.stream-guard/session``; ``mcp-session`` the header of protocol
    versions that have sessions; ``header:NAME`` one that a gateway sets; ``trace`` the trace id of ``traceparent``;
    ``principal`` a digest of the credentials; ``connection`` this process, which is what is left. ``fixed`` goes
    before all of them.
    """

    def __init__(self, order: str = DEFAULT, fixed: str = "") -> None:
        self._order = tuple(word.strip() for word in order.split(","))
        for word in self._order:
            if word not in _SORTS and (not word.startswith(_HEADER) or word == _HEADER):
                advice = f"write some of {', '.join(_SORTS)}, {_HEADER}NAME, with commas between them"
                raise SettingsError(
                    f"--session-by: {show(word)} is no key of a session{did_you_mean(word, _SORTS)}; {advice}"
                )
        self._fixed = fixed
        self._connection = uuid4().hex

    def find(self, params: Mapping[str, Any], headers: Mapping[str, str]) -> SessionKey:
        """Return the session of a message; ``headers`` have lower-case names, and are empty without HTTP."""
        said = params.get("_meta")
        meta = said if isinstance(said, dict) else {}
        parent = trace_labels(meta.get(LABEL) or headers.get(LABEL)).get(LABEL, "")
        if self._fixed:
            return SessionKey(self._fixed, "fixed", parent)
        for word in self._order:
            found = self._value(word, meta, headers, parent)
            if found:
                return SessionKey(found[:_LONGEST], word, parent)
        return SessionKey(_named("connection", self._connection), "connection", parent)

    def _value(self, word: str, meta: Mapping[str, Any], headers: Mapping[str, str], parent: str) -> str:
        if word == "meta":
            named = meta.get(META)
            return named if isinstance(named, str) else ""
        if word == "mcp-session":
            return _named(word, headers.get("mcp-session-id", ""))
        if word == "trace":
            place = read_traceparent(parent)
            return _named(word, place.trace_id if place is not None else "")
        if word == "principal":
            shown = headers.get("authorization", "")
            return _named(word, sha256(shown.encode()).hexdigest()[:32] if shown else "")
        if word == "connection":
            return _named(word, self._connection)
        return headers.get(word.removeprefix(_HEADER).lower(), "")


def _named(word: str, value: str) -> str:
    """Return the value with its sort, so that the audit says what a session is made of; nothing for nothing."""
    return f"{word}:{value}" if value else ""
