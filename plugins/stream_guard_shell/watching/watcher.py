"""What agents on this machine do, read from the files that they write, line by line, and served as a page."""

from __future__ import annotations

import json
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

import stream_guard as sg
from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.sessions import SessionPaths, command_text, place_of, read_call

AGENT_FOLDERS: Final = (
    ".claude/projects", ".codex/sessions", ".copilot/session-state", ".qwen/projects", ".factory/projects",
    ".factory/sessions", ".kimi-code/sessions", ".kimi/sessions", ".gemini/tmp", ".cursor/projects",
    ".local/share/goose/sessions",
)  # fmt: skip
"""Below the home folder, as the agents of today name them."""

_MOST_FILES: Final = 2_000
_MOST_DEPTH: Final = 6
_MOST_BYTES: Final = 64 * 2**20  # of one file at one look; the rest comes with the next


class NewLine(NamedTuple):
    """A line that was added to a file, with its place in it."""

    file: str
    offset: int
    text: bytes


def existing_folders(home: Path) -> list[Path]:
    """Return the folders of agents that this machine has."""
    return [home / name for name in AGENT_FOLDERS if (home / name).is_dir()]


class FileFollower:
    """Follows the ``.jsonl`` files below some folders; one that was not written since ``newer_than`` is passed over."""

    def __init__(self, folders: Sequence[Path], newer_than: float) -> None:
        self._folders = folders
        self._newer_than = newer_than
        self._read_up_to: dict[str, int] = {}

    def look(self) -> Iterator[NewLine]:
        """Yield the whole lines that were added since the last look, oldest file first."""
        found = sorted(entry for folder in self._folders for entry in _files(str(folder), 0))
        for changed, file, size in found[-_MOST_FILES:]:
            before = self._read_up_to.get(file, 0)
            if size < before:
                before = 0  # written anew
            if size > before and (changed >= self._newer_than or file in self._read_up_to):
                yield from self._new_lines(file, before)

    def _new_lines(self, file: str, before: int) -> Iterator[NewLine]:
        try:
            with Path(file).open("rb") as opened:
                opened.seek(before)
                read = opened.read(_MOST_BYTES)
        except OSError:
            return
        whole = read[: read.rfind(b"\n") + 1]
        self._read_up_to[file] = before + len(whole)
        offset = before
        for line in whole.splitlines(keepends=True):
            if line.strip():
                yield NewLine(file, offset, line)
            offset += len(line)


def _files(folder: str, depth: int) -> Iterator[tuple[float, str, int]]:
    """Yield when each file was written, its name and its size. Links are not followed: they may lead in a circle."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode) and depth < _MOST_DEPTH:
            yield from _files(entry.path, depth + 1)
        elif stat.S_ISREG(about.st_mode) and entry.name.endswith(".jsonl"):
            yield about.st_mtime, entry.path, about.st_size


_MOST_SESSIONS: Final = 100
_MOST_LISTED: Final = 40  # of one sort, the latest
_MOST_WAITING: Final = 64  # calls without a result yet
_LONGEST: Final = 300
_SORTS: Final = {
    "write": "changed",
    "move": "changed",
    "delete": "deleted",
    "secret": "secrets",
    "net": "sent",
    "git": "git",
}
_LISTS: Final = ("created", "deleted", "changed", "secrets", "sent", "git", "other", "findings")


def _plain(text: str) -> str:
    """Return a text of an agent as a reader may see it: short, and without signs that turn or hide others."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:_LONGEST])


class SessionActivity:
    """One session of an agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.agent, self.folder, self.now = "", "", ""
        self.last: float = 0.0
        self.calls = self.failed = self.turns = self.tokens_in = self.tokens_out = 0
        self.lists: dict[str, OrderedDict[str, None]] = {name: OrderedDict() for name in _LISTS}
        self.totals = dict.fromkeys(_LISTS, 0)
        self.paths = SessionPaths()
        self.waiting: OrderedDict[str, list[tuple[str, str]]] = OrderedDict()

    def add(self, sort: str, text: str) -> None:
        """Put something on a list; the latest stand last, each once."""
        listed, text = self.lists[sort], _plain(text)
        self.totals[sort] += text not in listed
        listed.pop(text, None)
        listed[text] = None
        while len(listed) > _MOST_LISTED:
            listed.popitem(last=False)

    def as_json(self) -> dict[str, Any]:
        """Return the session as the page draws it."""
        return {
            "name": _plain(self.name),
            "agent": _plain(self.agent),
            "folder": _plain(self.folder),
            "now": _plain(self.now),
            "last": self.last,
            "numbers": {
                "calls": self.calls,
                "failed": self.failed,
                "turns": self.turns,
                "tokens in": self.tokens_in,
                "tokens out": self.tokens_out,
            },
            "lists": {name: list(reversed(listed)) for name, listed in self.lists.items()},
            "totals": self.totals,
        }


class Activities:
    """The sessions of all agents, the latest last; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, SessionActivity] = OrderedDict()

    def take(self, event: sg.Event, agent: str, folder: str = "") -> None:
        """Take in an event of an agent that works in a folder."""
        session = self._session(event.session_id)
        session.agent = event.agent or agent
        session.paths.project = session.paths.project or folder[:1024]
        session.last = max(session.last, event.time or 0.0)
        if isinstance(event, sg.Turn):
            _spend(session, event.response.get("usage"))
            session.turns += 1
            for call in _calls_of(event):
                _begin(session, call)
        elif isinstance(event, sg.ToolCall):
            _begin(session, event)
        elif isinstance(event, sg.ToolResult):
            _end(session, event)

    def find(self, finding: sg.Finding) -> None:
        """Take in what a rule found."""
        self._session(finding.session_id).add("findings", f"{finding.rule_id}: {finding.detail}")

    def as_json(self) -> list[dict[str, Any]]:
        """Return the sessions, the latest first."""
        ordered = sorted(self._sessions.values(), key=lambda one: one.last, reverse=True)
        return [session.as_json() for session in ordered]

    def _session(self, name: str) -> SessionActivity:
        found = self._sessions.pop(name, None) or SessionActivity(name)
        self._sessions[name] = found
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return found


