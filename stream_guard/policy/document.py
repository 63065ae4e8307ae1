"""Read a policy file, YAML or JSON, into plain data with the place of every value."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from stream_guard.errors import Place, PolicyError, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.message_parts import Code, printable, show

MAX_DEPTH: Final = 64
MAX_NODES: Final = 250_000
MAX_ALIASED: Final = 100_000

Mark: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(slots=True)
class Node:
    """A value with its place; ``weight`` counts its nodes, with aliases expanded."""

    mark: Mark
    value: Json
    children: dict[str, Node] | list[Node] | None = None
    key_marks: dict[str, Mark] = field(default_factory=dict)
    weight: int = 1

    def child(self, step: str | int) -> Node | None:
        """Return the child at the step, or None."""
        if isinstance(self.children, dict):
            return self.children.get(step) if isinstance(step, str) else None
        if isinstance(self.children, list) and isinstance(step, int):
            return self.children[step] if 0 <= step < len(self.children) else None
        return None


@dataclass(slots=True)
class PolicyDocument:
    """A policy file as data, with the place of every value."""

    file: str
    root: Node
    problems: list[Problem] = field(default_factory=list)
    unreadable: set[Place] = field(default_factory=set)  # where a value could not be read and is null in the data
    data: Json = field(init=False)  # the whole file as plain JSON data

    def __post_init__(self) -> None:
        self.data = self.root.value

    def place(self, *path: str | int) -> Place:
        """Return where the value at the path stands; where its nearest ancestor does, if it is absent."""
        *_, (node, _) = self._walk(path)
        return Place(self.file, *node.mark)

    def key_place(self, *path: str | int) -> Place:
        """Return where the key of the last step stands; in a list, where the item does."""
        *_, (node, key_mark) = self._walk(path)
        return Place(self.file, *(key_mark or node.mark))

    def _walk(self, path: tuple[str | int, ...]) -> Iterator[tuple[Node, Mark | None]]:
        node = self.root
        yield node, None
        for step in path:
            below = node.child(step)
            if below is None:
                return
            yield below, node.key_marks.get(step) if isinstance(step, str) else None
            node = below


class ParseStopped(Exception):  # noqa: N818 - not an error of its own: it carries one out of a parser
    """Reading cannot continue; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(slots=True)
class _OpenContainer:
    """A mapping or list that is still being read."""

    node: Node
    key: Node | None = None
    merges: list[Node] = field(default_factory=list)


