"""A file that the agent says it wrote was written."""

from __future__ import annotations

from typing import Final

import msgspec
import re2

import stream_guard as sg
from stream_guard_shell.effects import CommandReading, ShellEffect
from stream_guard_shell.expansion import glob_folder
from stream_guard_shell.sessions import LONGEST, SessionParams, SessionPaths, place_of, read_call

_MOST: Final = 160
_MOST_CLAIMS: Final = 20
_MOST_TEXT: Final = 100_000
# "I created `docs/plan.md`", "Saved the report to `out.csv`": what the agent says of itself, with the name in quotes of
# code. "it was created in `a.py`" and "I'll put it in `a.py`" say nothing about a file that this session wrote.
_FILE: Final = r"`[\w@~./ -]{1,200}\.[a-z0-9]{1,8}`"
_CLAIM: Final = re2.compile(
    r"(?im)(?:\bI(?:'ve| have)?(?: also| now| just| then)? |\band |^[-*\d.) \t]*)(?:\*\*)?"
    rf"(?:created|wrote|written|saved|generated)\b[^.\n`]{{0,60}}({_FILE}(?:(?:,? and|,) {_FILE})*)"
)
_NAME: Final = re2.compile(r"`([^`]+)`")
_LOOKING: Final = frozenset(("read", "grep", "glob", "search", "list", "ls", "view", "fetch", "todo", "think", "get"))


class MustWriteClaimedFileParams(SessionParams):
    """Parameters of ``must_write_claimed_file``."""


class MustWriteClaimedFileState(sg.State):
    """Where the session is, what it wrote, and whether something else may have been written."""

    paths: SessionPaths = msgspec.field(default_factory=SessionPaths)
    written: list[str] = []
    folders: list[str] = []  # of which everything may have been written
    unclear: bool = False


class MustWriteClaimedFile(sg.Rule[MustWriteClaimedFileParams, MustWriteClaimedFileState]):
    """A file that the last response says was written must have been written in the session.

    A claim is a verb such as "created", "wrote" or "saved" before a name in the quotes of code. A write is one by a
    file tool or a command. Where a program ran of which nobody knows what it writes, the claim cannot be judged.
    """

    kind = "must_write_claimed_file"
    state_limit = 98304
    examples = (
        sg.Example(
            claim="a file that was only promised is a hit",
            params={},
            trace=[
                {"call": "Write", "args": {"file_path": "/code/a.py", "content": "x"}},
                {"turn": "I created `a.py` and saved the plan to `docs/plan.md`."},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="a file that was written, by whichever tool, is fine, and so is one that is only named",
            params={"project": "/code"},
            trace=[
                {"call": "Bash", "args": {"command": "mkdir -p docs && echo x > docs/plan.md"}},
                {"turn": "I wrote `docs/plan.md`; it says more than `README.md`."},
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

    def on_tool_call(self, call: sg.ToolCall, state: MustWriteClaimedFileState) -> sg.Verdict:
        """Note what is written."""
        reading = read_call(call, place_of(call, state.paths, self.params.project, self.params.home))
        if reading is None:
            state.unclear = state.unclear or _LOOKING.isdisjoint(sg.tool_words(call.tool))
        else:
            state.unclear = state.unclear or bool(reading.opaque)
            _note(reading, state)
        return None

    def on_turn(self, turn: sg.Turn, state: MustWriteClaimedFileState) -> sg.Verdict:
        """Judge the claims of a response without a call."""
        if turn.tools or not turn.text:
            return None
        claims = [name for found in _CLAIM.finditer(turn.text[:_MOST_TEXT]) for name in _NAME.findall(found.group(1))]
        missing = next((name for name in claims[:_MOST_CLAIMS] if not _is_written(name, state)), None)
        if missing is None:
            return None
        if state.unclear:
            return sg.Unsure("unevaluable", "what the session wrote")
        detail = f"the response says that {missing} was written, and nothing wrote it"
        return sg.Hit(detail, {"file": missing}, advice=f"write {missing}")

    def on_ungated(self, event: sg.Event, state: MustWriteClaimedFileState) -> None:
        """Note what is written outside the gate too."""
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)


def _note(reading: CommandReading, state: MustWriteClaimedFileState) -> None:
    for effect in reading.effects:
        place = _target(effect)
        if place is None:
            continue
        listed = state.folders if effect.get("recursive") or effect.get("glob") else state.written
        state.unclear = state.unclear or len(listed) >= _MOST or len(place) > LONGEST
        if place not in listed and len(place) <= LONGEST:
            listed = [*listed, place][-_MOST:]
        if effect.get("recursive") or effect.get("glob"):
            state.folders = listed
        else:
            state.written = listed


def _target(effect: ShellEffect) -> str | None:
    glob = effect.get("glob")
    place = effect.get("to") if effect.kind == "move" else glob_folder(glob) if glob else effect.get("path")
    return str(place) if place and effect.kind in ("move", "write") else None


def _is_written(name: str, state: MustWriteClaimedFileState) -> bool:
    """Whether a file of this name was written, wherever the name begins; a folder may have got it under its own."""
    plain = name.strip().removeprefix("./").lstrip("~/")
    last = plain.rpartition("/")[2]
    if any(path == plain or path.endswith(("/" + plain, "/" + last)) for path in state.written):
        return True
    return bool(state.folders)
