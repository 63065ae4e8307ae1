"""What each session did so far: files, commands, connections, tokens, and what rules found."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import stream_guard as sg
from stream_guard_shell.acts import command_text, read_call
from stream_guard_shell.effects import ShellEffect
from stream_guard_shell.session_paths import SessionPaths, place_of

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
