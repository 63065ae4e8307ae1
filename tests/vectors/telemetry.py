"""Telemetry vectors: raw records of a format, and what really happened, each thing once."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import isclose
from typing import Any, Final

import msgspec

import stream_guard as sg
from tests.vectors.case import LeftOut, WrongAnswerError, check_fields, expect
from tests.vectors.shown import NEEDS, Shown, attempts, show, texts_in

_FIELDS: Final = frozenset(("name", "id", "format", "source", "records", "expect", "why", "file", "note", "family"))
_SAME_REASON: Final = {
    **dict.fromkeys(("tool_call", "tool_calls", "tool-calls", "tool_use"), "tool_use"),
    **dict.fromkeys(("stop", "end_turn"), "end_turn"),
    **dict.fromkeys(("length", "max_tokens"), "max_tokens"),
}


def run(case: dict[str, Any]) -> LeftOut | None:
    """Compare what rules are shown of the records with what happened; no record may be refused."""
    check_fields("the field of a case", case, _FIELDS)
    wanted = case["expect"]
    check_fields("the expectation", wanted, frozenset(_CHECKS) | {"ordered"})
    shown = show(case["format"], [_bytes(record) for record in case["records"]], _budget(wanted), case.get("file", ""))
    if shown.refused:
        raise WrongAnswerError(f"{len(shown.refused)} records refused: {shown.refused[0]}")
    unpaired = [event.call_id or event.tool for event in _results(shown) if event.attempt < 0]
    if unpaired:
        raise WrongAnswerError(f"results without their call: {unpaired}")
    for key, value in wanted.items():
        if key == "tool_calls":
            _check_tool_calls(shown, value, ordered=bool(wanted.get("ordered")))
        elif key != "ordered":
            _CHECKS[key](shown, value)
    return None


def _bytes(record: Any) -> bytes:
    if isinstance(record, dict) and set(record) == {"$base64"}:
        return b64decode(record["$base64"])
    return (record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)).encode()


def _budget(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    if "total_tokens" not in wanted:
        return []
    n = wanted["total_tokens"]
    return [
        {"id": "tokens", "kind": "max_total_tokens", "params": {"n": n}},
        {"id": "tokens-less-one", "kind": "max_total_tokens", "params": {"n": n - 1}},
    ]


def _turns(shown: Shown) -> list[sg.Turn]:
    return [event for event in shown.events if isinstance(event, sg.Turn)]


def _calls(shown: Shown) -> list[sg.ToolCall]:
    return [event for event in shown.events if isinstance(event, sg.ToolCall)]


def _results(shown: Shown) -> list[sg.ToolResult]:
    return [event for event in shown.events if isinstance(event, sg.ToolResult)]


def _check_sessions(shown: Shown, wanted: int) -> None:
    expect("sessions", len({event.session_id for event in shown.events}), wanted)


def _check_session_ids(shown: Shown, wanted: list[str]) -> None:
    expect("session ids", sorted({event.session_id for event in shown.events}), sorted(wanted))


def _check_user_messages(shown: Shown, wanted: int) -> None:
    expect("user messages", sum(isinstance(event, sg.UserMessage) for event in shown.events), wanted)


def _check_tool_calls(shown: Shown, wanted: list[list[Any]], *, ordered: bool) -> None:
    got = [[call.tool, call.args] for call in _calls(shown)]
    same = (
        len(got) == len(wanted) and all(map(_fits, got, wanted))
        if ordered
        else _is_same_multiset(got, wanted, _fits, loose=lambda row: row[-1] is None)
    )
    if not same:
        raise WrongAnswerError(f"tool calls{' in order' if ordered else ''}: got {got!r}, expected {wanted!r}")


def _fits(got: list[Any], wanted: list[Any]) -> bool:
    return bool(got[0] == wanted[0] and (wanted[1] is None or sg.json_equal(got[1], wanted[1])))


def _is_same_multiset(
    got: Sequence[Any], wanted: Sequence[Any], fits: Callable[[Any, Any], bool], *, loose: Callable[[Any], bool]
) -> bool:
    """Compare as multisets; what leaves something open takes what the others leave."""
    rest = list(got)
    for one in sorted(wanted, key=loose):
        match = next((number for number, found in enumerate(rest) if fits(found, one)), None)
        if match is None:
            return False
        del rest[match]
    return not rest


def _check_count(shown: Shown, wanted: dict[str, int]) -> None:
    got = Counter(call.tool for call in _calls(shown))
    expect("attempts by tool", {tool: got[tool] for tool in wanted}, wanted)


def _check_tool_results(shown: Shown, wanted: list[list[str]]) -> None:
    got = sorted([result.tool, result.status] for result in _results(shown))
    expect("tool results", got, sorted(wanted))


def _check_outcomes(shown: Shown, wanted: list[list[Any]]) -> None:
    by_number = attempts(shown.events)
    got = [
        [result.tool, by_number[result.attempt].args if result.attempt in by_number else None, result.status]
        for result in _results(shown)
    ]

    def fits(found: list[Any], one: list[Any]) -> bool:
        return _fits(found, one) and bool(found[2] == one[2])

    if not _is_same_multiset(got, wanted, fits, loose=lambda row: row[1] is None):
        raise WrongAnswerError(f"outcomes: got {got!r}, expected {wanted!r}")


def _check_blocked(shown: Shown, wanted: list[str]) -> None:
    stopped = {
        event.attempt
        for event in shown.events
        if (isinstance(event, sg.GateDecision) and event.action == "block")
        or (isinstance(event, sg.ToolResult) and event.status == "blocked")
    }
    got = [call.tool for number, call in attempts(shown.events).items() if number in stopped]
    expect("blocked", sorted(got), sorted(wanted))


def _check_usage(shown: Shown, wanted: dict[str, int] | None) -> None:
    usages = [turn.response.get("usage") for turn in _turns(shown)]
    if wanted is None:
        expect("usage", [usage for usage in usages if usage], [])
        return
    got: Counter[str] = Counter()
    for usage in usages:
        for name, number in _numbers(usage):
            got[_sort_of_tokens(name)] += number
    expect("usage", {name: got[name] for name in wanted}, wanted)


def _numbers(usage: Any) -> Iterator[tuple[str, int]]:
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, int(value)


def _sort_of_tokens(name: str) -> str:
    if "think" in name or "reason" in name:
        return "thinking_tokens"
    if "cache" in name:
        return "cache_write" if "write" in name or "creat" in name else "cache_read"
    return name


def _check_total_tokens(shown: Shown, wanted: int) -> None:
    if "tokens" in shown.fired:
        raise WrongAnswerError(f"max_total_tokens fires with n {wanted}: something is counted twice")
    if wanted > 0 and "tokens-less-one" not in shown.fired:
        raise WrongAnswerError(f"max_total_tokens is silent with n {wanted - 1}: something is not counted")


def _check_agent(shown: Shown, wanted: str | dict[str, str]) -> None:
    if isinstance(wanted, dict):
        got = {tool: {_name(call.agent) for call in _calls(shown) if call.tool == tool} for tool in wanted}
        expect("agents of tools", got, {tool: {agent} for tool, agent in wanted.items()})
        return
    acting = [event for event in shown.events if isinstance(event, sg.Turn | sg.ToolCall | sg.ToolResult)]
    expect("agents", sorted({_name(event.agent) for event in acting}), [wanted])


def _name(agent: str) -> str:
    return agent.partition("@")[0]


def _check_runs(shown: Shown, wanted: int) -> None:
    acting = [event for event in shown.events if isinstance(event, sg.Turn | sg.ToolCall)]
    expect("runs", len({event.run_id for event in acting}), wanted)


def _check_model(shown: Shown, wanted: str) -> None:
    got = {turn.labels.get("model") or (turn.request or {}).get("model") for turn in _turns(shown)}
    expect("models", sorted(map(str, got)), [wanted])


def _check_stop_reasons(shown: Shown, wanted: list[str]) -> None:
    got = [turn.response.get("stop_reason") for turn in _turns(shown)]
    same = [_SAME_REASON.get(str(one), one) for one in got] == [_SAME_REASON.get(one, one) for one in wanted]
    if not same:
        raise WrongAnswerError(f"stop reasons: got {got!r}, expected {wanted!r}")


def _latencies(shown: Shown) -> list[float]:
    found = [turn.response.get("latency_ms") for turn in _turns(shown)]
    return [value for value in found if value is not None]


def _check_latency(shown: Shown, wanted: list[float]) -> None:
    got = _latencies(shown)
    same = len(got) == len(wanted) and all(
        isclose(one, other, abs_tol=1e-3) for one, other in zip(got, wanted, strict=True)
    )
    if not same:
        raise WrongAnswerError(f"latencies: got {got!r}, expected {wanted!r}")


def _check_latency_not(shown: Shown, wanted: float | list[float]) -> None:
    values = wanted if isinstance(wanted, list) else [wanted]
    wrong = [one for one in _latencies(shown) if any(isclose(one, other, abs_tol=1e-3) for other in values)]
    expect("latencies that no turn may have", wrong, [])


def _check_texts(shown: Shown, wanted: list[str]) -> None:
    expect("texts", [turn.text for turn in _turns(shown) if turn.text], wanted)


def _check_not_text(shown: Shown, wanted: list[str]) -> None:
    said = [text for text in wanted for turn in _turns(shown) if text in turn.text]
    expect("what no turn says", said, [])


def _check_not_together(shown: Shown, wanted: list[Any]) -> None:
    groups = wanted if wanted and isinstance(wanted[0], list) else [wanted]
    said = [group for group in groups for turn in _turns(shown) if all(text in turn.text for text in group)]
    expect("what no turn says together", said, [])


def _check_visible(shown: Shown, wanted: list[str]) -> None:
    everything = texts_in([msgspec.to_builtins(event) for event in shown.events])
    expect("strings that rules are not shown", [text for text in wanted if text not in everything], [])


def _check_unevaluable(shown: Shown, wanted: list[str]) -> None:
    check_fields("what a rule needs", dict.fromkeys(wanted), frozenset(NEEDS))
    expect("judged though it cannot be", sorted(set(wanted) - shown.unevaluable), [])


def _check_evaluable(shown: Shown, wanted: list[str]) -> None:
    check_fields("what a rule needs", dict.fromkeys(wanted), frozenset(NEEDS))
    expect("unevaluable though it is there", sorted(set(wanted) & shown.unevaluable), [])


_CHECKS: Final[dict[str, Callable[[Shown, Any], None]]] = {
    "sessions": _check_sessions,
    "session_ids": _check_session_ids,
    "turns": lambda shown, wanted: expect("turns", len(_turns(shown)), wanted),
    "user_messages": _check_user_messages,
    "calls": lambda shown, wanted: expect("calls", len(_calls(shown)), wanted),
    "tool_calls": lambda shown, wanted: _check_tool_calls(shown, wanted, ordered=False),
    "count": _check_count,
    "tool_results": _check_tool_results,
    "outcomes": _check_outcomes,
    "blocked": _check_blocked,
    "usage": _check_usage,
    "total_tokens": _check_total_tokens,
    "agent": _check_agent,
    "runs": _check_runs,
    "model": _check_model,
    "stop_reasons": _check_stop_reasons,
    "latency_ms": _check_latency,
    "latency_not": _check_latency_not,
    "texts": _check_texts,
    "not_text": _check_not_text,
    "not_together": _check_not_together,
    "visible": _check_visible,
    "unevaluable": _check_unevaluable,
    "evaluable": _check_evaluable,
}
