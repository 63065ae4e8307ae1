"""States in words: the fields of a rule's state that say something, short enough for a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from stream_guard.judge.bound import overrides
from stream_guard.judge.forgotten import Sketch
from stream_guard.judge.model import Event, GateDecision, Json, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.rule import NoState, Params, Rule, RuleType, State, Verdict
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.redaction import redact, redact_text
from stream_guard.reports.safe import excerpt, visible

_MOST_FIELDS: Final = 8
_MOST_ITEMS: Final = 3
_MOST_CHARS: Final = 60

_EARLIEST: Final = 1e9  # a number between these is a time, in seconds since the epoch
_LATEST: Final = 1e11
_LARGE: Final = 1 << 40  # a number from here on is a fingerprint, which says nothing to a person

_DIGEST: Final = re.compile(r"(?=.*[A-Z0-9])[A-Za-z0-9_-]{16}|[0-9a-f]{32}")

NOTHING: Final = "nothing yet"


def describe_state(state: State) -> str:
    """Return the fields that differ from those of a new state; attempts by their number in the session."""
    fields = _fields(state)
    return ", ".join(fields) if fields else NOTHING


def _fields(state: State) -> list[str]:
    try:
        fresh = type(state)()
    except TypeError:  # a part of a state, which has no defaults
        fresh = None
    shown = []
    for name in state.__struct_fields__:
        value = getattr(state, name)
        if value is None or value == "" or (fresh is not None and value == getattr(fresh, name)):
            continue
        words = name.replace("_", " ").strip()
        shown.append(words if value is True else f"{words} {_value(value, of_attempts=name.startswith('attempt'))}")
    return shown if len(shown) <= _MOST_FIELDS else [*shown[:_MOST_FIELDS], f"{len(shown) - _MOST_FIELDS} more"]


def _value(value: Json, *, of_attempts: bool) -> str:  # noqa: PLR0911  # one for each sort of value
    if isinstance(value, State):
        return f"({', '.join(_fields(value))})"
    if isinstance(value, bool) or value is None:
        return "none" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return "a fingerprint" if value >= _LARGE else f"#{value + 1}" if of_attempts else f"{value}"
    if isinstance(value, float):
        return _time(value) if _EARLIEST <= value < _LATEST else f"{value:.10g}"
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, bytes | Sketch):
        return "[fingerprints]"
    if isinstance(value, dict | list | tuple | set | frozenset) and _is_fingerprints(list(value)):
        return f"[{len(value)} {'fingerprint' if len(value) == 1 else 'fingerprints'}]"
    if isinstance(value, dict):
        latest = list(value.items())[-_MOST_ITEMS:]
        shown = [f"{_value(key, of_attempts=of_attempts)}: {_value(item, of_attempts=False)}" for key, item in latest]
        return _listed(shown, len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return _listed([_value(item, of_attempts=of_attempts) for item in list(value)[-_MOST_ITEMS:]], len(value))
    return _short(str(value))


def _is_fingerprints(items: list[Json]) -> bool:
    """Whether a list, or the keys of a table, are fingerprints; one in 65,536 of these is a smaller number."""
    large = [item for item in items if type(item) is int and item >= _LARGE]
    return bool(items) and len(large) > len(items) // 2


def _listed(shown: list[str], size: int) -> str:
    inside = ", ".join(shown)
    if len(inside) > 3 * _MOST_CHARS:
        inside = f"{inside[: 3 * _MOST_CHARS]}…"
    return f"[{inside}]" if size <= len(shown) else f"[{size} in all, the last: {inside}]"


def take(state: State) -> bytes:
    """Return the state as bytes, to tell later whether it changed."""
    return msgspec.msgpack.encode(state)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def _short(text: str) -> str:
    if _DIGEST.fullmatch(text):
        return f"{text[:6]}…"  # a digest: it says no more than which one it is
    shown = "".join(char if char.isprintable() else " " for char in redact_text(text))
    return f'"{shown}"' if len(shown) <= _MOST_CHARS else f'"{shown[:_MOST_CHARS]}…"'


# Watched rules: a policy whose rules do what they always do, and tell a witness what they were shown and answered.
#
# The engine runs them as any other policy. A watched kind derives from the rule's own and hands each call on, so the
# verdicts are those of the rule itself. One more rule, the first of the policy, sees every event that rules are
# shown.


EVERY_EVENT: Final = "stream_guard_every_event"
"""The id of the rule that sees every event. It never fires."""

_HANDLERS: Final = ("on_user_message", "on_turn", "on_tool_call", "on_decision", "on_tool_result")


class Witness(Protocol):
    """Learns what the rules of a policy are shown, in order."""

    def see(self, event: Event) -> None:
        """An event is shown to the rules; it is over when the next one is."""

    def answered(
        self, number: int, shown: Event | float, before: bytes, state: State, verdict: Verdict, *, inside: bool
    ) -> None:
        """A rule answered to an event or a deadline; ``before`` is its state from before that, as bytes."""


class EveryEvent(Rule[Params, NoState]):
    """Sees every event, and never fires."""

    kind = EVERY_EVENT

    def __init__(self, params: Params, see: Callable[[Event], None]) -> None:
        super().__init__(params)
        self._see = see

    def on_user_message(self, message: UserMessage, _state: NoState) -> None:
        """Tell the witness."""
        self._see(message)

    def on_turn(self, turn: Turn, _state: NoState) -> None:
        """Tell the witness."""
        self._see(turn)

    def on_tool_call(self, call: ToolCall, _state: NoState) -> None:
        """Tell the witness."""
        self._see(call)

    def on_decision(self, decision: GateDecision, _state: NoState) -> None:
        """Tell the witness."""
        self._see(decision)

    def on_tool_result(self, result: ToolResult, _state: NoState) -> None:
        """Tell the witness."""
        self._see(result)

    def on_session_end(self, end: SessionEnd, _state: NoState) -> None:
        """Tell the witness."""
        self._see(end)


def watch(policy: Policy, witness: Witness) -> Policy:
    """Return the policy with every rule watched. Findings, their ids and the version are those of the policy."""
    watched = [_watched(number, spec, witness) for number, spec in enumerate(policy.rules)]
    return show_all(replace(policy, rules=tuple(watched)), witness.see)


def show_all(policy: Policy, see: Callable[[Event], None]) -> Policy:
    """Return the policy with one more rule, which never fires: ``see`` is told of every event that rules are shown."""
    every = RuleSpec(id=EVERY_EVENT, slot=EVERY_EVENT, rule=EveryEvent(Params(), see), shadow=True)
    return replace(policy, rules=(every, *policy.rules))


def _watched(number: int, spec: RuleSpec, witness: Witness) -> RuleSpec:
    kind = type(spec.rule)
    names = (*_HANDLERS, "on_ungated", "on_deadline", "on_session_end")
    busy: list[str] = []
    members: dict[str, Any] = {
        name: _watched_handler(name, getattr(kind, name), number, witness, busy)
        for name in names
        if overrides(spec.rule, name)
    }
    derived: RuleType = type(f"Watched{kind.__name__}", (kind,), members | {"__module__": kind.__module__})
    return replace(spec, rule=derived(spec.rule.params))


def _watched_handler(
    name: str, handle: Callable[..., Any], number: int, witness: Witness, busy: list[str]
) -> Callable[..., Any]:
    """Return the handler of a watched kind. One handler of a rule may call another; only the outer call is told."""

    def handler(rule: Rule[Any, Any], shown: Event | float, state: State) -> Any:
        if busy:
            return handle(rule, shown, state)
        before = take(state)
        busy.append(name)
        try:
            verdict = handle(rule, shown, state)
        finally:
            busy.clear()
        witness.answered(number, shown, before, state, verdict, inside=name != "on_ungated")
        return verdict

    handler.__name__ = name  # the engine tells handlers apart by it
    return handler


# One line for each event: who did what, short, without secrets, and unable to act on whoever shows it.


_MOST_ARGUMENTS: Final = 6
_MOST_VALUE: Final = 60
_ENDS: Final = {
    "closed": "the session ended",
    "idle": "the session was silent too long",
    "end_of_input": "the recording ended",
}


def describe_event(event: Event) -> str:
    """Return what an event says, on one line."""
    match event:
        case UserMessage():
            return f"user: {excerpt(event.text)}" if event.text else "user: (no text in the record)"
        case Turn():
            return _turn(event)
        case ToolCall():
            return f"call {visible(event.tool)}({_arguments(event.args)})"
        case GateDecision():
            rules = f" by {visible(', '.join(event.rule_ids))}" if event.rule_ids else ""
            return f"gate: {event.action} {visible(event.tool)}".rstrip() + rules
        case ToolResult():
            output = "" if event.output is None else f": {describe_value(event.output, 2 * _MOST_VALUE)}"
            return f"result of {visible(event.tool) or 'a call'}, {event.status}{output}"
        case SessionEnd():
            return _ENDS[event.reason]


def tool_of(event: Event) -> str:
    """Return the tool that an event is about, or nothing."""
    return visible(event.tool) if isinstance(event, ToolCall | GateDecision | ToolResult) else ""


def _turn(turn: Turn) -> str:
    said = f"answer: {excerpt(turn.text)}" if turn.text else "answer"
    tools = f" [calls {', '.join(map(visible, turn.tools[:5]))}]" if turn.tools else ""
    more = f" and {len(turn.tools) - 5} more" if len(turn.tools) > 5 else ""
    reason = turn.response.get("stop_reason")
    stopped = "" if tools or not isinstance(reason, str) else f" ({visible(reason[:40])})"
    return f"{said}{tools}{more}{stopped}"


def _arguments(args: Json) -> str:
    if not isinstance(args, dict):
        return "" if args is None else describe_value(args, 2 * _MOST_VALUE)
    shown = redact(dict(list(args.items())[:_MOST_ARGUMENTS]))
    written = [f"{visible(str(name))[:40]}={_written(value, _MOST_VALUE)}" for name, value in shown.items()]
    return ", ".join(written + ([f"{len(args) - _MOST_ARGUMENTS} more"] if len(args) > _MOST_ARGUMENTS else []))


def describe_value(value: Json, most: int) -> str:
    """Return a value as JSON on one line, redacted and cut."""
    return _written(redact(value), most)


def _written(value: Json, most: int) -> str:
    """Return a value that was redacted, as JSON on one line."""
    text = visible(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= most else f"{text[: most - 1]}…"
