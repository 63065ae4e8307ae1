"""Writes hooks into the settings of coding agents, and takes them out again; whatever else is there stays.

``PLANS`` says where each agent keeps its hooks, and how ours stand in that file; ``samples_of`` has
payloads as the agents send them, one for each event that a hook is installed for: for trying a hook out.
"""

from __future__ import annotations

import compileall
import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

from stream_guard.errors import StreamGuardError

COMMAND: Final = "stream-guard hook"

Entry = Callable[[str, str], dict[str, Any]]
"""Makes the entry of an event: of the event's name and the command that answers it."""


@dataclass(frozen=True, slots=True)
class HooksFile:
    """A JSON file with entries for events; ``path`` is below the project, or below the home folder with ``~/``."""

    path: str
    events: Sequence[str]
    entry: Entry
    frame: Mapping[str, Any] = field(default_factory=dict)  # what the file must have beside the hooks
    note: str = ""  # what a person has to do besides


@dataclass(frozen=True, slots=True)
class WholeFiles:
    """Files that are all ours: their paths and texts."""

    files: Mapping[str, str]
    executable: bool = False
    note: str = ""


def _matched(more: Mapping[str, Any] | None = None, before: Mapping[str, Any] | None = None) -> Entry:
    """Return how Claude Code and those like it write an entry: in a group with a matcher."""

    def entry(event: str, command: str) -> dict[str, Any]:
        waits = dict(before or {}) if event in ("PreToolUse", "BeforeTool") else {}
        hook = {"type": "command", "command": command, **(more or {"timeout": 10}), **waits}
        about_tools = "Tool" in event
        return {**({"matcher": "*"} if about_tools else {}), "hooks": [hook]}

    return entry


def _cursor(event: str, command: str) -> dict[str, Any]:
    shut = {"failClosed": True} if event in ("preToolUse", "beforeMCPExecution", "beforeShellExecution") else {}
    return {"command": command, "timeout": 10, **shut}


def _copilot(event: str, command: str) -> dict[str, Any]:
    return {"type": "command", "bash": f"{command} --event {event}", "timeoutSec": 10}


def _plain(_event: str, command: str) -> dict[str, Any]:
    return {"command": command}


def _plugin(name: str) -> str:
    return (
        (Path(__file__).parent / "plugin_files" / name)
        .read_text(encoding="utf-8")
        .replace("{", "{{")
        .replace("}", "}}")
    )


_CLAUDE: Final = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionEnd")
_SHARED: Final = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd")

