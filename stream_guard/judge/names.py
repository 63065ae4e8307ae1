"""Tool names as they are judged: a name in disguise is judged as the tool that a reader takes it for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Json
from stream_guard.judge.patterns import ToolPattern, fold_all, see_through
from stream_guard.judge.spec import Policy

_MEMO_LIMIT: Final = 4096
_LONGEST: Final = 200  # characters of a name


class SeenName(NamedTuple):
    """The name that a disguised one is judged as, and whether the disguise matters to the policy."""

    tool: str
    is_lookalike: bool


class ToolNames(dict[str, SeenName | None]):
    """For every name as written what it is judged as, made when it is first seen; None: as it is written."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        patterns = list(_patterns(policy))
        # A glob that matches any name, also one of a private sign, knows no tool.
        self._globs = [pattern for pattern in patterns if pattern.exact is None and not pattern.matches("\ue000")]
        self._names = frozenset(name for pattern in patterns for name in pattern.names)
        self._folded = {fold_all(name): name for name in sorted(self._names)}

    def __missing__(self, written: str) -> SeenName | None:
        # Agents choose the names: a stream of invented ones must not fill the memory.
        if len(self) >= _MEMO_LIMIT:
            self.clear()
        judged = self[written] = self._judge(written)
        return judged

    def _judge(self, written: str) -> SeenName | None:
        if written in self._names or (written.isascii() and written.isprintable()):
            return None
        seen = see_through(written)
        known = seen if seen in self._names else self._folded.get(fold_all(seen))
        if known is not None:
            return SeenName(known, _is_disguise(written, known))
        if seen == written:
            return None
        return SeenName(seen, _is_disguise(written, seen) and any(glob.matches(seen) for glob in self._globs))


def _patterns(policy: Policy) -> Iterator[ToolPattern]:
    """Yield the tool names and globs of a policy, and other short texts of its rules: which are names, kinds know."""
    texts = list(_strings(policy.tool_classes.values()))
    texts += [tool for _, agent in policy.agents.items() for tool in agent.operations or ()]
    for spec in policy.rules:
        texts += _strings([dict(spec.params), _source(spec.when), _source(spec.unless)])
    for text in dict.fromkeys(texts):
        if len(text) <= _LONGEST and not text.startswith("@"):
            try:
                yield ToolPattern(text)
            except ValueError:
                continue  # a text with brackets that is no glob


def _is_disguise(written: str, judged: str) -> bool:
    """Whether more differs than how accents are put together."""
    return unicodedata.normalize("NFC", written) != unicodedata.normalize("NFC", judged)


def _source(condition: Condition | None) -> Json:
    return condition.source if condition is not None else None


def _strings(values: Iterable[Json]) -> Iterator[str]:
    waiting = list(values)
    for value in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
