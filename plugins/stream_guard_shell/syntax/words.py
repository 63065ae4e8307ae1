"""Words of a command: quotes, parameters, substitutions, and text between them."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.syntax.ansi import ansi_text
from stream_guard_shell.syntax.nodes import (
    Arithmetic,
    Hole,
    Literal,
    Parameter,
    Part,
    Program,
    Substitution,
    Word,
)
from stream_guard_shell.syntax.scanner import HOLE, META, RefusedTextError, Scanner

_PLAIN: Final = re.compile(r"[^ \t\n;&|()<>'\"\\$`\0]+")
_PLAIN_QUOTED: Final = re.compile(r"[^\"\\$`\0]+")
_PLAIN_DOCUMENT: Final = re.compile(r"[^\\$`\0]+")
_PLAIN_BRACED: Final = re.compile(r"[^}'\"\\$`\0]+")
_PLAIN_BRACED_QUOTED: Final = re.compile(r"[^}'\"\\$`\0]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_SHORT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_CHANGE: Final = re.compile(r":?[-=+?]|:|%%?|##?|//?|\^\^?|,,?|@")
_GROUPS: Final = frozenset("?*+@!")


class WordScanner(Scanner):
    """Reads words."""

    def word(self) -> Word:
        """Read the word here; there must be one."""
        parts = self._parts(META, _PLAIN)
        if not parts:
            raise self.refuse()
        return parts

    def _parts(self, ends: frozenset[str], plain: re.Pattern[str]) -> Word:
        parts: list[Part] = []
        while self.at < self.length:
            char = self.text[self.at]
            if char in "<>" and self.peek(1) == "(":
                parts.append(self._substitution(char))
            elif char == "(" and self._opens_group(parts):
                parts.append(Literal(self._group(), quoted=False))
            elif char in ends:
                break
            else:
                self._part(char, parts, plain)
        return tuple(parts)

    def _part(self, char: str, parts: list[Part], plain: re.Pattern[str]) -> None:
        if char == "'":
            self.at += 1
            parts.extend(_with_holes(self._until_quote()))
        elif char == '"':
            self.at += 1
            parts.extend(self._quoted())
        elif char == "\\":
            self._escaped(parts)
        elif char in "$`":
            parts.extend(self._dollar(quoted=False))
        elif char == HOLE:
            self.at += 1
            parts.append(Hole(quoted=False))
        else:
            found = plain.match(self.text, self.at)
            end = found.end() if found else self.at + 1
            parts.append(Literal(self.text[self.at : end], quoted=False))
            self.at = end

    def _opens_group(self, parts: list[Part]) -> bool:
        """Whether a parenthesis belongs to a pattern such as ``!(a|b)``."""
        last = parts[-1] if parts else None
        return self.extended_globs and isinstance(last, Literal) and not last.quoted and last.text[-1:] in _GROUPS

    def _group(self) -> str:
        end = self._closing(self.at + 1)
        text = self.text[self.at : end + 1]
        self.at = end + 1
        return text.replace("\\\n", "")

    def _closing(self, at: int) -> int:
        """Return where the parenthesis closes that was opened before ``at``."""
        depth = 1
        while at < self.length:
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char in "'\"":
                end = self.text.find(char, at + 1)
                at = end if end > 0 else at
            elif char in "()":
                depth += 1 if char == "(" else -1
                if depth == 0:
                    return at
            at += 1
        raise self.refuse()

    def _until_quote(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            raise self.refuse()
        text = self.text[self.at : end]
        self.at = end + 1
        return text

    def _escaped(self, parts: list[Part]) -> None:
        self.at += 2
        char = self.text[self.at - 1 : self.at]
        if char == HOLE:
            parts.append(Hole(quoted=True))
        elif char != "\n":
            parts.append(Literal(char or "\\", quoted=True))

    def _quoted(self) -> list[Part]:
        """Read to the closing quote; the opening one is behind us."""
        parts: list[Part] = [Literal("", quoted=True)]
        while self.at < self.length:
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return parts
            self._quoted_part(char, parts, _PLAIN_QUOTED, '$`"\\')
        raise self.refuse()

    def _quoted_part(self, char: str, parts: list[Part], plain: re.Pattern[str], escaped: str) -> None:
        if char == "\\":
            following = self.peek(1)
            self.at += 2
            if following == HOLE:
                parts.extend((Literal("\\", quoted=True), Hole(quoted=True)))
            elif following != "\n":
                keep = following if following and following in escaped else "\\" + following
                parts.append(Literal(keep, quoted=True))
        elif char in "$`":
            parts.extend(self._dollar(quoted=True))
        elif char == HOLE:
            self.at += 1
            parts.append(Hole(quoted=True))
        else:
            found = plain.match(self.text, self.at)
            end = found.end() if found else self.at + 1
            parts.append(Literal(self.text[self.at : end], quoted=True))
            self.at = end

    def _dollar(self, *, quoted: bool) -> list[Part]:  # noqa: PLR0911  # one for each sign
        """Read what a dollar sign or a backquote begins."""
        if self.text[self.at] == "`":
            return [self._backquotes(quoted=quoted)]
        following = self.peek(1)
        if following == "(":
            return [self._parenthesis(quoted=quoted)]
        if following == "{":
            return [self._braced(quoted=quoted)]
        if following == "[":
            self.at += 2
            return [Arithmetic(self._sum("]"))]
        if not quoted and following == "'":
            return [Literal(self._ansi(), quoted=True)]
        if not quoted and following == '"':
            self.at += 2
            return self._quoted()
        found = _SHORT_NAME.match(self.text, self.at + 1)
        if not found:
            self.at += 1
            return [Literal("$", quoted=True)]
        self.at = found.end()
        return [Parameter(found.group(), quoted)]

    def _ansi(self) -> str:
        start = end = self.at + 2
        while end < self.length and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= self.length:
            raise self.refuse()
        self.at = end + 1
        return ansi_text(self.text[start:end])

    def _parenthesis(self, *, quoted: bool) -> Part:
        if self.peek(2) == "(" and self.is_sum(self.at + 3):
            self.at += 3
            return Arithmetic(self._sum("))"))
        self.at += 1
        return self._substitution("", quoted=quoted)

    def _substitution(self, direction: str, *, quoted: bool = False) -> Substitution:
        """Read commands in parentheses; the sign before them is still here, if there is one."""
        self.at += 2 if direction else 1
        self.enter(2)  # it takes twice the stack of other levels
        self.skip_lines()
        lines = () if self.peek() == ")" else (self.sequence(")"),)
        self.expect(")")
        self.leave(2)
        return Substitution(Program(lines), quoted, direction)

    def is_sum(self, at: int) -> bool:
        """Whether the two parentheses before ``at`` close together, as those of a sum do."""
        try:
            end = self._closing(at)
        except RefusedTextError:
            return False
        return self.text[end + 1 : end + 2] == ")"

    def _sum(self, end: str) -> Word:
        """Read a sum to its end; what is substituted in it runs."""
        parts: list[Part] = []
        depth = 0
        opens, closes = ("[", "]") if end == "]" else ("(", ")")
        self.enter()
        while self.at < self.length:
            char = self.text[self.at]
            if depth == 0 and self.take(end):
                self.leave()
                return tuple(parts)
            depth += (char == opens) - (char == closes)
            if char in "$`\\\0":
                self._quoted_part(char, parts, _PLAIN_QUOTED, '$`"\\')
            else:
                parts.append(Literal(char, quoted=True))
                self.at += 1
        raise self.refuse()

    def _backquotes(self, *, quoted: bool) -> Substitution:
        start = end = self.at + 1
        while end < self.length and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        if end >= self.length:
            raise self.refuse()
        self.at = end + 1
        inner = re.sub(r'\\([\\`$"])' if quoted else r"\\([\\`$])", r"\1", self.text[start:end])
        return Substitution(self.program_of(inner), quoted)

    def program_of(self, text: str) -> Program:
        """Read a text of its own, one level deeper."""
        raise NotImplementedError

    def _braced(self, *, quoted: bool) -> Parameter:
        self.at += 2
        self.enter()
        changed = self.peek() in ("#", "!") and self.peek(1) not in ("}", ":", "-", "+", "=", "?", "%", "/", "")
        if changed:
            self.at += 1
        found = _NAME.match(self.text, self.at)
        if not found:
            if self.peek() == HOLE:
                return self._unknown_braced(quoted=quoted)
            raise self.refuse()
        self.at = found.end()
        index = self._index()
        change = _CHANGE.match(self.text, self.at)
        operator = change.group() if change else ""
        self.at += len(operator)
        word = self._braced_word(quoted=quoted) if operator else ()
        self.expect("}")
        self.leave()
        return Parameter(found.group(), quoted, operator, word, index, changed)

    def _unknown_braced(self, *, quoted: bool) -> Parameter:
        self._braced_word(quoted=quoted)
        self.expect("}")
        self.leave()
        return Parameter("?", quoted, changed=True)

    def _index(self) -> Word | None:
        if not self.take("["):
            return None
        word = self._sum("]")
        return word or (Literal("", quoted=True),)

    def _braced_word(self, *, quoted: bool) -> Word:
        parts: list[Part] = []
        while self.at < self.length:
            char = self.text[self.at]
            if char == "}":
                break
            if quoted and char == '"':
                self.at += 1
                parts.extend(self._quoted())
            elif quoted and char == "'":  # it stands for itself, and bash still wants its partner
                self.at += 1
                parts.extend((Literal("'", quoted=True), *_with_holes(self._until_quote()), Literal("'", quoted=True)))
            elif quoted:
                self._quoted_part(char, parts, _PLAIN_BRACED_QUOTED, '$`"\\}')
            else:
                self._part(char, parts, _PLAIN_BRACED)
        return tuple(parts)

    def document_word(self, text: str, *, quoted: bool) -> Word:
        """Read the body of a here-document; unless its word was quoted, it is expanded."""
        if quoted:
            return tuple(_with_holes(text))
        outer = self.text, self.at, self.length
        self.text, self.at, self.length = text, 0, len(text)
        parts: list[Part] = []
        try:
            while self.at < self.length:
                self._quoted_part(self.text[self.at], parts, _PLAIN_DOCUMENT, "$`\\")
        except RefusedTextError as error:
            if error.why == "limit":
                raise
            parts = [Hole(quoted=True)]  # bash accepts the line and fails when it expands the text
        finally:
            self.text, self.at, self.length = outer
        return tuple(parts)


def _with_holes(text: str) -> list[Part]:
    """Return quoted text as parts: what is known, and holes between."""
    parts: list[Part] = [Literal("", quoted=True)]
    for number, known in enumerate(text.split(HOLE)):
        if number:
            parts.append(Hole(quoted=True))
        if known:
            parts.append(Literal(known, quoted=True))
    return parts
