"""Tests run after the last change, before the agent says that it is done."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec
from pydantic import Field

import stream_guard as sg
from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.patterns import PROJECT, UNKNOWN_FOLDER, EffectPattern, PatternFit, is_unclear
from stream_guard_shell.sessions import (
    SessionPaths,
    command_text,
    created_in,
    folders_of,
    place_of,
    read_call,
    remember,
    with_ownership,
)

_PROGRAMS: Final = ["pytest", "tox", "nox", "jest", "vitest", "mocha", "rspec", "phpunit", "ctest", "unittest"]
_TASKS: Final = ["test", "check", "test:*"]
_MOST_TEXT: Final = 100_000
_SENTENCE_END: Final = re.compile(r"[.!?:]\s|\n")
_PLAN: Final = re.compile(
    r"(?i)\b(?:let me|let's|i'll|i will|i'm going|going to|now (?:run|verify|check)|next|to (?:verify|see|check)|"
    r"make sure|ensure|verify|if|whether|should|would|could|can|must|need|until|once|when|before|not|yet)\b|\?"
)
# In the text of a command that runs what is in no table: `mise run test:ci`, `bazel test //...`, `nx test app`.
_TEST_WORD: Final = re.compile(r"(?i)(?:^|[\s:/_.-])(?:tests?|specs?|check)(?=[\s:/_.;&|)-]|$)")


def _changes() -> list[EffectPattern]:
    inside = [PROJECT]
    return [
        EffectPattern(effect="write", inside=inside),
        EffectPattern(effect="delete", inside=inside),
        EffectPattern(effect="move", inside=inside),
        EffectPattern.model_validate({"effect": "git", "with": {"op": "checkout_discard"}}),
    ]


class MustTestBeforeClaimParams(sg.Params):
    """Parameters of ``must_test_before_claim``."""

    claim: sg.Regex | None = Field(
        default=None,
        description="a regular expression (RE2) for words that say it is done; without it, any response without a call",
    )
    changes: list[EffectPattern] = Field(
        default_factory=_changes,
        description="effects after which tests have to run; without it, those inside the project",
    )
    programs: list[str] = Field(default=_PROGRAMS, description="programs that are tests, as globs")
    tasks: list[str] = Field(default=_TASKS, description="tasks that are tests, as globs")
    enough: Literal["tests", "any_run"] = Field(
        default="tests", description="what settles a change: a run of tests, or of any program or code"
    )
    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="shells and file tools: a name, a glob, a class, or a list"
    )
    project: str | None = Field(
        default=None, pattern="^/", description="the folder of the session; without it, the first that a call names"
    )
    home: str | None = Field(default=None, pattern="^/", description="the home; without it, the one the folder is in")


class MustTestBeforeClaimState(sg.State):
    """Where the session is, and whether something changed since tests ran."""

    paths: SessionPaths = msgspec.field(default_factory=SessionPaths)
    untested: str = ""  # what changed last


class MustTestBeforeClaim(sg.Rule[MustTestBeforeClaimParams, MustTestBeforeClaimState]):
    """When the agent says that it is done, tests must have run after the last change.

    A change is an edit, write, move or delete inside the project, by a file tool or in a command. A test is a run of
    a known test program, a task of that name, or of another program in a command with the word test or check. Whether
    the tests passed is for another rule.
    """

    kind = "must_test_before_claim"
    state_limit = 65536
    examples = (
        sg.Example(
            claim="a change after the tests is a hit when the agent says that it is done",
            params={"project": "/code/app"},
            trace=[
                {"call": "Edit", "args": {"file_path": "/code/app/a.py", "old_string": "a", "new_string": "b"}},
                {"call": "Bash", "args": {"command": "pytest -q"}},
                {"call": "Bash", "args": {"command": "sed -i s/a/b/ a.py"}},
                {"turn": "All done."},
            ],
            hits=[3],
        ),
        sg.Example(
            claim="tests after the last change are fine, and so is a file elsewhere",
            params={"project": "/code/app"},
            trace=[
                {"call": "Edit", "args": {"file_path": "/code/app/a.py", "old_string": "a", "new_string": "b"}},
                {"call": "Bash", "args": {"command": "npm test && echo ok > /tmp/r"}},
                {"turn": "All done."},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are read."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """Arguments and texts."""
        return frozenset(("content",))

    def on_tool_call(self, call: sg.ToolCall, state: MustTestBeforeClaimState) -> sg.Verdict:
        """Note changes and tests, in the order of the command."""
        reading = read_call(call, place_of(call, state.paths, self.params.project, self.params.home))
        if reading is None:
            return None
        unclear = is_unclear(reading, self.params.changes, strict=False)
        names_tests = _TEST_WORD.search(command_text(call)) is not None
        folders = folders_of(state.paths, self.params.home)
        if self.params.enough == "any_run" and "code" in reading.opaque:
            state.untested = ""
        for effect in with_ownership(reading.effects, created_in(state.paths)):
            answer = max(pattern.answer(effect, folders) for pattern in self.params.changes)
            if answer is PatternFit.UNSAID and folders.project == UNKNOWN_FOLDER and effect.get("path"):
                answer = PatternFit.YES  # most likely it is in the project
            if self._is_test(effect) or (effect.kind in ("run", "exec") and names_tests):
                state.untested = ""
            elif answer is PatternFit.YES:
                state.untested = f"{effect.kind} {effect.get('path') or effect.get('glob') or ''}".strip()[:256]
            unclear = unclear or answer is PatternFit.UNSAID
        remember(state.paths, call, reading)
        return sg.Unsure("unevaluable", "what the command does") if unclear else None

    def on_turn(self, turn: sg.Turn, state: MustTestBeforeClaimState) -> sg.Verdict:
        """Judge the claim."""
        if not state.untested or turn.tools or not turn.text.strip():
            return None
        if self.params.claim is not None and not _claims(turn.text, self.params.claim):
            return None
        detail = f"the response says that it is done, and no tests ran after: {state.untested}"
        return sg.Hit(detail, {"change": state.untested}, advice="run the tests")

    def on_ungated(self, event: sg.Event, state: MustTestBeforeClaimState) -> None:
        """Note changes and tests outside the gate too."""
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)

    def _is_test(self, effect: ShellEffect) -> bool:
        if effect.kind not in ("run", "exec"):
            return False
        if self.params.enough == "any_run":
            return True
        program = str(effect.get("program") or "").rpartition("/")[2].partition("@")[0]
        task = str(effect.get("task") or "")
        return any(fnmatchcase(program, one) for one in self.params.programs) or any(
            fnmatchcase(task, one) for one in self.params.tasks
        )


def _claims(text: str, claim: sg.Regex) -> bool:
    """Whether a sentence of the text is such a claim, and no plan: "let me see if the tests pass" claims nothing."""
    sentences = _SENTENCE_END.split(text[:_MOST_TEXT])
    return any(claim.search(sentence) is not None and not _PLAN.search(sentence) for sentence in sentences)