PLANS: Final[dict[str, HooksFile | WholeFiles]] = {
    "claude-code": HooksFile(".claude/settings.json", _CLAUDE, _matched(before={"onFailure": "block"})),
    "codex": HooksFile(
        ".codex/hooks.json",
        _SHARED,
        _matched(),
        note="Codex runs a hook only after you have reviewed it: start codex here and trust the new hooks.",
    ),
    "cursor": HooksFile(
        ".cursor/hooks.json",
        ("preToolUse", "postToolUse", "postToolUseFailure", "beforeSubmitPrompt", "stop", "sessionEnd"),
        _cursor,
        frame={"version": 1},
    ),
    "gemini-cli": HooksFile(
        ".gemini/settings.json",
        ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "SessionEnd"),
        _matched({"timeout": 10000}),
    ),
    "copilot-cli": HooksFile(
        ".github/hooks/stream-guard.json",
        ("preToolUse", "postToolUse", "userPromptSubmitted", "agentStop", "sessionEnd"),
        _copilot,
        frame={"version": 1},
    ),
    "vscode": HooksFile(
        ".github/hooks/stream-guard-vscode.json",
        ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"),
        lambda _event, command: {"type": "command", "command": command, "timeout": 10},
    ),
    "windsurf": HooksFile(
        ".windsurf/hooks.json",
        (
            *("pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use"),
            *("post_write_code", "post_run_command", "post_mcp_tool_use", "pre_user_prompt"),
        ),
        _plain,
    ),
    "qwen-code": HooksFile(".qwen/settings.json", _CLAUDE, _matched({"timeout": 10000})),
    "droid": HooksFile(".factory/hooks.json", _SHARED, _matched()),
    "amazon-q": HooksFile(
        ".amazonq/cli-agents/default.json",
        ("preToolUse", "postToolUse", "userPromptSubmit"),
        lambda _event, command: {"command": command, "timeout_ms": 10000, "cache_ttl_seconds": 0},
        note="Start the agent of this file: q chat --agent default.",
    ),
    "kiro": HooksFile(
        ".kiro/agents/default.json",
        ("preToolUse", "postToolUse", "userPromptSubmit"),
        lambda _event, command: {"command": command, "timeout_ms": 10000, "cache_ttl_seconds": 0},
    ),
    "goose": HooksFile(
        ".agents/plugins/stream-guard/hooks/hooks.json",
        ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionEnd"),
        _matched(),
        note='Goose wants a plugin.json beside the folder hooks: {"name": "stream-guard", "version": "1.0.0"}.',
    ),
    "cline": WholeFiles(
        {
            f".clinerules/hooks/{event}": "#!/bin/sh\nexec {command}\n"
            for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit")
        },
        executable=True,
        note="Cline starts these with its setting Enable Hooks.",
    ),
    "opencode": WholeFiles({".opencode/plugins/stream-guard.js": _plugin("opencode.js")}),
    "amp": WholeFiles(
        {"~/.config/amp/plugins/stream-guard.ts": _plugin("amp.ts")},
        note="Headless runs need --plugin-ready-timeout, so that the plugin is loaded before the first call.",
    ),
    "kimi": WholeFiles(
        {},
        note="Add to ~/.kimi-code/config.toml for PreToolUse, PostToolUse, UserPromptSubmit and Stop:\n"
        '[[hooks]]\nevent = "PreToolUse"\ncommand = "stream-guard hook kimi"\ntimeout = 10',
    ),
}


class HookInstallError(StreamGuardError):
    """A settings file cannot be changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file; ``after`` None: it goes."""

    path: Path
    before: str | None
    after: str | None
    executable: bool = False

    def shown(self) -> str:
        """Return the change as a diff."""
        lines = [(text or "").splitlines(keepends=True) for text in (self.before, self.after)]
        return "".join(unified_diff(lines[0], lines[1], str(self.path), str(self.path)))

    def write(self) -> None:
        """Carry it out, whole or not at all."""
        if self.after is None:
            self.path.unlink()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.stream-guard")
        beside.write_text(self.after, encoding="utf-8")
        if self.path.exists():
            beside.chmod(self.path.stat().st_mode & 0o777)
        elif self.executable:
            beside.chmod(0o755)
        beside.replace(self.path)


def compile_hook() -> None:
    """Compile what a hook imports, so that the first one is as quick as the others, where a folder can be written."""
    hooks = Path(__file__).parent
    started = [hooks.parent / name for name in ("__init__.py", "cli/__init__.py", "cli/process.py")]
    for file in (*started, *hooks.glob("*.py")):
        compileall.compile_file(file, quiet=2)


def remember(changes: list[Change], state: Path) -> None:
    """Keep what each file was when it was written, so that a later change shows; what was taken out is forgotten."""
    if not changes:
        return
    known = _remembered(state)
    for change in changes:
        known.pop(str(change.path), None)
        if change.after is not None:
            known[str(change.path)] = _digest(change.after)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def compare(state: Path) -> dict[str, str]:
    """Return, for each file that was written, what became of it: as installed, changed, or gone."""
    found = {}
    for name, digest in sorted(_remembered(state).items()):
        try:
            now = _read(Path(name))
        except HookInstallError:
            now = ""
        same = "as installed" if now is not None and _digest(now) == digest else "changed since it was installed"
        found[name] = "gone" if now is None else same
    return found


