"""A call of a program: its arguments as fields, options told apart from operands, and the hosts that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple, TypeAlias

from stream_guard_shell.expansion import Field
from stream_guard_shell.shell.recorder import Recorder
from stream_guard_shell.shell.state import Shell


class ProgramCall(NamedTuple):
    """A program that runs in a shell."""

    name: str
    args: list[Field]
    shell: Shell
    recorder: Recorder
    program: str = ""  # the path that it was called by, where there is one
    stdin: Field | None = None  # what is on its input, where that is a pipe or a file

    @property
    def carried(self) -> bool:
        """Whether an argument holds a command's output or a secret variable."""
        return any(arg.carried for arg in self.args)

    def emit(self, kind: str, **fields: object) -> None:
        """Record an effect."""
        self.recorder.emit(self.shell, kind, **fields)

    def run(self, task: str | None = None) -> None:
        """Record that the program runs and nothing is known of what it does."""
        self.recorder.run(self.shell, self.program or self.name, task)


Handler: TypeAlias = Callable[[ProgramCall], Field]
"""Says what a call does, and returns what it writes to its output."""


class Options:
    """Options and operands of a call."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Field | None]] = []
        self.operands: list[Field] = []
        self.rest: list[Field] = []  # from the first operand on, where options end there

    def has(self, *names: str) -> bool:
        """Whether one of these options was given; a long one may be cut short."""
        return any(name in names or _is_short_for(name, names) for name, _ in self.given)

    def value(self, *names: str) -> Field | None:
        """Return the last value of an option."""
        return next((value for name, value in reversed(self.given) if name in names and value is not None), None)

    def values(self, *names: str) -> list[Field]:
        """Return every value of an option."""
        return [value for name, value in self.given if name in names and value is not None]


def _is_short_for(name: str, names: Collection[str]) -> bool:
    return len(name) > 3 and any(len(one) > len(name) and one.startswith(name) for one in names)


def parse_options(
    args: list[Field], valued: Collection[str] = (), *, stop: bool = False, single: Collection[str] = ()
) -> Options:
    """Tell options from operands, as getopt does.

    ``valued`` are options that take a value: letters, and long names without dashes. With ``stop``, options end at
    the first operand. ``single`` are long names that are written with one dash.
    """
    options = Options()
    waiting = iter(args)
    for field in waiting:
        head = field.head
        if head == "--" and field.known:
            options.rest = list(waiting)
            options.operands.extend(options.rest)
            break
        if not head.startswith("-") or head == "-":
            if stop:
                options.rest = [field, *waiting]
                options.operands = options.rest
                break
            options.operands.append(field)
        elif head.startswith("--") or head[1:].partition("=")[0] in single:
            _long(field, valued, options, waiting)
        else:
            _short(field, valued, options, waiting)
    return options


def _long(field: Field, valued: Collection[str], options: Options, waiting: Iterator[Field]) -> None:
    head = field.head
    dashes = 2 if head.startswith("--") else 1
    name, equals, _ = head[dashes:].partition("=")
    value: Field | None = None
    if equals:
        value = field.behind(dashes + len(name) + 1)
    elif name in valued:
        value = next(waiting, None)
    options.given.append((name, value))


def _short(field: Field, valued: Collection[str], options: Options, waiting: Iterator[Field]) -> None:
    head = field.head
    for at in range(1, len(head)):
        letter = head[at]
        if letter in valued:
            rest = field.behind(at + 1)
            options.given.append(
                (letter, rest if rest.pieces and (rest.text or not rest.known) else next(waiting, None))
            )
            return
        options.given.append((letter, None))


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


def word_list(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
