"""What was refused is not tried with other words."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import msgspec

import stream_guard as sg
from stream_guard_shell.effects import CommandReading, ShellEffect
from stream_guard_shell.patterns import HARD_REASONS
from stream_guard_shell.sessions import SessionParams, SessionPaths, place_of, read_call

_MOST_CALLS: Final = 16  # that wait for a decision
_MOST_EFFECTS: Final = 16  # of one call
_MOST_DENIED: Final = 64
_LONGEST: Final = 300
_NO_ACTS: Final = frozenset(("run", "background"))
_HOW: Final = frozenset(("recursive", "append", "own", "fetched", "tool", "interpreter", "no_verify"))


class TriedEffects(sg.State):
    """A call that waits for a decision: its number, a digest of it, and what it would do."""

    attempt: int
    digest: str
    effects: list[str]


class DeniedEffect(sg.State):
    """An effect that was refused, and a digest of the call that was to have it."""

    digest: str
    effect: str


class NoDeniedEffectParams(SessionParams):
    """Parameters of ``no_denied_effect``."""


class NoDeniedEffectState(sg.State):
    """Where the session is, what waits for a decision, and what was refused."""

    paths: SessionPaths = msgspec.field(default_factory=SessionPaths)
    recent: list[TriedEffects] = []
    denied: list[DeniedEffect] = []


class NoDeniedEffect(sg.Rule[NoDeniedEffectParams, NoDeniedEffectState]):
    """What a gate refused must not be done in another way.

    Calls are compared by what they do: a file that `Read` was refused is not read with `cat`, and `find -delete` is
    not tried for `rm -rf`. The same call again is no other way. What a command only runs does not count, and what it
    reads only where it does nothing else. A result that a user rejected is no refusal of a gate: they often want the
    same thing done better. The last 64 refused effects are remembered.
    """

    kind = "no_denied_effect"
    state_limit = 65536
    examples = (
        sg.Example(
            claim="the same effect in other words is a hit",
            params={},
            trace=[
                {"call": "Bash", "args": {"command": "rm -rf /srv/data"}, "id": "a"},
                {"decision": "block", "id": "a"},
                {"call": "Bash", "args": {"command": "find /srv/data -delete"}},
                {"call": "Bash", "args": {"command": "python3 -c \"import shutil; shutil.rmtree('/srv/data')\""}},
            ],
            hits=[2, 3],
        ),
        sg.Example(
            claim="the same call again is no other way, and something else is fine",
            params={},
            trace=[
                {"call": "Bash", "args": {"command": "cat a && rm -rf /srv/data && make"}, "id": "a"},
                {"decision": "block", "id": "a"},
                {"call": "Bash", "args": {"command": "cat a && rm -rf /srv/data && make"}},
                {"call": "Bash", "args": {"command": "cat a; make; rm -rf build"}},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are read."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """The arguments."""
        return frozenset(("content",))

    def on_tool_call(self, call: sg.ToolCall, state: NoDeniedEffectState) -> sg.Verdict:
        """Compare what the call does with what was refused."""
        reading = read_call(call, place_of(call, state.paths, self.params.project, self.params.home))
        if reading is None:
            return None
        effects, digest = _acts(reading), _digest(call)
        state.recent = [*state.recent[1 - _MOST_CALLS :], TriedEffects(call.attempt, digest, effects)]
        for denied in state.denied:
            if denied.effect in effects and denied.digest != digest:
                return sg.Hit(f"the command does what was refused before: {denied.effect}", {"effect": denied.effect})
        unclear = bool(state.denied) and bool(reading.opaque & HARD_REASONS)
        return sg.Unsure("unevaluable", "what the command does") if unclear else None

    def on_decision(self, decision: sg.GateDecision, state: NoDeniedEffectState) -> None:
        """Remember what was refused."""
        if decision.action in {"block", "terminate_session"}:
            _deny(decision.attempt, state)


def _deny(attempt: int, state: NoDeniedEffectState) -> None:
    tried = next((one for one in state.recent if one.attempt == attempt), None)
    if tried is None:
        return
    state.recent = [one for one in state.recent if one is not tried]
    state.denied = [*state.denied, *(DeniedEffect(tried.digest, effect) for effect in tried.effects)][-_MOST_DENIED:]


def _acts(reading: CommandReading) -> list[str]:
    """Return what a command does, in words that are the same however it is done."""
    acts = [effect for effect in reading.effects if effect.kind not in _NO_ACTS and _is_said(effect)]
    strong = [effect for effect in acts if effect.kind != "read"]
    return list(dict.fromkeys(_told(effect) for effect in strong or acts))[:_MOST_EFFECTS]


def _is_said(effect: ShellEffect) -> bool:
    return any(name not in _HOW for name, _ in effect.fields)


def _told(effect: ShellEffect) -> str:
    fields = [f"{name} {value}" for name, value in effect.fields if name not in _HOW]
    return f"{effect.kind}: {', '.join(fields)}"[:_LONGEST]


def _digest(call: sg.ToolCall) -> str:
    said = json.dumps([call.tool, call.args], sort_keys=True, default=str)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]