class Builder:
    """Builds the tree from values in the order of the file, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.unreadable: set[Place] = set()
        self.root: Node | None = None
        self._open: list[_OpenContainer] = []
        self._count = 0
        self._aliased = 0

    @property
    def wants_key(self) -> bool:
        """Whether the next value is the key of a mapping."""
        return bool(self._open) and isinstance(self._open[-1].node.children, dict) and self._open[-1].key is None

    def report(self, mark: Mark, message: str, code: Code) -> None:
        """Add a problem after which reading can continue."""
        self.problems.append(self._problem(mark, message, code))

    def report_unreadable(self, mark: Mark, message: str, code: Code) -> None:
        """Add the problem of a value that cannot be read. It becomes null, and gets no further problem."""
        self.report(mark, message, code)
        self.unreadable.add(Place(self.file, *mark))

    def stop(self, mark: Mark, message: str, code: Code) -> ParseStopped:
        """Return the exception to raise when reading cannot continue."""
        return ParseStopped(self._problem(mark, message, code))

    def _problem(self, mark: Mark, message: str, code: Code) -> Problem:
        return Problem(Place(self.file, *mark), printable(message), code.value)

    def begin(self, node: Node) -> None:
        """Open a mapping or a list; the next values go into it."""
        if len(self._open) >= MAX_DEPTH:
            raise self.stop(
                node.mark, f"nested more than {MAX_DEPTH} levels deep; a policy never needs that", Code.TOO_BIG
            )
        self._tally(node.mark)
        self._open.append(_OpenContainer(node))

    def end(self) -> Node:
        """Close the innermost mapping or list, and return it."""
        level = self._open.pop()
        for merged in level.merges:
            self._merge(level.node, merged)
        below = level.node.children or ()
        level.node.weight = 1 + sum(child.weight for child in (below.values() if isinstance(below, dict) else below))
        self._put(level.node)
        return level.node

    def add(self, node: Node) -> None:
        """Add a scalar."""
        self._tally(node.mark)
        self._put(node)

    def repeat(self, node: Node, mark: Mark) -> None:
        """Add the node that an alias refers to."""
        self._aliased += node.weight
        if self._aliased > MAX_ALIASED:
            message = f"the aliases of this file stand for more than {MAX_ALIASED:,} values; write fewer"
            raise self.stop(mark, message, Code.TOO_BIG)
        self._put(node)

    def finish(self) -> PolicyDocument:
        """Return the document; raises ParseStopped when the file is empty."""
        if self.root is None:
            raise self.stop(
                (1, 1), "the file is empty; a policy has at least `rules:` with one rule", Code.NOT_A_POLICY
            )
        return PolicyDocument(self.file, self.root, self.problems, self.unreadable)

    def _tally(self, mark: Mark) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise self.stop(mark, f"more than {MAX_NODES:,} values; split the policy into several files", Code.TOO_BIG)

    def _put(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        level = self._open[-1]
        children = level.node.children
        if isinstance(children, list):
            children.append(node)
            level.node.value.append(node.value)
        elif level.key is None:
            level.key = node
        else:
            key, level.key = level.key, None
            self._put_entry(level, key, node)

    def _put_entry(self, level: _OpenContainer, key: Node, node: Node) -> None:
        name, mapping = key.value, level.node
        assert isinstance(mapping.children, dict)  # noqa: S101 - `_put` comes here for mappings only
        if name is MERGE:
            level.merges.append(node)
        elif not isinstance(name, str):
            advice = f"; write it in quotes: {show(str(name))}" if isinstance(name, int | float) else ""
            self.report(key.mark, f"a key must be text, this one is {show(name)}{advice}", Code.NOT_PLAIN)
        elif name in mapping.children:
            first = mapping.key_marks[name][0]
            self.report(key.mark, f"key {show(name)} is here a second time; the first is in line {first}", Code.TWICE)
        else:
            mapping.children[name] = node
            mapping.value[name] = node.value
            mapping.key_marks[name] = key.mark

    def _merge(self, mapping: Node, merged: Node) -> None:
        """Add the entries of a merge key (``<<``); the mapping's own entries win."""
        assert isinstance(mapping.children, dict)  # noqa: S101 - merges are collected for mappings only
        sources = merged.children if isinstance(merged.children, list) else [merged]
        for source in sources:
            if not isinstance(source.children, dict):
                self.report(merged.mark, "`<<` takes the alias of a mapping, or a list of them", Code.WRONG_TYPE)
                return
            for name, node in source.children.items():
                if name not in mapping.children:
                    mapping.children[name] = node
                    mapping.value[name] = node.value
                    mapping.key_marks[name] = source.key_marks[name]


class _Merge:
    """The type of ``MERGE``, which marks a merge key."""

    __slots__ = ()


MERGE: Final = _Merge()
"""The value of a plain ``<<`` where a key is expected."""


def new_mapping(mark: Mark) -> Node:
    """Return a mapping without entries."""
    return Node(mark, {}, {})


def new_list(mark: Mark) -> Node:
    """Return a list without items."""
    return Node(mark, [], [])


_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER_START: Final = frozenset("-+.0123456789")
_LARGEST: Final = 2**63
MAX_TEXT: Final = 32_768


def is_plain_text(text: str) -> bool:
    """Whether YAML 1.2 reads the unquoted text as text, not as null, a boolean or a number."""
    if text in _CONSTANTS:
        return False
    patterns = (_INTEGER, _OTHER_BASE, _FLOAT, _NOT_FINITE)
    return text[0] not in _NUMBER_START or not any(pattern.fullmatch(text) for pattern in patterns)


