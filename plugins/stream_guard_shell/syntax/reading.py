"""A text as a program: lines, and why bash would read no further."""

from __future__ import annotations

from stream_guard_shell.syntax.commands import CommandScanner
from stream_guard_shell.syntax.nodes import Sequence
from stream_guard_shell.syntax.scanner import RefusedTextError


class Script:
    """A text that is read line by line, as bash does: what a line does may change how the next is read."""

    def __init__(self, text: str, level: int) -> None:
        self._scanner = CommandScanner(text, level)
        self._lines = self._scanner.lines()

    def next_line(self, *, extended_globs: bool) -> Sequence | None:
        """Return the next line; None at the end. Raise RefusedTextError where bash refuses it."""
        self._scanner.extended_globs = extended_globs
        try:
            return next(self._lines, None)
        except RecursionError:
            raise RefusedTextError("limit") from None
