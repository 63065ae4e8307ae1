"""A file is read before it is edited."""

from __future__ import annotations

from typing import Final

import msgspec

import stream_guard as sg
from stream_guard_shell.effects import CommandReading
from stream_guard_shell.expansion import glob_folder, is_below
from stream_guard_shell.sessions import LONGEST, SessionParams, SessionPaths, edited_by, place_of, read_call

_MOST: Final = 160
_SHOWING: Final = frozenset(("read", "secret", "write", "move"))


class MustReadBeforeEditParams(SessionParams):
    """Parameters of ``must_read_before_edit``."""


class MustReadBeforeEditState(sg.State):
    """Where the session is, and the files that it knows."""

    paths: SessionPaths = msgspec.field(default_factory=SessionPaths)
    known: list[str] = []
    forgot: bool = False


class MustReadBeforeEdit(sg.Rule[MustReadBeforeEditParams, MustReadBeforeEditState]):
    """A file that a tool edits must have been read, searched or written in the session.

    By whichever tool: `cat a.py` and `grep -n x a.py` show a file as `Read` does. What a tool makes anew needs no
    reading, and what a shell changes is not looked at. The last 160 files are remembered.
    """

    kind = "must_read_before_edit"
    state_limit = 65536
    examples = (
        sg.Example(
            claim="an edit of a file that was never shown is a hit",
            params={},
            trace=[
                {"call": "Read", "args": {"file_path": "/code/a.py"}},
                {"call": "Edit", "args": {"file_path": "/code/b.py", "old_string": "x", "new_string": "y"}},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="a file that a command showed, or that the session wrote, is known",
            params={"project": "/code"},
            trace=[
                {"call": "Bash", "args": {"command": "cat a.py; grep -rn x lib"}},
                {"call": "Edit", "args": {"file_path": "/code/a.py", "old_string": "x", "new_string": "y"}},
                {"call": "Edit", "args": {"file_path": "/code/lib/b.py", "old_string": "x", "new_string": "y"}},
                {"call": "Write", "args": {"file_path": "/code/c.py", "content": "x"}},
                {"call": "Edit", "args": {"file_path": "/code/c.py", "old_string": "x", "new_string": "y"}},
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

    def on_tool_call(self, call: sg.ToolCall, state: MustReadBeforeEditState) -> sg.Verdict:
        """Judge an edit, and note what the call shows."""
        reading = read_call(call, place_of(call, state.paths, self.params.project, self.params.home))
        if reading is None:
            return None
        known = frozenset(state.known)
        unread = next((path for path in edited_by(call, reading) if not is_below(path, known)), None)
        _note(reading, state)
        if unread is None:
            return None
        if state.forgot:
            return sg.Unsure("unevaluable", "which files were read")
        return sg.Hit(f"{unread} is edited and was not read", {"file": unread}, advice="read the file first")

    def on_ungated(self, event: sg.Event, state: MustReadBeforeEditState) -> None:
        """Note what is shown outside the gate too."""
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)


def _note(reading: CommandReading, state: MustReadBeforeEditState) -> None:
    """Remember what a call shows; of a pattern, the folder."""
    for effect in reading.effects:
        if effect.kind not in _SHOWING or effect.get("on"):
            continue
        glob = effect.get("glob")
        place = effect.get("to") or effect.get("path") or (glob_folder(glob) if glob else None)
        if not place or place == "/" or len(place) > LONGEST or place in state.known:
            continue
        state.forgot = state.forgot or len(state.known) >= _MOST
        state.known = [*state.known, place][-_MOST:]