def resolve_plain(text: str, mark: Mark, builder: Builder) -> str | float | bool | None:
    """Return what unquoted YAML text means; dates and words like ``yes`` are text (YAML 1.2)."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_START:
        return check_text(text, mark, builder)
    if _NOT_FINITE.fullmatch(text):
        builder.report_unreadable(mark, f"{text} is not a number a rule can compare with", Code.NOT_PLAIN)
        return None
    if _OTHER_BASE.fullmatch(text):
        return _in_range(int(text, 0), mark, builder)
    if _FLOAT.fullmatch(text):
        return finite(text, mark, builder)
    return check_text(text, mark, builder)


def finite(text: str, mark: Mark, builder: Builder) -> float | None:
    """Return the number; one beyond 64 bits, or not finite, is a problem."""
    if _INTEGER.fullmatch(text):
        # Python refuses to read very long digits; they are out of range in any case.
        return _in_range(int(text) if len(text) < 40 else _LARGEST, mark, builder)
    number = float(text)
    if math.isfinite(number):
        return number
    builder.report_unreadable(mark, f"{show(text)} is too large for a number", Code.NOT_PLAIN)
    return None


def _in_range(number: int, mark: Mark, builder: Builder) -> int | None:
    if -_LARGEST <= number < _LARGEST:
        return number
    builder.report_unreadable(
        mark, "the number does not fit into 64 bits; write it in quotes if it is an identifier", Code.NOT_PLAIN
    )
    return None


def check_text(text: str, mark: Mark, builder: Builder) -> str:
    """Return the text; one that is too long, or has half a surrogate pair in it, is a problem."""
    if len(text) > MAX_TEXT:
        builder.report_unreadable(mark, f"a text of {len(text):,} characters; at most {MAX_TEXT:,}", Code.TOO_BIG)
        return ""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        builder.report(mark, "an escape (\\ud800 to \\udfff) in this text is half a character", Code.NOT_PLAIN)
        return text.encode("utf-8", "replace").decode()
    return text


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
    """Reads one token ahead. It recurses no deeper than the builder lets values nest."""

    def __init__(self, text: str, builder: Builder) -> None:
        self._text = text
        self._builder = builder
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._open: list[str] = []  # the brackets that are still to be closed
        self._kind = self._lexeme = ""  # of the token at hand; both are empty for what is none
        self._start = self._end = 0

    def run(self) -> None:
        self._advance()
        if self._kind == "end":
            return  # the builder says that the file is empty
        self._take_value("a mapping or a list")
        if self._kind != "end":
            raise self._unexpected("the end of the file")

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            rest = self._text[self._end :]
            self._kind, self._lexeme, self._start = "", "", self._end + len(rest) - len(rest.lstrip(" \t\r\n"))
        else:
            self._kind = str(found.lastgroup)
            self._lexeme, self._start, self._end = found[self._kind], found.start(self._kind), found.end()

    def _mark(self) -> Mark:
        line = bisect_right(self._lines, self._start)
        return line, self._start - self._lines[line - 1] + 1

    def _take_value(self, expected: str) -> None:
        if self._lexeme in ("{", "["):
            self._take_container(is_mapping=self._lexeme == "{")
        elif self._kind in ("text", "number", "word"):
            self._take_scalar()
        else:
            raise self._unexpected(expected)

    def _take_container(self, *, is_mapping: bool) -> None:
        closing, item = ("}", "a key in double quotes") if is_mapping else ("]", "a value")
        self._builder.begin((new_mapping if is_mapping else new_list)(self._mark()))
        self._open.append(closing)
        self._advance()
        expected = f'{item} or "{closing}"'
        while self._lexeme != closing or expected == item:  # nothing closes behind a comma
            if is_mapping:
                self._take_key(expected)
                self._take_value("a value")
            else:
                self._take_value(expected)
            if self._lexeme == closing:
                break
            if self._lexeme != ",":
                raise self._unexpected(f'"," or "{closing}"')
            self._advance()
            expected = item
        self._open.pop()
        self._builder.end()
        self._advance()

    def _take_key(self, expected: str) -> None:
        if self._kind != "text":
            raise self._unexpected(expected)
        self._take_scalar()
        if self._lexeme != ":":
            raise self._unexpected('":"')
        self._advance()

    def _take_scalar(self) -> None:
        mark = self._mark()
        self._builder.add(Node(mark, self._read_scalar(mark)))
        self._advance()

    def _read_scalar(self, mark: Mark) -> str | float | bool | None:
        if self._kind == "number":
            return finite(self._lexeme, mark, self._builder)
        if self._lexeme in _WORDS:
            return _WORDS[self._lexeme]
        if self._kind == "word":  # RFC 8259: NaN and Infinity are not JSON.
            message = f"{self._lexeme} is not a number a rule can compare with"
            self._builder.report_unreadable(mark, message, Code.NOT_PLAIN)
            return None
        try:
            text: str = json.loads(self._lexeme)
        except ValueError as error:
            raise self._builder.stop(mark, f"this text has a bad escape: {error}", Code.SYNTAX) from None
        return check_text(text, mark, self._builder)

    def _unexpected(self, expected: str) -> Exception:
        if self._kind == "end":  # inside something: a file without anything never comes here
            closing = self._open[-1]
            opened = "{" if closing == "}" else "["
            message = f'the file ends, but "{opened}" is still open; "{closing}" is missing'
        else:
            message = f"not JSON: expected {expected}, found {show(self._text[self._start])}"
        return self._builder.stop(self._mark(), message, Code.SYNTAX)


_TEXT_TAGS: Final = frozenset(("!", "!!str", "tag:yaml.org,2002:str"))
_TAB: Final = "YAML does not indent with tabs; use spaces"
_ADVICE: Final = (
    ("'\\t'", _TAB),
    ("mapping values are not allowed", "a colon here would start a second mapping; put the text in quotes"),
    ("cannot start any token", "a value cannot start with this character; put it in quotes"),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("could not find expected ':'", "a key has no colon, or a text in several lines has no quotes"),
    ("end of stream", "a quote or a bracket is not closed"),
    ("expected ',' or", "a comma or a closing bracket is missing"),
)


def parse_yaml(text: str, builder: Builder) -> None:
    """Feed the text into the builder; raises ParseStopped where it is not YAML."""
    parser = _YamlParser(builder)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            parser.take(event)
    except MarkedYAMLError as error:
        raise _syntax_error(error, builder) from None
    except ReaderError as error:
        raise _reader_error(error, text, builder) from None
    except (YAMLError, ValueError, OverflowError) as error:
        # An escape beyond Unicode makes the parser raise other exceptions than its own.
        why = str(error).partition("\n")[0] or type(error).__name__
        raise builder.stop(parser.mark, f"not YAML behind this place: {show(why)}", Code.SYNTAX) from None


class _YamlParser:
    """Turns the events of ruamel's parser into nodes; resolves anchors and plain scalars itself."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._anchors: dict[str, Node | None] = {}  # None while the anchored value is still open
        self._names: list[str | None] = []
        self._documents = 0
        self.mark: Mark = (1, 1)  # of the latest event

    def take(self, event: Any) -> None:
        """Add one event of the parser."""
        mark = self.mark = (event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case ScalarEvent():
                self._scalar(event, mark)
            case MappingStartEvent() | SequenceStartEvent():
                self._start(event, mark)
            case MappingEndEvent() | SequenceEndEvent():
                self._finish()
            case AliasEvent():
                self._alias(event, mark)
            case DocumentStartEvent():
                self._document(event, mark)

    def _document(self, event: Any, mark: Mark) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._builder.stop(mark, "a second document starts here; a policy file holds one", Code.SYNTAX)
        if event.version is not None and tuple(event.version) != (1, 2):
            written = ".".join(map(str, event.version))
            message = f"the file says it is YAML {written}; policies are YAML 1.2, where `yes` and `on` are text"
            raise self._builder.stop(mark, message, Code.SYNTAX)

    def _scalar(self, event: Any, mark: Mark) -> None:
        tag = self._tag(event, mark)
        is_plain = event.style in (None, "") and tag is None
        read = resolve_plain if is_plain else check_text
        node = Node(mark, read(event.value, mark, self._builder))
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        is_merge = is_plain and event.value == "<<" and self._builder.wants_key
        self._builder.add(Node(mark, MERGE) if is_merge else node)

    def _tag(self, event: Any, mark: Mark) -> str | None:
        tag = None if event.tag is None else str(event.tag)
        is_scalar = isinstance(event, ScalarEvent)
        if tag is not None and not (is_scalar and tag in _TEXT_TAGS):
            self._builder.report(mark, f"a policy is plain data; leave out the tag {show(tag)}", Code.NOT_PLAIN)
        return tag

    def _start(self, event: Any, mark: Mark) -> None:
        self._tag(event, mark)
        self._builder.begin(new_mapping(mark) if isinstance(event, MappingStartEvent) else new_list(mark))
        self._names.append(event.anchor)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _finish(self) -> None:
        node = self._builder.end()
        name = self._names.pop()
        if name is not None:
            self._anchors[name] = node

    def _alias(self, event: Any, mark: Mark) -> None:
        name = event.anchor
        if name not in self._anchors:
            self._builder.report_unreadable(mark, f"alias *{name[:40]} has no anchor &{name[:40]} above it", Code.ALIAS)
            self._builder.add(Node(mark, None))
        elif (node := self._anchors[name]) is None:
            raise self._builder.stop(mark, f"alias *{name[:40]} stands inside what it repeats", Code.ALIAS)
        else:
            self._builder.repeat(node, mark)


def _syntax_error(error: MarkedYAMLError, builder: Builder) -> ParseStopped:
    where = error.problem_mark or error.context_mark
    mark = (where.line + 1, where.column + 1) if where is not None else (1, 1)
    found = str(error.problem or error.context or "cannot be read")
    advice = next((text for part, text in _ADVICE if part in found), "")
    return builder.stop(mark, f"not YAML: {advice or found}", Code.SYNTAX)


def _reader_error(error: ReaderError, text: str, builder: Builder) -> ParseStopped:
    before = text[: error.position]
    mark = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    character = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
    message = f"character U+{character:04X} cannot stand in YAML; write it as an escape in double quotes"
    return builder.stop(mark, message, Code.SYNTAX)


MAX_BYTES: Final = 4 * 2**20


def read_document(source: Path | str | bytes, file: str = "") -> PolicyDocument:
    """Return the file (a Path) or the text (anything else) as a document.

    Its ``problems`` are those after which reading could continue. Where it could not, PolicyError is raised
    with all problems found.
    """
    if isinstance(source, Path):
        file = file or str(source)
        text = _decode(_read(source, file), file)
    else:
        text = _decode(source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass"), file)
    if file.lower().endswith(".json"):
        return _parse(text, file, is_json=True)
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return _parse(text, file, is_json=False)
    try:
        return _parse(text, file, is_json=True)
    except PolicyError as error:
        if error.problems[-1].code != Code.SYNTAX:
            raise
        return _parse_flow_style(text, file, error)


def _parse_flow_style(text: str, file: str, not_json: PolicyError) -> PolicyDocument:
    """Parse YAML that starts with a bracket, as JSON does; for a file that is neither, raise JSON's error."""
    try:
        return _parse(text, file, is_json=False)
    except PolicyError as error:
        if file.lower().endswith((".yaml", ".yml")) or error.problems[-1].code != Code.SYNTAX:
            raise
        raise not_json from None


def _parse(text: str, file: str, *, is_json: bool) -> PolicyDocument:
    builder = Builder(file)
    try:
        (parse_json if is_json else parse_yaml)(text, builder)
        return builder.finish()
    except ParseStopped as stop:
        raise PolicyError([*builder.problems, stop.problem]) from None


def _read(path: Path, file: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(file, "this is not a file; name a policy file, or the files of a folder one by one")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(file, "no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(file, f"cannot be read: {reason}") from None


def _decode(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise _unreadable(file, f"larger than {MAX_BYTES // 2**20} MiB; split the policy into several files")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{content[error.start]:02x}; save the file as UTF-8"
        raise PolicyError([Problem(Place(file, line, column), message, Code.UNREADABLE)]) from None


def _unreadable(file: str, message: str) -> PolicyError:
    return PolicyError([Problem(Place(file), message, Code.UNREADABLE)])
