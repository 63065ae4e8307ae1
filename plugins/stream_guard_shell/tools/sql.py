"""SQL statements that destroy: DROP, TRUNCATE, DELETE without WHERE; not in strings and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stream_guard_shell.expansion.fields import Field

_TOKEN: Final = re.compile(
    r"--[^\n]*|\#[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\$(\w{0,60})\$.*?\$\1\$|\"(?:[^\"]|\"\")*\"|`[^`]*`|[\w.\0$]+|\S",
    re.DOTALL,
)
_PLAIN_TOKEN: Final = re.compile(r"--[^\n]*|\#[^\n]*|[\w.\0$]+|\S")
_OPENERS: Final = frozenset(("'", '"', "`", "/", "$", "$$"))
_LEFT_OUT: Final = frozenset(("if", "exists", "cascade", "restrict", "concurrently", "only", "purge"))
_ENDS: Final = frozenset(("with", "force"))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of a text. Behind what is opened and never closed there are no strings any more.

    Databases differ on what closes one, and to look for the end again at every quote would not be linear.
    """
    pattern, at = _TOKEN, 0
    while found := pattern.search(text, at):
        yield found
        at = found.end()
        if found.group() in _OPENERS and (found.group() != "/" or text[at : at + 1] == "*"):
            pattern = _PLAIN_TOKEN


def destroying(sql: Field) -> list[str]:
    """Return the statements that destroy, in lower case and without what does not matter; holes stay in them."""
    found = []
    for statement in _statements(sql.with_holes):
        words = [word.lower() for word in statement]
        what = _what(words)
        if what:
            found.append(what)
    return found


def _statements(text: str) -> list[list[str]]:
    statements: list[list[str]] = [[]]
    for token in _tokens(text):
        word = token.group()
        if word == ";" or word.startswith("\\g"):
            statements.append([])
        elif not word.startswith(("--", "#", "/*", "'")) and not (word.startswith("$") and word.endswith("$")):
            statements[-1].append(word.strip('"`'))
    return statements


def _what(words: list[str]) -> str:
    first = words[0] if words else ""
    if first == "drop" and len(words) > 1:
        return _joined(words)
    if first == "truncate":
        return _joined([word for number, word in enumerate(words) if number != 1 or word != "table"])
    if first == "alter" and words[1:2] == ["table"] and "drop" in words:
        at = words.index("drop")
        if words[at + 1 : at + 2] == ["column"]:
            return _joined(words[:at]) + " " + _joined(words[at : at + 2] + _name_after(words, at + 2))
    if first == "delete" and words[1:2] == ["from"] and "where" not in words:
        names = [word for word in words[2:] if word not in _LEFT_OUT]
        return " ".join(["delete", "from", *names[:1]])
    return ""


def _name_after(words: list[str], at: int) -> list[str]:
    return [word for word in words[at:] if word not in _LEFT_OUT][:1]


def _joined(words: list[str]) -> str:
    kept: list[str] = []
    for number, word in enumerate(words):
        if number > 2 and word in _ENDS:
            break
        if word not in _LEFT_OUT:
            kept.append(word)
    return re.sub(r" ([,.()])", r"\1", " ".join(kept)).replace("( ", "(").strip()
