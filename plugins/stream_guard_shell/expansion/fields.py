"""Fields: what a word became, in pieces that are known or not, each with where it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_GROUP: Final = re.compile(r"[@!+]\(")


def glob_at(text: str) -> int:
    """Return where the first pattern of a glob begins; -1 where there is none. It takes one look at each character."""
    found = [at for at in (text.find("*"), text.find("?")) if at >= 0]
    bracket = text.find("[")
    if bracket >= 0 and text.rfind("]") > bracket + 1:
        found.append(bracket)
    group = _GROUP.search(text)
    if group and ")" in text[group.end() :]:
        found.append(group.start())
    return min(found, default=-1)


class Origin(NamedTuple):
    """Where a piece came from.

    ``kind`` is ``net`` (with its host), ``decoded``, ``file`` (with the file), ``names`` (with the patterns that fit
    them), ``input`` (an unknown pipe), ``text`` (a hole in a text that is itself unknown in part), ``process`` (a file
    whose content is a command's output, in ``fields``), ``job`` (of this command), ``nul`` (a NUL that was written), or
    ``other``.
    """

    kind: str
    host: str = ""
    fields: tuple[Field, ...] = ()


class Piece(NamedTuple):
    """Some text, or something unknown."""

    text: str = ""
    known: bool = True
    active: bool = False  # a glob that the shell expands
    origin: Origin | None = None
    carried: bool = False  # a command's output, or a secret variable: what has it sends it


NUL: Final = Piece(origin=Origin("nul"))
"""Stands where a program writes a NUL, which no text has."""


class Field:
    """One word after expansion; also what is on a pipe."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        self.pieces = tuple(pieces)

    @property
    def known(self) -> bool:
        """Whether all of it is known."""
        return all(piece.known for piece in self.pieces)

    @property
    def active(self) -> bool:
        """Whether the shell expands a glob in it."""
        return any(piece.active for piece in self.pieces)

    @property
    def carried(self) -> bool:
        """Whether it holds a command's output or a secret variable."""
        return any(piece.carried for piece in self.pieces)

    @property
    def text(self) -> str:
        """The text that is known."""
        return "".join([piece.text for piece in self.pieces if piece.known])

    @property
    def literal(self) -> str | None:
        """The text, if all of it is known and no glob."""
        return self.text if all(piece.known and not piece.active for piece in self.pieces) else None

    @property
    def head(self) -> str:
        """The text before the first unknown piece."""
        texts = []
        for piece in self.pieces:
            if not piece.known:
                break
            texts.append(piece.text)
        return "".join(texts)

    @property
    def tail(self) -> str:
        """The text behind the last unknown piece."""
        texts: list[str] = []
        for piece in reversed(self.pieces):
            if not piece.known:
                break
            texts.append(piece.text)
        return "".join(reversed(texts))

    @property
    def with_holes(self) -> str:
        """The text, with a NUL for each unknown piece."""
        return "".join([piece.text if piece.known else "\0" for piece in self.pieces])

    @property
    def wholly_unknown(self) -> bool:
        """Whether nothing but blanks is known of it, and something is unknown."""
        return not self.known and not self.text.strip()

    def origins(self, *kinds: str) -> list[Origin]:
        """The origins of these kinds among its pieces."""
        return [piece.origin for piece in self.pieces if piece.origin is not None and piece.origin.kind in kinds]

    def behind(self, count: int) -> Field:
        """Return the field without its first characters; they must be known."""
        pieces: list[Piece] = []
        for number, piece in enumerate(self.pieces):
            if count < len(piece.text) or not piece.known:
                pieces = [piece._replace(text=piece.text[count:]), *self.pieces[number + 1 :]]
                break
            count -= len(piece.text)
        return Field(pieces)

    def __add__(self, other: Field) -> Field:
        return Field(self.pieces + other.pieces)

    def __repr__(self) -> str:
        return f"Field({self.with_holes!r})"


def literal(text: str) -> Field:
    """Return a field of known text."""
    return Field((Piece(text),))


def unknown(kind: str = "other", *, host: str = "", fields: tuple[Field, ...] = (), carried: bool = False) -> Field:
    """Return a field of which nothing is known but where it came from."""
    return Field((Piece(known=False, origin=Origin(kind, host, fields), carried=carried),))


def joined_words(fields: Iterable[Field]) -> Field:
    """Return fields as one, with blanks between."""
    pieces: list[Piece] = []
    for number, field in enumerate(fields):
        if number:
            pieces.append(Piece(" "))
        pieces.extend(field.pieces)
    return Field(pieces)


NOTHING: Final = Field()
"""No text at all; the output of a command that writes none."""
