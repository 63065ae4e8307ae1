"""Parse JSON text into a tree with places, strictly (RFC 8259) and without recursion."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Final

from stream_guard.policy.codes import Code
from stream_guard.policy.message_parts import show
from stream_guard.policy.nodes import Builder, Mark, Node, new_list, new_mapping
from stream_guard.policy.scalars import check_text, finite

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<mark>[{}\[\],:])
    | (?P<text>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])
    | (?P<word>true|false|null|NaN|-?Infinity)(?!\w)
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_WORDS: Final = {"true": True, "false": False, "null": None}


def parse_json(text: str, builder: Builder) -> None:
    """Feed the text into the builder; raises ParseStopped where it is not JSON."""
    _JsonParser(text, builder).run()


class _JsonParser:
    """Walks the tokens once. ``_after`` is the last token: a value, a comma, a colon, an opening bracket."""

    def __init__(self, text: str, builder: Builder) -> None:
        self._text = text
        self._builder = builder
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._after = "start"
        self._brackets: list[str] = []

    def run(self) -> None:
        position = 0
        while True:
            found = _TOKEN.match(self._text, position)
            if found is None:
                raise self._unexpected(self._skip_space(position))
            kind, token = str(found.lastgroup), found[str(found.lastgroup)]
            start, position = found.start(kind), found.end()
            if kind == "end":
                return self._finish(start)
            if kind == "mark":
                self._punctuation(token, start)
            else:
                self._scalar(kind, token, start)

    def _mark(self, offset: int) -> Mark:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _skip_space(self, position: int) -> int:
        return position + len(self._text[position:]) - len(self._text[position:].lstrip(" \t\r\n"))

    def _finish(self, offset: int) -> None:
        if self._brackets:
            opened = "{" if self._brackets[-1] == "}" else "["
            message = f'the file ends, but "{opened}" is still open; "{self._brackets[-1]}" is missing'
            raise self._builder.stop(self._mark(offset), message, Code.SYNTAX)

    def _wants_key(self) -> bool:
        return bool(self._brackets) and self._brackets[-1] == "}" and self._after in ("open", "comma")

    def _punctuation(self, sign: str, offset: int) -> None:
        if sign in "{[":
            if self._wants_key() or not self._wants_value():
                raise self._unexpected(offset)
            mark = self._mark(offset)
            self._builder.begin(new_mapping(mark) if sign == "{" else new_list(mark))
            self._brackets.append("}" if sign == "{" else "]")
            self._after = "open"
        elif sign in "}]":
            if not self._brackets or self._brackets[-1] != sign or self._after not in ("open", "value"):
                raise self._unexpected(offset)
            self._brackets.pop()
            self._builder.end()
            self._after = "value"
        elif sign == ",":
            if self._after != "value" or not self._brackets:
                raise self._unexpected(offset)
            self._after = "comma"
        else:
            if self._after != "key":
                raise self._unexpected(offset)
            self._after = "colon"

    def _wants_value(self) -> bool:
        if self._after in ("start", "colon"):
            return True
        return self._after in ("open", "comma") and self._brackets[-1] == "]"

    def _scalar(self, kind: str, token: str, offset: int) -> None:
        if self._wants_key():
            if kind != "text":
                raise self._unexpected(offset)
            after = "key"
        elif self._wants_value():
            after = "value"
        else:
            raise self._unexpected(offset)
        mark = self._mark(offset)
        self._builder.add(Node(mark, self._value(kind, token, mark)))
        self._after = after

    def _value(self, kind: str, token: str, mark: Mark) -> str | float | bool | None:
        if kind == "number":
            return finite(token, mark, self._builder)
        if kind == "word":
            if token in _WORDS:
                return _WORDS[token]
            # RFC 8259: NaN and Infinity are not JSON.
            self._builder.report_unreadable(mark, f"{token} is not a number a rule can compare with", Code.NOT_PLAIN)
            return None
        try:
            text: str = json.loads(token)
        except ValueError as error:
            raise self._builder.stop(mark, f"this text has a bad escape: {error}", Code.SYNTAX) from None
        return check_text(text, mark, self._builder)

    def _unexpected(self, offset: int) -> Exception:
        found = "the end of the file" if offset >= len(self._text) else show(self._text[offset])
        return self._builder.stop(
            self._mark(offset), f"not JSON: expected {self._expected()}, found {found}", Code.SYNTAX
        )

    def _expected(self) -> str:
        if self._after == "start":
            return "a mapping or a list"
        if self._after in ("key", "colon"):
            return '":"' if self._after == "key" else "a value"
        if not self._brackets:
            return "the end of the file"
        if self._after == "value":
            return f'"," or "{self._brackets[-1]}"'
        what = "a key in double quotes" if self._brackets[-1] == "}" else "a value"
        return what if self._after == "comma" else f'{what} or "{self._brackets[-1]}"'
