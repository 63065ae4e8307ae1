"""Words become fields: braces, tilde, parameters, substitutions, splitting, globs, in bash's order."""

from __future__ import annotations

import re
from typing import Final

from stream_guard_shell.expansion.braces import TooManyWordsError, expand_braces
from stream_guard_shell.expansion.fields import NOTHING, Field, Origin, Piece, glob_at, joined_words, literal, unknown
from stream_guard_shell.secrets import is_secret_variable
from stream_guard_shell.shell.recorder import OverLimitError, Recorder
from stream_guard_shell.shell.state import Shell, Variable
from stream_guard_shell.syntax.nodes import Arithmetic, Hole, Literal, Parameter, Program, Substitution, Word

MOST_WORDS: Final = 20_000
"""Words that the braces of one word may make."""

_SPECIAL: Final = frozenset("@*#?-$!0123456789")
_TILDE: Final = re.compile(r"~([^/:]*)")
_LIKE_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=(?=~)")
_SET_BY_SUM: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)")


class _Gathered:
    """Fields in the making: pieces of the one that is open, and those that are done."""

    def __init__(self, separators: str) -> None:
        self.fields: list[Field] = []
        self.separators = separators
        self._open: list[Piece] = []
        self._begun = False

    def add(self, piece: Piece) -> None:
        self._open.append(piece)
        self._begun = True

    def keep(self) -> None:
        """Note a quote: the field is there, even if it stays empty."""
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self.fields.append(Field(self._open))
        self._open, self._begun = [], False

    def split(self, piece: Piece) -> None:
        """Add the value of something unquoted, which is split and may be a glob."""
        if not piece.known or piece.active:
            self.add(piece)
            return
        if not self.separators:
            self.add(_globbed(piece))
            return
        start = 0
        text = piece.text
        for found in re.finditer(f"[{re.escape(self.separators)}]+", text):
            if found.start() > start:
                self.add(_globbed(piece._replace(text=text[start : found.start()])))
            elif not found.group().isspace() and start == 0:
                self.keep()
            self.end()
            start = found.end()
        if start < len(text):
            self.add(_globbed(piece._replace(text=text[start:])))


def _globbed(piece: Piece) -> Piece:
    return piece._replace(active=glob_at(piece.text) >= 0)


