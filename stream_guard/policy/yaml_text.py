"""Parse YAML 1.2 text into a tree with places, without recursion; no tag constructs an object."""

from __future__ import annotations

from typing import Any, Final

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

from stream_guard.policy.codes import Code
from stream_guard.policy.message_parts import show
from stream_guard.policy.nodes import MERGE, Builder, Mark, Node, ParseStopped, new_list, new_mapping
from stream_guard.policy.scalars import check_text, resolve_plain

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
