"""Commands: lists, pipelines, compound commands and simple ones, as bash's grammar has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard_shell.syntax.compounds import CompoundScanner
from stream_guard_shell.syntax.nodes import (
    AndOr,
    Assignment,
    Command,
    Compound,
    Function,
    PipedCommands,
    Program,
    Sequence,
    SimpleCommand,
    Word,
)
from stream_guard_shell.syntax.scanner import MOST_LEVELS, RefusedTextError

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
_DECLARING: Final = frozenset(("export", "declare", "typeset", "local", "readonly"))
_TIME: Final = re.compile(r"time(?=[ \t\n;&|()<>]|$)(?:[ \t]+-p(?=[ \t\n;&|()<>]|$))?")


class CommandScanner(CompoundScanner):
    """Reads commands. ``lines`` is the way in."""

    def lines(self) -> Iterator[Sequence]:
        """Yield what bash runs before it reads on, line by line; raise where it would refuse."""
        self.skip_lines()
        while self.at < self.length:
            yield self._line()
            self.skip_lines()
        self.end_text()

    def _line(self) -> Sequence:
        line = self.sequence("\n")
        if self.at < self.length and self.peek() != "\n":
            raise self.refuse()
        if self.peek() == "\n":
            self.end_line()
        return line

    def program_of(self, text: str) -> Program:
        """Read a text of its own, one level deeper; where it is refused, only it is."""
        inner = CommandScanner(text, self.level + 2, extended_globs=self.extended_globs)
        if inner.level > MOST_LEVELS:
            return Program((), "limit")
        lines: list[Sequence] = []
        try:
            lines.extend(inner.lines())
        except RefusedTextError as error:
            return Program(tuple(lines), error.why)
        return Program(tuple(lines))

    def sequence(self, *ends: str) -> Sequence:
        """Read commands up to one of these words or operators, which stays here; there must be one command."""
        commands: list[Command] = []
        background: set[int] = set()
        while True:
            commands.append(self._and_or())
            self.skip_blanks()
            operator = self.operator()
            if operator == "&":
                background.add(len(commands) - 1)
            if operator in (";", "&"):
                self.at += 1
                self.skip_blanks()
            elif operator != "\n":
                break
            if "\n" in ends:
                if self.at >= self.length or self.peek() == "\n":
                    break
                continue
            self.skip_lines()
            if self.at >= self.length or self.ends_here(ends):
                break
        return Sequence(tuple(commands), frozenset(background))

    def _and_or(self) -> Command:
        commands = [self._pipeline()]
        operators = []
        while True:
            self.skip_blanks()
            if self.operator() not in ("&&", "||"):
                break
            operators.append(self.operator())
            self.at += 2
            self.skip_lines()
            commands.append(self._pipeline())
        return AndOr(tuple(commands), tuple(operators)) if operators else commands[0]

    def _pipeline(self) -> Command:
        alone = self._pipeline_words()
        if alone and self._nothing_follows():
            return SimpleCommand((), (), ())
        commands = [self.command()]
        while True:
            self.skip_blanks()
            if self.operator() not in ("|", "|&"):
                break
            self.at += len(self.operator())
            self.skip_lines()
            commands.append(self.command())
        return PipedCommands(tuple(commands)) if len(commands) > 1 else commands[0]

    def _pipeline_words(self) -> bool:
        """Go behind ``!`` and ``time``; whether there was one."""
        found = False
        while True:
            self.skip_blanks()
            timed = _TIME.match(self.text, self.at)
            if timed:
                self.at = timed.end()
            elif self.peek() == "!" and (self.peek(1) in (" ", "\t", "\n", "") or self.starts("!(")):
                if self.starts("!(") and self.extended_globs:
                    return found
                self.at += 1
            else:
                return found
            found = True

    def _nothing_follows(self) -> bool:
        return self.at >= self.length or self.operator() in (";", "\n")

    def command(self) -> Command:
        """Read one command."""
        self.skip_blanks()
        char = self.peek()
        if not char:
            raise self.refuse()
        if char == "(":
            return self.parenthesis()
        word = self.reserved()
        if word == "coproc":
            return self._coprocess()
        if word:
            return self.compound(word)
        return self._simple()

    def _coprocess(self) -> Command:
        self.at += 6
        self.enter()
        self.skip_blanks()
        named = re.compile(r"[A-Za-z_]\w*(?=[ \t]+[({])").match(self.text, self.at)
        if named:
            self.at = named.end()
        body = Sequence((self.command(),), frozenset())
        self.leave()
        return Compound(body, (), subshell=True, background=True)

    def _simple(self) -> Command:
        assignments: list[Assignment] = []
        arrays: list[Assignment] = []
        words: list[Word] = []
        redirections = []
        start = self.at
        while True:
            self.skip_blanks()
            redirection = self.redirection()
            if redirection is not None:
                redirections.append(redirection)
                continue
            if self.at >= self.length or (self.operator() and not self._function_follows(words)):
                break
            if self.peek() == "(":
                return self._definition(start, words)
            assignment = None if words else self._assignment()
            if assignment is not None:
                assignments.append(assignment)
                continue
            array = self._array_among(words)
            if array is not None:
                arrays.append(array)
            else:
                words.append(self.word())
        if self.at == start:
            raise self.refuse()
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirections), tuple(arrays))

    def _function_follows(self, words: list[Word]) -> bool:
        return self.peek() == "(" and len(words) == 1

    def _definition(self, start: int, words: list[Word]) -> Command:
        name = self.text[start : self.at].strip()
        if len(words) != 1 or not name or any(char in name for char in "\"'$`\\<>\n \t"):
            raise self.refuse()
        self.at += 1
        self.skip_blanks()
        self.expect(")")
        return self.function_body(name)

    def function_body(self, name: str) -> Command:
        """Read the body of a function: a compound command."""
        self.enter()
        self.skip_lines()
        body = self.parenthesis() if self.peek() == "(" else None
        if body is None:
            word = self.reserved()
            if not word or word in ("coproc", "function"):
                raise self.refuse()
            body = self.compound(word)
        self.leave()
        return Function(name, body)

    def _assignment(self) -> Assignment | None:
        found = _ASSIGNMENT.match(self.text, self.at)
        if not found:
            return None
        start = self.at
        self.at = found.end()
        index: Word | None = None
        if found.group(2):
            end = self.text.find("]", self.at)
            if end < 0 or self.text[end + 1 : end + 2] not in ("=", "+") or "\n" in self.text[self.at : end]:
                self.at = start
                return None
            self.at -= 1
            index = self._index()
        append = self.take("+=")
        if not append and not self.take("="):
            self.at = start
            return None
        return self._assigned(found.group(1), index, append=append)

    def _assigned(self, name: str, index: Word | None, *, append: bool) -> Assignment:
        if self.peek() == "(":
            return Assignment(name, (), self._array(), append, index)
        has_value = self.at < self.length and (
            not self.operator() and self.peek() not in (" ", "\t") and (self.peek() not in "<>" or self.peek(1) == "(")
        )
        return Assignment(name, self.word() if has_value else (), None, append, index)

    def _array(self) -> tuple[Word, ...]:
        self.at += 1
        self.enter()
        items: list[Word] = []
        while True:
            self.skip_lines()
            if self.take(")"):
                self.leave()
                return tuple(items)
            if self.operator() or self.at >= self.length or (self.peek() in "<>" and self.peek(1) != "("):
                raise self.refuse()
            items.append(self.word())

    def _array_among(self, words: list[Word]) -> Assignment | None:
        """Read ``name=(..)`` behind export, declare and their like."""
        found = _ASSIGNMENT.match(self.text, self.at)
        if not found or not words or not _is_declaring(words[0]):
            return None
        end = found.end()
        end += 1 if self.text.startswith("+", end) else 0
        if not self.text.startswith("=(", end):
            return None
        self.at = end + 1
        return Assignment(found.group(1), (), self._array())


def _is_declaring(word: Word) -> bool:
    return len(word) == 1 and getattr(word[0], "text", "") in _DECLARING
