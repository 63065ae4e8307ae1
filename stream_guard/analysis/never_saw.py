"""Rules that never saw what they wait for: a tool, a path, a text, or any event of their kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.analysis.breaking import patterns_in
from stream_guard.judge.bound import needed_paths
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, Json, ToolCall, Turn, UserMessage
from stream_guard.judge.patterns import ToolPattern
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.gates import events_handled
from stream_guard.policy.message_parts import printable

Awaited: TypeAlias = Literal["tool", "path", "text", "event"]

_NEAR: Final = 0.6  # likeness from which on a name may have been meant
_SLIP: Final = 0.8  # likeness of a name that looks like a slip
_NAMES: Final = 3
_LISTED: Final = 10
_LONGEST: Final = 80
_EVENTS: Final[dict[str, type[Event]]] = {"user_message": UserMessage, "turn": Turn, "tool_call": ToolCall}


class Seen(msgspec.Struct, frozen=True):
    """A name that occurred, and how often."""

    name: str
    count: int


class NeverSaw(msgspec.Struct, frozen=True, kw_only=True):
    """Something a rule waits for that did not occur. ``near`` has the names that did and may have been meant."""

    rule_id: str
    what: Awaited
    name: str
    near: tuple[Seen, ...] = ()
    fired: bool = False  # and the name may be a slip, because of which it did

    def __str__(self) -> str:
        seen = f"; seen: {', '.join(f'{seen.name} ({seen.count:,})' for seen in self.near)}" if self.near else ""
        if self.fired:
            return printable(f"{self.rule_id} fired, and no tool is called {self.name}{seen}")
        return printable(f"{self.rule_id} never saw {self.name}{seen}")


def never_saw(policy: Policy, counts: Counts) -> list[NeverSaw]:
    """Return what the rules of a policy waited for in vain, in the order of the policy.

    Nothing was read: nothing is said, because then every rule saw nothing. A rule that fired saw what it needs: that
    another of its tools was not called may be just what it found, so of such a rule only slips are told.
    """
    if not any(counts.events.values()):
        return []
    missing: list[NeverSaw] = []
    for number, spec in enumerate(policy.rules):
        missing += _slips(spec, counts) if counts.findings[number] else _of_rule(spec, counts)
    return missing


def _slips(spec: RuleSpec, counts: Counts) -> list[NeverSaw]:
    """Return the tools of a rule that fired whose names look like a slip: it may have fired because of that."""
    tools = [_never_called(spec, names, counts, alike=_SLIP) for names in _tool_names(spec)]
    return [
        msgspec.structs.replace(tool, fired=True) for tool in dict.fromkeys(tools) if tool is not None and tool.near
    ]


def _of_rule(spec: RuleSpec, counts: Counts) -> list[NeverSaw]:
    """Return what is missing first: without its tool, a rule sees no path and no text either."""
    tools = [_never_called(spec, names, counts) for names in _tool_names(spec)]
    missing = [tool for tool in tools if tool is not None]
    if missing:
        return list(dict.fromkeys(missing))
    handled = events_handled(type(spec.rule))
    kinds = [_EVENTS[name] for name in ("user_message", "turn", "tool_call") if name in handled]
    if kinds and handled <= _EVENTS.keys() and not any(counts.events[kind] for kind in kinds) and not counts.tools:
        words = " or ".join(f"a {name}" for name in _EVENTS if name in handled).replace("_", " ")
        return [NeverSaw(rule_id=spec.id, what="event", name=words)]
    needed = [path.text for path in needed_paths(spec)]
    paths = [_never_there(spec, path, counts) for path in needed if (spec.id, path) not in counts.paths]
    if paths:
        return list(dict.fromkeys(paths))
    texts = spec.rule.texts()
    if texts and not counts.texts.get(spec.id):
        shown = texts[0].regex if len(texts) == 1 else f"{texts[0].regex} or {len(texts) - 1} more"
        return [NeverSaw(rule_id=spec.id, what="text", name=shown[:_LONGEST])]
    return []


def _never_called(spec: RuleSpec, names: ToolPattern, counts: Counts, *, alike: float = _NEAR) -> NeverSaw | None:
    if any(names.matches(tool) for tool in counts.tools):
        return None
    # `a|b` is a list of names too.
    written = dict.fromkeys(name for part in names.expanded for name in part.removeprefix("~").split("|"))
    wanted = [name for name in written if not set("*?[") & set(name)]
    near = {seen.name: seen for name in wanted for seen in _near(name, counts.tools, alike=alike)}
    shown = ", ".join(wanted[:_NAMES]) + (f" or {len(wanted) - _NAMES} more" if len(wanted) > _NAMES else "")
    return NeverSaw(rule_id=spec.id, what="tool", name=shown or str(names), near=tuple(near.values())[:_NAMES])


def _never_there(spec: RuleSpec, path: str, counts: Counts) -> NeverSaw:
    return NeverSaw(rule_id=spec.id, what="path", name=path, near=_near(path, counts.fields, most=1, alike=_SLIP))


def _near(name: str, seen: Mapping[str, int], *, most: int = 2, alike: float = _NEAR) -> tuple[Seen, ...]:
    folded = {known.lower(): known for known in seen}
    close = get_close_matches(name.lower()[:200], [known[:200] for known in folded], most, alike)
    return tuple(Seen(folded[found], seen[folded[found]]) for found in close if found in folded)


def _tool_names(spec: RuleSpec) -> Iterator[ToolPattern]:
    """Yield the patterns of tools in a rule's parameters, and the tools that its gate asks for by name."""
    yield from patterns_in(spec.rule.params)
    if spec.when is None:
        return
    for leaf in spec.when.certain_leaves():
        if leaf.path.text == "tool.name" and leaf.op in ("==", "in"):
            yield from _pattern_of(leaf.value)


def _pattern_of(value: Json) -> Iterator[ToolPattern]:
    texts = value if isinstance(value, list) else [value]
    if texts and all(isinstance(text, str) and text and text[0] != "@" for text in texts):
        try:
            yield ToolPattern(texts)
        except ValueError:
            return  # a name with brackets that is no glob


def in_words(missing: Iterable[NeverSaw]) -> Iterator[str]:
    """Yield a line for each thing whose name may be a slip, and one line for all the others."""
    others: dict[str, list[str]] = {}
    for one in missing:
        if one.near or one.what in ("path", "event"):
            yield str(one)
        else:
            others.setdefault(one.rule_id, []).append(one.name)
    if others:
        shown = ", ".join(f"{rule} ({'; '.join(names)})" for rule, names in list(others.items())[:_LISTED])
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        yield printable(f"rules that never saw their tool or text: {shown}{more}")
