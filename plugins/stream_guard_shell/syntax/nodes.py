"""The tree of a shell command: words made of parts, and commands made of words."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Literal(NamedTuple):
    """Text that stands for itself; unquoted text may still hold braces, a tilde or a glob."""

    text: str
    quoted: bool


class Hole(NamedTuple):
    """Text that is not known: a value that was put into the text of another shell."""

    quoted: bool


class Parameter(NamedTuple):
    """A variable's value, perhaps changed: ``$x``, ``${x:-word}``, ``${x[1]}``."""

    name: str
    quoted: bool
    operator: str = ""
    word: Word | None = None
    subscript: Word | None = None
    changed: bool = False  # a length, an indirection: a value that only a running shell knows


class Substitution(NamedTuple):
    """The output of commands; ``direction`` is ``<`` or ``>`` where it is a file to read or to write."""

    body: Program
    quoted: bool
    direction: str = ""


class Arithmetic(NamedTuple):
    """A computed number; what is substituted inside still runs."""

    word: Word
    quoted: bool = True


Part: TypeAlias = Literal | Hole | Parameter | Substitution | Arithmetic
Word: TypeAlias = tuple[Part, ...]


class Assignment(NamedTuple):
    """``name=value``; ``items`` is the list of an array."""

    name: str
    value: Word
    items: tuple[Word, ...] | None = None
    append: bool = False
    subscript: Word | None = None


class HereDocument:
    """The body of a here-document, which is read after the line that names it."""

    __slots__ = ("body", "delimiter", "quoted", "strip")

    def __init__(self, delimiter: str, *, quoted: bool, strip: bool) -> None:
        self.delimiter, self.quoted, self.strip = delimiter, quoted, strip
        self.body: Word = ()


class Redirection(NamedTuple):
    """``2>file`` and the like; ``descriptor`` is -1 where none is written."""

    descriptor: int
    operator: str
    target: Word
    document: HereDocument | None = None


Redirections: TypeAlias = tuple[Redirection, ...]


class SimpleCommand(NamedTuple):
    """Assignments, words and redirections."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: Redirections
    arrays: tuple[Assignment, ...] = ()  # lists among the words of export, declare and their like


class PipedCommands(NamedTuple):
    """Commands of which each reads what the one before writes."""

    commands: tuple[Command, ...]


class AndOr(NamedTuple):
    """Commands joined by ``&&`` and ``||``."""

    commands: tuple[Command, ...]
    operators: tuple[str, ...]


class Sequence(NamedTuple):
    """Commands one after the other; the numbers are those that run in the background."""

    commands: tuple[Command, ...]
    background: frozenset[int]


class Compound(NamedTuple):
    """``{ }``, ``( )`` or a coprocess, with what is redirected for all of it."""

    body: Sequence
    redirections: Redirections
    subshell: bool = False
    background: bool = False


class Branches(NamedTuple):
    """``if`` and ``while``: bodies of which each may run."""

    conditions: tuple[Sequence, ...]
    bodies: tuple[Sequence, ...]
    redirections: Redirections
    loop: bool = False


class ForLoop(NamedTuple):
    """``for`` and ``select``; without ``words`` over the parameters, without a name over numbers."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence
    redirections: Redirections
    numbers: Word = ()


class Case(NamedTuple):
    """``case``: patterns, and what runs for them."""

    subject: Word
    patterns: tuple[Word, ...]
    bodies: tuple[Sequence, ...]
    redirections: Redirections


class Function(NamedTuple):
    """A definition; the body runs when it is called."""

    name: str
    body: Command


class Test(NamedTuple):
    """``[[ ]]`` and ``(( ))``."""

    words: tuple[Word, ...]
    redirections: Redirections
    arithmetic: bool = False


Command: TypeAlias = (
    SimpleCommand | PipedCommands | AndOr | Sequence | Compound | Branches | ForLoop | Case | Function | Test
)


class Program(NamedTuple):
    """Lines that bash accepts, and why it reads no further: ``syntax``, ``limit``, or nothing."""

    lines: tuple[Sequence, ...]
    refusal: str = ""
