"""Hosts: which machine a URL, a remote path or an address names."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion.fields import Field
from stream_guard_shell.shell.recorder import Recorder

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REMOTE: Final = re.compile(r"(?:[^/:@\0]*@)?(\[[^\]]*\]|[^/:@]+):(?!//)")


def url_host(recorder: Recorder, field: Field) -> str | None:
    """Return the host of a URL, with or without a scheme; None, recorded, where it is not known.

    With an unknown beginning it is ``*`` and the known end.
    """
    text = field.with_holes
    found = _SCHEME.match(text)
    host = host_of(text[found.end() if found else 0 :])
    if host is None or "\0" in host:
        recorder.unknown(field)
    return _shown(host)


def host_of(text: str) -> str | None:
    """Return the host before the path, without user, port and brackets; holes stay in it."""
    name = re.split(r"[/?#\\]", text, maxsplit=1)[0]
    name = name.rpartition("@")[2]
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") <= 1:
        name = name.partition(":")[0]
    return name.lower() or None


def _shown(host: str | None) -> str | None:
    if host is None or "\0" not in host:
        return host
    known = host.rpartition("\0")[2]
    return f"*{known}" if known.startswith(".") or (known and "\0" not in known) else None


def has_scheme(field: Field) -> bool:
    """Whether a field is a URL with a scheme."""
    return _SCHEME.match(field.head) is not None


def remote_path(field: Field) -> tuple[str, Field] | None:
    """Return host and path of ``user@host:path``; None where it is a path here."""
    found = _REMOTE.match(field.with_holes)
    if not found or (len(found.group(1)) == 1 and found.group(1).isalpha() and field.head[2:3] in ("\\", "/")):
        return None
    host = found.group(1).strip("[]").lower()
    if "\0" in found.group():
        return (_shown(host) or "", field)
    return host, field.behind(found.end())