class Expander(Recorder):
    """Expands words in the state of a shell."""

    def substitute(self, shell: Shell, body: Program, stdin: Field | None = None) -> Field:
        """Run a substitution in a shell of its own; return what it writes."""
        raise NotImplementedError

    def fields(self, shell: Shell, words: tuple[Word, ...]) -> list[Field]:
        """Return the fields that words become."""
        found: list[Field] = []
        for word in words:
            try:
                expanded = expand_braces(word, MOST_WORDS)
            except TooManyWordsError:
                raise OverLimitError from None
            self.spend(len(expanded))
            for one in expanded:
                found.extend(self._chosen(shell, one))
        return found

    def _chosen(self, shell: Shell, word: Word) -> list[Field]:
        """Return the fields of a word, for each value that branches gave to the first variable in it."""
        for part in word:
            variable = shell.variable(part.name) if isinstance(part, Parameter) else None
            if variable is None or not variable.choices or not isinstance(part, Parameter):
                continue
            inner = shell.subshell()
            found: list[Field] = []
            for choice in variable.choices:
                inner.assign(part.name, choice)
                found.extend(self._chosen(inner, word))
            return found
        return self._split(shell, word)

    def _split(self, shell: Shell, word: Word) -> list[Field]:
        gathered = _Gathered(self._separators(shell))
        for number, part in enumerate(word):
            if isinstance(part, Literal):
                self._add_literal(shell, word, number, part, gathered)
            else:
                self._add_value(shell, part, gathered, quoted=part.quoted)
        gathered.end()
        return gathered.fields

    def _add_literal(self, shell: Shell, word: Word, number: int, part: Literal, gathered: _Gathered) -> None:
        self.spend(1 + len(part.text) // 64)
        if part.quoted:
            if part.text:
                gathered.add(Piece(part.text))
            gathered.keep()
            return
        text = part.text
        if number == 0:
            found = _LIKE_ASSIGNMENT.match(text)
            if found:
                gathered.add(Piece(found.group()))
                text = text[found.end() :]
            if text.startswith("~"):
                home, text = self._tilde(shell, text, alone=len(word) == 1)
                for piece in home.pieces:
                    gathered.add(piece)
        if text:
            gathered.add(_globbed(Piece(text)))

    def _tilde(self, shell: Shell, text: str, *, alone: bool) -> tuple[Field, str]:
        """Return what a tilde in front stands for, and the text behind it."""
        found = _TILDE.match(text)
        name = found.group(1) if found else ""
        rest = text[1 + len(name) :]
        if not rest.startswith(("/", ":")) and not alone:
            return NOTHING, text
        if shell.away:
            return NOTHING, text
        if name == "":
            home = shell.variable("HOME")
            return (home.value if home and home.value else shell.home), rest
        if name == "+":
            return self._folder_value(shell), rest
        return unknown(), rest

    def value(self, shell: Shell, word: Word) -> Field:
        """Return one field without splitting or globs: the value of an assignment, a pattern, a here-document."""
        pieces: list[Piece] = []
        for number, part in enumerate(word):
            if isinstance(part, Literal):
                self.spend(1 + len(part.text) // 64)
                text = part.text
                if number == 0 and not part.quoted and text.startswith("~"):
                    home, text = self._tilde(shell, text, alone=len(word) == 1)
                    pieces.extend(home.pieces)
                pieces.append(Piece(text))
            else:
                gathered = _Gathered("")
                self._add_value(shell, part, gathered, quoted=True)
                gathered.end()
                for place, field in enumerate(gathered.fields):
                    pieces.extend([Piece(" ")] if place else [])
                    pieces.extend(field.pieces)
        return Field(pieces)

    def _add_value(
        self, shell: Shell, part: Hole | Parameter | Substitution | Arithmetic, gathered: _Gathered, *, quoted: bool
    ) -> None:
        if isinstance(part, Hole):
            values = [unknown("text")]
        elif isinstance(part, Arithmetic):
            self.sum(shell, part.word)
            values = [unknown()]
        elif isinstance(part, Substitution):
            values = [self._substituted(shell, part)]
        else:
            values = self.parameter(shell, part)
        if quoted and not (isinstance(part, Parameter) and not values):
            gathered.keep()
        for number, value in enumerate(values):
            if number:
                gathered.end()
                gathered.keep()
            for piece in value.pieces:
                self.spend(1 + len(piece.text) // 64)
                if quoted:
                    gathered.add(piece)
                else:
                    gathered.split(piece)

    def sum(self, shell: Shell, word: Word) -> None:
        """Read a sum: what is substituted runs, what it sets is not known."""
        field = self.value(shell, word)
        for found in _SET_BY_SUM.finditer(field.text):
            shell.assign(found.group(1), Variable())

    def _substituted(self, shell: Shell, part: Substitution) -> Field:
        output = self.substitute(shell, part.body, unknown() if part.direction == ">" else None)
        if part.direction:
            return unknown("process", fields=(output,) if part.direction == "<" else ())
        plain = output.known and not output.origins("decoded", "net", "file")
        if plain and output.pieces:
            pieces = [piece._replace(carried=True) for piece in output.pieces]
            while pieces and not pieces[-1].text.rstrip("\n"):
                pieces.pop()
            if pieces:
                pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip("\n"))
            return Field(pieces)
        origin = Origin("output", fields=(output,))
        return Field((Piece(known=False, origin=origin, carried=True),))

    def parameter(self, shell: Shell, part: Parameter) -> list[Field]:
        """Return the values of a parameter: one, or one for each item where it asks for all."""
        many = part.name in "@*" if part.name in _SPECIAL else _asks_for_all(part)
        self._note_secret(shell, part.name)
        values = self._values(shell, part)
        if part.operator in (":-", "-", ":=", "="):
            return self._or_default(shell, part, values)
        if part.operator in (":+", "+"):
            empty = values is not None and not _has_text(values)
            word = self.value(shell, part.word or ())
            return [literal("")] if empty else [word] if values is not None else [_maybe(word)]
        if part.word and part.operator not in (":?", "?"):
            self.value(shell, part.word)  # what is substituted in it runs
        if part.changed or (part.operator and part.operator not in (":?", "?")):
            return [unknown()]
        if values is None:
            return [self._unknown_variable(part.name)]
        if many and part.quoted:
            return values if part.name == "@" or part.subscript is not None else [joined_words(values)]
        return values if many else values[:1] or [literal("")]

    def _or_default(self, shell: Shell, part: Parameter, values: list[Field] | None) -> list[Field]:
        if values is not None and (_has_text(values) or (values and part.operator in ("-", "="))):
            return values
        word = self.value(shell, part.word or ())
        if values is None:
            return [self._unknown_variable(part.name)]
        if part.operator in (":=", "="):
            shell.assign(part.name, Variable(word))
        return [word]

    def _values(self, shell: Shell, part: Parameter) -> list[Field] | None:  # noqa: PLR0911  # one for each sort
        """Return the values that a parameter has; None where they are not known."""
        if part.name in ("@", "*"):
            return None if shell.positional is None else list(shell.positional)
        if part.name.isdigit():
            return _positional(shell, int(part.name[:6]))
        if part.name == "!":
            return [Field((Piece("$!", origin=Origin("job")),))]
        if part.name in _SPECIAL:
            return None
        if part.subscript is not None:
            return self._item(shell, part)
        if part.name == "PWD" and not shell.is_assigned("PWD"):
            return None if shell.folder.text is None or shell.away else [self._folder_value(shell)]
        if part.name == "OLDPWD" and not shell.is_assigned("OLDPWD"):
            known = shell.previous is not None and shell.previous.text is not None
            return [Field((Piece(shell.previous.text or "", active=shell.previous.glob),))] if known else None  # type: ignore[union-attr]
        return self._variable(shell, part.name)

    def _variable(self, shell: Shell, name: str) -> list[Field] | None:
        found = shell.variable(name)
        if found is None:
            if name == "HOME" and not shell.away:
                return [shell.home]
            return [literal(" \t\n")] if name == "IFS" else None
        if found.items is not None:
            return [found.items[0]] if found.items else [literal("")]
        return None if found.value is None else [found.value]

    def _item(self, shell: Shell, part: Parameter) -> list[Field] | None:
        index = self.value(shell, part.subscript or ()).literal
        found = shell.variable(part.name)
        if found is None or found.items is None:
            return None if found is None or found.value is None else [found.value]
        if index in ("@", "*"):
            return list(found.items)
        if index is None or not index.lstrip("-").isdigit() or len(index) > 6:
            return None
        at = int(index)
        return [found.items[at]] if -len(found.items) <= at < len(found.items) else [literal("")]

    def _folder_value(self, shell: Shell) -> Field:
        text = shell.folder.text
        return unknown() if text is None else Field((Piece(text, active=shell.folder.glob),))

    def _note_secret(self, shell: Shell, name: str) -> None:
        if not self.in_test and is_secret_variable(name) and not shell.is_assigned(name):
            self.emit(shell, "secret", env=name)

    def _unknown_variable(self, name: str) -> Field:
        return unknown(carried=is_secret_variable(name))

    def _separators(self, shell: Shell) -> str:
        found = shell.variable("IFS")
        if found is None or found.value is None or not found.value.known:
            return " \t\n"
        return found.value.text


def _asks_for_all(part: Parameter) -> bool:
    return part.subscript is not None and [one.text for one in part.subscript if isinstance(one, Literal)] in (
        ["@"],
        ["*"],
    )


def _has_text(values: list[Field]) -> bool:
    return any(value.text or not value.known for value in values)


def _maybe(word: Field) -> Field:
    """Return a word that is there or not."""
    return Field([*(piece._replace(known=False) for piece in word.pieces)] or [Piece(known=False)])


def _positional(shell: Shell, number: int) -> list[Field] | None:
    if number == 0:
        return None if shell.name is None else [shell.name]
    if shell.positional is None:
        return None
    return [shell.positional[number - 1]] if number <= len(shell.positional) else [literal("")]
