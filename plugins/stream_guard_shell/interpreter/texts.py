"""Texts and programs: read line by line and by the tables, from the first line of a command to the last trap."""

from __future__ import annotations

from typing import Final

from stream_guard_shell.expansion.fields import Field, unknown
from stream_guard_shell.expansion.places import resolve
from stream_guard_shell.interpreter.walk import Walker, flat, net_origins
from stream_guard_shell.shell.call import ProgramCall
from stream_guard_shell.shell.recorder import OverLimitError
from stream_guard_shell.shell.state import Shell
from stream_guard_shell.shell.word_lists import word_list
from stream_guard_shell.syntax.nodes import AndOr, Command, PipedCommands, Sequence, SimpleCommand
from stream_guard_shell.syntax.reading import Script
from stream_guard_shell.syntax.scanner import MOST_LEVELS, RefusedTextError
from stream_guard_shell.tools.table import find_tool, is_in_bin, is_runner

_WITH_SUBCOMMANDS: Final = frozenset(
    word_list(
        "git docker podman kubectl helm npm pnpm yarn pip pip3 uv cargo go gh aws gcloud az terraform tofu pulumi"
    )
)


class Interpreter(Walker):
    """Reads texts and calls of programs."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._lines = 0

    def read_all(self, text: str, shell: Shell) -> None:
        """Read the whole of a command."""
        try:
            self._run_lines(shell, text, None)
            for inner, body in self.traps:
                self.run_text(inner, body, "trap")
        except (OverLimitError, RecursionError):
            self.reasons.add("limit")

    def _run_lines(self, shell: Shell, text: str, stdin: Field | None) -> Field:
        self.spend(1 + len(text) // 8)
        script = Script(text, shell.level)
        outputs = []
        try:
            while True:
                globs = shell.variable("extglob") is not None
                line = script.next_line(extended_globs=globs)
                if line is None:
                    break
                self._lines += 1
                shell.line = self._lines
                outputs.append(self.walk(shell, line, stdin))
        except RefusedTextError as error:
            self.opaque(error.why)
        return Field([piece for one in outputs for piece in one.pieces])

    def run_text(self, shell: Shell, text: Field, interpreter: str, stdin: Field | None = None) -> Field:
        """Read text as this shell would run it; what is wholly unknown is an exec."""
        plain = flat(text)
        if plain.wholly_unknown:
            self.execute_unknown(shell, plain, interpreter)
            return unknown()
        if plain.known and plain.origins("decoded"):
            self.emit(shell, "exec", source="decoded", interpreter=interpreter)
        if not plain.known:
            self.opaque("text")
            for host in dict.fromkeys(net_origins(plain)):
                self.execute(shell, "net", interpreter, host=host)
        if shell.level + 3 > MOST_LEVELS:
            self.opaque("limit")
            return unknown()
        shell.level += 3
        output = self._run_lines(shell, plain.with_holes, stdin)
        shell.level -= 3
        return output

    def execute_unknown(self, shell: Shell, text: Field, interpreter: str) -> None:
        """Record that unknown text runs: where from, or which file it is."""
        for piece in text.pieces:
            origin = piece.origin
            if piece.known:
                continue
            if origin is not None and origin.kind == "file":
                for file in origin.fields:
                    self.run_file(shell, file, interpreter)
            elif origin is not None and origin.kind == "net":
                self.execute(shell, "net", interpreter, host=origin.host)
            elif origin is not None and origin.kind == "decoded":
                self.execute(shell, "decoded", interpreter)
            else:
                self.execute(shell, "computed", interpreter)

    def flattened(self, text: Field) -> Field:
        """Return a text with the outputs that it holds in place of unknown pieces."""
        return flat(text)

    def knows(self, name: str) -> bool:
        """Whether a program of this name is in the tables."""
        return find_tool(name)[0] is not None

    def run_words(self, shell: Shell, words: list[Field], stdin: Field | None = None) -> Field:
        """Read a program and its arguments by the tables."""
        name = words[0].literal
        if name is None:
            self.opaque("command")
            return unknown()
        handler, tool, exact = find_tool(name)
        if not exact:
            self.opaque("lookalike")
        program = resolve(words[0], shell.folder, tilde=shell.away).text if "/" in name else ""
        if program and (handler is None or (not is_in_bin(name) and not is_runner(tool))):
            self.run_file(shell, words[0])
        elif handler is None and not _only_asks(words):
            self.run(shell, tool)
        if handler is None or _only_asks(words):
            return self._through(unknown(), stdin)
        output = handler(ProgramCall(tool, words[1:], shell, self, program, stdin))
        return self._through(output, stdin)

    def _through(self, output: Field, stdin: Field | None) -> Field:
        """Return an output; what came from the network, or was decoded, stays so behind a filter."""
        if stdin is None or not output.origins("other") or output.origins("net"):
            return output
        source = flat(stdin)
        hosts = net_origins(source)
        if hosts:
            return unknown("net", host=hosts[0])
        return unknown("decoded") if source.origins("decoded") else output

    def _alias(self, shell: Shell, node: SimpleCommand, text: Field, stdin: Field | None) -> None:
        plain = flat(text)
        if not plain.known:
            self.opaque("text")
        if shell.level + 3 > MOST_LEVELS:
            self.opaque("limit")
            return
        script = Script(plain.with_holes, shell.level + 3)
        try:
            line = script.next_line(extended_globs=False)
        except RefusedTextError as error:
            self.opaque(error.why)
            return
        if line is not None:
            name = node.words[0][0]
            inner = shell.subshell()
            inner.level, inner.active = shell.level + 3, (*shell.active, getattr(name, "text", ""))
            self.walk(inner, _with_words(line, node), stdin)


def _with_words(command: Command, rest: SimpleCommand) -> Command:
    """Return a command with the words behind an alias at its end."""
    if isinstance(command, SimpleCommand):
        return command._replace(
            words=command.words + rest.words[1:], redirections=command.redirections + rest.redirections
        )
    if isinstance(command, Sequence | AndOr | PipedCommands):
        commands = (*command.commands[:-1], _with_words(command.commands[-1], rest))
        return command._replace(commands=commands)
    return command


def _only_asks(words: list[Field]) -> bool:
    """Whether a program is only asked what it is, or one of its subcommands how it is used."""
    if len(words) == 3 and words[0].literal in _WITH_SUBCOMMANDS and words[1].literal not in ("run", "exec"):
        return words[2].literal == "--help"
    return len(words) == 2 and words[1].literal in ("--version", "--help")
