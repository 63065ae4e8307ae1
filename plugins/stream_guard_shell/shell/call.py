"""A call of a program: its name, its arguments as fields, and options told apart from operands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from stream_guard_shell.expansion.fields import NOTHING, Field
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


def silent(_call: ProgramCall) -> Field:
    """Say nothing of a call that only looks; what it writes is not known."""
    return NOTHING
