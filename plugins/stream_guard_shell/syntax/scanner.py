"""Characters of a command: blanks, comments, operators, and here-documents that begin at the end of a line."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.syntax.nodes import HereDocument, Sequence, Word

HOLE: Final = "\0"
"""A character for text that is not known; no command that runs can contain it."""

MOST_LEVELS: Final = 64
"""Levels of nesting that are read."""

BLANKS: Final = " \t"
META: Final = frozenset(" \t\n;&|()<>")
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
OPERATORS: Final = ("&&", "||", ";;&", ";;", ";&", "|&", ";", "&", "|", "(", ")", "\n")


class RefusedTextError(Exception):
    """Bash refuses the text, or it is nested too deep: ``why`` is ``syntax`` or ``limit``."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Scanner:
    """A position in a text, with what every part of the grammar asks of it."""

    def __init__(self, text: str, level: int = 0, *, extended_globs: bool = False) -> None:
        self.text = text
        self.length = len(text)
        self.at = 0
        self.level = level
        self.extended_globs = extended_globs
        self._documents: list[HereDocument] = []

    def enter(self, levels: int = 1) -> None:
        """Go deeper."""
        self.level += levels
        if self.level > MOST_LEVELS:
            raise RefusedTextError("limit")

    def leave(self, levels: int = 1) -> None:
        """Come back from there."""
        self.level -= levels

    def refuse(self) -> RefusedTextError:
        """Return what to raise where bash would refuse the text."""
        return RefusedTextError("syntax")

    def peek(self, ahead: int = 0) -> str:
        """Return the character here, or so far ahead; empty at the end."""
        at = self.at + ahead
        return self.text[at] if at < self.length else ""

    def starts(self, text: str) -> bool:
        """Whether the text goes on like this."""
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        """Whether the text goes on like this; if so, go behind it."""
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def skip_blanks(self) -> None:
        """Go to the next word or operator of the line."""
        found = _BLANKS.match(self.text, self.at)
        if found:
            self.at = found.end()
        if self.at < self.length and self.text[self.at] == "#":
            comment = _COMMENT.match(self.text, self.at)
            self.at = comment.end() if comment else self.at

    def skip_lines(self) -> None:
        """Go to the next word or operator, on whichever line."""
        self.skip_blanks()
        while self.peek() == "\n":
            self.end_line()
            self.skip_blanks()

    def operator(self) -> str:
        """Return the operator here; empty at a word, a redirection or the end."""
        if self.at >= self.length or self.text[self.at] not in META:
            return ""
        return next((one for one in OPERATORS if self.text.startswith(one, self.at)), "")

    def expect(self, text: str) -> None:
        """Go behind an operator that must be here."""
        if not self.take(text):
            raise self.refuse()

    def await_document(self, document: HereDocument) -> None:
        """Remember a here-document until its line ends."""
        self._documents.append(document)

    def end_line(self) -> None:
        """Go behind the end of a line, and behind the here-documents that begin there."""
        self.at += 1
        waiting, self._documents = self._documents, []
        for document in waiting:
            document.body = self._document_body(document)

    def end_text(self) -> None:
        """Give here-documents that never began an empty body; bash only warns."""
        self._documents = []

    def _document_body(self, document: HereDocument) -> Word:
        lines = []
        while self.at < self.length:
            end = self.text.find("\n", self.at)
            stop = self.length if end < 0 else end
            line = self.text[self.at : stop]
            self.at = min(stop + 1, self.length)
            if document.strip:
                line = line.lstrip("\t")
            if line == document.delimiter:
                if end >= 0:  # the end of the line is still to come, for who waits for it
                    self.at = stop + 1
                break
            lines.append(line + "\n")
        return self.document_word("".join(lines), quoted=document.quoted)

    def document_word(self, text: str, *, quoted: bool) -> Word:
        """Read the body of a here-document."""
        raise NotImplementedError

    def sequence(self, *ends: str) -> Sequence:
        """Read commands up to a word or an operator that ends them."""
        raise NotImplementedError
