"""Walks the tree of a command: lists, pipelines, branches, loops, functions, in the state of a shell."""

from __future__ import annotations

from itertools import islice

from stream_guard_shell.expansion.fields import NOTHING, Field, Piece, unknown
from stream_guard_shell.interpreter.redirect import Redirected, Redirector
from stream_guard_shell.shell.state import Shell, Variable
from stream_guard_shell.syntax.nodes import (
    AndOr,
    Assignment,
    Branches,
    Case,
    Command,
    Compound,
    ForLoop,
    Function,
    Literal,
    PipedCommands,
    Program,
    Sequence,
    SimpleCommand,
    Test,
)
from stream_guard_shell.syntax.scanner import MOST_LEVELS

_MOVING = frozenset(("cd", "pushd"))
_KEEPING = frozenset(("cd", "pushd", "popd", "read", "export", "eval", "source", ".", "set", "mapfile", "readarray"))


class Walker(Redirector):
    """Walks commands; each way returns what is written to the output."""

    def walk(self, shell: Shell, node: Command, stdin: Field | None = None) -> Field:
        """Walk one command."""
        self.spend(4)
        if isinstance(node, SimpleCommand):
            return self._simple(shell, node, stdin)
        if isinstance(node, Sequence):
            return self._sequence(shell, node, stdin)
        if isinstance(node, PipedCommands):
            return self._pipeline(shell, node, stdin)
        if isinstance(node, AndOr):
            return self._and_or(shell, node, stdin)
        if isinstance(node, Function):
            shell.define(node.name, node.body)
            return NOTHING
        redirected = self.redirect(shell, node.redirections, stdin)
        output = self._compound(shell, node, redirected.stdin)
        return self._written(shell, redirected, output)

    def _compound(self, shell: Shell, node: Compound | Branches | ForLoop | Case | Test, stdin: Field | None) -> Field:
        if isinstance(node, Compound):
            if node.background:
                self.emit(shell, "background", via="&")
            return self._sequence(shell.subshell() if node.subshell else shell, node.body, stdin)
        if isinstance(node, Branches):
            return self._branches(shell, node, stdin)
        if isinstance(node, ForLoop):
            return self._for(shell, node, stdin)
        if isinstance(node, Case):
            return self._case(shell, node, stdin)
        self._test(shell, node)
        return NOTHING

    def _written(self, shell: Shell, redirected: Redirected, output: Field) -> Field:
        """Record the files that an output goes to; return what is left of it."""
        nets = net_origins(output)
        for target, append in redirected.outputs:
            fetched = nets[0] if nets else None
            self.write(shell, target, append=append, fetched=fetched, made=not append)
        return output if redirected.captured else NOTHING

    def _sequence(self, shell: Shell, node: Sequence, stdin: Field | None) -> Field:
        pieces: list[Piece] = []
        for number, command in enumerate(node.commands):
            if number in node.background:
                self.emit(shell, "background", via="&")
                pieces.extend(self.walk(shell.subshell(), command, stdin).pieces)
            else:
                pieces.extend(self.walk(shell, command, stdin).pieces)
        return Field(pieces)

    def _pipeline(self, shell: Shell, node: PipedCommands, stdin: Field | None) -> Field:
        """Walk commands that run at the same time: what the last one fetches, the first one may run."""
        effects, fetched, reasons = len(self.effects), len(self.fetched), set(self.reasons)
        output = self._piped(shell, node, stdin)
        came = set(islice(reversed(self.fetched), len(self.fetched) - fetched))
        added = islice(reversed(self.effects), len(self.effects) - effects) if came else ()
        if any(one.kind == "run" and one.get("program") in came for one in added):
            while len(self.effects) > effects:
                self.effects.popitem()
            self.reasons = reasons
            output = self._piped(shell, node, stdin)
        return output

    def _piped(self, shell: Shell, node: PipedCommands, stdin: Field | None) -> Field:
        output = stdin
        for command in node.commands:
            output = self.walk(shell.subshell(), command, output)
        return output or NOTHING

    def _and_or(self, shell: Shell, node: AndOr, stdin: Field | None) -> Field:
        output = self.walk(shell, node.commands[0], stdin)
        pieces = list(output.pieces)
        for number, operator in enumerate(node.operators):
            before = node.commands[number]
            # A cd is taken to succeed, so what stands behind `||` counts and moves nobody.
            state = shell.subshell() if operator == "||" and _first_word(before) in _MOVING else shell
            pieces.extend(self.walk(state, node.commands[number + 1], stdin).pieces)
        return Field(pieces)

    def _branches(self, shell: Shell, node: Branches, stdin: Field | None) -> Field:
        pieces: list[Piece] = []
        for condition in node.conditions:
            pieces.extend(self._sequence(shell, condition, stdin).pieces)
        if node.loop:
            pieces.extend(self._sequence(shell, node.bodies[0], stdin).pieces)
            return Field(pieces)
        complete = len(node.bodies) > len(node.conditions)
        pieces.extend(self._alternatives(shell, node.bodies, stdin, complete=complete))
        return Field(pieces)

    def _alternatives(
        self, shell: Shell, bodies: tuple[Sequence, ...], stdin: Field | None, *, complete: bool
    ) -> list[Piece]:
        pieces: list[Piece] = []
        branches = []
        for body in bodies:
            branch = shell.subshell()
            pieces.extend(self._sequence(branch, body, stdin).pieces)
            branches.append(branch)
        shell.merge(branches, complete=complete)
        return pieces

    def _for(self, shell: Shell, node: ForLoop, stdin: Field | None) -> Field:
        values: list[Field] | None
        if node.numbers:
            self.sum(shell, node.numbers)
            values = None
        elif node.words is None:
            values = None if shell.positional is None else list(shell.positional)
        else:
            values = self.fields(shell, node.words)
        pieces: list[Piece] = []
        for value in [unknown()] if values is None else values:
            if node.name:
                shell.assign(node.name, Variable(value if values is not None else None))
            pieces.extend(self._sequence(shell, node.body, stdin).pieces)
        return Field(pieces)

    def _case(self, shell: Shell, node: Case, stdin: Field | None) -> Field:
        for word in (node.subject, *node.patterns):
            self.value(shell, word)
        return Field(self._alternatives(shell, node.bodies, stdin, complete=False))

    def _test(self, shell: Shell, node: Test) -> None:
        if node.arithmetic:
            self.sum(shell, node.words[0])
            return
        self.in_test += 1
        for word in node.words:
            self.value(shell, word)
        self.in_test -= 1

    def substitute(self, shell: Shell, body: Program, stdin: Field | None = None) -> Field:
        """Run a substitution in a shell of its own."""
        inner = shell.subshell()
        pieces: list[Piece] = []
        test, self.in_test = self.in_test, 0
        for line in body.lines:
            pieces.extend(self._sequence(inner, line, stdin).pieces)
        self.in_test = test
        if body.refusal:
            self.opaque(body.refusal)
        return Field(pieces)

    def _simple(self, shell: Shell, node: SimpleCommand, stdin: Field | None) -> Field:
        alias = shell.alias(_first_word(node)) if node.words else None
        if alias is not None:
            self._alias(shell, node, alias.text, stdin)
        name = _first_word(node)
        test = name in ("test", "[")
        self.in_test += test
        words = self.fields(shell, node.words)
        self.in_test -= test
        redirected = self.redirect(shell, node.redirections, stdin)
        for array in node.arrays:
            self._assign(shell, array, exported=name == "export")
        if not words:
            for assignment in node.assignments:
                self._assign(shell, assignment)
            return self._written(shell, redirected, NOTHING)
        if name == "exec" and len(words) == 1:
            shell.descriptors = redirected.descriptors
        inner = shell
        if node.assignments and name not in _KEEPING:
            inner = shell.subshell()
            for assignment in node.assignments:
                self._assign(inner, assignment, exported=True)
        return self._written(shell, redirected, self._called(inner, words, redirected.stdin))

    def _called(self, shell: Shell, words: list[Field], stdin: Field | None) -> Field:
        name = words[0].literal
        function = shell.function(name) if name else None
        if function is None or name is None:
            return self.run_words(shell, words, stdin)
        if name in shell.active or shell.level + 4 > MOST_LEVELS:
            self.opaque("limit")
            return unknown()
        outer = shell.positional, shell.active, shell.level
        shell.positional, shell.active = tuple(words[1:]), (*shell.active, name)
        shell.level += 4
        output = self.walk(shell, function, stdin)
        shell.positional, shell.active, shell.level = outer
        return output

    def _alias(self, shell: Shell, node: SimpleCommand, text: Field, stdin: Field | None) -> None:
        """Read a command with its alias in place; how it reads without is another matter."""
        raise NotImplementedError

    def _assign(self, shell: Shell, assignment: Assignment, *, exported: bool = False) -> None:
        if assignment.items is not None:
            items = self.fields(shell, assignment.items)
            before = shell.variable(assignment.name)
            if assignment.append and before is not None and before.items is not None:
                items = [*before.items, *items]
            shell.assign(assignment.name, Variable(None, tuple(items), exported))
            return
        value = self.value(shell, assignment.value)
        before = shell.variable(assignment.name)
        if assignment.subscript is not None:
            self.value(shell, assignment.subscript)
            shell.assign(assignment.name, Variable())
        elif assignment.append:
            known = before.value if before is not None else None
            self.spend(len(known.text) // 16 if known else 1)
            shell.assign(assignment.name, Variable(known + value if known else unknown() + value, None, exported))
        else:
            shell.assign(assignment.name, Variable(value, None, exported))


def _first_word(node: Command) -> str:
    """Return the name of a simple command, where it is written out."""
    if not isinstance(node, SimpleCommand) or not node.words:
        return ""
    texts = [part.text for part in node.words[0] if isinstance(part, Literal)]
    return "".join(texts) if len(texts) == len(node.words[0]) else ""


def net_origins(field: Field) -> list[str]:
    """Return the hosts that some of a field came from."""
    return [origin.host for piece in flat(field).pieces if (origin := piece.origin) and origin.kind == "net"]


def flat(field: Field) -> Field:
    """Return a field with the outputs that it holds in place of unknown pieces."""
    if not field.origins("output", "process"):
        return field
    pieces: list[Piece] = []
    for piece in field.pieces:
        if piece.origin is not None and piece.origin.kind in ("output", "process") and piece.origin.fields:
            pieces.extend(flat(piece.origin.fields[0]).pieces)
        else:
            pieces.append(piece)
    return Field(pieces)
