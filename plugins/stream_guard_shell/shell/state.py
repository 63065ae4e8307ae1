"""The state of a shell: its folder, variables, functions and aliases."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard_shell.expansion import Field, Folder, literal
from stream_guard_shell.syntax.nodes import Command


class Variable(NamedTuple):
    """A variable: a value, or the items of an array; neither where it is not known."""

    value: Field | None = None
    items: tuple[Field, ...] | None = None
    exported: bool = False
    choices: tuple[Variable, ...] = ()  # where branches gave it several values


UNKNOWN: Final = Variable()
_MOST_CHOICES: Final = 8


class Alias(NamedTuple):
    """An alias, and the number of the line that made it: it is not in force before the next."""

    text: Field
    line: int


class Shell:
    """One shell. A subshell has the outer one as ``parent``; another process sees only what was exported."""

    def __init__(self, folder: Folder, home: Field, parent: Shell | None = None) -> None:
        self.folder = folder
        self.previous: Folder | None = None
        self.home = home
        self.parent = parent
        self.process = False
        self.level = 0
        self.on = ""
        self.mounts: tuple[tuple[str, str], ...] = ()
        self.positional: tuple[Field, ...] | None = None
        self.name: Field | None = None  # $0
        self.active: tuple[str, ...] = ()  # functions and aliases that are running
        self.export_all = False
        self.line = 0
        self.descriptors: dict[int, Field] = {}  # what can be read from them
        self.stack: tuple[Folder, ...] = ()
        self.traps: list[Field] = []
        self.variables_here: dict[str, Variable] = {}
        self.functions_here: dict[str, Command | None] = {}
        self.exported_here: set[str] = set()
        self.aliases_here: dict[str, Alias] = {}

    @property
    def away(self) -> bool:
        """Whether it runs elsewhere: nothing is known there."""
        return bool(self.on)

    def subshell(self, *, process: bool = False) -> Shell:
        """Return a shell of its own that begins with what this one knows."""
        inner = Shell(self.folder, self.home, self)
        inner.process = process
        inner.previous, inner.level = self.previous, self.level
        inner.on, inner.mounts = self.on, self.mounts
        inner.line, inner.descriptors = self.line, dict(self.descriptors)
        inner.active = self.active
        if not process:
            inner.positional, inner.name, inner.stack = self.positional, self.name, self.stack
            inner.export_all = self.export_all
        return inner

    def elsewhere(self, on: str, mounts: tuple[tuple[str, str], ...] = (), folder: str = "") -> Shell:
        """Return a shell on another machine, in which nothing is known."""
        inner = Shell(Folder(folder), literal("~"))
        inner.level, inner.on, inner.mounts, inner.active = self.level, on, mounts, self.active
        return inner

    def variable(self, name: str) -> Variable | None:
        """Return a variable that the command assigned; None for all others."""
        shell: Shell | None = self
        outside = False
        while shell is not None:
            found = shell.variables_here.get(name)
            if found is not None:
                return found if found.exported or not outside else None
            outside = outside or shell.process
            shell = shell.parent
        return None

    def is_assigned(self, name: str) -> bool:
        """Whether the command gave the variable a value, known or not."""
        return self.variable(name) is not None

    def assign(self, name: str, variable: Variable) -> None:
        """Give a variable a value; once exported it stays so."""
        before = self.variable(name)
        exported = variable.exported or self.export_all or (before is not None and before.exported)
        self.variables_here[name] = variable._replace(exported=exported)

    def merge(self, branches: list[Shell], *, complete: bool) -> None:
        """Take over what branches did of which one runs; ``complete`` says that one of them must."""
        names = dict.fromkeys(name for branch in branches for name in branch.variables_here)
        for name in names:
            before = self.variable(name)
            values = [branch.variables_here.get(name, before) for branch in branches]
            if not complete:
                values.append(before)
            self.variables_here[name] = _either(values)
        for branch in branches:
            self.functions_here.update(branch.functions_here)
            self.aliases_here.update(branch.aliases_here)
            if branch.folder != self.folder:
                self.previous, self.folder = branch.previous, branch.folder

    def export(self, name: str) -> None:
        """Show a variable to other processes."""
        found = self.variable(name)
        if found is not None:
            self.variables_here[name] = found._replace(exported=True)

    def function(self, name: str) -> Command | None:
        """Return the function of this name."""
        shell: Shell | None = self
        outside = False
        while shell is not None:
            if name in shell.functions_here:
                return shell.functions_here[name] if not outside or name in shell.exported_here else None
            outside = outside or shell.process
            shell = shell.parent
        return None

    def define(self, name: str, body: Command | None) -> None:
        """Define a function, or remove it."""
        self.functions_here[name] = body

    def export_function(self, name: str) -> None:
        """Show a function to other shells."""
        self.functions_here[name] = self.function(name)
        self.exported_here.add(name)

    def alias(self, name: str) -> Alias | None:
        """Return the alias of this name, if it is in force on this line."""
        shell: Shell | None = self
        while shell is not None:
            found = shell.aliases_here.get(name)
            if found is not None:
                return found if found.line < self.line and name not in self.active else None
            shell = None if shell.process else shell.parent
        return None

    def set_alias(self, name: str, alias: Alias) -> None:
        """Make an alias."""
        self.aliases_here[name] = alias


def _either(values: list[Variable | None]) -> Variable:
    """Return a variable that has one of these values."""
    distinct: dict[tuple[object, ...], Variable] = {}
    for value in values:
        one = value or UNKNOWN
        for choice in one.choices or (one,):
            pieces = choice.value.pieces if choice.value is not None else None
            items = tuple(item.pieces for item in choice.items) if choice.items is not None else None
            distinct[pieces, items] = choice
    choices = tuple(distinct.values())
    if len(choices) == 1:
        return choices[0]
    exported = any(choice.exported for choice in choices)
    return Variable(exported=exported, choices=choices if len(choices) <= _MOST_CHOICES else ())