def _spend(session: SessionActivity, usage: Any) -> None:
    if isinstance(usage, Mapping):
        session.tokens_in += _number(usage.get("input_tokens"))
        session.tokens_out += _number(usage.get("output_tokens"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else 0


def _calls_of(turn: sg.Turn) -> Iterator[sg.ToolCall]:
    """Yield the calls that a response asks for: most formats tell of a call in no other way."""
    blocks = turn.response.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
            yield sg.ToolCall(
                session_id=turn.session_id,
                event_id=turn.event_id,
                tool=str(block["name"]),
                call_id=str(block.get("id") or ""),
                args=block.get("input"),
            )


def _begin(session: SessionActivity, call: sg.ToolCall) -> None:
    """Show what is being done; what it did is known when its result is there."""
    if call.call_id in session.waiting:
        return  # told once in the response, and once by itself
    session.calls += 1
    reading = read_call(call, place_of(call, session.paths, None, None))
    session.folder = session.paths.project
    session.now = command_text(call) or f"{call.tool}"
    made = reading.made if reading is not None else ()
    effects = reading.effects if reading is not None else ()
    session.waiting[call.call_id] = [told for effect in effects if (told := _told(effect, made))]
    while len(session.waiting) > _MOST_WAITING:
        session.waiting.popitem(last=False)


def _end(session: SessionActivity, result: sg.ToolResult) -> None:
    done = session.waiting.pop(result.call_id, [])
    if result.status != "ok":
        session.failed += 1
        return
    for sort, text in done:
        session.add(sort, text)


def _told(effect: ShellEffect, made: Sequence[str]) -> tuple[str, str] | None:
    """Return the list that an effect belongs to, and its words; None for what only looks or runs."""
    place = effect.get("path") or effect.get("glob") or effect.get("prefix") or "(not known)"
    sort = _SORTS.get(effect.kind, "other")
    if effect.kind in ("read", "run", "background"):
        return None
    if effect.kind == "write" and place in made:
        sort = "created"
    words = {
        "move": f"{place} to {effect.get('to')}",
        "secret": str(effect.get("env") or effect.get("tool") or place),
        "net": f"{effect.get('direction')} {effect.get('host') or ''} by {effect.get('tool')}",
        "git": " ".join(str(effect.get(name)) for name in ("op", "remote", "ref") if effect.get(name)),
    }
    plain = (
        place
        if sort != "other"
        else f"{effect.kind}: {', '.join(f'{name} {_shown(value)}' for name, value in effect.fields)}"
    )
    where = f" on {effect.get('on')}" if effect.get("on") else ""
    return sort, words.get(effect.kind, plain) + where


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


_RULES: Final = "packs: [coding_agent]"


class Watcher:
    """Reads what agents add to their files, and keeps what they did. Asked from the threads of the page."""

    def __init__(self, folders: list[Path], newer_than: float) -> None:
        self._folders = folders
        self._follower = FileFollower(folders, newer_than)
        self._formats = sg.build_registry().decoders
        self._decoders: dict[str, Any] = {}
        self._guard = sg.Guard(sg.parse_policy(_RULES))
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


_POLICY: Final = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'"
_STATIC: Final = {
    "/": ("watch.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
}


class WatchPage:
    """Serves the page in threads of its own until it is closed."""

    def __init__(self, state: Callable[[], Any], port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(state))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1})
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(state: Callable[[], Any]) -> type[BaseHTTPRequestHandler]:
    class WatchRequest(BaseHTTPRequestHandler):
        """Answers one browser."""

        def do_GET(self) -> None:
            """Send the page, or what is known now."""
            # A page of somebody else must not read this one under a name of its own for this address.
            port = self.connection.getsockname()[1]
            if self.headers.get("Host") not in (f"127.0.0.1:{port}", f"localhost:{port}"):
                self._send(421, b"ask for 127.0.0.1", "text/plain")
            elif self.path == "/state":
                self._send(200, json.dumps(state()).encode(), "application/json")
            elif self.path in _STATIC:
                name, kind = _STATIC[self.path]
                self._send(200, (files(__package__) / "static" / name).read_bytes(), kind)
            else:
                self._send(404, b"there is only the one page", "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Content-Security-Policy", _POLICY),
                ("X-Content-Type-Options", "nosniff"),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the base)
            """Say nothing: a browser asks every second."""

    return WatchRequest
