"""The text of a command as bash parses it, line by line: words, commands, and where bash refuses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard_shell.syntax.ansi import ansi_text
from stream_guard_shell.syntax.nodes import (
    AndOr,
    Arithmetic,
    Assignment,
    Branches,
    Case,
    Command,
    Compound,
    ForLoop,
    Function,
    HereDocument,
    Hole,
    Literal,
    Parameter,
    Part,
    PipedCommands,
    Program,
    Redirection,
    Redirections,
    Sequence,
    SimpleCommand,
    Substitution,
    Test,
    Word,
)

HOLE: Final = "\0"
"""A character for text that is not known; no command that runs can contain it."""

MOST_LEVELS: Final = 64
"""Levels of nesting that are read."""

META: Final = frozenset(" \t\n;&|()<>")
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
OPERATORS: Final = ("&&", "||", ";;&", ";;", ";&", "|&", ";", "&", "|", "(", ")", "\n")


class RefusedTextError(Exception):
    """Bash refuses the text, or it is nested too deep: ``why`` is ``syntax`` or ``limit``."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


_PLAIN: Final = re.compile(r"[^ \t\n;&|()<>'\"\\$`\0]+")
_PLAIN_QUOTED: Final = re.compile(r"[^\"\\$`\0]+")
_PLAIN_DOCUMENT: Final = re.compile(r"[^\\$`\0]+")
_PLAIN_BRACED: Final = re.compile(r"[^}'\"\\$`\0]+")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_SHORT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_CHANGE: Final = re.compile(r":?[-=+?]|:|%%?|##?|//?|\^\^?|,,?|@")
_GROUPS: Final = frozenset("?*+@!")

_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|select|case|esac|in|function|coproc|\[\[|\]\]|\{|\}|!)"
    r"(?=[ \t\n;&|()<>]|\\\n|$)"
)
_STARTS: Final = frozenset(("if", "while", "until", "for", "select", "case", "function", "coproc", "[[", "{"))
_REDIRECTION: Final = re.compile(r"([0-9]+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())")
_WORD_NAME: Final = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_TEST_SIGNS: Final = re.compile(r"&&|\|\||<|>|\(|\)")
_REGEX: Final = re.compile(r"=~(?=[ \t])")

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[)?")
_DECLARING: Final = frozenset(("export", "declare", "typeset", "local", "readonly"))
_TIME: Final = re.compile(r"time(?=[ \t\n;&|()<>]|$)(?:[ \t]+-p(?=[ \t\n;&|()<>]|$))?")


