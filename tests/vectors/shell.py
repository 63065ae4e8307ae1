"""Shell vectors: what commands do, and what rules about it find in a session."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.reading import read_command
from stream_guard_shell.sessions import with_ownership

from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Event, ToolCall, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from tests.vectors.case import CannotRunError, LeftOut, expect

CWD: Final = "/home/u/project"
HOME: Final = "/home/u"
WISHES: Final = Path(__file__).with_name("shell_wishes.yaml")


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case: the effects of one command, or the rule of a wish over the commands of a session."""
    if "wish" in case:
        _run_wish(case)
        return None
    reading = read_command(text_of(case["command"]), case.get("cwd", CWD), case.get("home", HOME))
    effects = with_ownership(reading.effects, frozenset(case.get("created", ())))
    expect("effects", _shown(effects), sorted(json.dumps(one, sort_keys=True) for one in case["effects"]))
    expect("opaque", sorted(reading.opaque), sorted(case["opaque"] or ()))
    return None


def text_of(command: str | list[Any]) -> str:
    """Return a command; it may be in pieces, texts and [text, times]."""
    if isinstance(command, str):
        return command
    return "".join(piece if isinstance(piece, str) else piece[0] * piece[1] for piece in command)


def _shown(effects: tuple[ShellEffect, ...]) -> list[str]:
    return sorted(json.dumps(effect.as_json(), sort_keys=True) for effect in effects)


@cache
def wishes() -> Policy:
    """Return one rule for each wish."""
    return load_policy(WISHES.read_text(encoding="utf-8"), build_registry(), file=WISHES.name)


def _run_wish(case: dict[str, Any]) -> None:
    wish = case["wish"]
    rules = tuple(rule for rule in wishes().rules if rule.id == wish)
    if not rules:
        raise CannotRunError(f"there is no rule for the wish {wish}")
    events = [_event(number, item) for number, item in enumerate(case["commands"])]
    policy = Policy(rules=rules, version="wish")
    found = sorted(int(finding.event_id) for finding in evaluate(events, policy))
    expect("fires at", found, sorted(case["fires_at"]))
    inline, unevaluable = _inline(policy, events)
    expect("fires inline at", inline, sorted(case["fires_at"]))
    expect("unevaluable at", unevaluable, sorted(case.get("unevaluable_at", ())))


def _inline(policy: Policy, events: list[Event]) -> tuple[list[int], list[int]]:
    """Ask a guard about each call and tell it the rest; return where it fires, and where it could not judge."""
    guard = Guard(policy)
    fires, unevaluable = [], []
    for number, event in enumerate(events):
        if isinstance(event, ToolCall):
            decision = guard.check(event)
            fires += [number] * bool(decision.findings or decision.followup)
            unevaluable += [number] * bool(decision.rules.unevaluable)
        else:
            fires += [number] * bool(guard.observe(event))
    return fires, unevaluable


def _event(number: int, item: str | list[Any] | dict[str, Any]) -> Event:
    header: dict[str, Any] = {"session_id": "s", "event_id": str(number), "time": float(number)}
    folder = {"cwd": CWD}
    if isinstance(item, dict) and "command" in item:
        folder = {"cwd": item.get("cwd", CWD)}
        item = item["command"]
    if isinstance(item, dict):
        if "say" in item:
            return Turn(response={"content": [{"type": "text", "text": item["say"]}]}, **header)
        path = item.get("edit") or item.get("create")
        tool = "Edit" if "edit" in item else "Write"
        return ToolCall(tool=tool, args={"file_path": path}, labels=folder, **header)
    return ToolCall(tool="Bash", args={"command": text_of(item)}, labels=folder, **header)
