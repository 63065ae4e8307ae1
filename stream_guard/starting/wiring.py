"""Wire packs to the tools that were found: a tool whose name has the words of one that a pack names is that tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from stream_guard.judge.model import Json
from stream_guard.judge.patterns import ToolPattern, tool_words
from stream_guard.registry import Registry
from stream_guard.starting.survey import ToolUse
from stream_guard.starting.tool_classes import words_of

_SAME_ARGUMENT: Final = "same_arg"  # the parameter in which kinds take the name of an argument


def wired_classes(pack: Mapping[str, Json], tools: Sequence[str]) -> dict[str, list[str]]:
    """Return by class of a pack the tools that its members mean and do not match: ``read`` where it has ``Read``."""
    classes: dict[str, list[str]] = {
        name: [members] if isinstance(members, str) else list(members)
        for name, members in pack.get("tool_classes", {}).items()
    }
    listed = ToolPattern([f"@{name}" for name in classes], classes) if classes else None
    left = [tool for tool in tools if listed is None or not listed.matches(tool)]
    found = {name: _same_words(_names(members), left) for name, members in classes.items()}
    return {name: same for name, same in found.items() if same}


def wired_rules(
    pack: Mapping[str, Json], tools: Sequence[str], uses: Mapping[str, ToolUse], registry: Registry
) -> Iterator[dict[str, Json]]:
    """Yield the rules of a pack that name tools which nobody called, with the tools in their place that were meant."""
    for rule in pack["rules"]:
        kind = registry.kinds.get(rule.get("kind"))
        written = rule.get("params", {})
        renamed: dict[str, str] = {}
        for name in kind.params_type.model_fields if kind is not None else ():
            text = written.get(name)
            names = list(_names([text])) if isinstance(text, str) and not _is_pattern(text) else []
            if not names or any(map(ToolPattern(text).matches, tools)):
                continue
            if same := _same_words(names, tools):
                renamed[name] = "|".join(same)
        if not renamed:
            continue
        params = {**written, **renamed}
        if _SAME_ARGUMENT in params:
            meant = [uses[tool] for text in renamed.values() for tool in text.split("|")]
            params[_SAME_ARGUMENT] = _argument(str(params[_SAME_ARGUMENT]), meant)
        yield {**{key: value for key, value in rule.items() if key != "tests"}, "params": params}


def _is_pattern(text: str) -> bool:
    return bool(set("~@*?()") & set(text))


def _names(members: Iterable[str]) -> Iterator[str]:
    """Yield the names that members of a class spell out; a pattern is none."""
    for member in members:
        yield from (name for name in member.split("|") if name and not _is_pattern(member))


def _same_words(names: Iterable[str], tools: Sequence[str]) -> list[str]:
    wanted = {tuple(tool_words(name)) for name in names}
    return [tool for tool in tools if tuple(words_of(tool)) in wanted]


def _argument(name: str, uses: Sequence[ToolUse]) -> str:
    """Return the argument of all the tools that is called so, or has a word of it: ``path`` for ``file_path``."""
    shared = [argument for argument in uses[0].arguments if all(argument in use.arguments for use in uses)]
    words = set(tool_words(name))
    alike = [argument for argument in shared if words & set(tool_words(argument))]
    return name if name in shared or not alike else alike[0]