class Scanner:
    """Reads a text by the grammar of bash. ``lines`` is the way in."""

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

    def end_line(self) -> None:
        """Go behind the end of a line, and behind the here-documents that begin there."""
        self.at += 1
        waiting, self._documents = self._documents, []
        for document in waiting:
            document.body = self._document_body(document)

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
            return [self._dollar_parenthesis(quoted=quoted)]
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

    def _dollar_parenthesis(self, *, quoted: bool) -> Part:
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

    def _braced(self, *, quoted: bool) -> Parameter:
        self.at += 2
        self.enter()
        changed = self.peek() in ("#", "!") and self.peek(1) not in ("}", ":", "-", "+", "=", "?", "%", "/", "")
        if changed:
            self.at += 1
        found = _PARAMETER.match(self.text, self.at)
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
                self._quoted_part(char, parts, _PLAIN_BRACED, '$`"\\}')
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

    def reserved(self) -> str:
        """Return the reserved word here that begins a command; refuse one that may not stand here."""
        found = _RESERVED.match(self.text, self.at)
        if not found or found.group() in ("in", "!"):
            return ""
        if found.group() not in _STARTS:
            raise self.refuse()
        return found.group()

    def ends_here(self, ends: tuple[str, ...]) -> bool:
        """Whether one of these words or operators is here."""
        operator = self.operator()
        if operator:
            return operator in ends
        found = _RESERVED.match(self.text, self.at)
        return found is not None and found.group() in ends

    def compound(self, word: str) -> Command:
        """Read the command that this reserved word begins."""
        self.at += len(word)
        if word == "function":
            return self._function()
        self.enter()
        if word == "if":
            command: Command = self._if()
        elif word in ("while", "until"):
            command = self._while()
        elif word in ("for", "select"):
            command = self._for()
        elif word == "case":
            command = self._case()
        elif word == "[[":
            command = self._test()
        else:
            body = self._body("}")
            command = Compound(body, self.redirections())
        self.leave()
        self._command_ends()
        return command

    def _command_ends(self) -> None:
        """Refuse a word behind a compound command."""
        self.skip_blanks()
        if self.at < self.length and (not self.operator() or self.operator() == "("):
            if _RESERVED.match(self.text, self.at):  # `fi` and the like, which the outer command looks at
                return
            raise self.refuse()

    def parenthesis(self) -> Command:
        """Read a subshell or a sum."""
        self.enter()
        if self.starts("((") and self.is_sum(self.at + 2):
            self.at += 2
            words = (self._sum("))"),)
            command: Command = Test(words, self.redirections(), arithmetic=True)
        else:
            self.at += 1
            self.skip_lines()
            body = self.sequence(")")
            self.expect(")")
            command = Compound(body, self.redirections(), subshell=True)
        self.leave()
        self._command_ends()
        return command

    def _body(self, *ends: str) -> Sequence:
        """Read commands up to a reserved word and go behind it; with several, it stays here."""
        self.skip_lines()
        body = self.sequence(*ends)
        self.skip_blanks()
        if not self.ends_here(ends):
            raise self.refuse()
        if len(ends) == 1:
            self.at += len(ends[0])
        return body

    def _if(self) -> Branches:
        conditions = [self._body("then")]
        bodies = [self._body("elif", "else", "fi")]
        while self.take("elif"):
            conditions.append(self._body("then"))
            bodies.append(self._body("elif", "else", "fi"))
        if self.take("else"):
            bodies.append(self._body("fi"))
        else:
            self.expect("fi")
        return Branches(tuple(conditions), tuple(bodies), self.redirections())

    def _while(self) -> Branches:
        condition = self._body("do")
        body = self._body("done")
        return Branches((condition,), (body,), self.redirections(), loop=True)

    def _for(self) -> ForLoop:
        self.skip_blanks()
        if self.take("(("):
            numbers = self._sum("))")
            self.skip_blanks()
            self.take(";")
            return ForLoop("", None, self._loop_body(), self.redirections(), numbers)
        found = _WORD_NAME.match(self.text, self.at)
        if not found:
            raise self.refuse()
        self.at = found.end()
        words = self._loop_words()
        return ForLoop(found.group(), words, self._loop_body(), self.redirections())

    def _loop_words(self) -> tuple[Word, ...] | None:
        self.skip_blanks()
        if self.operator() == ";":
            self.at += 1
            return None
        self.skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if not found or found.group() != "in":
            return None
        self.at += 2
        words: list[Word] = []
        while True:
            self.skip_blanks()
            if self.operator() in (";", "\n"):
                if self.peek() == ";":
                    self.at += 1
                return tuple(words)
            if self.operator() or self.at >= self.length:
                raise self.refuse()
            words.append(self.word())

    def _loop_body(self) -> Sequence:
        self.skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if found and found.group() in ("do", "{"):
            self.at = found.end()
            return self._body("done" if found.group() == "do" else "}")
        raise self.refuse()

    def _case(self) -> Case:
        self.skip_blanks()
        subject = self.word()
        self.skip_lines()
        found = _RESERVED.match(self.text, self.at)
        if not found or found.group() != "in":
            raise self.refuse()
        self.at += 2
        patterns: list[Word] = []
        bodies: list[Sequence] = []
        while True:
            self.skip_lines()
            end = _RESERVED.match(self.text, self.at)
            if end and end.group() == "esac":
                self.at += 4
                return Case(subject, tuple(patterns), tuple(bodies), self.redirections())
            self._clause(patterns, bodies)

    def _clause(self, patterns: list[Word], bodies: list[Sequence]) -> None:
        self.take("(")
        while True:
            self.skip_blanks()
            patterns.append(self.word())
            self.skip_blanks()
            if not self.take("|"):
                break
        self.expect(")")
        self.skip_lines()
        if not self.ends_here((";;", ";&", ";;&", "esac")):
            bodies.append(self.sequence(";;", ";&", ";;&", "esac"))
            self.skip_lines()
        if self.operator() in (";;", ";&", ";;&"):
            self.at += len(self.operator())
        elif not self.ends_here(("esac",)):
            raise self.refuse()

    def _function(self) -> Command:
        self.skip_blanks()
        found = _WORD_NAME.match(self.text, self.at)
        if not found:
            raise self.refuse()
        self.at = found.end()
        self.skip_blanks()
        if self.take("("):
            self.skip_blanks()
            self.expect(")")
        return self.function_body(found.group())

    def _test(self) -> Test:
        words: list[Word] = []
        globs, self.extended_globs = self.extended_globs, True
        while True:
            self.skip_lines()
            if self.starts("]]") and self.peek(2) in (" ", "\t", "\n", ";", "&", "|", ")", "<", ">", ""):
                break
            if self.at >= self.length:
                raise self.refuse()
            sign = _TEST_SIGNS.match(self.text, self.at)
            if sign and self.peek(1) != "(":
                self.at = sign.end()
            elif sign and sign.group() == "(":
                self.at += 1
            elif _REGEX.match(self.text, self.at):
                self.at += 2
                words.append(self._regex())
            elif self.operator():
                raise self.refuse()
            else:
                words.append(self.word())
        if not words:
            raise self.refuse()
        self.at += 2
        self.extended_globs = globs
        return Test(tuple(words), self.redirections())

    def _regex(self) -> Word:
        """Read a regular expression: blanks end it, unless they stand in its parentheses."""
        self.skip_blanks()
        parts: list[Word] = []
        depth = 0
        while self.at < self.length:
            char = self.peek()
            if char in " \t\n" and depth == 0:
                break
            if char in "()|<>&; \t\n":
                depth += (char == "(") - (char == ")")
                parts.append((Literal(char, quoted=True),))
                self.at += 1
            else:
                parts.append(self.word())
        return tuple(part for word in parts for part in word)

    def redirection(self) -> Redirection | None:
        """Read the redirection here, if there is one."""
        found = _REDIRECTION.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        operator = found.group(2)
        self.skip_blanks()
        descriptor = int(found.group(1)) if (found.group(1) or "").isdigit() and len(found.group(1)) < 6 else -1
        if operator in ("<<", "<<-"):
            return Redirection(descriptor, "<<", (), self._document(strip=operator == "<<-"))
        return Redirection(descriptor, operator, self.word())

    def redirections(self) -> Redirections:
        """Read the redirections behind a compound command."""
        found: list[Redirection] = []
        while True:
            self.skip_blanks()
            redirection = self.redirection()
            if redirection is None:
                return tuple(found)
            found.append(redirection)

    def _document(self, *, strip: bool) -> HereDocument:
        start = self.at
        self.word()
        raw = self.text[start : self.at]
        quoted = any(char in raw for char in "'\"\\")
        delimiter = re.sub(r"\\(.)|['\"]", r"\1", raw.removeprefix("$") if raw.startswith(("$'", '$"')) else raw)
        document = HereDocument(delimiter, quoted=quoted, strip=strip)
        self._documents.append(document)  # its body is read when the line ends
        return document

    def lines(self) -> Iterator[Sequence]:
        """Yield what bash runs before it reads on, line by line; raise where it would refuse."""
        self.skip_lines()
        while self.at < self.length:
            yield self._line()
            self.skip_lines()
        self._documents = []  # those that never began have an empty body; bash only warns

    def _line(self) -> Sequence:
        line = self.sequence("\n")
        if self.at < self.length and self.peek() != "\n":
            raise self.refuse()
        if self.peek() == "\n":
            self.end_line()
        return line

    def program_of(self, text: str) -> Program:
        """Read a text of its own, one level deeper; where it is refused, only it is."""
        inner = Scanner(text, self.level + 2, extended_globs=self.extended_globs)
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


class Script:
    """A text that is read line by line, as bash does: what a line does may change how the next is read."""

    def __init__(self, text: str, level: int) -> None:
        self._scanner = Scanner(text, level)
        self._lines = self._scanner.lines()

    def next_line(self, *, extended_globs: bool) -> Sequence | None:
        """Return the next line; None at the end. Raise RefusedTextError where bash refuses it."""
        self._scanner.extended_globs = extended_globs
        try:
            return next(self._lines, None)
        except RecursionError:
            raise RefusedTextError("limit") from None


def _with_holes(text: str) -> list[Part]:
    """Return quoted text as parts: what is known, and holes between."""
    parts: list[Part] = [Literal("", quoted=True)]
    for number, known in enumerate(text.split(HOLE)):
        if number:
            parts.append(Hole(quoted=True))
        if known:
            parts.append(Literal(known, quoted=True))
    return parts


def _is_declaring(word: Word) -> bool:
    return len(word) == 1 and getattr(word[0], "text", "") in _DECLARING
