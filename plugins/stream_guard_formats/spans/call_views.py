"""Which spans of a trace are views of one tool call: the agent's span, an MCP client's, an MCP server's, a callback's.

Views of a call stand inside each other: the agent's span around the client's, and that one around the server's. A span
inside another is a view of the same call if the tool and the arguments are the same. Two spans that follow each other
are two calls, also inside a third: something tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from stream_guard import Json
from stream_guard_formats.chat.messages import unpack
from stream_guard_formats.reading import digest
from stream_guard_formats.spans.raw_spans import Span

_MAX_DEPTH: Final = 100
_MAX_SHARED: Final = 50  # spans that are compared because they share something; a trace may have any number
# What frameworks put between the name of a server and the name of its tool.
_SEPARATORS: Final = ("__", ".", "/", ":")


class MergedCall(NamedTuple):
    """One tool call: the outermost of its views, completed by the others."""

    span: Span
    inner: tuple[Span, ...] = ()  # the other views, outermost first
    emitted: bool = False  # a view of it became events before


def merge_views(spans: Mapping[str, Span], new: Iterable[Span]) -> list[MergedCall]:
    """Return the tool calls that new spans are views of. ``spans`` are all spans of the trace that are known."""
    tools = [span for span in spans.values() if span.sort == "tool"]
    if not tools:
        return []
    index = _index(tools)
    outer = {tool.span_id: found for tool in tools if (found := _find_outer(tool, spans, index)) is not None}
    outcomes = {span.parent_id: span for span in spans.values() if span.sort == "outcome"}
    wanted = {span.span_id for span in new if span.sort == "tool"}
    if not outer:  # nearly always: each span is a call
        alone = [tool for tool in tools if tool.span_id in wanted]
        return [MergedCall(_complete([tool], outcomes, repeated=False), emitted=tool.emitted) for tool in alone]
    repeated = _detach_repeated(outer, spans)
    groups: dict[str, list[Span]] = {}
    for tool in sorted(tools, key=lambda one: (one.start or 0.0, -(one.end or 0.0), one.span_id)):
        groups.setdefault(_head(tool.span_id, outer), []).append(tool)
    merged: list[MergedCall] = []
    for head, views in groups.items():
        if any(view.span_id in wanted for view in views):
            views.sort(key=lambda view: view.span_id != head)
            emitted = any(view.emitted for view in views)
            span = _complete(views, outcomes, repeated=head in repeated)
            merged.append(MergedCall(span, tuple(views[1:]), emitted))
    return merged


def same_tool(one: str, other: str) -> bool:
    """Whether two names are one tool's; a framework may put the name of the server in front."""
    if one == other:
        return True
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return bool(shorter) and longer.endswith(tuple(separator + shorter for separator in _SEPARATORS))


def args_digest(args: Json) -> str:
    """Return a digest that is the same for equal arguments, in any order of keys; empty where there are none."""
    if args is None:
        return ""
    return digest(msgspec.json.encode(unpack(args) if isinstance(args, str) else args, order="sorted"))


def _index(tools: Sequence[Span]) -> dict[str, list[Span]]:
    """Return the tools' spans by what they may share with another view: an identity, a call's id, the arguments."""
    index: dict[str, list[Span]] = {}
    by_arguments = any(tool.protocol for tool in tools)  # only a protocol's span is found by them
    for tool in tools if len(tools) > 1 else ():
        if tool.identity:
            index.setdefault(f"i{tool.identity}", []).append(tool)
        if tool.call_id:
            index.setdefault(f"c{tool.call_id}", []).append(tool)
        if by_arguments and not tool.protocol:
            index.setdefault(f"a{_digest_of(tool)}", []).append(tool)
    return index


