"""What words become: fields of known and unknown pieces, the places that they name, and the words that braces make."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from stream_guard_shell.syntax.nodes import Literal, Part, Word

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


class Folder(NamedTuple):
    """The folder that a shell is in; ``text`` is None where it is not known, and relative where nothing is."""

    text: str | None
    glob: bool = False


class FilePlace(NamedTuple):
    """A place: ``kind`` is ``path``, ``glob``, ``prefix``, or empty where nothing is known."""

    kind: str
    text: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The place as fields of an effect."""
        return {self.kind: self.text} if self.kind else {}


NOWHERE = FilePlace("")


def normal(text: str) -> str:
    """Return a path with ``.``, ``..`` and double slashes resolved as text."""
    absolute = text.startswith("/")
    names: list[str] = []
    for name in text.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name == ".." and absolute:
            continue
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names) if absolute else "/".join(names) or "."


def joined(folder: str, text: str) -> str:
    """Return a path as seen from a folder."""
    return text if text.startswith("/") or not folder else f"{folder}/{text}"


def resolve(field: Field, folder: Folder, *, tilde: bool = False) -> FilePlace:
    """Return the place that a field names; ``tilde`` says that a leading one stays, because nobody knows the home."""
    head = field.head
    if not head and not field.known:
        return NOWHERE
    rooted = head.startswith("/") or (tilde and head.startswith("~"))
    if not rooted and folder.text is None:
        return NOWHERE
    base = "" if rooted else folder.text or ""
    glob = field.active or (not rooted and folder.glob)
    if field.known:
        return FilePlace("glob" if glob else "path", normal(joined(base, field.text)))
    return _prefix(joined(base, _before_glob(field)) if head != "." else base)


def _before_glob(field: Field) -> str:
    texts = []
    for piece in field.pieces:
        if not piece.known:
            break
        sign = glob_at(piece.text) if piece.active else -1
        if sign >= 0:
            texts.append(piece.text[:sign])
            break
        texts.append(piece.text)
    return "".join(texts)


def _prefix(text: str) -> FilePlace:
    parent, slash, last = text.rpartition("/")
    if not slash:
        return FilePlace("prefix", text)
    folder = normal(parent or "/")
    return FilePlace("prefix", ("" if folder == "/" else folder) + "/" + last)


def glob_folder(text: str) -> str:
    """Return the folder of a glob: what stands before its first pattern."""
    sign = glob_at(text)
    return text[:sign].rpartition("/")[0] or "/" if sign >= 0 else text


def is_below(text: str, folders: Collection[str], *, longest: int = 4096) -> bool:
    """Whether a path is one of these or below one."""
    return nearest(text, folders, longest=longest) is not None


def nearest(text: str, folders: Collection[str], *, longest: int = 4096) -> str | None:
    """Return which of these a path is, or is below; no system takes a path over 4096 bytes."""
    if len(text) > longest or not folders:
        return None
    while text:
        if text in folders:
            return text
        if text == "/":
            return None
        text = text.rpartition("/")[0] or ("/" if text.startswith("/") else "")
    return None


_Items: TypeAlias = list[str | Part]  # unquoted characters one by one, and parts that stay whole

_NUMBERS: Final = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?")
_LETTERS: Final = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?")


class TooManyWordsError(Exception):
    """Braces make more words than are read."""


def expand_braces(word: Word, most: int) -> list[Word]:
    """Return the words that braces make of one; raise TooManyWordsError where they are more than ``most``."""
    unquoted = "".join([part.text for part in word if isinstance(part, Literal) and not part.quoted])
    if "{" not in unquoted or ("," not in unquoted and ".." not in unquoted):
        return [word]
    items: _Items = []
    for part in word:
        if isinstance(part, Literal) and not part.quoted:
            items.extend(part.text)
        else:
            items.append(part)
    return [_word_of(made) for made in _expand(items, _closings(items), 0, len(items), most)]


def _closings(items: _Items) -> dict[int, int]:
    """Return where each brace that is closed closes."""
    open_at: list[int] = []
    closed: dict[int, int] = {}
    for at, item in enumerate(items):
        if item == "{":
            open_at.append(at)
        elif item == "}" and open_at:
            closed[open_at.pop()] = at
    return closed


def _expand(items: _Items, closed: dict[int, int], start: int, end: int, most: int) -> list[_Items]:
    made: list[_Items] = [[]]
    at = start
    while at < end:
        stop = closed.get(at) if items[at] == "{" else None
        choices = _choices(items, closed, at, stop, most) if stop is not None else None
        if choices is None or stop is None:
            for one in made:
                one.append(items[at])
            at += 1
            continue
        if len(made) * len(choices) > most:
            raise TooManyWordsError
        made = [before + choice for before in made for choice in choices]
        at = stop + 1
    return made


def _choices(items: _Items, closed: dict[int, int], at: int, stop: int, most: int) -> list[_Items] | None:
    """Return what a pair of braces stands for; None where it stands for itself."""
    cuts = []
    inner = at + 1
    while inner < stop:
        if items[inner] == "{" and inner in closed:
            inner = closed[inner]
        elif items[inner] == ",":
            cuts.append(inner)
        inner += 1
    if not cuts:
        return _range(items[at + 1 : stop], most)
    ends = [at, *cuts, stop]
    choices: list[_Items] = []
    for before, after in pairwise(ends):
        choices.extend(_expand(items, closed, before + 1, after, most))
        if len(choices) > most:
            raise TooManyWordsError
    return choices


def _range(items: _Items, most: int) -> list[_Items] | None:
    if len(items) > 40 or not all(isinstance(item, str) for item in items):
        return None
    text = "".join([item for item in items if isinstance(item, str)])
    numbers, letters = _NUMBERS.fullmatch(text), _LETTERS.fullmatch(text)
    if numbers:
        first, last = int(numbers.group(1)), int(numbers.group(2))
        texts = [numbers.group(1).lstrip("-"), numbers.group(2).lstrip("-")]
        width = max(map(len, texts)) if any(one.startswith("0") and len(one) > 1 for one in texts) else 0
        step = abs(int(numbers.group(3) or 1)) or 1
    elif letters:
        first, last = ord(letters.group(1)), ord(letters.group(2))
        width, step = -1, abs(int(letters.group(3) or 1)) or 1
    else:
        return None
    if abs(last - first) // step > most:
        raise TooManyWordsError
    values = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [list(chr(value) if width < 0 else f"{value:0{width}d}") for value in values]


def _word_of(items: _Items) -> Word:
    parts: list[Part] = []
    text: list[str] = []
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if text:
            parts.append(Literal("".join(text), quoted=False))
            text = []
        parts.append(item)
    if text:
        parts.append(Literal("".join(text), quoted=False))
    return tuple(parts)
