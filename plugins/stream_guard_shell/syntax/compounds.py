"""Compound commands and redirections: if, loops, case, groups, tests."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.syntax.nodes import (
    Branches,
    Case,
    Command,
    Compound,
    ForLoop,
    HereDocument,
    Literal,
    Redirection,
    Redirections,
    Sequence,
    Test,
    Word,
)
from stream_guard_shell.syntax.words import WordScanner

_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|select|case|esac|in|function|coproc|\[\[|\]\]|\{|\}|!)"
    r"(?=[ \t\n;&|()<>]|\\\n|$)"
)
_STARTS: Final = frozenset(("if", "while", "until", "for", "select", "case", "function", "coproc", "[[", "{"))
_REDIRECTION: Final = re.compile(r"([0-9]+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())")
_NAME: Final = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_TEST_SIGNS: Final = re.compile(r"&&|\|\||<|>|\(|\)")
_REGEX: Final = re.compile(r"=~(?=[ \t])")


class CompoundScanner(WordScanner):
    """Reads compound commands."""

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

    def command(self) -> Command:
        """Read one command."""
        raise NotImplementedError

    def function_body(self, name: str) -> Command:
        """Read the body of a function."""
        raise NotImplementedError

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
        found = _NAME.match(self.text, self.at)
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
        found = _NAME.match(self.text, self.at)
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
        self.await_document(document)
        return document