def _find_outer(tool: Span, spans: Mapping[str, Span], index: Mapping[str, Sequence[Span]]) -> str | None:
    """Return the id of the span that is the next view of the same call, outwards."""
    above, passed = spans.get(tool.parent_id), {tool.span_id}
    while above is not None and above.span_id not in passed and len(passed) < _MAX_DEPTH:
        if above.sort == "tool":
            return above.span_id if _is_same_call(above, tool) else None
        if above.sort in ("agent", "llm"):
            return None
        passed.add(above.span_id)
        above = spans.get(above.parent_id)
    if tool.emitted or not index:
        return None
    # No way up: a span around this one was not sent, or the views are siblings. Ids decide, then time and arguments.
    shared = [*index.get(f"i{tool.identity}", ())[:_MAX_SHARED], *index.get(f"c{tool.call_id}", ())[:_MAX_SHARED]]
    same = [other for other in shared if _is_around(other, tool) and _has_same_id(other, tool)]
    if not same and tool.protocol and above is None and tool.parent_id and (args := _digest_of(tool)):
        alike = index.get(f"a{args}", ())[:_MAX_SHARED]
        same = [other for other in alike if _is_around(other, tool) and same_tool(other.name, tool.name)]
    return min(same, key=_length).span_id if same else None


def _is_same_call(outer: Span, inner: Span) -> bool:
    one, other = _digest_of(outer), _digest_of(inner)
    if one and other and one != other:
        return False
    return same_tool(outer.name, inner.name) or bool(inner.protocol and one and one == other)


def _is_around(outer: Span, inner: Span) -> bool:
    """Whether a span began before another and ended after it. Of two at the same time, the one with the lower id is."""
    if outer.span_id == inner.span_id or None in (outer.start, outer.end, inner.start, inner.end):
        return False
    one, other = (outer.start or 0.0, -(outer.end or 0.0)), (inner.start or 0.0, -(inner.end or 0.0))
    return one[0] <= other[0] and one[1] <= other[1] and (one != other or outer.span_id < inner.span_id)


def _has_same_id(one: Span, other: Span) -> bool:
    if one.identity and other.identity:
        return one.identity == other.identity
    return bool(one.call_id) and one.call_id == other.call_id and same_tool(one.name, other.name)


def _length(span: Span) -> float:
    return (span.end or 0.0) - (span.start or 0.0)


def _digest_of(span: Span) -> str:
    return span.args_digest or args_digest(span.inputs)


def _detach_repeated(outer: dict[str, str], spans: Mapping[str, Span]) -> set[str]:
    """Take later tries out of the views of a call, and return the calls that had some.

    Inside one span, two views that follow each other are two calls.
    """
    inner: dict[str, list[Span]] = {}
    for span_id, outer_id in outer.items():
        inner.setdefault(outer_id, []).append(spans[span_id])
    repeated: set[str] = set()
    for outer_id, views in inner.items():
        # A view that became events before stays the first.
        first, *others = sorted(views, key=lambda view: (not view.emitted, view.start or 0.0, view.span_id))
        for view in others:
            if _is_before(first, view) or _is_before(view, first):
                del outer[view.span_id]
                repeated.add(outer_id)
    return repeated


def _is_before(one: Span, other: Span) -> bool:
    return one.end is not None and other.start is not None and one.end <= other.start


def _head(span_id: str, outer: Mapping[str, str]) -> str:
    for _ in range(_MAX_DEPTH):
        if span_id not in outer:
            break
        span_id = outer[span_id]
    return span_id


def _complete(views: Sequence[Span], outcomes: Mapping[str, Span], *, repeated: bool) -> Span:
    """Return the outermost view, with what only the others have. Around several tries, it has the last outcome."""
    head = views[0]
    if len(views) == 1 and head.span_id not in outcomes:
        return head
    last = views[1:] if repeated and len(views) > 1 else views
    ends = [outcomes[view.span_id] for view in views if view.span_id in outcomes]
    return head._replace(
        inputs=next((view.inputs for view in views if view.inputs is not None), None),
        outputs=next((view.outputs for view in last if view.outputs is not None), None),
        call_id=next((view.call_id for view in views if view.call_id), ""),
        failed=any(view.failed for view in (*last, *ends)),
        error=next((view.error for view in (*last, *ends) if view.error), ""),
        agent=next((view.agent for view in views if view.agent), ""),
        end=last[0].end,
        decision=next((view.decision for view in views if view.decision is not None), None),
        identity=next((view.identity for view in views if view.identity), ""),
    )
