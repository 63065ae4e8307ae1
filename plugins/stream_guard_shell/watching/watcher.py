"""Reads what agents add to their files, line by line, and keeps what they did and what rules found."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import Any, Final

from msgspec.structs import replace

import stream_guard as sg
from stream_guard_shell.watching.activity import Activities
from stream_guard_shell.watching.folders import FileFollower, NewLine

_POLICY: Final = "packs: [coding_agent]"


class Watcher:
    """Reads what agents add to their files, and keeps what they did. Asked from the threads of the page."""

    def __init__(self, folders: list[Path], newer_than: float) -> None:
        self._folders = folders
        self._follower = FileFollower(folders, newer_than)
        self._formats = sg.build_registry().decoders
        self._decoders: dict[str, Any] = {}
        self._guard = sg.Guard(sg.parse_policy(_POLICY))
        self._known: dict[str, str] = {}  # the folder in which each file's agent works
        self._activities = Activities()
        self._lock = Lock()
        self._unread = 0

    def look(self) -> None:
        """Take in what was added since the last look."""
        for line in self._follower.look():
            with self._lock:
                self._take(line)

    def state(self) -> dict[str, Any]:
        """Return what the page draws."""
        with self._lock:
            names = [str(folder) for folder in self._folders]
            return {"folders": names, "unread": self._unread, "sessions": self._activities.as_json()}

    def _take(self, line: NewLine) -> None:
        decoder = self._decoders.get(line.file)
        if decoder is None:
            decoder = self._decoders[line.file] = self._formats["auto"]()
        self._note_folder(line)
        try:
            events = decoder.decode(sg.Record(line.text, origin=line.file, position=line.offset))
        except sg.DecodeError:
            self._unread += 1
            return
        agent = next((part[1:] for part in Path(line.file).parts if part.startswith(".") and len(part) > 1), "agent")
        folder = self._known.get(line.file, "")
        for event in events:
            self._activities.take(event, agent, folder)
            # Rules about what is inside the project go by this label, as hooks set it.
            labelled = replace(event, labels={**event.labels, "cwd": folder}) if folder else event
            for finding in self._guard.observe(labelled):
                if not finding.shadow:
                    self._activities.find(finding)

    def _note_folder(self, line: NewLine) -> None:
        """Remember the folder that an agent says it works in: at the top of a line, or in what Codex puts below."""
        if line.file in self._known or b'"cwd"' not in line.text:
            return
        try:
            said = json.loads(line.text)
        except (ValueError, RecursionError):
            return
        below = said.get("payload") if isinstance(said, dict) else None
        for place in (said, below):
            folder = place.get("cwd") if isinstance(place, dict) else None
            if isinstance(folder, str) and folder.startswith("/"):
                self._known[line.file] = folder
                return