def _remembered(state: Path) -> dict[str, str]:
    try:
        known = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in known.items()} if isinstance(known, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plan(agent: str, project: Path, home: Path, *, flags: str = "", undo: bool = False) -> list[Change]:
    """Return what would change, or nothing; HookInstallError for files that cannot be changed safely."""
    wanted, command = PLANS[agent], " ".join(filter(None, (COMMAND, agent, flags)))
    if isinstance(wanted, HooksFile):
        made = [_json_change(wanted, _place(wanted.path, project, home), command, undo=undo)]
    else:
        made = [
            _whole_change(_place(name, project, home), text.format(command=command), wanted, undo=undo)
            for name, text in wanted.files.items()
        ]
    return [change for change in made if change.before != change.after]


def _json_change(wanted: HooksFile, path: Path, command: str, *, undo: bool) -> Change:
    before = _read(path)
    document = _parse(before, path)
    after = _without_ours(document)
    if undo and after == wanted.frame:
        return Change(path, before, None)  # nothing but ours was in it
    if not undo:
        after = _with_ours(after, wanted, command)
    return Change(path, before, before if after == document else json.dumps(after, indent=2) + "\n")


def _whole_change(path: Path, text: str, wanted: WholeFiles, *, undo: bool) -> Change:
    before = _read(path)
    if before is not None and "stream_guard" not in before and COMMAND not in before:
        raise HookInstallError(f"{path} is there already and is not ours; move it away, or call ours from it")
    return Change(path, before, None if undo else text, executable=wanted.executable)


def _place(name: str, project: Path, home: Path) -> Path:
    return home / name[2:] if name.startswith("~/") else project / name


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise HookInstallError(f"{path} cannot be read: {error}") from None


def _parse(text: str | None, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text or "{}")
    except ValueError as error:
        raise HookInstallError(f"{path} is no JSON, so that it cannot be changed safely: {error}") from None
    hooks = document.get("hooks", {}) if isinstance(document, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise HookInstallError(f"{path} does not look like settings with hooks; mend it first")
    return document  # type: ignore[no-any-return]  # an object, as was looked


def _with_ours(document: dict[str, Any], wanted: HooksFile, command: str) -> dict[str, Any]:
    made = {**wanted.frame, **copy.deepcopy(document)}
    hooks = made.setdefault("hooks", {})
    for event in wanted.events:
        hooks[event] = [*hooks.get(event, []), wanted.entry(event, command)]
    return made


def _without_ours(document: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without our entries, and without what is empty then."""
    made = copy.deepcopy(document)
    hooks = made.get("hooks")
    if not isinstance(hooks, dict):
        return made
    for event, entries in list(hooks.items()):
        kept = [entry for entry in map(_without_command, entries) if entry is not None]
        if kept or not entries:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        del made["hooks"]
    return made


def _without_command(entry: Any) -> Any:
    """Return an entry without our command; None where nothing is left of it."""
    if not isinstance(entry, dict):
        return entry
    if isinstance(entry.get("hooks"), list):
        left = [hook for hook in entry["hooks"] if not _is_ours(hook)]
        return {**entry, "hooks": left} if left else None
    return None if _is_ours(entry) else entry


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, dict) and any(
        isinstance(hook.get(key), str) and COMMAND in hook[key] for key in ("command", "bash")
    )


_SESSION = "stream-guard-hook-test"
_COMMAND = {"command": "echo stream-guard"}
_SHELLS = {"gemini-cli": "run_shell_command", "qwen-code": "run_shell_command", "vscode": "run_in_terminal"}


def samples_of(agent: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events and payloads to play through an agent's hook."""
    plan = PLANS[agent]
    events = (
        plan.events if isinstance(plan, HooksFile) else _PLUGIN_EVENTS.get(agent, ("PreToolUse", "UserPromptSubmit"))
    )
    return [(event, _payload(agent, event)) for event in events]


_PLUGIN_EVENTS = {"opencode": ("tool.execute.before",), "amp": ("tool.call",)}


def _payload(agent: str, event: str) -> dict[str, Any]:
    make = _MAKERS.get(agent, _claude_like)
    return make(agent, event)


def _claude_like(agent: str, event: str) -> dict[str, Any]:
    stamp = {"timestamp": "2026-11-01T00:00:00.000Z"} if agent in ("gemini-cli", "qwen-code", "vscode") else {}
    call = {"tool_name": _SHELLS.get(agent, "Bash"), "tool_input": _COMMAND, "tool_use_id": "t1"}
    done = {"tool_response": "stream-guard", "error": "none"}
    about: dict[str, Any] = {**call, **done} if "Tool" in event else {"prompt": "Hello", "stop_hook_active": True}
    return {"hook_event_name": event, "session_id": _SESSION, "cwd": "/", **stamp, **about}


def _codex(_agent: str, event: str) -> dict[str, Any]:
    common = {"hook_event_name": event, "session_id": _SESSION, "transcript_path": None, "cwd": "/"}
    if event == "SessionEnd":
        return {**common, "reason": "other"}
    call = {"tool_name": "Bash", "tool_input": _COMMAND, "tool_use_id": "t1"}
    about: dict[str, dict[str, Any]] = {
        "PreToolUse": call,
        "PostToolUse": {**call, "tool_response": "stream-guard"},
        "UserPromptSubmit": {"prompt": "Hello"},
        "Stop": {"stop_hook_active": True, "last_assistant_message": None},
    }
    return {**common, "turn_id": "turn1", "model": "demo", "permission_mode": "default", **about[event]}


def _cursor_payload(_agent: str, event: str) -> dict[str, Any]:
    call = {"tool_name": "Shell", "tool_input": _COMMAND, "tool_use_id": "t1", "tool_output": "{}"}
    common = {"conversation_id": _SESSION, "generation_id": "g1", "cursor_version": "2", "hook_event_name": event}
    return {**common, **(call if "Tool" in event else {"prompt": "Hello", "loop_count": 1})}


def _copilot_payload(_agent: str, event: str) -> dict[str, Any]:
    call = {"toolName": "bash", "toolArgs": _COMMAND}
    return {"sessionId": _SESSION, "cwd": "/", **(call if "Tool" in event else {"prompt": "Hello"})}


def _windsurf(_agent: str, event: str) -> dict[str, Any]:
    told = {"command_line": "echo stream-guard", "cwd": "/", "file_path": "/README.md", "user_prompt": "Hello"}
    of_mcp = {"mcp_server_name": "demo", "mcp_tool_name": "echo", "mcp_tool_arguments": {}}
    return {"agent_action_name": event, "trajectory_id": _SESSION, "tool_info": {**told, **of_mcp}}


def _goose(_agent: str, event: str) -> dict[str, Any]:
    call = {"tool_name": "developer__shell", "tool_input": _COMMAND} if "Tool" in event else {"message": "Hello"}
    return {"event": event, "session_id": _SESSION, **call}


def _cline(_agent: str, event: str) -> dict[str, Any]:
    call = {"toolName": "execute_command", "parameters": _COMMAND}
    inner = {"preToolUse": call, "postToolUse": {**call, "success": True}, "userPromptSubmit": {"prompt": "Hello"}}
    return {"clineVersion": "4.1.12", "hookName": event, "taskId": _SESSION, **inner}


def _opencode(_agent: str, event: str) -> dict[str, Any]:
    called = {"tool": "bash", "sessionID": _SESSION, "callID": "t1"}
    return {"hook": event, "input": called, "output": {"args": _COMMAND}}


def _amp(_agent: str, event: str) -> dict[str, Any]:
    return {"event": event, "thread": {"id": _SESSION}, "toolUseID": "t1", "tool": "Bash", "input": _COMMAND}


_MAKERS = {
    "codex": _codex,
    "cursor": _cursor_payload,
    "copilot-cli": _copilot_payload,
    "windsurf": _windsurf,
    "goose": _goose,
    "cline": _cline,
    "opencode": _opencode,
    "amp": _amp,
}
