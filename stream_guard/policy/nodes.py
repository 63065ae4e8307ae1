"""The tree that a policy file is read into: plain data, with the line and column of every value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stream_guard.errors import Place, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.codes import Code
from stream_guard.policy.message_parts import printable, show

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
