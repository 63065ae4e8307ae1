"""Places: a field joined to the folder that the shell is in, as a path, a glob, a prefix or nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stream_guard_shell.expansion.fields import Field, glob_at


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
